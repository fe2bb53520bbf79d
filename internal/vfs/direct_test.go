package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDirect: what is written past the page cache is there for others, nothing that is not aligned is taken (a disk may be
// less strict), and a file knows when it has lost its name.
func TestDirect(t *testing.T) {
	t.Parallel()
	for name, fsys := range map[string]FS{"os": OS, "mem": NewMem(), "recording": NewRecording(), "faulty": &Faulty{FS: NewMem()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := fsys.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "a")
			f, err := fsys.OpenFile(path, Create|Direct)
			if err != nil && Refused(err) {
				t.Skip("not on this file system:", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }() // scratch
			data := AlignedBytes(2 * DirectAlignment)
			for i := range data {
				data[i] = byte(i * 7)
			}
			if err := f.WriteSync(data, DirectAlignment); err != nil {
				if Refused(err) {
					t.Skip("not on this file system:", err)
				}
				t.Fatal(err)
			}
			got, err := ReadFile(fsys, path, 1<<20)
			if want := append(make([]byte, DirectAlignment), data...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes of other content, %v", len(got), err)
			}
			if _, err := f.WriteAt(data[1:100], 3); name != "os" && !Refused(err) {
				t.Errorf("a write of 99 bytes at 3: %v, want %v", err, unix.EINVAL)
			}
			if linked, err := f.Linked(); !linked || err != nil {
				t.Errorf("linked %v, %v", linked, err)
			}
			if err := fsys.Remove(path); err != nil {
				t.Fatal(err)
			}
			if linked, err := f.Linked(); linked || err != nil {
				t.Errorf("linked after its removal: %v, %v", linked, err)
			}
		})
	}
}

// TestAlignedBytes: also when it is cut to less than it could hold.
func TestAlignedBytes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, DirectAlignment - 1, DirectAlignment, 3*DirectAlignment + 5} {
		b := AlignedBytes(n)
		if len(b) != n || cap(b)%DirectAlignment != 0 || !directly(b[:cap(b)], 0) {
			t.Errorf("%d: %d bytes of %d", n, len(b), cap(b))
		}
	}
}

// TestTornDirectWrite: pieces of it reach the disk in any order.
func TestTornDirectWrite(t *testing.T) {
	t.Parallel()
	for picked, want := range []string{"----", "abcd", "ab--", "0000", "--cd"} {
		m := NewRecording()
		f, err := m.OpenFile("/a", Create|Direct)
		if err != nil {
			t.Fatal(err)
		}
		expand := func(s string) []byte {
			b := AlignedBytes(4 * DirectAlignment)
			for i := range b {
				b[i] = s[i/DirectAlignment]
			}
			return b
		}
		if err := f.WriteSync(expand("----"), 0); err != nil {
			t.Fatal(err)
		}
		if err := m.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(expand("abcd"), 0); err != nil {
			t.Fatal(err)
		}
		clone, err := m.Clone(func(n int) int {
			if n != 5 {
				t.Errorf("%d outcomes", n)
			}
			return picked
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(clone, "/a", 1<<20)
		if err != nil || !bytes.Equal(got, bytes.ReplaceAll(expand(want), []byte("0"), []byte{0})) {
			t.Errorf("outcome %d is not %s, %v", picked, want, err)
		}
		for _, fsys := range []*Mem{clone, m} {
			if err := fsys.Close(); err != nil {
				t.Error(err)
			}
		}
		_ = f.Close() // scratch
	}
}

// TestQuestionsAllocateNothing: whether a file is linked is asked at each commit, what is free each time that a log takes space ahead. Not
// parallel, since AllocsPerRun counts what all do.
func TestQuestionsAllocateNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := OS.OpenFile(filepath.Join(dir, "a"), Create)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // scratch
	if n := testing.AllocsPerRun(100, func() {
		if linked, err := f.Linked(); !linked || err != nil {
			t.Errorf("linked %v, %v", linked, err)
		}
		if total, usable, err := OS.Usage(dir); total < usable || usable < 0 || total == 0 || err != nil {
			t.Errorf("%d of %d bytes are usable, %v", usable, total, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestUsageOfNothing: errors name the directory.
func TestUsageOfNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]error{filepath.Join(dir, "missing"): unix.ENOENT, dir + strings.Repeat("/.", unix.PathMax/2): unix.ENAMETOOLONG} {
		var failed *fs.PathError
		if _, _, err := OS.Usage(path); !errors.Is(err, want) || !errors.As(err, &failed) || failed.Path != path {
			t.Errorf("%.40s: %v, want %v", path, err, want)
		}
	}
}
