package limits

// Size classes of bufpool: powers of two, so a buffer wastes less than half of itself.
const (
	BufSmallestBytes = 512     // a request header with a small body; below, the header of the buffer dominates
	BufLargestBytes  = 1 << 20 // Kafka's max.message.bytes and fetch.max.bytes per partition by default; above: plain make
)

const (
	// BufIdleBytesPerClass bounds what a class keeps for reuse in the hands of nobody: 32 frames of the largest class,
	// what a group commit of many producers gives back at once.
	BufIdleBytesPerClass = 32 << 20
	// BufIdleBytes is the sum over the 12 classes (512 B … 1 MiB), reached only when all of them were that busy within
	// BufIdleMs.
	BufIdleBytes = 12 * BufIdleBytesPerClass
	// BufPartsKept headers of released parts, at about 100 bytes each: more than the frames of one commit.
	BufPartsKept = 4_096
	// BufIdleMs without use, then a buffer goes to the collector.
	BufIdleMs = 2_000
	// BufQuietMs after the last buffer has gone, what was collected is given back to the system, when it is at least
	// BufReturnBytes: an idle broker is small again after half a minute, and a pause in the traffic costs nothing.
	BufQuietMs     = 30_000
	BufReturnBytes = 16 << 20
)
