package journal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"kaas/internal/vfs"
)

const dir = "/data"

func disk(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewRecording()
	if err := errors.Join(m.MkdirAll(dir+"/t-0"), m.SyncDir("/"), m.SyncDir(dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func made(t testing.TB, m vfs.FS, halfBytes int64) *Journal {
	t.Helper()
	j, err := Create(m, dir, halfBytes, 77)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() }) // twice where the test did
	return j
}

// put writes one block with one entry.
func put(t testing.TB, j *Journal, position int64, data string) {
	t.Helper()
	var b Block
	b.Reset()
	e := Entry{Topic: "t", TopicID: [16]byte{1}, Position: position, EndOffset: position + 1}
	copy(b.Add(&e, len(data)), data)
	if j.Room() < b.Len() {
		j.Switch(0)
	}
	if err := j.Write(&b); err != nil {
		t.Fatal(err)
	}
}

func logName(base int64) string { return fmt.Sprintf("%s/t-0/%d.log", dir, base) }

func makeLog(t testing.TB, m vfs.FS, base int64) {
	t.Helper()
	f, err := m.OpenFile(logName(base), vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// applied loads the journal and returns what it makes of the log.
func applied(t testing.TB, m vfs.FS, last uint64) (*Contents, string) {
	t.Helper()
	c, err := Load(m, dir, last)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return nil, ""
	}
	t.Cleanup(func() { _ = c.Close() }) // twice where the test did
	if _, err := c.Apply("t", 0, [16]byte{1}, 0, logName); err != nil {
		t.Fatal(err)
	}
	b, err := vfs.ReadFile(m, logName(0), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return c, string(b)
}

func TestWhatWasWrittenIsApplied(t *testing.T) {
	t.Parallel()
	m := disk(t)
	makeLog(t, m, 0)
	j := made(t, m, 4*Alignment)
	want := ""
	for n := range 11 { // over both halves, more than once
		text := fmt.Sprint("<", n, ">")
		put(t, j, int64(len(want)), text)
		if want += text; n < 4 {
			continue
		}
		// Both halves hold the newest 5 to 8 of them; what lies before was written back.
		c, got := applied(t, m, 1<<62)
		if got != want || c.Torn || c.Gap || !c.Has("t", 0) {
			t.Fatalf("after %d: %q, want %q, torn %v, gap %v", n, got, want, c.Torn, c.Gap)
		}
	}
	if c, _ := applied(t, m, 9); c.Blocks >= 8 {
		t.Errorf("%d blocks up to number 9", c.Blocks)
	}
	if err := j.Remove(); err != nil {
		t.Fatal(err)
	}
	if c, _ := applied(t, m, 1<<62); c != nil {
		t.Error("a removed journal is there")
	}
}

// TestCrashWhileWriting: of a block that was not synced nothing is taken, or all.
func TestCrashWhileWriting(t *testing.T) {
	t.Parallel()
	for picked := range 5 {
		m := disk(t)
		makeLog(t, m, 0)
		if err := m.SyncDir(dir + "/t-0"); err != nil {
			t.Fatal(err)
		}
		j := made(t, m, 4*Alignment)
		put(t, j, 0, "one")
		var clone *vfs.Mem
		j.halves[0].file = &stopping{j.halves[0].file, func() {
			var err error
			if clone, err = m.Clone(func(n int) int { return min(picked, n-1) }); err != nil {
				t.Error(err)
			}
		}}
		put(t, j, 3, "two, which is the second block")
		_, got := applied(t, clone, 1<<62)
		if want := map[bool]string{true: "onetwo, which is the second block", false: "one"}[picked == 1 || picked == 2]; got != want {
			// A prefix of a padded block is all of it that counts.
			t.Errorf("outcome %d: %q, want %q", picked, got, want)
		}
		if err := clone.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTornBlock: of a block of which the disk has some pages nothing is taken, whatever stood there before.
func TestTornBlock(t *testing.T) {
	t.Parallel()
	for picked := range 5 {
		m := disk(t)
		makeLog(t, m, 0)
		if err := m.SyncDir(dir + "/t-0"); err != nil {
			t.Fatal(err)
		}
		j := made(t, m, 8*Alignment)
		long := func(c string) string { return strings.Repeat(c, 2*Alignment) }
		for n, c := range []string{"a", "b", "c", "d"} { // two of them fill a half
			put(t, j, int64(n*2*Alignment), long(c))
		}
		var clone *vfs.Mem
		j.Switch(0)
		j.halves[0].file = &stopping{j.halves[0].file, func() {
			var err error
			if clone, err = m.Clone(func(n int) int { return min(picked, n-1) }); err != nil {
				t.Error(err)
			}
		}}
		put(t, j, 8*Alignment, long("e"))
		c, err := Load(clone, dir, 1<<62)
		if err != nil {
			t.Fatal(err)
		}
		// Absent, or without its beginning: the old chain of the half, or its rest, which is none.
		if want := []int{4, 3, 2, 2, 2}[picked]; c.Blocks != want || c.Gap {
			t.Errorf("outcome %d: %d blocks, want %d; gap %v", picked, c.Blocks, want, c.Gap)
		}
		if err := errors.Join(c.Close(), clone.Close()); err != nil {
			t.Error(err)
		}
	}
}

// stopping looks at the disk before a sync.
type stopping struct {
	vfs.File
	before func()
}

func (s *stopping) WriteSync(p []byte, off int64) error {
	if _, err := s.WriteAt(p, off); err != nil {
		return err
	}
	s.before()
	return s.Datasync()
}

func TestForgottenAndForeign(t *testing.T) {
	t.Parallel()
	m := disk(t)
	makeLog(t, m, 0)
	j := made(t, m, 16*Alignment)
	put(t, j, 0, "gone")
	var b Block
	b.Reset()
	b.Add(&Entry{Topic: "t", TopicID: [16]byte{1}, BaseOffset: 1, Forget: true}, 0)
	copy(b.Add(&Entry{Topic: "t", TopicID: [16]byte{2}, EndOffset: 9}, 5), "other")
	before := b.Mark()
	b.Add(&Entry{Topic: "t", TopicID: [16]byte{1}, EndOffset: 9}, 5)
	b.Rewind(before)
	copy(b.Add(&Entry{Topic: "t", TopicID: [16]byte{1}, BaseOffset: 40, EndOffset: 41}, 4), "lost")
	if b.Entries() != 3 {
		t.Fatalf("%d entries", b.Entries())
	}
	if err := j.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, got := applied(t, m, 1<<62); got != "" {
		t.Errorf("%.80q: of a forgotten segment, another topic id, or a segment that is gone", got)
	}
}

func TestGrow(t *testing.T) {
	t.Parallel()
	m := disk(t)
	makeLog(t, m, 0)
	j := made(t, m, Alignment)
	put(t, j, 0, "a")
	if err := j.Grow(1, 3*Alignment); err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"b", "c", "d"} {
		put(t, j, int64(i+1), text)
	}
	if c, got := applied(t, m, 1<<62); got != "abcd" || c.Blocks != 4 {
		t.Errorf("%q in %d blocks", got, c.Blocks)
	}
}

// full is a file on a volume that is full from a size on.
type full struct {
	vfs.File
	bytes int64
}

func (f *full) WriteAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.bytes {
		n, err := f.File.WriteAt(b[:f.bytes-at], at)
		return n, errors.Join(err, syscall.ENOSPC)
	}
	return f.File.WriteAt(b, at)
}

// TestGrowOnFullDisk: what a half could not use is given back, the logs need it.
func TestGrowOnFullDisk(t *testing.T) {
	t.Parallel()
	m := disk(t)
	makeLog(t, m, 0)
	j := made(t, m, Alignment)
	file := j.halves[1].file
	j.halves[1].file = &full{file, zeroBytes + 5}
	if err := j.Grow(1, 2*zeroBytes); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if size, err := file.Size(); err != nil || size != Alignment || j.Size(1) != Alignment {
		t.Errorf("%d bytes, %v, for a half of %d", size, err, j.Size(1))
	}
	put(t, j, 0, "a")
	put(t, j, 1, "b")
	if _, got := applied(t, m, 1<<62); got != "ab" {
		t.Errorf("%q", got)
	}
}

// FuzzLoad: no content makes the reader panic, hang or take much memory, and a block that was written is found before whatever
// follows it.
func FuzzLoad(f *testing.F) {
	var b Block
	b.Reset()
	copy(b.Add(&Entry{Topic: "t", TopicID: [16]byte{1}, EndOffset: 1}, 4), "data")
	f.Add(bytes.Clone(b.finish(77, 2)), uint16(0))
	f.Add([]byte{}, uint16(9))
	f.Fuzz(func(t *testing.T, tail []byte, flip uint16) {
		m := disk(t)
		makeLog(t, m, 0)
		j := made(t, m, 2*Alignment)
		put(t, j, 0, "kept")
		if len(tail) > 0 {
			tail = bytes.Clone(tail[:min(len(tail), Alignment)])
			tail[int(flip)%len(tail)] ^= byte(flip >> 8)
			if _, err := j.halves[0].file.WriteAt(tail, Alignment); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(m, dir, 1<<62)
		if err != nil {
			return // a block that holds and makes no sense
		}
		defer func() { _ = c.Close() }()
		if c.Blocks < 1 || !c.Has("t", 0) {
			t.Fatalf("%d blocks", c.Blocks)
		}
	})
}

// indirect is a file system that does nothing past its page cache, and says so at the opening or at the first write.
type indirect struct {
	vfs.FS
	late bool
}

type indirectFile struct{ vfs.File }

func (f *indirectFile) WriteAt([]byte, int64) (int, error) { return 0, syscall.EINVAL }

func (i *indirect) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	if flag&vfs.Direct == 0 {
		return i.FS.OpenFile(name, flag)
	}
	if !i.late {
		return nil, syscall.EINVAL
	}
	f, err := i.FS.OpenFile(name, flag)
	return &indirectFile{f}, err
}

// TestThroughThePageCache: a journal does not need what not every file system can.
func TestThroughThePageCache(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		m := disk(t)
		makeLog(t, m, 0)
		j := made(t, &indirect{m, late}, 2*Alignment)
		if err := j.Grow(1, 4*Alignment); err != nil {
			t.Fatal(err)
		}
		put(t, j, 0, "a")
		put(t, j, 1, "b")
		if _, got := applied(t, m, 1<<62); got != "ab" {
			t.Errorf("late %v: %q", late, got)
		}
	}
}

// TestLargeBlock: a block takes new memory as it grows, and keeps its place on the disk's terms.
func TestLargeBlock(t *testing.T) {
	t.Parallel()
	m := disk(t)
	makeLog(t, m, 0)
	j := made(t, m, 1<<20)
	var b Block
	b.Reset()
	want := ""
	for n := range 9 {
		data := bytes.Repeat([]byte{byte('a' + n)}, 70_001)
		e := Entry{Topic: "t", TopicID: [16]byte{1}, Position: int64(len(want)), EndOffset: int64(n + 1)}
		copy(b.Add(&e, len(data)), data)
		want += string(data)
	}
	if err := j.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, got := applied(t, m, 1<<62); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestLinked(t *testing.T) {
	t.Parallel()
	m := disk(t)
	j := made(t, m, Alignment)
	if err := m.Remove(dir + "/" + Names[1]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if linked, err := j.Linked(); linked != want || err != nil {
			t.Errorf("half %d: %v, %v; want %v", j.Active(), linked, err, want)
		}
		j.Switch(0)
	}
}
