package logstore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// jumping is a clock that somebody sets, beside a time that goes on.
type jumping struct {
	clockMs, upMs atomic.Int64
}

const (
	jumpStartMs = 1_800_000_000_000
	tenYearsMs  = 10 * 365 * 24 * 3_600_000
)

func (j *jumping) options(o *Options) {
	j.clockMs.Store(jumpStartMs)
	o.Clock = func() time.Time { return time.UnixMilli(j.clockMs.Load()) }
	o.Uptime = func() time.Duration { return time.Duration(j.upMs.Load()) * time.Millisecond }
}

// TestClockJumps: a clock that is set back or forward by years loses nothing that Kafka keeps, and what waits for a time that
// passes goes on: deleted files go, a silent disk is seen.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, jumpMs := range map[string]int64{"back": -tenYearsMs, "forward": tenYearsMs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j jumping
			m := vfs.NewMem()
			h := start(t, inMemory, j.options, func(o *Options) { o.FS = m })
			kept := func(c *Config) {
				c.SegmentBytes, c.RetentionMs, c.RetentionBytes, c.FileDeleteDelayMs = 300, -1, -1, 1000
				c.TimestampAfterMaxMs = -1
			}
			p := h.partition("t", kept)
			var want []string
			sequence := int32(0)
			add := func() {
				t.Helper()
				b := batch.Builder{HasProducer: true, ProducerID: 7, BaseSequence: sequence}
				b.Append(j.clockMs.Load(), nil, []byte(fmt.Sprint(sequence)))
				put(t, p, build(&b))
				want = append(want, fmt.Sprint(sequence))
				sequence++
			}
			for range 6 {
				add()
			}
			j.clockMs.Add(jumpMs)
			h.s.applyRetention() // forgets the producer when the clock went forward, as Kafka does
			for range 6 {
				add()
			}
			j.clockMs.Add(-jumpMs)
			add()
			h.s.applyRetention()
			if r, err := p.Append(produced(7, 0, sequence-1, false, "again"), AppendOptions{}); err != nil || !r.Duplicate {
				t.Errorf("the newest batch sent again: %+v %v", r, err)
			}
			expect(t, p, want...)
			h.crash()
			p = h.partition("t", kept)
			expect(t, p, want...)

			// What was deleted goes when its time has passed, whatever the clock says.
			if _, err := p.DeleteRecords(6); err != nil {
				t.Fatal(err)
			}
			j.clockMs.Add(jumpMs)
			left := func() (n int) {
				entries, err := m.List(p.path())
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if strings.HasSuffix(e.Name, layout.DeletedSuffix) {
						n++
					}
				}
				return n
			}
			if left() == 0 {
				t.Fatal("nothing was deleted: the test proves nothing")
			}
			j.upMs.Add(1001)
			eventually(t, func() error {
				h.s.janitor.Signal()
				if n := left(); n > 0 {
					return fmt.Errorf("%d files are left", n)
				}
				return nil
			})
		})
	}
}

// TestClockJumpsDuringACompaction: the newest of each key stays, and tombstones go when the clock says so, as in Kafka.
func TestClockJumpsDuringACompaction(t *testing.T) {
	t.Parallel()
	for name, jumpMs := range map[string]int64{"back": -tenYearsMs, "forward": tenYearsMs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j jumping
			var armed atomic.Bool
			m := vfs.NewMem()
			fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
				if strings.HasSuffix(op.Name, layout.CleanedSuffix) && armed.Swap(false) {
					j.clockMs.Add(jumpMs)
				}
				return nil
			}}
			h := start(t, inMemory, j.options, func(o *Options) { o.FS = fsys })
			p := h.partition("t", compacted)
			for i := range 12 {
				put(t, p, keyed(0, j.clockMs.Load(), fmt.Sprintf("k%d=%d", i%3, i), "gone"))
			}
			for range 3 {
				armed.Store(true)
				cleanNow(t, p)
				put(t, p, keyed(0, j.clockMs.Load(), "k0=last", "k1=last"))
				put(t, p, keyed(0, j.clockMs.Load(), "k0=last", "k2=last"))
			}
			last := map[string]string{}
			collect := func() {
				clear(last)
				eachRecord(t, p, func(key, value string) { last[key] = value })
			}
			for _, again := range []func(){func() {}, h.restart, h.crash} {
				again()
				p = h.partition("t", compacted)
				collect()
				if fmt.Sprint(last["k0"], last["k1"], last["k2"]) != "lastlastlast" {
					t.Errorf("%v", last)
				}
			}
		})
	}
}

// eachRecord reads the log as a consumer that knows keys.
func eachRecord(t *testing.T, p *Partition, f func(key, value string)) {
	t.Helper()
	for offset := p.LogStartOffset(); offset < p.LogEndOffset(); {
		s, err := p.Read(offset, 1<<20, true, ReadUncommitted)
		if err != nil || s.Len == 0 {
			t.Fatalf("read of %d: %d bytes, %v", offset, s.Len, err)
		}
		for rest := content(t, &s); len(rest) > 0; {
			v, after, err := batch.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			it, err := v.Records(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			for it.Next() {
				f(string(it.Record().Key), string(it.Record().Value))
			}
			it.Close()
			offset, rest = v.LastOffset()+1, after
		}
		s.Release()
	}
}

// TestStalledDiskWhateverTheClock: how long a commit takes is not measured by a clock that is set.
func TestStalledDiskWhateverTheClock(t *testing.T) {
	t.Parallel()
	var j jumping
	hold, began := make(chan struct{}), make(chan struct{}, 1)
	var holding atomic.Bool
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: func(op vfs.Op) error {
		if holding.Load() && op.Kind == vfs.OpDatasync {
			select {
			case began <- struct{}{}:
			default:
			}
			<-hold
		}
		return nil
	}}
	h := start(t, inMemory, j.options, func(o *Options) { o.FS = fsys })
	p := h.partition("t")
	put(t, p, records("0"))
	holding.Store(true)
	if _, err := p.Append(stamped(jumpStartMs, "1"), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-began
	j.clockMs.Add(tenYearsMs)
	if _, err := p.Append(stamped(jumpStartMs, "2"), AppendOptions{}); err != nil || p.Stalled() {
		t.Errorf("the clock was set forward, and the disk counts as silent: %v", err)
	}
	j.clockMs.Add(-2 * tenYearsMs)
	j.upMs.Add(limits.CommitStalledMs)
	if _, err := p.Append(stamped(j.clockMs.Load(), "3"), AppendOptions{}); !errors.Is(err, ErrStalled) || !p.Stalled() {
		t.Errorf("the clock was set back, and the disk counts as well: %v", err)
	}
	close(hold)
	await(t, p, 3)
}
