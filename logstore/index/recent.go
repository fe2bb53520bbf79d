package index

import "sync/atomic"

// recentBatches is how many batches at the end of the active segment can be found without looking into the file: what tail
// consumers fetch.
const recentBatches = 32

// Recent remembers where the newest batches of an active segment begin. One writer (holder of Partition.mu), lock-free
// readers.
//
// Proof: slot i % recentBatches holds batch number i, as one atomic word, so an entry is never torn. The writer stores the
// entry and then n, and it overwrites the slot of batch i only while n is i + recentBatches. A reader that has loaded the
// entries of batches i and i+1 and then finds n < i + recentBatches has seen neither of them overwritten. The end of the
// newest batch is the segment's size. The writer adds all batches of an append before it stores the size, so between equal
// loads of n the size is that of the newest batch's end or an older one (then it is not above the batch's position).
type Recent struct {
	n       atomic.Uint64
	entries [recentBatches]atomic.Uint64 // relative base offset << 32 | position
}

// Add notes a batch at position. One writer at a time.
func (r *Recent) Add(relativeOffset int32, position int64) {
	n := r.n.Load()
	r.entries[n%recentBatches].Store(uint64(uint32(relativeOffset))<<32 | uint64(uint32(position)))
	r.n.Store(n + 1)
}

// Find returns the batch that holds an offset, if it is among the newest; size is the segment's.
func (r *Recent) Find(relativeOffset uint64, size *atomic.Int64) (position, bytes int64, ok bool) {
	n := r.n.Load()
	next := size.Load()
	if r.n.Load() != n {
		return 0, 0, false // appended to meanwhile: the size may belong to a newer batch
	}
	for i := n; i > 0 && i+recentBatches > n; i-- {
		e := r.entries[(i-1)%recentBatches].Load()
		position = int64(uint32(e))
		if e>>32 <= relativeOffset {
			if r.n.Load() >= i-1+recentBatches {
				return 0, 0, false
			}
			return position, next - position, next > position
		}
		next = position
	}
	return 0, 0, false
}
