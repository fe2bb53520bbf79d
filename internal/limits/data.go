package limits

import "time"

// Bounds of produce and fetch (broker).
const (
	// FetchPartitions bounds the partitions of one Fetch request and of one fetch session: Kafka's largest clusters
	// have some 10,000 partitions a broker, and a replica fetches all of them in one request.
	FetchPartitions = 100_000
	// FetchInlinePartitions is how many partitions are read on an event loop, at some microseconds each; a fetch of more
	// goes to the cold workers.
	FetchInlinePartitions = 1_000
	// FetchSessionPartitions bounds the partitions that all sessions remember together, at about 200 bytes each.
	// Beyond it clients work without a session: every request is a full one, as below v7.
	FetchSessionPartitions = 1_000_000
	// FetchSessionEvictAfter is how long a session is safe from being replaced by another one. Kafka:
	// MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS.
	FetchSessionEvictAfter = 2 * time.Minute
	// FetchAnswerBytes of records are in one answer at most, unless a partition alone or min_bytes asks for more, or the
	// connection's send buffer takes more at once. Readers that lag ask again; larger answers cost more processor time for
	// each byte (docs/design/performance-log.md).
	FetchAnswerBytes = 1 << 20
	// FetchPartitionsKept is the most partitions for which a finished fetch keeps its memory.
	FetchPartitionsKept = 2_048
	// FetchPartitionsCompared: up to so many partitions of a request are compared with each other to find one that is named
	// twice, more are hashed.
	FetchPartitionsCompared = 8
	// FetchInlineWakes is how many parked fetches are completed by the goroutine that moved the high watermark; the
	// rest goes to the completion workers, so that a partition with many readers doesn't hold up the next commit.
	FetchInlineWakes = 16
	// FetchCopyBytes: records up to this size are copied into the header buffer. Below about a page, one more
	// file range (pin, entry, iovec) costs more than the copy.
	FetchCopyBytes = 2_048
	// FetchWorkers complete woken fetches; FetchColdWorkers read what is not in memory. Their queues are chains
	// through the operations, so they are bounded by the requests under way.
	FetchWorkers     = 2
	FetchColdWorkers = 4
	// ProducePartitions bounds the partitions of one Produce, all of which are appended on the event loop: its order is
	// that of the connection. A client's default request of 1 MiB holds at most 15,000 empty batches.
	ProducePartitions = 20_000
	// ProducePartitionsKept is the most partitions for which a finished produce keeps its memory.
	ProducePartitionsKept = 2_048
	// ProduceTimeoutFloor: a shorter timeout of an acks=all produce is raised to this. In Kafka the timeout bounds the
	// wait for replicas only and never the flush, so timeout.ms=0 works there on a topic without followers.
	ProduceTimeoutFloor = time.Second
	// OffsetsInlineBytes is the largest ListOffsets or OffsetForLeaderEpoch that is answered on an event loop; a larger
	// one (some 2,000 partitions) goes to the cold workers.
	OffsetsInlineBytes = 64 << 10
	// ListOffsetsLookups bounds the offset lookups that wait for or hold a cold worker.
	ListOffsetsLookups = 10_000
	// ListOffsetsCommitWait is how long an offset lookup waits for the commit of what was appended before it. A commit
	// takes milliseconds; on a disk that has stalled the lookup answers what is visible.
	ListOffsetsCommitWait = time.Second
)
