package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

type backListener struct {
	recordingListener
	back chan *Partition
}

func (l *backListener) Recovered(p *Partition) { l.back <- p }

// TestPartitionComesBackFromAFailedSync: the failed commit is as if it had never been tried, the partition stays offline
// while the disk fails, and serves again by itself when it is back; the client's retry is written; a crash after that keeps
// every acknowledged record.
func TestPartitionComesBackFromAFailedSync(t *testing.T) {
	t.Parallel()
	for _, relaxed := range []bool{false, true} {
		m := vfs.NewRecording()
		makeDataDir(t, m)
		var failing atomic.Bool
		tried := make(chan struct{}, 1000)
		fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
			if failing.Load() && op.Kind == vfs.OpDatasync && strings.Contains(op.Name, "/bad-0/") {
				m.LosePages(op.Name)
				tried <- struct{}{}
				return unix.EIO
			}
			return nil
		}}
		listener := &backListener{back: make(chan *Partition, 1)}
		h := start(t, func(o *Options) {
			o.Dirs, o.FS, o.Listener, o.ReopenIntervalMs = []string{"/data"}, fsys, listener, 5
		})
		policy := func(c *Config) {
			if c.SegmentBytes = 200; relaxed {
				c.FlushMessages = 1 << 40
			}
		}
		p := h.partition("bad", policy)
		put(t, p, produced(7, 0, 0, false, "one"))
		p.mu.Lock()
		h.s.committer.Enqueue(&p.commits)
		p.mu.Unlock()
		h.s.committer.Wait()
		failing.Store(true)
		for i, value := range []string{"two", "three"} { // "three" stands in a new segment
			if _, err := p.Append(produced(7, 0, int32(i+1), false, value), AppendOptions{}); err != nil && !errors.Is(err, ErrStorage) {
				t.Fatal(err)
			}
		}
		p.mu.Lock()
		h.s.committer.Enqueue(&p.commits)
		p.mu.Unlock()
		for range 3 {
			<-tried
		}
		if err := p.Err(); !errors.Is(err, ErrStorage) {
			t.Fatalf("while the disk fails: %v", err)
		}
		if len(h.s.Offline()) != 1 {
			t.Fatalf("offline: %v", h.s.Offline())
		}
		failing.Store(false)
		if got := <-listener.back; got != p {
			t.Fatal("another partition came back")
		}
		want := []string{"one"}
		if relaxed {
			want = values(t, p, 0, ReadUncommitted)
			if !slices.Equal(want, []string{"one", "two"}) && !slices.Equal(want, []string{"one", "two", "three"}) {
				t.Fatalf("relaxed: %v", want)
			}
		} else if got := values(t, p, 0, ReadUncommitted); !slices.Equal(got, want) {
			t.Fatalf("%v", got)
		}
		for i := p.LogEndOffset(); i < 4; i++ {
			value := fmt.Sprint("again", i)
			if r := put(t, p, produced(7, 0, int32(i), false, value)); r.Duplicate || r.BaseOffset != i {
				t.Fatalf("the retry: %+v", r)
			}
			want = append(want, value)
		}
		p.mu.Lock()
		h.s.committer.Enqueue(&p.commits)
		p.mu.Unlock()
		h.s.committer.Wait()
		clone, err := m.Clone(nil)
		if err != nil {
			t.Fatal(err)
		}
		h.stop()
		h.o.FS = clone
		h.open()
		if got := values(t, h.partition("bad", policy), 0, ReadUncommitted); !slices.Equal(got, want) {
			t.Fatalf("relaxed %v: after a power failure %v, want %v", relaxed, got, want)
		}
	}
}

func makeDataDir(t *testing.T, m *vfs.Mem) {
	t.Helper()
	if err := m.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
}

