package logstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// crashModel is what a producer of single records "0", "1", … knows: how many were tried and how many acknowledged.
type crashModel struct {
	tried, acked, start atomic.Int64
	// whole: nothing is deleted, so every segment below a recovery point has its index. (Of one that is being deleted the index goes first.)
	whole bool
}

// TestCrashAtEveryOperation takes clones before every operation of a scenario (appends, rolls, checkpoints, DeleteRecords,
// clean stop, start) and recovers each: every acknowledged record is there, what else is there was tried, in order, and
// the log goes on.
func TestCrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	m := vfs.NewRecording()
	var model crashModel
	var mu sync.Mutex // serialises crash points and guards rng
	var states atomic.Int64
	var armed atomic.Bool
	hook := func(op vfs.Op) error {
		if !armed.Load() {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		for _, choose := range []func(int) int{nil, rng.IntN, rng.IntN} {
			acked, start := model.acked.Load(), model.start.Load()
			clone, err := m.Clone(choose)
			if err != nil {
				t.Error(err)
				return nil
			}
			states.Add(1)
			if err := verifyClone(clone, acked, start, &model); err != nil {
				t.Errorf("crash before %+v: %v", op, err)
			}
			if err := clone.Close(); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	fsys := &vfs.Faulty{FS: m, Before: hook}
	if err := m.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	armed.Store(true)
	small := func(c *Config) { c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelayMs = 400, 100, 0 }
	p := h.partition("t", small)
	produce := func(n int) {
		for range n {
			i := model.tried.Add(1) - 1
			r := put(t, p, produced(7, 0, int32(i), false, fmt.Sprint(i)))
			if r.BaseOffset != i {
				t.Fatalf("record %d got offset %d", i, r.BaseOffset)
			}
			model.acked.Store(i + 1)
		}
	}
	produce(17)
	h.s.checkpoint()
	produce(4)
	if _, err := p.DeleteRecords(9); err != nil {
		t.Fatal(err)
	}
	model.start.Store(9)
	if _, err := p.DeleteRecords(12); err != nil { // inside a segment: nothing but the checkpoint holds it
		t.Fatal(err)
	}
	model.start.Store(12)
	produce(3)
	h.restart()
	p = h.partition("t", small)
	produce(9)
	armed.Store(false)
	t.Logf("%d states", states.Load())
}

func verifyClone(clone *vfs.Mem, acked, logStart int64, model *crashModel, dirs ...string) error {
	logs := new(logBuffer)
	s, err := Open(context.Background(), Options{Dirs: append([]string{"/data"}, dirs...), FS: clone, Logger: slog.New(slog.NewTextHandler(logs, nil))})
	if err != nil {
		return err
	}
	p, err := s.Ensure("t", topicID, 0, DefaultConfig())
	if err != nil {
		return err
	}
	if said := logs.String(); model.whole && strings.Contains(said, "reason=missing") {
		return fmt.Errorf("an index whose segment was below the recovery point is gone:\n%s", said)
	}
	end := p.LogEndOffset()
	tried := model.tried.Load()
	if end < acked || end > tried {
		return fmt.Errorf("end %d, %d acknowledged, %d tried", end, acked, tried)
	}
	if p.HighWatermark() != end || p.LogStartOffset() < logStart && acked > 0 {
		return fmt.Errorf("high watermark %d of %d, start %d, was %d", p.HighWatermark(), end, p.LogStartOffset(), logStart)
	}
	next := p.LogStartOffset()
	for next < end {
		slice, err := p.Read(next, 1<<20, true, ReadUncommitted)
		if err != nil {
			return err
		}
		if slice.Len == 0 {
			return fmt.Errorf("nothing at %d although the log ends at %d", next, end)
		}
		for rest := slice.Mem; len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err == nil {
				err = v.Validate()
			}
			if err != nil {
				return fmt.Errorf("at offset %d: %w", next, err)
			}
			rest = after
			it, err := v.Records(1000)
			if err != nil {
				return err
			}
			it.Next()
			if string(it.Record().Value) != fmt.Sprint(v.BaseOffset()) {
				return fmt.Errorf("offset %d holds %q", v.BaseOffset(), it.Record().Value)
			}
			it.Close()
			next = v.LastOffset() + 1
		}
		slice.Release()
	}
	settled(p) // a move that the crash interrupted goes on
	// The log goes on, and the last record, sent again, is known.
	if end > 0 {
		if r, err := p.Append(produced(7, 0, int32(end-1), false, fmt.Sprint(end-1)), AppendOptions{}); end > p.LogStartOffset() && (err != nil || !r.Duplicate || r.BaseOffset != end-1) {
			return fmt.Errorf("the last record sent again: %+v %w", r, err)
		}
	}
	if r, err := p.Append(produced(7, 0, int32(end), false, "next"), AppendOptions{}); err != nil || r.BaseOffset != end {
		return fmt.Errorf("the next record: %+v %w", r, err)
	}
	if err := awaitErr(p, end+1); err != nil {
		return err
	}
	return s.Close(context.Background())
}

// TestFailedWriteLeavesNothing: a write that fails half way, and the retry that must be written and not taken for a
// duplicate.
func TestFailedWriteLeavesNothing(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	var kinds sync.Map
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpWrite && (strings.HasSuffix(op.Name, layout.LogSuffix) || strings.Contains(op.Name, layout.SpareName)) { // made ahead
			kinds.Store(op.Kind, true)
			return &vfs.ShortWrite{Len: 30, Err: unix.ENOSPC}
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS = []string{"/data"}, fsys })
	p := h.partition("a", func(c *Config) { c.SegmentBytes = 300 })
	for i := int32(0); i < 9; i++ {
		failing.Store(true)
		_, err := p.Append(produced(7, 0, i, false, "x"), AppendOptions{})
		if !errors.Is(err, ErrStorage) || !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("full disk: %v", err)
		}
		if p.LogEndOffset() != int64(i) {
			t.Fatalf("end is %d after a failed append at %d", p.LogEndOffset(), i)
		}
		failing.Store(false)
		r, err := p.Append(produced(7, 0, i, false, "x"), AppendOptions{})
		if err != nil || r.Duplicate || r.BaseOffset != int64(i) {
			t.Fatalf("the retry of %d: %+v %v", i, r, err)
		}
	}
	await(t, p, 9)
	h.crash()
	if p = h.partition("a"); len(values(t, p, 0, ReadUncommitted)) != 9 {
		t.Fatal("nine records were acknowledged")
	}
}

