package logstore

import (
	"testing"
	"unsafe"

	"kaas/logstore/segment"
)

// Among ten thousand partitions each cache line that an append touches is a miss. What it touches of a Partition stands in
// the first four; a field that is added goes behind them, or this says what moved.
func TestAppendTouchesFewLines(t *testing.T) {
	t.Parallel()
	const line, appendLines = 64, 4
	var p Partition
	for name, end := range map[string]uintptr{
		"stable":          unsafe.Offsetof(p.stable) + unsafe.Sizeof(p.stable),
		"mu":              unsafe.Offsetof(p.mu) + unsafe.Sizeof(p.mu),
		"rollJitterMs":    unsafe.Offsetof(p.rollJitterMs) + unsafe.Sizeof(p.rollJitterMs),
		"waiters":         unsafe.Offsetof(p.waiters) + unsafe.Sizeof(p.waiters),
		"commits.SinceMs": unsafe.Offsetof(p.commits) + unsafe.Offsetof(p.commits.SinceMs) + unsafe.Sizeof(p.commits.SinceMs),
	} {
		if end > appendLines*line {
			t.Errorf("%s ends at byte %d, behind the %d lines that every append touches", name, end, appendLines)
		}
	}
	var g segment.Segment
	if end := unsafe.Offsetof(g.FirstTimestampMs) + unsafe.Sizeof(g.FirstTimestampMs); end > 2*line {
		t.Errorf("FirstTimestampMs of a segment ends at byte %d, behind the 2 lines that every append touches", end)
	}
	if begin := unsafe.Offsetof(g.FirstTimestampMs) + unsafe.Sizeof(g.FirstTimestampMs); begin > 2*line {
		t.Errorf("the window of a segment begins at byte %d, not in its third line", begin)
	}
	if size := unsafe.Sizeof(g); size%line != 0 {
		t.Errorf("a segment has %d bytes: the next one begins inside a line", size)
	}
	if size := unsafe.Sizeof(p); size > 640 {
		t.Errorf("a partition has %d bytes, its size class was 640", size)
	}
}
