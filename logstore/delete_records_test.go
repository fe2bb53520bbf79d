package logstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"kaas/logstore/layout"
)

// What a purge covers whole goes at once; a segment that it covers in part stays whole,
// though nobody reads what is below the start.
func TestDeleteRecordsRemovesWholeSegments(t *testing.T) {
	t.Parallel()
	h := start(t)
	p := h.partition("a", func(c *Config) { c.SegmentBytes, c.FileDeleteDelayMs = 200, 0 })
	for i := range 10 {
		put(t, p, records(fmt.Sprint(i)))
	}
	var bases []int64
	all := filepath.Join(h.o.Dirs[0], "a-0", "*.log")
	made, err := filepath.Glob(all)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(made)
	for _, path := range made {
		base, suffix, ok := layout.ParseSegmentFile(filepath.Base(path))
		if !ok || suffix != layout.LogSuffix {
			t.Fatal(path)
		}
		bases = append(bases, base)
	}
	if len(bases) < 4 {
		t.Fatalf("segments at %v", bases)
	}
	before := p.SizeBytes()
	inside := bases[2] + 1 // the third segment in part
	if low, err := p.DeleteRecords(inside); err != nil || low != inside {
		t.Fatalf("%d %v", low, err)
	}
	if p.SizeBytes() >= before {
		t.Errorf("%d of %d bytes", p.SizeBytes(), before)
	}
	eventually(t, func() error {
		left, err := filepath.Glob(all)
		slices.Sort(left)
		if err == nil && !slices.Equal(left, made[2:]) {
			err = fmt.Errorf("after a purge to %d, segments at %v: %v are left", inside, bases, left)
		}
		return err
	})
}
