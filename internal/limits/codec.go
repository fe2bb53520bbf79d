package limits

// Bounds of request dispatch (codec, broker).
const (
	// RequestMemoryBytes of all requests under way, their frames and what decoding and
	// answering them is estimated to take: above it a request is refused with a
	// retriable error, or its connection is closed. 1 GiB: ten frames of the largest
	// default size (socket.request.max.bytes, 100 MiB). In a small container it
	// is less, see RequestPercent.
	RequestMemoryBytes = 1 << 30

	// RequestMemoryPauseMs: above half of RequestMemoryBytes, connections that send
	// more are paused for so long with each request.
	RequestMemoryPauseMs = 20

	// InlineBodyBytes is the largest body of a reading request (Metadata,
	// FindCoordinator, DescribeTopicPartitions) that is handled on the event loop:
	// some thousand names, about a millisecond.
	InlineBodyBytes = 64 << 10

	// RefusedThrottleMs is how long a refused client is asked to wait. Kafka's
	// clients stop sending on the connection for that time (KIP-219).
	RefusedThrottleMs = 100
)

// Topics that are made when they are first used.
const (
	// AutoCreateWaitMs is how long a Metadata or FindCoordinator reply waits for the
	// topic that it makes; below the shortest request timeout that clients use.
	AutoCreateWaitMs = 5_000

	// AutoCreateStalledMs is how long, after such a wait ran out, the others are cut
	// to AutoCreateStalledWaitMs, about what the making of a topic takes.
	AutoCreateStalledMs     = 30_000
	AutoCreateStalledWaitMs = 100

	// MetadataInlinePartitions is how many partitions a Metadata reply describes on
	// the event loop: about 0.3 ms.
	MetadataInlinePartitions = 2_000

	// AutoCreateTopicsPerRequest bounds what one Metadata request can create.
	AutoCreateTopicsPerRequest = 100
)

// The observer of topic resources.
const (
	// ObserverRetryMinMs and ObserverRetryMaxMs bound the wait before the resources
	// are listed again after an error; the latter is also how often partitions that
	// could not be opened are tried again.
	ObserverRetryMinMs = 50
	ObserverRetryMaxMs = 5_000

	// ObserverEventsPerChange is how many events are applied before they are
	// published: enough to share the copy of the maps, few enough to be seen soon.
	ObserverEventsPerChange = 512

	// DataPoolWorkers and DataPoolQueue are those of requests that wait for a disk of
	// the log store (InitProducerId, DescribeProducers): one block of producer ids is
	// written for 1,000 of them.
	DataPoolWorkers = 4
	DataPoolQueue   = 4096

	// ObserverEnsureWorkers open partitions at a time; each waits for a few syncs.
	// With 4 or 16 of them 1,000 topics were not made sooner, and who produced meanwhile
	// waited twice to three times as long (docs/design/admin.md).
	ObserverEnsureWorkers = 2
)