// TestFullDisk: appends fail and leave nothing; reads, deletion of a topic, retention and a restart work; when space
// returns appends work without a restart.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	m := vfs.NewMem()
	var full atomic.Bool
	fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		if !full.Load() {
			return nil
		}
		switch op.Kind {
		case vfs.OpWrite:
			return &vfs.ShortWrite{Len: op.Len / 2, Err: unix.ENOSPC}
		case vfs.OpCreate:
			if _, err := m.Stat(op.Name); errors.Is(err, fs.ErrNotExist) {
				return unix.ENOSPC
			}
		case vfs.OpMkdir:
			return unix.ENOSPC
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	small := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelayMs = 300, 100, 0 }
	p, gone := h.partition("a", small), h.partition("gone")
	put(t, gone, records("x"))
	for i := range 12 {
		put(t, p, produced(7, 0, int32(i), false, fmt.Sprint(i)))
	}
	check := func(first, end int) {
		t.Helper()
		var want []string
		for i := first; i < end; i++ {
			want = append(want, fmt.Sprint(i))
		}
		if got := values(t, p, int64(first), ReadUncommitted); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	refused := func(end int) {
		t.Helper()
		if _, err := p.Append(produced(7, 0, int32(end), false, "no"), AppendOptions{}); !errors.Is(err, ErrStorage) || !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("append on a full disk: %v", err)
		}
		if p.LogEndOffset() != int64(end) || p.Err() != nil {
			t.Fatalf("end %d, %v", p.LogEndOffset(), p.Err())
		}
	}
	full.Store(true)
	refused(12)
	check(0, 12)
	if _, err := h.s.Ensure("new", [16]byte{9}, 0, DefaultConfig()); !errors.Is(err, ErrStorage) {
		t.Fatalf("a new partition on a full disk: %v", err)
	}
	if err := h.s.Delete("gone", 0); err != nil {
		t.Fatalf("deletion on a full disk: %v", err)
	}
	c := p.Config()
	c.RetentionBytes = 400
	p.SetConfig(c)
	h.s.applyRetention()
	start := int(p.LogStartOffset())
	if start == 0 {
		t.Fatal("retention did nothing on a full disk")
	}
	check(start, 12)
	h.s.checkpoint()
	if low, err := p.DeleteRecords(int64(min(start+3, 12))); err != nil && !errors.Is(err, ErrStorage) {
		t.Fatalf("DeleteRecords on a full disk: %d %v", low, err)
	}
	for _, clean := range []bool{false, true} {
		if clean {
			err := h.s.Close(context.Background())
			if err == nil || !errors.Is(err, unix.ENOSPC) {
				t.Fatalf("a stop on a full disk: %v", err)
			}
		} else {
			h.kill()
		}
		h.open()
		p = h.partition("a", small)
		start = max(start, int(p.LogStartOffset()))
		check(start, 12)
		refused(12)
	}
	full.Store(false)
	if r := put(t, p, produced(7, 0, 12, false, "12")); r.BaseOffset != 12 || r.Duplicate {
		t.Fatalf("when space is back: %+v", r)
	}
	check(start, 13)
	h.restart()
	p = h.partition("a", small)
	check(start, 13)
}

// TestStalledDiskStopsAllThatWaitForIt: with every flush worker hanging, appends to a partition whose commit only waits in
// the queue fail fast, too; reads go on; when the disk is back so is everything.
func TestStalledDiskStopsAllThatWaitForIt(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var armed atomic.Bool
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if armed.Load() && op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, layout.LogSuffix) {
			<-gate
		}
		return nil
	}}
	var laterMs atomic.Int64
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.FlushWorkers = []string{"/data"}, fsys, 1
		o.Clock = func() time.Time { return time.Now().Add(time.Duration(laterMs.Load()) * time.Millisecond) }
	})
	first, queued := h.partition("first"), h.partition("queued")
	put(t, first, records("a"))
	put(t, queued, records("a"))
	armed.Store(true)
	for _, p := range []*Partition{first, queued} {
		if _, err := p.Append(records("b"), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	laterMs.Store(31_000)
	for _, p := range []*Partition{first, queued} {
		if _, err := p.Append(records("c"), AppendOptions{}); !errors.Is(err, ErrStalled) {
			t.Fatalf("%s: %v", p.topic, err)
		}
		if got := values(t, p, 0, ReadUncommitted); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("%s: %v", p.topic, got)
		}
	}
	if got := h.s.Stalled(); len(got) != 2 {
		t.Fatalf("%d partitions are stalled", len(got))
	}
	armed.Store(false)
	close(gate)
	for _, p := range []*Partition{first, queued} {
		await(t, p, 2)
		put(t, p, records("d"))
		if got := values(t, p, 0, ReadUncommitted); !slices.Equal(got, []string{"a", "b", "d"}) {
			t.Fatalf("%s: %v", p.topic, got)
		}
	}
	if len(h.s.Stalled()) != 0 {
		t.Fatal("still stalled")
	}
}
