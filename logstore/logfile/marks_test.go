package logfile

import (
	"sync/atomic"
	"testing"

	"kaas/internal/limits"
)

// Only bytes behind the end of the last seconds are young, and only as long as those are the last.
func TestSizeMarks(t *testing.T) {
	t.Parallel()
	var m SizeMarks
	var size atomic.Int64
	size.Store(1000)
	const start = 77_000_000
	for _, step := range []struct {
		afterMs, at, grow int64
		young             bool
	}{
		{0, 999, 0, false}, // nothing is known
		{10, 1000, 500, true},
		{20, 1000, 0, true},
		{30, 999, 0, false},
		{1_500, 1000, 0, true},
		{2_999, 1000, 0, true},
		{3_000, 1000, 0, false}, // appended after the mark at 0: three seconds old
		{3_000, 1500, 100, true},
		{9_000, 1500, 0, false},
		{9_100, 1600, limits.ResidentTailBytes + 1, true},
		{9_200, 1600, 0, false}, // too far behind the end
		{9_200, 1601, 0, true},
	} {
		if got := m.Cover(step.at, start+step.afterMs, &size); got != step.young {
			t.Errorf("after %d ms, position %d of %d: young is %v", step.afterMs, step.at, size.Load(), got)
		}
		size.Add(step.grow)
	}
}
