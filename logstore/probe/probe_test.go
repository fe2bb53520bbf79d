package probe

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// asked is a directory on a file system that a test lets fail.
type asked struct {
	m      *vfs.Mem
	before atomic.Pointer[func(vfs.Op) error]
	p      *Probe
	turns  []string // what changed was told
}

func (a *asked) fail(f func(vfs.Op) error) { a.before.Store(&f) }

func ask(t *testing.T) *asked {
	t.Helper()
	a := &asked{m: vfs.NewMem()}
	if err := a.m.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	a.meta(t, "mine")
	begun := time.Now()
	fsys := &vfs.Faulty{FS: a.m, Before: func(op vfs.Op) error {
		if f := a.before.Load(); f != nil {
			return (*f)(op)
		}
		return nil
	}}
	a.p = New(fsys, "/data", "mine", func() int64 { return time.Since(begun).Milliseconds() + 1 })
	a.p.Start(limits.ProbeIntervalMs, func(fault error) {
		if fault == nil {
			a.turns = append(a.turns, "well")
		} else {
			a.turns = append(a.turns, "ill")
		}
	})
	return a
}

func (a *asked) meta(t *testing.T, id string) {
	t.Helper()
	if err := checkpoint.WriteMeta(a.m, "/data", checkpoint.MetaProperties{ClusterID: "c", NodeID: 1, DirectoryID: id}); err != nil {
		t.Fatal(err)
	}
}

func (a *asked) stop() {
	a.p.Stop()
	a.p.Wait()
}

// awaitMs lets a time of the bubble pass.
func awaitMs(n int64) {
	<-time.After(time.Duration(n) * time.Millisecond)
	synctest.Wait()
}

// enoughMs is the longest from a fault to its report.
const enoughMs = limits.ProbeIntervalMs + (limits.ProbeFailures-1)*limits.ProbeAgainMs + 1

// TestFaults: whatever becomes of the directory is told, with why, and taken back when it is well again.
func TestFaults(t *testing.T) {
	t.Parallel()
	refuse := func(kind vfs.OpKind, err error) func(*testing.T, *asked) {
		return func(_ *testing.T, a *asked) {
			a.fail(func(op vfs.Op) error {
				if op.Kind == kind && strings.HasSuffix(op.Name, layout.ProbeName) {
					return err
				}
				return nil
			})
		}
	}
	well := func(_ *testing.T, a *asked) { a.before.Store(nil) }
	again := func(t *testing.T, a *asked) {
		if err := a.m.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		a.meta(t, "mine")
	}
	for name, c := range map[string]struct {
		ill, well func(*testing.T, *asked)
		want      string
	}{
		"read-only": {refuse(vfs.OpCreate, unix.EROFS), well, "read-only file system"},
		"no write":  {refuse(vfs.OpWrite, unix.EIO), well, "input/output error"},
		"no sync":   {refuse(vfs.OpDatasync, unix.EIO), well, "input/output error"},
		"all fails": {func(_ *testing.T, a *asked) { a.fail(func(vfs.Op) error { return unix.EIO }) }, well, "input/output error"},
		"unmounted": {func(t *testing.T, a *asked) {
			if err := errors.Join(a.m.RemoveAll("/data"), a.m.MkdirAll("/data")); err != nil {
				t.Fatal(err)
			}
		}, again, "meta.properties is gone"},
		"removed": {func(t *testing.T, a *asked) {
			if err := a.m.RemoveAll("/data"); err != nil {
				t.Fatal(err)
			}
		}, again, "meta.properties is gone"},
		"another volume": {func(t *testing.T, a *asked) { a.meta(t, "other") }, again, "directory.id is other, it was mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := ask(t)
				defer a.stop()
				awaitMs(enoughMs)
				if err := a.p.Fault(); err != nil {
					t.Fatalf("before: %v", err)
				}
				c.ill(t, a)
				awaitMs(enoughMs)
				if err := a.p.Fault(); err == nil || !strings.HasPrefix(err.Error(), "/data: ") || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("%v, want %q", err, c.want)
				}
				if name == "unmounted" {
					if _, err := a.m.Stat("/data/" + layout.ProbeName); err == nil {
						t.Error("a file was made below the empty mount point")
					}
				}
				c.well(t, a)
				awaitMs(limits.ProbeAgainMs)
				if err := a.p.Fault(); err != nil || strings.Join(a.turns, " ") != "ill well" {
					t.Fatalf("when it is well again: %v, %v", err, a.turns)
				}
			})
		})
	}
}

// TestHiccups: fewer errors in a row than count are none.
func TestHiccups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := ask(t)
		defer a.stop()
		questions := 0
		a.fail(func(op vfs.Op) error {
			if op.Kind != vfs.OpCreate {
				return nil
			}
			if questions++; questions%limits.ProbeFailures == 0 {
				return nil
			}
			return unix.EIO
		})
		for range 100 {
			awaitMs(limits.ProbeAgainMs)
			if err := a.p.Fault(); err != nil {
				t.Fatalf("after %d questions: %v", questions, err)
			}
		}
		if questions < 3*limits.ProbeFailures || a.turns != nil {
			t.Fatalf("%d questions, %v", questions, a.turns)
		}
	})
}

// TestWhatTheDiskIsNotToBlameFor: a full volume and a process that lacks something.
func TestWhatTheDiskIsNotToBlameFor(t *testing.T) {
	t.Parallel()
	for _, why := range notTheDisk {
		synctest.Test(t, func(t *testing.T) {
			a := ask(t)
			defer a.stop()
			a.fail(func(vfs.Op) error { return why })
			awaitMs(10 * limits.ProbeIntervalMs)
			if err := a.p.Fault(); err != nil {
				t.Errorf("%v: %v", why, err)
			}
		})
	}
}

// TestSilence: a question that is not answered counts after 30 s, no other one is asked meanwhile, and it ends with the answer.
func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := ask(t)
		defer a.stop()
		gate := make(chan struct{})
		var asking atomic.Int64
		a.fail(func(op vfs.Op) error {
			if op.Kind == vfs.OpDatasync {
				asking.Add(1)
				<-gate
			}
			return nil
		})
		awaitMs(limits.ProbeIntervalMs + limits.CommitStalledMs - 1)
		if err := a.p.Fault(); err != nil {
			t.Fatalf("too early: %v", err)
		}
		awaitMs(1)
		if err := a.p.Fault(); err == nil || !strings.Contains(err.Error(), "/data: the disk does not answer") {
			t.Fatalf("%v", err)
		}
		awaitMs(3_600_000)
		if n := asking.Load(); n != 1 {
			t.Fatalf("%d questions wait for a disk that hangs", n)
		}
		close(gate)
		synctest.Wait()
		if err := a.p.Fault(); err != nil || a.turns != nil {
			t.Fatalf("when it answers: %v, %v", err, a.turns)
		}
	})
}