// TestFailedSyncClosesThePartition: nothing of the failed commit becomes visible, waiters hear of it, the neighbour goes
// on, and nothing but a recovery opens the partition again (here: the next start).
func TestFailedSyncClosesThePartition(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpDatasync && strings.Contains(op.Name, "/bad-0/") {
			return unix.EIO
		}
		return nil
	}}
	listener := &recordingListener{}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Listener, o.ReopenIntervalMs = []string{"/data"}, fsys, listener, 1<<30
	})
	bad, good := h.partition("bad"), h.partition("good")
	put(t, bad, records("durable"))
	failing.Store(true)
	if _, err := bad.Append(records("lost"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := awaitErr(bad, 2); !errors.Is(err, ErrStorage) || !errors.Is(err, unix.EIO) {
		t.Fatalf("the waiter heard %v", err)
	}
	failing.Store(false)
	if _, err := bad.Append(records("more"), AppendOptions{}); !errors.Is(err, ErrStorage) {
		t.Fatalf("append after a failed sync: %v", err)
	}
	if _, err := bad.Read(0, 100, true, ReadUncommitted); !errors.Is(err, ErrStorage) {
		t.Fatalf("read after a failed sync: %v", err)
	}
	if bad.HighWatermark() != 1 {
		t.Fatalf("high watermark %d", bad.HighWatermark())
	}
	put(t, good, records("fine"))
	if listener.failed.Load() != 1 {
		t.Fatalf("the listener heard of %d failures", listener.failed.Load())
	}
	h.restart()
	bad = h.partition("bad")
	if got := values(t, bad, 0, ReadUncommitted); got[0] != "durable" {
		t.Fatalf("%v", got)
	}
}

type recordingListener struct{ advanced, failed atomic.Int64 }

func (l *recordingListener) Advanced(*Partition)      { l.advanced.Add(1) }
func (l *recordingListener) Failed(*Partition, error) { l.failed.Add(1) }

// TestNothingIsVisibleBeforeItIsDurable holds a sync back and looks.
func TestNothingIsVisibleBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	gate, reached := make(chan struct{}), make(chan struct{}, 10)
	var armed atomic.Bool
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.OpDatasync && armed.Load() && strings.HasSuffix(op.Name, layout.LogSuffix) {
			reached <- struct{}{}
			<-gate
		}
		return nil
	}}
	h := start(t, func(o *Options) { o.Dirs, o.FS, o.Logger = []string{"/data"}, fsys, slog.New(slog.DiscardHandler) })
	p := h.partition("a")
	armed.Store(true)
	if _, err := p.Append(produced(7, 0, 0, false, "x"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-reached
	// Appends, reads and watermarks go on while the disk is away.
	if r, err := p.Append(produced(7, 0, 0, false, "x"), AppendOptions{}); err != nil || !r.Duplicate {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := p.Append(produced(7, 0, 1, false, "y"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if p.HighWatermark() != 0 || p.LogEndOffset() != 2 {
		t.Fatalf("high watermark %d, end %d", p.HighWatermark(), p.LogEndOffset())
	}
	if s, err := p.Read(0, 1000, true, ReadUncommitted); err != nil || s.Len != 0 {
		t.Fatalf("a consumer sees %d bytes that a crash would take, %v", s.Len, err)
	}
	done := make(chan error, 1)
	p.WhenCommitted(&Waiter{Offset: 1, Done: func(_ *Waiter, err error) { done <- err }})
	select {
	case <-done:
		t.Fatal("the duplicate is acknowledged before the original is durable")
	default:
	}
	armed.Store(false)
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	await(t, p, 2)
	expect(t, p, "x", "y")
}
