package vfs

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// windowOn maps two pages of a new file that has them; it skips where there are no windows.
func windowOn(t *testing.T, fsys FS, name string) (File, Window) {
	t.Helper()
	f, err := fsys.OpenFile(name, Create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(2 * WindowPage); err != nil {
		t.Fatal(err)
	}
	w, err := f.MapWindow(0, 2*WindowPage)
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("not on this file system:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Unmap(); err != nil {
			t.Error(err)
		}
	})
	return f, w
}

func TestWindowWritesTheFile(t *testing.T) {
	t.Parallel()
	for name, fsys := range map[string]FS{"os": OS, "recording": NewRecording()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "/f"
			if fsys == OS {
				file = filepath.Join(t.TempDir(), "f")
			}
			f, w := windowOn(t, fsys, file)
			if w.Covers(WindowPage, 2*WindowPage+1) || !w.Covers(1, 2*WindowPage) {
				t.Error("a window covers what it should not, or not what it should")
			}
			if err := w.WriteAt([]byte("across"), WindowPage-3); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 6)
			if _, err := f.ReadAt(got, WindowPage-3); err != nil || string(got) != "across" {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

// TestWindowFault: a write to a page that somebody has cut off is an error, the next one to a page that is there works.
func TestWindowFault(t *testing.T) {
	t.Parallel()
	f, w := windowOn(t, OS, filepath.Join(t.TempDir(), "f"))
	if err := unix.Ftruncate(f.FD(), WindowPage); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var fault *WindowFault
		if err := w.WriteAt([]byte("gone"), WindowPage+100); !errors.As(err, &fault) {
			t.Fatalf("a write behind the end: %v", err)
		}
		if err := w.WriteAt([]byte("there"), 100); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 5)
	if _, err := f.ReadAt(got, 100); err != nil || string(got) != "there" {
		t.Errorf("read %q, %v", got, err)
	}
}

// TestWindowAsksTheFileSystemFirst: a write begins with a system call, where it may wait, unless another one has returned from it a moment ago.
func TestWindowAsksTheFileSystemFirst(t *testing.T) {
	t.Parallel()
	f, w := windowOn(t, OS, filepath.Join(t.TempDir(), "f"))
	fd := w.fd
	w.fd = -1
	if err := w.WriteAt([]byte("lost"), 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("a write that can't ask: %v", err)
	}
	got := make([]byte, 4)
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "\x00\x00\x00\x00" {
		t.Errorf("read %q, %v", got, err)
	}
	a := newAsked(t, f)
	w.fd, w.volume = fd, a.volume
	a.trust(t, &w)
	w.fd = -1
	if err := w.WriteAt([]byte("kept"), 0); err != nil {
		t.Errorf("a write that need not ask: %v", err)
	}
	a.pass(AskUs + 1)
	if err := w.WriteAt([]byte("lost"), 0); !errors.Is(err, unix.EBADF) {
		t.Errorf("a write that can't ask: %v", err)
	}
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != "kept" {
		t.Errorf("read %q, %v", got, err)
	}
	w.fd = fd
}

// asked is a volume with a clock that stands.
type asked struct {
	*volume
	nowUs, n atomic.Int64
}

func newAsked(t *testing.T, f File) *asked {
	t.Helper()
	a := new(asked)
	v := Volumes{Clock: func() time.Duration { return time.Duration(a.nowUs.Load()) * time.Microsecond }}
	a.volume = v.of(f.FD())
	if a.volume == nil {
		t.Fatal("no volume")
	}
	a.alone = false // whatever this machine's kernel is
	return a
}

// sharedWindows are two of one volume.
func sharedWindows(t *testing.T) (a *asked, w, other Window) {
	t.Helper()
	f, w := windowOn(t, OS, filepath.Join(t.TempDir(), "f"))
	_, other = windowOn(t, OS, filepath.Join(t.TempDir(), "g"))
	a = newAsked(t, f)
	w.volume, other.volume = a.volume, a.volume
	return a, w, other
}

func (a *asked) pass(us int64) { a.nowUs.Add(us) }

// trust writes for so long that asks are shared.
func (a *asked) trust(t *testing.T, w *Window) {
	t.Helper()
	for range WaryMs + 1 {
		a.pass(1000)
		if err := w.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWindowsShareTheirAsks: one ask serves all windows of a volume for a moment; after one that took long, and after a time without
// any, each write asks for itself.
func TestWindowsShareTheirAsks(t *testing.T) {
	t.Parallel()
	a, w, other := sharedWindows(t)
	askUs := int64(0)
	count := func() error { a.n.Add(1); a.pass(askUs); return nil }
	w.asks, other.asks = count, count
	step := func(what string, window *Window, passUs, want int64) {
		t.Helper()
		a.pass(passUs)
		before := a.n.Load()
		if err := window.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		if got := a.n.Load() - before; got != want {
			t.Errorf("%s: %d asks, want %d", what, got, want)
		}
	}
	wary := func(what string) {
		t.Helper()
		for range WaryMs - 1 {
			step(what, &w, 1000, 1)
			step(what+", at once", &other, 0, 1)
		}
		step("trusted again", &w, 2000, 1)
		step("trusted again, at once", &other, 0, 0)
	}
	wary("new")
	step("within", &other, AskUs, 0)
	step("behind", &other, 1, 1)
	step("within, another window", &w, AskUs, 0)
	askUs = SlowAskUs
	step("slow", &w, 1, 1)
	askUs = 0
	wary("after a slow one")
	step("after a pause", &w, AskGapUs, 1)
	wary("after a pause")
	a.alone = true
	step("not here", &w, 0, 1)
}

// TestWindowAskThatWaits: while an ask waits no other write passes without an ask of its own, nor by what the one that waited tells when
// it is through, which is old.
func TestWindowAskThatWaits(t *testing.T) {
	t.Parallel()
	a, w, other := sharedWindows(t)
	a.trust(t, &w)
	a.pass(AskUs + 1)
	frozen, asking := make(chan struct{}), make(chan struct{}, 2)
	wait := func() error { asking <- struct{}{}; <-frozen; return nil }
	w.asks, other.asks = wait, wait
	done := make(chan error, 2)
	for _, x := range []*Window{&w, &other} {
		go func() { done <- x.WriteAt([]byte("x"), 0) }()
		<-asking // the second one, too
	}
	a.pass(1_000_000)
	close(frozen)
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if a.fresh(a.clock()) {
		t.Error("an ask that began before the thaw lets others pass")
	}
	for range 2 {
		if err := w.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		if len(asking) != 1 {
			t.Errorf("%d asks of a write after the thaw", len(asking))
		}
		<-asking
	}
}

// TestWindowGuardIsForFaults: a bug is not taken for a fault.
func TestWindowGuardIsForFaults(t *testing.T) {
	t.Parallel()
	_, w := windowOn(t, OS, filepath.Join(t.TempDir(), "f"))
	defer func() {
		if recover() == nil {
			t.Error("a write outside of the window did not panic")
		}
	}()
	_ = w.WriteAt([]byte("x"), 3*WindowPage)
}

// TestWindowInACrash: a write to a window that was not synced survives, or not, like any other; what was synced does.
func TestWindowInACrash(t *testing.T) {
	t.Parallel()
	m := NewRecording()
	f, w := windowOn(t, m, "/f")
	if err := errors.Join(w.WriteAt([]byte("synced"), 0), f.Datasync(), m.SyncDir("/"), w.WriteAt([]byte("perhaps"), WindowPage)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for outcome := range 4 {
		clone, err := m.Clone(func(n int) int { return min(outcome, n-1) })
		if err != nil {
			t.Fatal(err)
		}
		b, err := ReadFile(clone, "/f", 1<<20)
		if err := errors.Join(err, clone.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, []byte("synced")) {
			t.Errorf("outcome %d begins with %q", outcome, b[:10])
		}
		seen[string(b[WindowPage:WindowPage+7])] = true
	}
	for _, want := range []string{"\x00\x00\x00\x00\x00\x00\x00", "per\x00\x00\x00\x00", "perhaps"} {
		if !seen[want] {
			t.Errorf("no outcome has %q: %v", want, seen)
		}
	}
}

// TestWindowHooks: the hook of a Faulty may let a write to a window fail, whole or in the middle.
func TestWindowHooks(t *testing.T) {
	t.Parallel()
	injected := errors.New("injected")
	var fail error
	f, w := windowOn(t, &Faulty{FS: NewRecording(), Before: func(op Op) error {
		if op.Kind == OpWrite {
			return fail
		}
		return nil
	}}, "/f")
	for _, fail = range []error{injected, &ShortWrite{Len: 2, Err: injected}} {
		if err := w.WriteAt([]byte("data"), 10); !errors.Is(err, injected) {
			t.Errorf("a write that fails: %v", err)
		}
	}
	got := make([]byte, 4)
	if _, err := f.ReadAt(got, 10); err != nil || string(got) != "da\x00\x00" {
		t.Errorf("read %q, %v", got, err)
	}
}
