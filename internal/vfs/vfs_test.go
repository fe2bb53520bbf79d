package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSameBehaviour runs one script on the real and on the in-memory file system.
func TestSameBehaviour(t *testing.T) {
	t.Parallel()
	for name, fsys := range map[string]FS{"os": OS, "mem": NewMem(), "recording": NewRecording(), "faulty": &Faulty{FS: NewMem()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script(t, fsys, t.TempDir())
		})
	}
}

// TestCloseTwice: the second time the descriptor may be another file's.
func TestCloseTwice(t *testing.T) {
	t.Parallel()
	for name, fsys := range map[string]FS{"os": OS, "mem": NewMem()} {
		path := filepath.Join(t.TempDir(), "a")
		if err := fsys.MkdirAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		f, err := fsys.OpenFile(path, Create)
		if err != nil {
			t.Fatal(err)
		}
		if first, second := f.Close(), f.Close(); first != nil || !errors.Is(second, fs.ErrClosed) {
			t.Errorf("%s: %v, then %v; want nil, then %v", name, first, second, fs.ErrClosed)
		}
	}
}

func script(t *testing.T, fsys FS, dir string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(fsys.MkdirAll(dir))
	_, err := fsys.OpenFile(filepath.Join(dir, "a"), 0)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open of a missing file: %v", err)
	}
	_, err = fsys.OpenFile(filepath.Join(dir, "no", "a"), Create)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("create in a missing directory: %v", err)
	}
	f, err := fsys.OpenFile(filepath.Join(dir, "a"), Create|Exclusive)
	must(err)
	_, err = fsys.OpenFile(filepath.Join(dir, "a"), Create|Exclusive)
	if !errors.Is(err, fs.ErrExist) {
		t.Fatalf("exclusive create of a file that is there: %v", err)
	}
	_, err = f.WriteAt([]byte("hello"), 3)
	must(err)
	must(f.Datasync())
	m, err := f.Map(8)
	must(err)
	if !bytes.Equal(m, []byte("\x00\x00\x00hello")) {
		t.Fatalf("mapped %q", m)
	}
	must(f.Unmap(m))
	if size, err := f.Size(); err != nil || size != 8 {
		t.Fatalf("%d %v", size, err)
	}
	must(f.Truncate(4))
	must(f.Close())
	must(fsys.Mkdir(filepath.Join(dir, "d")))
	if err := fsys.Mkdir(filepath.Join(dir, "d")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("mkdir twice: %v", err)
	}
	must(WriteFileAtomic(fsys, filepath.Join(dir, "d", "x"), filepath.Join(dir, "d"), []byte("one")))
	must(WriteFileAtomic(fsys, filepath.Join(dir, "d", "x"), filepath.Join(dir, "d"), []byte("two")))
	must(fsys.Rename(filepath.Join(dir, "d"), filepath.Join(dir, "e")))
	if b, err := ReadFile(fsys, filepath.Join(dir, "e", "x"), 10); err != nil || string(b) != "two" {
		t.Fatalf("%q %v", b, err)
	}
	if _, err := ReadFile(fsys, filepath.Join(dir, "e", "x"), 2); !errors.Is(err, unix.EFBIG) {
		t.Fatalf("a bound of 2 bytes: %v", err)
	}
	if err := fsys.Remove(filepath.Join(dir, "e")); !errors.Is(err, unix.ENOTEMPTY) {
		t.Fatalf("remove of a full directory: %v", err)
	}
	list, err := fsys.List(dir)
	must(err)
	if len(list) != 2 || list[0].Name != "a" || list[0].Dir || list[1].Name != "e" || !list[1].Dir {
		t.Fatalf("%+v", list)
	}
	if e, err := fsys.Stat(filepath.Join(dir, "a")); err != nil || e.SizeBytes != 4 {
		t.Fatalf("%+v %v", e, err)
	}
	lock, err := fsys.Lock(filepath.Join(dir, ".lock"))
	must(err)
	var locked *LockedError
	if _, err := fsys.Lock(filepath.Join(dir, ".lock")); !errors.As(err, &locked) {
		t.Fatalf("second lock: %v", err)
	}
	must(lock.Unlock())
	must(fsys.RemoveAll(filepath.Join(dir, "e")))
	must(fsys.Remove(filepath.Join(dir, "a")))
	must(fsys.SyncDir(dir))
}

