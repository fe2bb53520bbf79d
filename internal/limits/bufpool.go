package limits

// Size classes of bufpool: powers of two, so a buffer wastes less than half of itself.
const (
	BufSmallestBytes = 512     // a request header with a small body; below, the header of the buffer dominates
	BufLargestBytes  = 1 << 20 // Kafka's max.message.bytes and fetch.max.bytes per partition by default; above: plain make
)

// BufIdleBytesPerClass bounds what a class keeps for reuse in the hands of nobody. The sum over the 12 classes is the
// most that idle buffers can hold: 12 × 4 MiB = 48 MiB at the peak, and it returns to the collector when unused for
// BufIdleMs, so an idle broker keeps nothing.
const (
	BufIdleBytesPerClass = 4 << 20
	BufIdleMs            = 2_000
)
