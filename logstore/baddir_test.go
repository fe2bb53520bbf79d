package logstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// badDir is a file system on which one directory fails.
type badDir struct {
	vfs.FS
	at     atomic.Pointer[string] // nil: none does
	read   error                  // of what only looks
	change error                  // of the rest
}

func (b *badDir) fails(name string, err error) error {
	if at := b.at.Load(); at != nil && err != nil && (name == *at || strings.HasPrefix(name, *at+"/")) {
		return &fs.PathError{Op: "test", Path: name, Err: err}
	}
	return nil
}

func (b *badDir) List(dir string) ([]vfs.Entry, error) {
	if err := b.fails(dir, b.read); err != nil {
		return nil, err
	}
	return b.FS.List(dir)
}

func (b *badDir) Lock(name string) (vfs.Lock, error) {
	if err := b.fails(name, b.change); err != nil {
		return nil, err
	}
	return b.FS.Lock(name)
}

func (b *badDir) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	err := b.fails(name, b.read)
	if flag != vfs.ReadOnly && err == nil {
		err = b.fails(name, b.change)
	}
	if err != nil {
		return nil, err
	}
	return b.FS.OpenFile(name, flag)
}

func (b *badDir) Remove(name string) error {
	if err := b.fails(name, b.change); err != nil {
		return err
	}
	return b.FS.Remove(name)
}

// TestDirectoryThatCantBeUsed: a start goes on without a log directory that can't be read, or written to, as Kafka does. Its
// partitions are offline and not made anew, the others serve, and all is as before when it can be used again.
func TestDirectoryThatCantBeUsed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		read, change error
		damage       func(v *volumes) (mend func())
	}{
		{name: "no permission", read: unix.EACCES, change: unix.EACCES},
		{name: "read-only", change: unix.EROFS},
		{name: "full", change: unix.ENOSPC},
		{name: "it fails", read: unix.EIO, change: unix.EIO},
		{name: "a file in its place", damage: func(v *volumes) func() {
			v.rename(v.b, v.b+".away")
			if err := os.WriteFile(v.b, []byte("no directory"), 0o644); err != nil {
				v.t.Fatal(err)
			}
			return v.mount
		}},
		{name: "meta.properties is damaged", damage: func(v *volumes) func() {
			file := filepath.Join(v.b, checkpoint.MetaName)
			b, err := os.ReadFile(file)
			if err != nil {
				v.t.Fatal(err)
			}
			write := func(b []byte) {
				if err := os.WriteFile(file, b, 0o644); err != nil {
					v.t.Fatal(err)
				}
			}
			write([]byte(strings.Replace(string(b), "node.id=0", "node.id=1", 1)))
			return func() { write(b) }
		}},
	} {
		for _, clean := range []bool{true, false} {
			t.Run(tc.name+map[bool]string{true: ", after a clean stop", false: ", after a crash"}[clean], func(t *testing.T) {
				t.Parallel()
				bad := &badDir{FS: vfs.OS, read: tc.read, change: tc.change}
				v := startVolumes(t, func(o *Options) { o.FS, o.JournalBytes = bad, smallJournal })
				var inA, inB []string
				for _, topic := range []string{"t1", "t2", "t3", "t4"} {
					p := v.partition(topic)
					put(t, p, records(topic))
					if p.Dir() == v.b {
						inB = append(inB, topic)
					} else {
						inA = append(inA, topic)
					}
				}
				if clean {
					v.stop()
				} else {
					v.kill()
				}
				mend := func() { bad.at.Store(nil) }
				if tc.damage != nil {
					mend = tc.damage(v)
				} else {
					bad.at.Store(&v.b)
				}
				for range 2 {
					v.open()
					v.without(inA, inB)
					v.crash()
					v.without(inA, inB)
					v.stop()
				}
				mend()
				v.open()
				for _, topic := range append(inA, inB...) {
					expect(t, v.partition(topic), topic)
				}
				expect(t, v.partition("new"), "new")
				if !v.s.Known().Complete() {
					t.Error("something is missing still")
				}
			})
		}
	}
}

// without checks what a start without b serves.
func (v *volumes) without(inA, inB []string) {
	t := v.t
	t.Helper()
	for _, topic := range inB {
		if _, err := v.s.Ensure(topic, topicID, 0, DefaultConfig()); !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), v.b+" ") {
			t.Fatalf("%s: %v", topic, err)
		}
	}
	for _, topic := range inA {
		expect(t, v.partition(topic), topic)
	}
	if v.s.Get("new", 0) == nil {
		v.s.Known().Accepted(topicID, 0)
		put(t, v.partition("new"), records("new"))
	}
	if err := v.s.Known().AllAsked(); err != nil {
		t.Fatal(err)
	}
	if why, n := v.s.Known().Waiting(); n != len(inB) || !strings.Contains(why, v.b) {
		t.Errorf("%q, %d partitions wait, of %v", why, n, inB)
	}
	if _, _, err := v.s.Usage(v.b); !errors.Is(err, ErrStorage) {
		t.Errorf("usage: %v", err)
	}
	if !strings.Contains(v.known(), v.id) {
		t.Errorf("it is forgotten:\n%s", v.known())
	}
}

// TestDirectoryThatFailsInItsRecovery: the same for one that fails after it was locked.
func TestDirectoryThatFailsInItsRecovery(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	var b string
	fsys := &vfs.Faulty{FS: vfs.OS, Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpRemove && op.Name == filepath.Join(b, layout.CleanShutdownName) {
			return unix.EIO
		}
		return nil
	}}
	v := startVolumes(t, func(o *Options) { o.FS = fsys })
	b = v.b
	put(t, v.partition("t1"), records("t1"))
	put(t, v.partition("t2"), records("t2"))
	inA, inB := "t1", "t2"
	if v.partition("t1").Dir() == v.b {
		inA, inB = inB, inA
	}
	v.stop()
	failing.Store(true)
	v.open()
	v.without([]string{inA}, []string{inB})
	v.stop()
	failing.Store(false)
	v.open()
	expect(t, v.partition("t1"), "t1")
	expect(t, v.partition("t2"), "t2")
}

// TestNoDirectoryCanBeUsed: a start is refused when none is left, or when the one with the resources, or one that may be it,
// can't be read: nothing is begun anew elsewhere.
func TestNoDirectoryCanBeUsed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	bad := &badDir{FS: vfs.OS, read: unix.EACCES, change: unix.EACCES}
	refused := func(what string, dirs ...string) {
		t.Helper()
		s, err := Open(context.Background(), Options{Dirs: dirs, FS: bad, JournalBytes: -1})
		if err == nil {
			t.Errorf("%s: it started (stopped: %v)", what, s.Close(context.Background()))
		} else if !strings.Contains(err.Error(), a) {
			t.Errorf("%s: %v", what, err)
		}
	}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{a}, bad })
	if err := os.Mkdir(filepath.Join(a, layout.ResourcesName), 0o755); err != nil {
		t.Fatal(err)
	}
	h.stop()
	bad.at.Store(&a)
	refused("the only one", a)
	refused("the one with the resources, beside a new one", a, b)
	refused("the one with the resources, last", b, a)
	bad.at.Store(nil)
	if err := os.WriteFile(b, []byte("no directory"), 0o644); err != nil {
		t.Fatal(err)
	}
	h.o.Dirs = []string{a, b}
	h.open()
	put(t, h.partition("t"), records("x"))
	h.restart()
	expect(t, h.partition("t"), "x")
}
