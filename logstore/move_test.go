package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
)

// moveTo moves a partition and waits for the end of it.
func moveTo(t *testing.T, p *Partition, dir string) {
	t.Helper()
	if p.Dir() == dir {
		return
	}
	if err := p.store.MoveTo(p.topic, p.id, dir); err != nil {
		t.Fatal(err)
	}
	settled(p)
	if p.Dir() != dir {
		t.Fatalf("the partition lies in %s, it was moved to %s", p.Dir(), dir)
	}
}

// settled waits for the end of a move of p, if one runs.
func settled(p *Partition) {
	m := p.store.mover
	m.mu.Lock()
	v := m.moves[p]
	m.mu.Unlock()
	if v != nil {
		<-v.done
	}
}

// TestMoveBetweenDirectories: a producer and a reader go on while a partition is moved to and fro; nothing is lost, repeated
// or read twice, and the old directory is gone.
func TestMoveBetweenDirectories(t *testing.T) {
	t.Parallel()
	files := vfs.NewMem()
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/a", "/b"}, files })
	small := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes = 2000, 200 }
	p := h.partition("t", small)
	if err := h.s.MoveTo("t", 0, "/c"); !errors.Is(err, ErrLogDirNotFound) {
		t.Fatalf("a directory that is none of the broker's: %v", err)
	}
	if err := h.s.MoveTo("none", 0, "/a"); !errors.Is(err, ErrUnknownPartition) {
		t.Fatalf("a partition that is not there: %v", err)
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	written := 0
	clients.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			r, err := p.Append(produced(7, 0, int32(written), false, fmt.Sprint(written)), AppendOptions{})
			if errors.Is(err, ErrStalled) {
				continue
			}
			if err != nil || r.Duplicate || r.BaseOffset != int64(written) {
				t.Errorf("append %d: %+v %v", written, r, err)
				return
			}
			if written++; written%50 == 0 {
				if err := awaitErr(p, int64(written)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	clients.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			high := p.HighWatermark()
			s, err := p.Read(high/2, 4000, true, ReadUncommitted)
			if err != nil || high > 0 && s.Len == 0 {
				t.Errorf("read at %d of %d: %d bytes, %v", high/2, high, s.Len, err)
				return
			}
			s.Release()
		}
	})
	dirs := []string{"/b", "/a"}
	if p.Dir() == "/b" {
		dirs = []string{"/a", "/b"}
	}
	for i := range 6 {
		moveTo(t, p, dirs[i%2])
	}
	close(stop)
	clients.Wait()
	await(t, p, int64(written))
	check := func() {
		t.Helper()
		got := values(t, p, 0, ReadUncommitted)
		if len(got) != written {
			t.Fatalf("%d records of %d", len(got), written)
		}
		for i, v := range got {
			if v != fmt.Sprint(i) {
				t.Fatalf("record %d is %s", i, v)
			}
		}
	}
	check()
	for back := 1; back <= 5 && back <= written; back++ { // the whole window of the producer is known
		if r, err := p.Append(produced(7, 0, int32(written-back), false, fmt.Sprint(written-back)), AppendOptions{}); err != nil || !r.Duplicate {
			t.Fatalf("batch %d from the end sent again: %+v %v", back, r, err)
		}
	}
	h.restart()
	p = h.partition("t", small)
	check()
	h.crash()
	p = h.partition("t", small)
	check()
	if entries, err := files.List(dirs[0]); err != nil {
		t.Fatal(err)
	} else {
		for _, e := range entries {
			if _, _, ok := layout.ParsePartitionDir(e.Name); ok {
				t.Errorf("%s is left in %s", e.Name, dirs[0])
			}
		}
	}
}

// TestDeleteWhileMoving: the deletion ends the move, and nothing is left in either directory.
func TestDeleteWhileMoving(t *testing.T) {
	t.Parallel()
	files := vfs.NewMem()
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.MoveMaxBytesPerSecond = []string{"/a", "/b"}, files, 100 })
	p := h.partition("t")
	for i := range 20 {
		put(t, p, records(fmt.Sprint(i)))
	}
	to := map[string]string{"/a": "/b", "/b": "/a"}[p.Dir()]
	if err := h.s.MoveTo("t", 0, to); err != nil {
		t.Fatal(err)
	}
	if dir, _, _ := p.Future(); dir != to {
		t.Fatalf("it is moved to %q", dir)
	}
	if err := h.s.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	h.restart()
	for _, d := range []string{"/a", "/b"} {
		entries, err := files.List(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Dir {
				t.Errorf("%s/%s is left", d, e.Name)
			}
		}
	}
}

