package logstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

var faultStride = flag.Int("fault.stride", 7, "each so-manieth operation of the run fails; 1: each one, in a run of its own")

// faultyRun is a run of two idempotent producers that send until everything is acknowledged, and what they were told.
type faultyRun struct {
	t      *testing.T
	m      *vfs.Mem
	h      *harness
	ops    atomic.Int64 // operations since the store was open
	from   atomic.Int64 // the first that fails, 0: none
	count  int64        // how many do, at most: each try to recover takes one
	err    error
	failed atomic.Int64

	acked [2][]int64 // offset of each record, by producer
}

const faultRecords = 24

// before fails what would need room, or everything.
func (r *faultyRun) before(op vfs.Op) error {
	n, from := r.ops.Add(1), r.from.Load()
	if from == 0 || n < from || n >= from+r.count {
		return nil
	}
	if errors.Is(r.err, unix.ENOSPC) {
		switch op.Kind {
		case vfs.OpWrite, vfs.OpMkdir:
		case vfs.OpCreate:
			if _, err := r.m.Stat(op.Name); !errors.Is(err, fs.ErrNotExist) {
				return nil
			}
		default:
			return nil // it frees room, or needs none
		}
	}
	r.failed.Add(1)
	if op.Kind == vfs.OpWrite {
		return &vfs.ShortWrite{Len: op.Len / 2, Err: r.err}
	}
	return r.err
}

func faultConfig(c *Config) { c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelayMs = 700, 100, 0 }

func startFaulty(t *testing.T, journal bool, from, count int64, err error) *faultyRun {
	r := &faultyRun{t: t, m: vfs.NewRecording(), err: err, count: count}
	makeDataDir(t, r.m)
	r.h = start(t, func(o *Options) {
		o.Dirs, o.FS, o.ReopenIntervalMs, o.Cleaner, o.JournalBytes = []string{"/data"}, &vfs.Faulty{FS: r.m, Before: r.before}, 1, byHand, -1
		if journal {
			o.JournalBytes = smallJournal
		}
		if from%3 == 1 {
			o.windows = eagerWindows()
		} else if from%3 == 2 {
			o.windows = eagerPads()
		}
	})
	if journal {
		r.h.makeJournals()
	}
	r.h.partition("t", faultConfig)
	r.ops.Store(0)
	r.from.Store(from)
	return r
}

func (r *faultyRun) record(producer int, sequence int) []byte {
	return produced(int64(10+producer), 0, int32(sequence), false, fmt.Sprintf("%d:%d", producer, sequence))
}

// sendWindow sends up to three batches of a producer before it waits for the first, as clients do, and begins again with the first
// that failed. It says how many are acknowledged now.
func (r *faultyRun) sendWindow(p *Partition, producer int) error {
	first := len(r.acked[producer])
	var sent []AppendResult
	var failure error
	for s := first; s < min(first+3, faultRecords); s++ {
		result, err := p.Append(r.record(producer, s), AppendOptions{})
		if err != nil {
			if errors.Is(err, ErrOutOfOrderSequence) && len(sent) == 0 {
				return fmt.Errorf("producer %d, batch %d: what was acknowledged before it is not known: %w", producer, s, err)
			}
			failure = err
			break
		}
		sent = append(sent, result)
	}
	for _, result := range sent {
		if err := awaitErr(p, result.LastOffset+1); err != nil {
			failure = err
			break
		}
		r.acked[producer] = append(r.acked[producer], result.BaseOffset)
	}
	if failure != nil && !errors.Is(failure, ErrStorage) && !errors.Is(failure, ErrStalled) && !errors.Is(failure, ErrOutOfOrderSequence) {
		return failure
	}
	if failure != nil {
		eventually(r.t, p.Err) // a partition that went offline comes back
	}
	return nil
}

// run sends everything, with checkpoints in between.
func (r *faultyRun) run() error {
	p := r.h.s.Get("t", 0)
	deadline := time.Now().Add(30 * time.Second)
	for turn := 0; len(r.acked[0]) < faultRecords || len(r.acked[1]) < faultRecords; turn++ {
		if err := r.sendWindow(p, turn%2); err != nil {
			return err
		}
		if turn%5 == 4 {
			r.h.s.checkpoint()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the disk is well again, and the partition is not: %v", p.Err())
		}
	}
	return nil
}

