package logfile

import (
	"sync/atomic"

	"kaas/internal/limits"
)

// SizeMarks remember how large a segment was in each of the last seconds in which it was read. What was appended after
// that is as young, and the system has it in memory still: a reader at the tail need not ask.
//
// It is a guess that is nearly always right. Where memory is so short that pages of the last seconds are evicted, an event
// loop waits for a disk.
//
// One atomic word a second, so no mark is torn: second << 32 | size. The size is loaded before the mark is stored, so
// every byte behind it was appended in that second or later.
type SizeMarks [limits.ResidentSeconds + 2]atomic.Uint64

// Cover says whether the byte at a position, and so all behind it, was appended in the last seconds; size is the segment's.
func (m *SizeMarks) Cover(at, nowMs int64, size *atomic.Int64) bool {
	second := uint64(nowMs/1000) & (1<<32 - 1)
	end := size.Load()
	slot := &m[second%uint64(len(m))]
	if old := slot.Load(); old>>32 != second {
		slot.CompareAndSwap(old, second<<32|uint64(end))
	}
	if end-at > limits.ResidentTailBytes {
		return false
	}
	for back := uint64(0); back <= limits.ResidentSeconds; back++ {
		mark := m[(second-back)%uint64(len(m))].Load()
		if mark>>32 == second-back && at >= int64(mark&(1<<32-1)) {
			return true
		}
	}
	return false
}