// TestMoveLeavesNothingInTheJournal: what the commit journal of the old directory holds of a moved partition means nothing
// before anybody serves the copy. When that can't be noted the move does not happen; nor does it wait for ever for room in
// the journal.
func TestMoveLeavesNothingInTheJournal(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	var failing, moving, logSynced atomic.Bool
	fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		switch {
		case !moving.Load():
		case op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, layout.LogSuffix) && !strings.Contains(op.Name, layout.FutureDirSuffix):
			logSynced.Store(true)
		case op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".journal") && !logSynced.Load():
			t.Error("the journal forgets records that stand nowhere else")
		}
		if failing.Load() && strings.HasSuffix(op.Name, ".journal") && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpDatasync) {
			return unix.EIO
		}
		return nil
	}}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.JournalBytes, o.ReopenIntervalMs, o.Cleaner = []string{"/a", "/b"}, fsys, smallJournal, 2, byHand
	})
	h.makeJournals()
	p := h.partition("t")
	var want []string
	write := func(n int) {
		t.Helper()
		for range n {
			want = append(want, fmt.Sprint(len(want)))
			put(t, p, records(want[len(want)-1]))
		}
	}
	write(3)
	from := p.logDir()
	to := map[string]string{"/a": "/b", "/b": "/a"}[from.path]
	if p.synced.Load() == 3 {
		t.Fatal("the journal took no part")
	}
	failing.Store(true)
	if err := h.s.MoveTo("t", 0, to); err != nil {
		t.Fatal(err)
	}
	settled(p)
	failing.Store(false)
	if p.Dir() != from.path {
		t.Fatal("moved away from a journal that could not be told")
	}
	expect(t, p, want...)
	for from.journal.ready() { // until the journal is given up
		if err := from.journal.forget(p, 0); err != nil {
			break
		}
	}
	h.crash()
	h.makeJournals()
	if p = h.partition("t"); p.Dir() != from.path {
		t.Fatalf("after a kill it lies in %s", p.Dir())
	}
	expect(t, p, want...)
	write(3)
	from = p.logDir()
	// Whatever there is of it in the journal, nothing is applied when it is back with other bytes at the same places.
	for { // no room in either half
		from.journal.mu.Lock()
		from.journal.busy = true
		from.journal.mu.Unlock()
		if errors.Is(from.journal.forget(p, 0), errJournalBusy) {
			break
		}
	}
	if p.synced.Load() == p.end.offset.Load() {
		t.Fatal("nothing stands in the journal alone")
	}
	moving.Store(true)
	if err := h.s.MoveTo("t", 0, to); err != nil {
		t.Fatal(err)
	}
	for p.synced.Load() < p.end.offset.Load() { // it has come to the journal
		runtime.Gosched()
	}
	if dir, _, _ := p.Future(); dir != to {
		t.Fatalf("it is moved to %q", dir)
	}
	from.journal.mu.Lock()
	from.journal.busy = false
	from.journal.mu.Unlock()
	settled(p)
	moving.Store(false)
	if p.Dir() != to {
		t.Fatalf("it lies in %s", p.Dir())
	}
	expect(t, p, want...)
	c, err := journal.Load(m, from.path, 1<<64-1)
	if err != nil || c == nil {
		t.Fatal(err)
	}
	if c.Has("t", 0) {
		t.Error("the journal of the old directory has records of it")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	write(3)
	h.crash()
	p = h.partition("t")
	expect(t, p, want...)
}

// TestRecoveryEndsAMove: a partition that was recovered in place may have lost what was copied already.
func TestRecoveryEndsAMove(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.MoveMaxBytesPerSecond, o.ReopenIntervalMs = []string{"/a", "/b"}, vfs.NewMem(), 1, 2
	})
	p := h.partition("t")
	put(t, p, records("x"))
	from, to := p.Dir(), map[string]string{"/a": "/b", "/b": "/a"}[p.Dir()]
	if err := h.s.MoveTo("t", 0, to); err != nil {
		t.Fatal(err)
	}
	for {
		if _, copied, _ := p.Future(); copied > 0 {
			break
		}
	}
	p.fail(errors.New("a disk"))
	for p.Err() != nil {
		runtime.Gosched()
	}
	h.s.SetMoveMaxBytesPerSecond(0)
	settled(p)
	if p.Dir() != from {
		t.Fatal("moved")
	}
	put(t, p, records("y"))
	expect(t, p, "x", "y")
	moveTo(t, p, to)
	expect(t, p, "x", "y")
}

