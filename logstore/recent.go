package logstore

import "sync/atomic"

// recentBatches is how many batches at the end of the active segment can be found without looking into the file: what tail
// consumers fetch.
const recentBatches = 32

// recentRing remembers where the newest batches of an active segment begin. One writer (holder of Partition.mu), lock-free
// readers.
//
// Proof: slot i % recentBatches holds batch number i, as one atomic word, so an entry is never torn. The writer stores the
// entry and then n, and it overwrites the slot of batch i only while n is i + recentBatches. A reader that has loaded the
// entries of batches i and i+1 and then finds n < i + recentBatches has seen neither of them overwritten. The end of the
// newest batch is the segment's size. The writer adds all batches of an append before it stores the size, so between equal
// loads of n the size is that of the newest batch's end or an older one (then it is not above the batch's position).
type recentRing struct {
	n       atomic.Uint64
	entries [recentBatches]atomic.Uint64 // relative base offset << 32 | position
}

// addRecent notes a batch at position at. Caller: Partition.mu.
func (g *segment) addRecent(baseOffset, at int64) {
	r := g.recent.Load()
	if r == nil {
		r = new(recentRing) // an idle partition has none
		g.recent.Store(r)
	}
	n := r.n.Load()
	r.entries[n%recentBatches].Store(uint64(uint32(baseOffset-g.baseOffset))<<32 | uint64(uint32(at)))
	r.n.Store(n + 1)
}

// recentBatch finds the batch that holds offset, if it is among the newest.
func (g *segment) recentBatch(offset int64) (at, size int64, ok bool) {
	r := g.recent.Load()
	if r == nil || offset < g.baseOffset {
		return 0, 0, false
	}
	n := r.n.Load()
	next := g.sizeBytes.Load()
	if r.n.Load() != n {
		return 0, 0, false // appended to meanwhile: the size may belong to a newer batch
	}
	relative := uint64(offset - g.baseOffset)
	for i := n; i > 0 && i+recentBatches > n; i-- {
		e := r.entries[(i-1)%recentBatches].Load()
		at = int64(uint32(e))
		if e>>32 <= relative {
			if r.n.Load() >= i-1+recentBatches {
				return 0, 0, false
			}
			return at, next - at, next > at
		}
		next = at
	}
	return 0, 0, false
}