func TestCloneKeepsOnlyWhatWasSynced(t *testing.T) {
	t.Parallel()
	m := NewRecording()
	if err := m.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	write := func(name, data string, sync, syncDir bool) {
		t.Helper()
		f, err := m.OpenFile(name, Create)
		if err == nil {
			_, err = f.WriteAt([]byte(data), 0)
		}
		if err == nil && sync {
			err = f.Datasync()
		}
		if err == nil {
			err = f.Close()
		}
		if err == nil && syncDir {
			err = m.SyncDir("/d")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("/d/whole", "whole", true, true)
	write("/d/empty", "content", false, true)
	write("/d/nameless", "nameless", true, false)
	clone := func(choose func(int) int) map[string]string {
		c, err := m.Clone(choose)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		list, err := c.List("/d")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			b, err := ReadFile(c, "/d/"+e.Name, 100)
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name] = string(b)
		}
		return out
	}
	if got := clone(nil); len(got) != 2 || got["whole"] != "whole" || got["empty"] != "" {
		t.Fatalf("only what was synced: %q", got)
	}
	if got := clone(func(n int) int { return min(n-1, whole) }); len(got) != 3 || got["empty"] != "content" || got["nameless"] != "nameless" {
		t.Fatalf("everything: %q", got)
	}
	if got := clone(func(n int) int { return min(n-1, zeroes) }); got["empty"] != "\x00\x00\x00\x00\x00\x00\x00" {
		t.Fatalf("zeroes: %q", got)
	}
}

func TestHookInjects(t *testing.T) {
	t.Parallel()
	m := NewMem()
	boom := errors.New("boom")
	f := &Faulty{FS: m, Before: func(op Op) error {
		switch op.Kind {
		case OpWrite:
			return &ShortWrite{Len: 2, Err: boom}
		case OpDatasync:
			return boom
		}
		return nil
	}}
	file, err := f.OpenFile("/a", Create)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := file.WriteAt([]byte("abcd"), 0); n != 2 || !errors.Is(err, boom) {
		t.Fatalf("%d %v", n, err)
	}
	if err := file.Datasync(); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if b, err := ReadFile(m, "/a", 10); err != nil || string(b) != "ab" {
		t.Fatalf("%q %v", b, err)
	}
}

// TestErrorsNameTheFileAsItIsCalledNow: a descriptor outlives renames of its file and of the directory.
func TestErrorsNameTheFileAsItIsCalledNow(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := OS.Mkdir(at("a")); err != nil {
		t.Fatal(err)
	}
	f, err := OS.OpenFile(at("a/spare"), Create)
	if err != nil {
		t.Fatal(err)
	}
	named := func(want string) {
		t.Helper()
		var failed *fs.PathError
		if err := f.Truncate(-1); !errors.As(err, &failed) || failed.Path != want {
			t.Errorf("%v, want a failure of %s", err, want)
		}
	}
	named(at("a/spare"))
	if err := OS.Rename(at("a/spare"), at("a/0.log")); err != nil {
		t.Fatal(err)
	}
	named(at("a/0.log"))
	if err := OS.Rename(at("a"), at("b")); err != nil {
		t.Fatal(err)
	}
	named(at("b/0.log"))
	if other, err := OS.OpenFile(at("b/spare"), Create); err != nil { // another file of the old name
		t.Fatal(err)
	} else if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	named(at("b/0.log"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	named(at("a/spare")) // closed: its number may be another file's
}

// fullFile is a file on a full disk, which has a block or not.
type fullFile struct {
	block   bool
	content string
}

func (f *fullFile) WriteAt(p []byte, at int64) (int, error) {
	if !f.block {
		return 0, unix.ENOSPC
	}
	f.content = f.content[:at] + string(p) + f.content[min(int(at)+len(p), len(f.content)):]
	return len(p), nil
}

func (f *fullFile) Truncate(size int64) error {
	f.block = f.block && size > 0 // a full disk has another use for it
	f.content = f.content[:size]
	return nil
}

// A start after a crash finds the disk as full as it was.
func TestLockOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		block         bool
		before, after string
	}{{true, "1234567\n", "42\n"}, {true, "7\n", "42\n"}, {false, "", ""}} {
		f := &fullFile{c.block, c.before}
		if err := writePID(f, 42); err != nil || f.content != c.after {
			t.Errorf("%q became %q, %v; want %q", c.before, f.content, err, c.after)
		}
	}
}