// TestReadersOverAMove: who has a segment of before the move, and has not opened it yet, reads it after its directory was renamed and
// removed, by offset and by time; and a move leaves no file open that nobody reads.
func TestReadersOverAMove(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) { o.Dirs, o.Cleaner = []string{t.TempDir(), t.TempDir()}, byHand })
	config := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes, c.RetentionMs = 1000, 100, -1 }
	p := h.partition("t", config)
	for i := range 100 {
		put(t, p, stamped(int64(1000+i), fmt.Sprint(i)))
	}
	h.restart() // nothing is open
	p = h.partition("t", config)
	if n := h.s.segments.OpenFiles(); n != 0 {
		t.Fatalf("%d files are open after a clean start", n)
	}
	was := p.segments.Load().all
	if len(was) < 6 {
		t.Fatalf("%d segments", len(was))
	}
	held := was[2]
	if !held.Acquire() {
		t.Fatal("a segment of the list has no reference")
	}
	from, to := p.Dir(), h.o.Dirs[0]
	if to == from {
		to = h.o.Dirs[1]
	}
	moveTo(t, p, to)
	eventually(t, func() error { // the old directory is gone
		entries, err := os.ReadDir(from)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "t-0") {
				return errors.New(e.Name())
			}
		}
		return err
	})
	if n := h.s.segments.OpenFiles(); n > 2 {
		t.Errorf("%d files are open after the move, one is read and one is active", n)
	}
	for i, g := range was {
		if i != 2 && g.Acquire() {
			t.Errorf("segment %d of before the move lives", i)
			g.Release()
		}
	}
	offset := held.BaseOffset + 3
	s, err := held.Read(offset, 1<<62, 0, 1, true, false, 0)
	if err != nil || s.Len == 0 {
		t.Fatalf("read of %d: %d bytes, %v", offset, s.Len, err)
	}
	if b := content(t, &s); batch.View(b).BaseOffset() != offset {
		t.Errorf("offset %d, want %d", batch.View(b).BaseOffset(), offset)
	}
	s.Release()
	if strings.Contains(h.logs.String(), "index rebuilt") {
		t.Errorf("an index was looked for by its old name:\n%s", h.logs)
	}
	if got := values(t, p, 0, ReadUncommitted); len(got) != 100 {
		t.Errorf("%d values after the move", len(got))
	}
}

// TestMoveMeetsEveryFault: each operation in the directory that a partition is moved to fails, once or from then on until the move has
// ended. Whatever becomes of the move, the partition serves what it had, nothing of a move that failed stays, the next one works, and
// so does a start.
func TestMoveMeetsEveryFault(t *testing.T) {
	t.Parallel()
	for _, why := range []error{unix.ENOSPC, unix.EIO} {
		for _, once := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v, once %v", why, once), func(t *testing.T) {
				t.Parallel()
				moved := false
				for at := int64(1); !moved; at++ {
					if at > 500 {
						t.Fatal("a move that never ends")
					}
					moved = moveMeets(t, why, once, at)
				}
			})
		}
	}
}

// moveMeets lets operation at fail; true: there are not so many.
func moveMeets(t *testing.T, why error, once bool, at int64) (never bool) {
	t.Helper()
	var armed atomic.Bool
	var ops atomic.Int64
	m := vfs.NewMem()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	h := &harness{t: t, logs: new(logBuffer), o: Options{
		Dirs: []string{"/a", "/b"}, JournalBytes: -1, ProbeIntervalMs: -1, ReopenIntervalMs: 1, Cleaner: byHand,
		FS: &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
			if armed.Load() && strings.HasPrefix(op.Name, "/b") {
				if n := ops.Add(1); n == at || n > at && !once {
					return why
				}
			}
			return nil
		}},
	}}
	h.open()
	config := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes, c.RetentionMs = 400, 100, -1 }
	p := h.partition("t", config)
	var want []string
	add := func(count int) {
		for range count {
			i := len(want)
			if r := put(t, p, produced(7, 0, int32(i), false, fmt.Sprint(i))); r.BaseOffset != int64(i) {
				t.Fatalf("fault %d: record %d at %d", at, i, r.BaseOffset)
			}
			want = append(want, fmt.Sprint(i))
		}
	}
	add(12)
	if p.Dir() != "/a" {
		t.Fatal(p.Dir())
	}
	armed.Store(true)
	if err := h.s.MoveTo("t", 0, "/b"); err != nil {
		t.Fatal(err)
	}
	settled(p)
	armed.Store(false)
	never = ops.Load() < at
	if never && p.Dir() != "/b" {
		t.Fatalf("not moved, and nothing failed: %s", h.logs)
	}
	if errors.Is(p.Err(), ErrClosed) { // the copy could not be taken back: only a start tells which one it is
		h.restartOffline()
		p = h.partition("t", config)
	}
	eventually(t, p.Err)
	expect(t, p, want...)
	add(2)
	moveTo(t, p, "/b")
	add(2)
	expect(t, p, want...)
	if at%2 == 0 {
		h.crash()
	} else {
		h.restart()
	}
	p = h.partition("t", config)
	expect(t, p, want...)
	add(1)
	eventually(t, func() error {
		for _, dir := range h.o.Dirs {
			entries, err := m.List(dir)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if strings.HasPrefix(e.Name, "t-0") && filepath.Join(dir, e.Name) != "/b/t-0" {
					return fmt.Errorf("fault %d: %s/%s is left", at, dir, e.Name)
				}
			}
		}
		return nil
	})
	h.stop()
	return never
}

// restartOffline stops a store of which a partition is closed, and starts it.
func (h *harness) restartOffline() {
	h.t.Helper()
	h.kill()
	h.open()
}