// verify reads the log: every record once, in order, where the producer was told.
func (r *faultyRun) verify(p *Partition) error {
	got := map[string]int64{}
	next := [2]int{}
	for offset := p.LogStartOffset(); offset < p.LogEndOffset(); {
		s, err := p.Read(offset, 1<<20, true, ReadUncommitted)
		if err != nil || s.Len == 0 {
			return fmt.Errorf("read of %d: %d bytes, %w", offset, s.Len, err)
		}
		for rest := content(r.t, &s); len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err != nil || v.Validate() != nil {
				return fmt.Errorf("at %d: %v, %v", offset, err, v.Validate())
			}
			it, err := v.Records(1 << 20)
			if err != nil {
				return err
			}
			for it.Next() {
				value := string(it.Record().Value)
				producer := int(v.ProducerID() - 10)
				if want := fmt.Sprintf("%d:%d", producer, next[producer]); value != want {
					it.Close()
					return fmt.Errorf("offset %d holds %s, want %s (%d acknowledged)", it.Record().Offset, value, want, len(r.acked[producer]))
				}
				next[producer]++
				got[value] = it.Record().Offset
			}
			it.Close()
			offset, rest = v.LastOffset()+1, after
		}
		s.Release()
	}
	for producer, offsets := range r.acked {
		for sequence, offset := range offsets {
			if at, is := got[fmt.Sprintf("%d:%d", producer, sequence)]; !is || at != offset {
				return fmt.Errorf("batch %d of producer %d was acknowledged at %d, it is at %d (%v)", sequence, producer, offset, at, is)
			}
		}
	}
	return nil
}

// try makes one run and looks at the log in place, after a power failure and after a clean stop.
func (r *faultyRun) try() error {
	err := r.run()
	r.from.Store(0)
	if err != nil {
		return err
	}
	if err := r.verify(r.h.s.Get("t", 0)); err != nil {
		return fmt.Errorf("in place: %w", err)
	}
	clone, err := r.m.Clone(nil)
	if err != nil {
		return err
	}
	s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
	if err != nil {
		return err
	}
	if err = r.verify(s.Get("t", 0)); err != nil {
		err = fmt.Errorf("after a power failure: %w", err)
	}
	if err = errors.Join(err, s.Close(context.Background()), clone.Close()); err != nil {
		return err
	}
	r.h.restart()
	if err := r.verify(r.h.s.Get("t", 0)); err != nil {
		return fmt.Errorf("after a clean stop: %w", err)
	}
	return nil
}

// TestExactlyOnceOverFaults: whichever operation of the file system fails, once or for a while, for want of room or for
// another reason, producers that try again find each of their records in the log once, in order, where they were told.
func TestExactlyOnceOverFaults(t *testing.T) {
	t.Parallel()
	phase := time.Now().UnixNano()
	t.Logf("phase %d, stride %d", phase, *faultStride)
	for _, tc := range []struct {
		name    string
		journal bool
		count   int64
		err     error
	}{
		{"full once", false, 1, unix.ENOSPC}, {"full for a while", false, 6, unix.ENOSPC}, {"an error", false, 1, unix.EIO}, {"errors for a while", false, 6, unix.EIO},
		{"full once, journal", true, 1, unix.ENOSPC}, {"full for a while, journal", true, 6, unix.ENOSPC}, {"an error, journal", true, 1, unix.EIO}, {"errors for a while, journal", true, 6, unix.EIO},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			whole := startFaulty(t, tc.journal, 0, 0, nil)
			if err := whole.run(); err != nil {
				t.Fatal(err)
			}
			ops := whole.ops.Load()
			whole.h.stop()
			runs, faults := 0, int64(0)
			for k := 1 + phase%int64(*faultStride); k <= ops; k += int64(*faultStride) {
				r := startFaulty(t, tc.journal, k, tc.count, tc.err)
				if err := r.try(); err != nil {
					t.Errorf("operation %d of %d: %v", k, ops, err)
				}
				r.h.stop()
				if err := r.m.Close(); err != nil {
					t.Error(err)
				}
				runs++
				faults += r.failed.Load()
			}
			t.Logf("%d runs of %d operations, %d failed", runs, ops, faults)
		})
	}
}
