package segment

import (
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// growing is an empty segment of an Env whose goroutine is the test.
func growing(t *testing.T, fsys vfs.FS, dir string) (*Env, *Segment, vfs.File) {
	t.Helper()
	env := NewEnv(fsys, slog.New(slog.DiscardHandler), time.Now, new(LookupCounters), nil)
	env.ahead.wanted = make(chan wantedAhead, 1)
	g := NewActive(env, dir, 0, 1)
	f, err := fsys.OpenFile(g.Path(layout.LogSuffix), vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // scratch
	g.SetFile(f)
	return env, g, f
}

// sized is a file system with so much space, whatever the machine's has.
type sized struct {
	vfs.FS
	totalBytes, usableBytes int64
}

func (s sized) Usage(string) (totalBytes, usableBytes int64, err error) {
	return s.totalBytes, s.usableBytes, nil
}

// TestWhoGetsSpaceAhead: segments that grow fast, a fourth of what they have; who is slow or small does not.
func TestWhoGetsSpaceAhead(t *testing.T) {
	t.Parallel()
	env, g, _ := growing(t, vfs.NewMem(), "/")
	for _, step := range []struct {
		sizeBytes, nowMs int64
		wantTo, wantAt   int64 // what is asked for, 0: nothing, and when to look again
	}{
		{0, 1_000, 0, mib},
		{mib, 1_010, 0, 2 * mib},              // fast, but small
		{5 * mib, 1_100, 6 * mib, 5.5 * mib},  // at 46 MB/s
		{5.5 * mib, 9_000, 0, 6.5 * mib},      // half a megabyte in eight seconds
		{40 * mib, 9_001, 50 * mib, 45 * mib}, // a fourth
		{80 * mib, 9_002, 96 * mib, 88 * mib}, // but not more than AllocateBytes
		{88 * mib, 20_000, 0, 89 * mib},       // 0.8 MB/s
		{90 * mib, 20_100, 106 * mib, 98 * mib},
	} {
		g.SizeBytes.Store(step.sizeBytes)
		g.AskAhead(step.sizeBytes, step.nowMs)
		to := int64(0)
		select {
		case w := <-env.ahead.wanted:
			to = w.to
			w.segment.Release()
		default:
		}
		if to != step.wantTo || g.AheadAt != step.wantAt {
			t.Errorf("%d bytes at %d ms: asked for space up to %d, look again at %d; want %d and %d", step.sizeBytes, step.nowMs, to, g.AheadAt, step.wantTo, step.wantAt)
		}
	}
	g.AskAhead(100*mib, 20_101)
	if g.AskAhead(101*mib, 20_102); g.AheadAt != 102*mib {
		t.Errorf("with nobody who takes from the queue: look again at %d, want %d", g.AheadAt, 102*mib)
	}
	w := <-env.ahead.wanted
	if err := w.segment.allocate(w.to); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("memory: %v", err)
	}
	w.segment.Release()
	if g.AskAhead(110*mib, 20_103); g.AheadAt != math.MaxInt64 {
		t.Errorf("a file system that can't allocate is asked again at %d", g.AheadAt)
	}
	if n := g.refs.Load(); n != 1 {
		t.Errorf("%d references are left", n)
	}
}

// TestSpaceAhead: it does not change the size, is counted, bounded, and given back for good.
func TestSpaceAhead(t *testing.T) {
	t.Parallel()
	env, g, f := growing(t, sized{vfs.OS, 100 * gib, 50 * gib}, t.TempDir())
	const size = 8 * mib
	if err := f.Truncate(size); err != nil { // a hole: what is allocated is what lies behind it
		t.Fatal(err)
	}
	g.SizeBytes.Store(size)
	check := func(when string, wantAllocated, wantHeld int64) {
		t.Helper()
		got, err := f.Size()
		allocated, allocatedErr := f.AllocatedBytes()
		if err := errors.Join(err, allocatedErr); err != nil {
			t.Fatal(err)
		}
		if held := env.AheadBytes(); got != size || allocated/mib != wantAllocated/mib || held != wantHeld {
			t.Errorf("%s: size %d, %d allocated, %d counted; want %d, %d and %d", when, got, allocated, held, size, wantAllocated, wantHeld)
		}
	}
	err := g.allocate(size + 2*mib)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("not on this file system:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	check("allocated", 2*mib, 2*mib)
	for _, to := range []int64{size + mib, size + 2*mib, size} { // late requests
		if err := g.allocate(to); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.allocate(size + 5*mib); err != nil {
		t.Fatal(err)
	}
	check("more", 5*mib, 5*mib)
	if err := g.allocate(size + limits.AllocatedBytes + mib); err != nil {
		t.Fatal(err)
	}
	check("beyond the bound of all", 5*mib, 5*mib)
	if err := g.FreeAhead(); err != nil {
		t.Fatal(err)
	}
	check("freed", 0, 0)
	if err := g.allocate(size + mib); err != nil {
		t.Fatal(err)
	}
	check("sealed", 0, 0)
}

// TestNoSpaceAheadOnAFullDisk: little is what is little of the volume and little by itself.
func TestNoSpaceAheadOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		total, usable, want int64
	}{
		{10 * gib, gib / 4, 0},
		{10 * gib, gib, mib},
		{1000 * gib, 3 * gib, 0},
		{1000 * gib, 10 * gib, mib},
	} {
		env, g, f := growing(t, sized{vfs.OS, test.total, test.usable}, t.TempDir())
		if err := f.Truncate(mib); err != nil {
			t.Fatal(err)
		}
		g.SizeBytes.Store(mib)
		if err := g.allocate(2 * mib); errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("not on this file system:", err)
		} else if err != nil {
			t.Fatal(err)
		}
		if got := env.AheadBytes(); got != test.want {
			t.Errorf("%d of %d bytes free: %d allocated, want %d", test.usable, test.total, got, test.want)
		}
	}
}

// TestGiveBackAhead: who has grown since the last call keeps it, who has not does not, and may have more later.
func TestGiveBackAhead(t *testing.T) {
	t.Parallel()
	env, g, f := growing(t, sized{vfs.OS, 100 * gib, 50 * gib}, t.TempDir())
	for i, step := range []struct {
		size     int64
		anyway   bool
		wantHeld int64
	}{
		{8 * mib, false, 2 * mib},
		{8 * mib, false, 0},
		{9 * mib, false, 2 * mib},
		{9 * mib, true, 0},
	} {
		if err := f.Truncate(step.size); err != nil {
			t.Fatal(err)
		}
		g.SizeBytes.Store(step.size)
		if step.size != g.restedAt {
			if err := g.allocate(step.size + 2*mib); errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("not on this file system:", err)
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if step.anyway {
			g.restedAt = -1 // it has grown
		}
		if err := g.GiveBackAhead(step.anyway); err != nil {
			t.Fatal(err)
		}
		got, err := f.Size()
		allocated, allocatedErr := f.AllocatedBytes()
		if err := errors.Join(err, allocatedErr); err != nil {
			t.Fatal(err)
		}
		if held := env.AheadBytes(); held != step.wantHeld || allocated/mib != step.wantHeld/mib || got != step.size {
			t.Errorf("step %d: %d counted, %d allocated, size %d; want %d and size %d", i, held, allocated, got, step.wantHeld, step.size)
		}
		if g.AheadAt > step.size+mib && step.wantHeld == 0 {
			t.Errorf("step %d: looked at again at %d", i, g.AheadAt)
		}
	}
}
