package segment

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// TestSliceOutlivesItsSegment: who holds a slice reads the same bytes after the segment was taken out of the list and its files
// were set aside; nobody gets a reference any more; the last release lets the files and the maps go.
func TestSliceOutlivesItsSegment(t *testing.T) {
	t.Parallel()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll("/t-0"); err != nil {
		t.Fatal(err)
	}
	env := NewEnv(fsys, slog.New(slog.DiscardHandler), time.Now, new(LookupCounters), nil)
	g := NewActive(env, "/t-0", 0, 1)
	f, err := fsys.OpenFile(g.Path(layout.LogSuffix), vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	g.SetFile(f)
	var b batch.Builder
	b.Append(1000, nil, []byte("value"))
	written, err := b.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(written, 0); err != nil {
		t.Fatal(err)
	}
	g.AddRecent(0, 0)
	g.EndOffset.Store(1)
	g.SizeBytes.Store(int64(len(written)))

	if !g.Acquire() {
		t.Fatal("a segment of the list has a reference")
	}
	s, err := g.Read(0, 0, int64(len(written)), 1, true, false, 1<<16)
	if err != nil || s.Len != len(written) || !bytes.Equal(s.Mem, written) {
		t.Fatalf("read %d bytes, want %d: %v", s.Len, len(written), err)
	}
	if n := env.MapsInUse(); n != 1 {
		t.Fatalf("%d maps for one read", n)
	}
	if err := g.MoveAside(); err != nil {
		t.Fatal(err)
	}
	g.Release() // the list's
	if env.Bury(); !bytes.Equal(s.Mem, written) {
		t.Fatal("the bytes changed under the slice")
	}
	if !g.Acquire() { // the slice's reference keeps it alive
		t.Fatal("a segment that a slice pins has a reference")
	}
	g.Release()

	pin := s.Pin()
	if s.Release(); s.Pin() != nil {
		t.Fatal("the slice still has the pin that was taken out")
	}
	select {
	case <-env.Wake():
		t.Fatal("the segment died before its last reference went away")
	default:
	}
	pin.Release()
	<-env.Wake()
	if g.Acquire() {
		t.Fatal("a dead segment gave a reference")
	}
	env.Bury()
	if n := env.MapsInUse(); n != 0 {
		t.Fatalf("%d maps are left", n)
	}
	if left, err := fsys.List("/t-0"); err != nil || len(left) != 0 {
		t.Fatalf("files are left: %v %v", left, err)
	}
}
