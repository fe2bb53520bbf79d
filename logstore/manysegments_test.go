package logstore

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"kaas/internal/vfs"
)

var figuresSegments = flag.Int("figures.segments", 10_000, "segments of TestFigureManySegments")

// TestManySegments: a log of 200 segments is found whole, looked up and cut like one of three, and holds no descriptor
// that nobody asked for.
func TestManySegments(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	t.Cleanup(func() { // after the store's
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	manySegments(t, start(t, inMemory, func(o *Options) { o.FS = m }), 200, func(string, ...any) {})
}

// TestFigureManySegments is the same with as many as nobody should have.
func TestFigureManySegments(t *testing.T) {
	manySegments(t, figures(t), *figuresSegments, t.Logf)
}

func manySegments(t *testing.T, h *harness, segments int, logf func(string, ...any)) {
	one := func(c *Config) {
		c.SegmentBytes, c.FileDeleteDelayMs, c.RetentionMs, c.FlushMessages = 100, 0, -1, 1000
	}
	p := h.partition("t", one)
	timed := func(what string, f func()) {
		began := time.Now()
		f()
		logf("%s: %v", what, time.Since(began).Round(time.Microsecond))
	}
	timed("write", func() {
		for i := range segments {
			if _, err := p.Append(stamped(int64(1000+i), fmt.Sprintf("%06d", i)), AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	timed("write out", func() { h.s.checkpoint() })
	if n := len(p.segments.Load().all); n != segments {
		t.Fatalf("%d segments", n)
	}
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	timed("clean stop", h.stop)
	fds, bytes := descriptors(), heap()
	timed("start after it", h.open)
	logf("%d descriptors, %d heap bytes a segment", descriptors()-fds, (heap()-bytes)/int64(segments))
	h.kill()
	timed("start after a kill", h.open)
	p = h.partition("t", one)
	timed("1,000 reads", func() {
		for i := range 1000 {
			offset := int64(i) * 7919 % int64(segments)
			s, err := p.Read(offset, 50, true, ReadCommitted)
			if err != nil || s.Len == 0 {
				t.Fatalf("read of %d: %d bytes, %v", offset, s.Len, err)
			}
			s.Release()
			if _, err := p.AbortedTransactions(offset, offset+1, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	timed("the first lookup by time", func() {
		want := int64(segments - 2)
		if found, ok, err := p.OffsetForTimestamp(context.Background(), 1000+want, ReadUncommitted); err != nil || !ok || found.Offset != want {
			t.Fatalf("%+v %v %v", found, ok, err)
		}
	})
	timed("another", func() {
		if _, ok, err := p.OffsetForTimestamp(context.Background(), 1000, ReadUncommitted); err != nil || !ok {
			t.Fatal(ok, err)
		}
	})
	logf("%d descriptors, %d maps", descriptors()-fds, h.s.segments.MapsInUse())
	timed("retention that finds nothing", h.s.applyRetention)
	timed("half of it is deleted", func() {
		if _, err := p.DeleteRecords(int64(segments / 2)); err != nil {
			t.Fatal(err)
		}
	})
	if n := len(p.segments.Load().all); n != segments-segments/2 {
		t.Fatalf("%d segments", n)
	}
	expect0 := fmt.Sprintf("%06d", segments/2)
	if got := values(t, p, int64(segments/2), ReadUncommitted); len(got) != segments-segments/2 || got[0] != expect0 {
		t.Fatalf("%d records", len(got))
	}
}
