package limits

import "time"

// Bounds of cmd/kaas.
const (
	// StopTimeout bounds a clean stop as a whole; the last commit has what
	// DrainTimeout leaves of it. Below the 30 s that Kubernetes waits.
	StopTimeout = 25 * time.Second

	// DrainTimeout is how long a stop waits for replies under way: requests that
	// wait by nature are answered before; peers that do not read lose theirs.
	DrainTimeout = 3 * time.Second

	// ForcedExitTimeout is when a broker that was asked to stop exits without having
	// stopped; it leaves StopTimeout the time to do it well.
	ForcedExitTimeout = StopTimeout + 3*time.Second

	// StopStepTimeout bounds the parts of a stop that wait for files of the user's:
	// what hangs there must not keep the log store from its last commit.
	StopStepTimeout = 3 * time.Second

	// HeapPercent of a container's memory is for the Go runtime (GOMEMLIMIT), and
	// RequestPercent, a part of that, for requests under way. The rest is for what
	// the kernel counts besides: sockets, and the pages of files that are written or
	// sent.
	HeapPercent    = 75
	RequestPercent = 25

	// ReservedFiles are the open files that the data needs none of: connections,
	// listeners, event loops. Each partition that has been written holds one more.
	ReservedFiles = 1_000

	// SettleTime after the start its pages are given back: the first requests, which
	// need many of them, are answered by then.
	SettleTime = time.Second
	// SettleAgainTime after the start they are given back once more: on a busy machine the start is not over in a second.
	SettleAgainTime = 10 * time.Second

	// SignalEcho is how long after the first signal another one counts as the
	// same: timeout and make pass one on that the process group has had already.
	SignalEcho = 100 * time.Millisecond

	// HTTPHeaderTimeout and HTTPHeaderBytes bound what an idle or hostile peer
	// of http.address costs.
	HTTPHeaderTimeout = 5 * time.Second
	HTTPHeaderBytes   = 16 << 10

	// MaxPartitionsPerBroker bounds the sum of partitions over all topics. A
	// partition costs about two file descriptors while it is written and a few
	// kilobytes of memory always.
	MaxPartitionsPerBroker = 200_000

	// MetricsTopics have series of their own in /metrics; with more of them a scrape
	// would be most of what the monitoring holds.
	MetricsTopics = 1000

	// MetricsVolumeWait is how long a scrape waits for the answer how full a volume is.
	MetricsVolumeWait = time.Second
)
