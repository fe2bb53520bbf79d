package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// syncCounter counts fdatasync calls on .log files.
func syncCounter() (*vfs.Faulty, *atomic.Int64, chan struct{}) {
	var n atomic.Int64
	seen := make(chan struct{}, 100)
	return &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, layout.LogSuffix) {
			n.Add(1)
			select {
			case seen <- struct{}{}:
			default:
			}
		}
		return nil
	}}, &n, seen
}

// TestRelaxedFlush: with flush.messages above 1 the high watermark moves with the append, and syncs come by count or time.
func TestRelaxedFlush(t *testing.T) {
	t.Parallel()
	fsys, syncs, seen := syncCounter()
	listener := &recordingListener{}
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.Listener = []string{"/data"}, fsys, listener })
	p := h.partition("a", func(c *Config) { c.FlushMessages = 10 })
	for i := range 9 {
		if _, err := p.Append(records(fmt.Sprint(i)), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		if p.HighWatermark() != int64(i+1) || listener.advanced.Load() != int64(i+1) {
			t.Fatalf("after %d appends: high watermark %d, %d calls of the listener", i+1, p.HighWatermark(), listener.advanced.Load())
		}
	}
	await(t, p, 9) // at once, without a sync
	if n := syncs.Load(); n != 0 {
		t.Fatalf("%d syncs before flush.messages", n)
	}
	if _, err := p.Append(records("9"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-seen
	h.s.committer.Wait()
	if p.DurableOffset() != 10 {
		t.Fatalf("durable up to %d", p.DurableOffset())
	}
	q := h.partition("b", func(c *Config) { c.FlushMessages, c.FlushMs = 1<<62, 20 })
	if _, err := q.Append(records("x"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		t.Fatal("flush.ms is over, and nothing was synced")
	}
	h.s.committer.Wait()
	if q.DurableOffset() != 1 {
		t.Fatalf("durable up to %d", q.DurableOffset())
	}
}

// TestOneCommitServesMany: appends that come while a sync runs share the next one.
func TestOneCommitServesMany(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	first, gate := make(chan struct{}), make(chan struct{})
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, layout.LogSuffix) && n.Add(1) == 1 {
			close(first)
			<-gate
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	p := h.partition("a")
	done := make(chan int64, 200)
	send := func() {
		r, err := p.Append(records("x"), AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.WhenCommitted(&Waiter{Offset: r.LastOffset + 1, Done: func(w *Waiter, err error) {
			if err != nil {
				t.Error(err)
			}
			done <- w.Offset
		}})
	}
	send()
	<-first
	for range 100 {
		send()
	}
	close(gate)
	for i := int64(1); i <= 101; i++ {
		if got := <-done; got != i {
			t.Fatalf("waiter %d came in place %d", got, i)
		}
	}
	if n.Load() != 2 {
		t.Fatalf("%d syncs for 101 appends", n.Load())
	}
}

func TestSeveralDirectories(t *testing.T) {
	t.Parallel()
	h := start(t, func(o *Options) { o.Dirs = []string{t.TempDir(), t.TempDir(), t.TempDir()} })
	count := map[string]int{}
	var wg sync.WaitGroup
	for i := range 9 {
		wg.Go(func() { // the broker makes the partitions of a topic at the same time
			if _, err := h.s.Ensure(fmt.Sprint("t", i), topicID, 0, DefaultConfig()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range 9 {
		p := h.partition(fmt.Sprint("t", i))
		put(t, p, records(fmt.Sprint(i)))
		count[p.Dir()]++
	}
	for _, d := range h.o.Dirs {
		if count[d] != 3 {
			t.Fatalf("placement: %v", count)
		}
		if _, err := os.Stat(filepath.Join(d, checkpoint.MetaName)); err != nil {
			t.Fatal(err)
		}
	}
	cluster := h.s.ClusterID()
	h.restart()
	if h.s.ClusterID() != cluster {
		t.Fatal("another cluster id")
	}
	for i := range 9 {
		expect(t, h.partition(fmt.Sprint("t", i)), fmt.Sprint(i))
	}
}

func TestForeignMeta(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stop()
	for change, want := range map[string]string{"node": "node.id 0", "cluster": "cluster.id"} {
		o := h.o
		if change == "node" {
			o.BrokerID = 5
		} else {
			o.ClusterID = "another"
		}
		if s, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %v", change, s, err)
		}
	}
}

// TestFailedRecoveryTakesOnePartitionDown: the neighbour is served, and Ensure says what is wrong.
func TestFailedRecoveryTakesOnePartitionDown(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpOpen && strings.Contains(op.Name, "/bad-0/") && strings.HasSuffix(op.Name, layout.LogSuffix) {
			return unix.EIO
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	put(t, h.partition("bad"), records("x"))
	put(t, h.partition("good"), records("y"))
	h.kill()
	failing.Store(true)
	h.open()
	expect(t, h.partition("good"), "y")
	if _, err := h.s.Ensure("bad", topicID, 0, DefaultConfig()); !errors.Is(err, ErrStorage) || !errors.Is(err, unix.EIO) {
		t.Fatalf("%v", err)
	}
	failing.Store(false)
	h.crash()
	expect(t, h.partition("bad"), "x")
}

// TestStalledDisk: appends fail fast while a commit does not return, reads go on, and all is well when it does.
func TestStalledDisk(t *testing.T) {
	t.Parallel()
	t.Run("files", func(t *testing.T) { t.Parallel(); stallDisk(t, layout.LogSuffix, -1) })
	t.Run("journal", func(t *testing.T) { t.Parallel(); stallDisk(t, ".journal", smallJournal) })
}

func stallDisk(t *testing.T, suffix string, journalBytes int64) {
	var now atomic.Int64
	now.Store(time.Now().UnixMilli())
	var armed atomic.Bool
	reached, gate := make(chan struct{}, 1), make(chan struct{})
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, suffix) && armed.CompareAndSwap(true, false) {
			reached <- struct{}{}
			<-gate
		}
		return nil
	}}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Clock = []string{"/data"}, fsys, func() time.Time { return time.UnixMilli(now.Load()) }
		o.JournalBytes = journalBytes
	})
	if journalBytes > 0 {
		h.makeJournals()
	}
	p := h.partition("a")
	put(t, p, records("0"))
	armed.Store(true)
	if _, err := p.Append(records("1"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-reached
	now.Add(limits.CommitStalledMs - 1)
	if _, err := p.Append(records("2"), AppendOptions{}); err != nil || p.Stalled() {
		t.Fatalf("before the bound: %v", err)
	}
	now.Add(1)
	if _, err := p.Append(records("3"), AppendOptions{}); !errors.Is(err, ErrStalled) || len(h.s.Stalled()) != 1 {
		t.Fatalf("beyond the bound: %v", err)
	}
	expect(t, p, "0")
	close(gate)
	await(t, p, 3)
	put(t, p, records("3"))
	expect(t, p, "0", "1", "2", "3")
	if p.Stalled() || p.Err() != nil {
		t.Fatal("the disk has returned")
	}
}

// TestStopWithAStalledDisk: Close gives up with its context, and the next start recovers.
func TestStopWithAStalledDisk(t *testing.T) {
	t.Parallel()
	var armed atomic.Bool
	reached, gate := make(chan struct{}, 1), make(chan struct{})
	m := vfs.NewMem()
	fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, layout.LogSuffix) && armed.CompareAndSwap(true, false) {
			reached <- struct{}{}
			<-gate
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	p := h.partition("a")
	put(t, p, records("0"))
	armed.Store(true)
	if _, err := p.Append(records("1"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-reached
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := h.s.Close(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if _, err := m.Stat("/data/" + layout.CleanShutdownName); err == nil {
		t.Fatal("marked as clean")
	}
	close(gate)
	await(t, p, 2)
	h.open()
	expect(t, h.partition("a"), "0", "1")
}
