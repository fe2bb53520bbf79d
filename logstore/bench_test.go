package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

// BenchmarkAppend is validation, patch, write and index, without the commit.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			h := start(b)
			p := h.partition("a", func(c *Config) { c.FlushMessages, c.SegmentBytes = 1<<60, 1<<30 })
			plain := stamped(h.s.nowMs(), strings.Repeat("x", size))
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				batch.View(plain).SetBaseOffset(0)
				if _, err := p.Append(plain, AppendOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRead is a lookup at the tail and in the middle, without sending.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{100, 64 << 10} {
		h := start(b)
		p := h.partition("a", func(c *Config) { c.FlushMessages = 1 << 60 })
		plain := stamped(h.s.nowMs(), strings.Repeat("x", size))
		for range 1000 {
			batch.View(plain).SetBaseOffset(0)
			if _, err := p.Append(plain, AppendOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		for name, at := range map[string]int64{"tail": 999, "middle": 500} {
			b.Run(fmt.Sprint(size, "/", name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := p.ReadNoWait(at, 1<<20, true, ReadUncommitted)
					if errors.Is(err, ErrWouldBlock) { // once: the index is opened
						s, err = p.Read(at, 1<<20, true, ReadUncommitted)
					}
					if err != nil || s.Len == 0 {
						b.Fatal(err)
					}
					s.Release()
				}
			})
		}
	}
}

// BenchmarkCommit1Partitions and its siblings: append to all partitions, group commit, all acknowledged, over and over, each
// beside a bare 4 KB append + fdatasync loop of the same stretch of time. Set -test.benchtime by time, and TMPDIR to the
// volume.
func BenchmarkCommit1Partitions(b *testing.B)    { benchmarkCommit(b, 1) }
func BenchmarkCommit10Partitions(b *testing.B)   { benchmarkCommit(b, 10) }
func BenchmarkCommit100Partitions(b *testing.B)  { benchmarkCommit(b, 100) }
func BenchmarkCommit1000Partitions(b *testing.B) { benchmarkCommit(b, 1000) }

// BenchmarkCommitSpread1 and its siblings: one batch at a time, to one partition after the other, as producers at a fixed rate
// give them; the latency of each.
func BenchmarkCommitSpread1(b *testing.B)    { benchmarkSpread(b, 1) }
func BenchmarkCommitSpread100(b *testing.B)  { benchmarkSpread(b, 100) }
func BenchmarkCommitSpread1000(b *testing.B) { benchmarkSpread(b, 1000) }

func benchmarkCommit(b *testing.B, partitions int) {
	h := start(b, func(o *Options) { o.JournalBytes = 0 }) // as a broker
	c := newCommitted(b, h, partitions, 4000)
	c.round(b)
	awaitWriteBack(b, h.s.dirs[0].journal)
	compare(b, h, func() { c.round(b) })
}

func benchmarkSpread(b *testing.B, partitions int) {
	h := start(b, func(o *Options) { o.JournalBytes = 0 }) // as a broker
	c := newCommitted(b, h, partitions, 4000)
	c.round(b)
	awaitWriteBack(b, h.s.dirs[0].journal)
	one, next := newCommittedOf(c, 0), 0
	compare(b, h, func() {
		one.parts[0], one.batches[0] = c.parts[next], c.batches[next]
		next = (next + 1) % partitions
		one.round(b)
	})
}

// newCommittedOf is a round of one partition.
func newCommittedOf(c *committed, i int) *committed {
	one := &committed{done: make(chan struct{}, 1), parts: c.parts[i : i+1 : i+1], batches: c.batches[i : i+1 : i+1], waiters: make([]Waiter, 1)}
	one.parts, one.batches = slices.Clone(one.parts), slices.Clone(one.batches)
	one.waiters[0].Done = func(*Waiter, error) { one.done <- struct{}{} }
	return one
}

// compare alternates blocks of the commit with blocks of the bare loop and reports both.
func compare(b *testing.B, h *harness, commit func()) {
	f, err := vfs.OS.OpenFile(filepath.Join(h.o.Dirs[0], "bare"), vfs.Create)
	if err != nil {
		b.Fatal(err)
	}
	page := []byte(strings.Repeat("x", 4096))
	at := int64(0)
	bare := func() {
		if _, err := f.WriteAt(page, at); err != nil {
			b.Fatal(err)
		}
		if err := f.Datasync(); err != nil {
			b.Fatal(err)
		}
		at += int64(len(page))
	}
	var took, bareTook []time.Duration
	for i := 0; b.Loop(); i++ {
		started := time.Now()
		commit()
		took = append(took, time.Since(started))
		if i%100 == 0 {
			b.StopTimer()
			for range 30 {
				started := time.Now()
				bare()
				bareTook = append(bareTook, time.Since(started))
			}
			b.StartTimer()
		}
	}
	slices.Sort(took)
	slices.Sort(bareTook)
	quantile := func(d []time.Duration, q float64) float64 { return float64(d[int(q*float64(len(d)-1))]) / 1e6 }
	b.ReportMetric(quantile(took, 0.5), "p50-ms")
	b.ReportMetric(quantile(took, 0.99), "p99-ms")
	b.ReportMetric(quantile(took, 0.999), "p99.9-ms")
	b.ReportMetric(quantile(bareTook, 0.5), "bare-p50-ms")
	b.ReportMetric(quantile(bareTook, 0.99), "bare-p99-ms")
	b.ReportMetric(quantile(took, 0.99)/quantile(bareTook, 0.99), "p99/bare-p99")
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkAppendWhileRolling is what an appender waits for when every 256th append begins a new segment, while commits run.
func BenchmarkAppendWhileRolling(b *testing.B) {
	h := start(b, func(o *Options) { o.JournalBytes = 0 })
	p := h.partition("a", func(c *Config) { c.SegmentBytes, c.FlushMessages = 1<<20, 64 })
	plain := stamped(h.s.nowMs(), strings.Repeat("x", 4000))
	var took, rolled []time.Duration
	for b.Loop() {
		batch.View(plain).SetBaseOffset(0)
		active := p.segments.Load().active()
		started := time.Now()
		if _, err := p.Append(plain, AppendOptions{}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(started))
		if p.segments.Load().active() != active {
			rolled = append(rolled, took[len(took)-1])
		}
	}
	if len(rolled) == 0 {
		return // one of the first, short runs
	}
	slices.Sort(took)
	slices.Sort(rolled)
	quantile := func(d []time.Duration, q float64) float64 { return float64(d[int(q*float64(len(d)-1))]) / 1e3 }
	b.ReportMetric(quantile(took, 0.5), "p50-us")
	b.ReportMetric(quantile(took, 0.99), "p99-us")
	b.ReportMetric(quantile(took, 0.999), "p99.9-us")
	b.ReportMetric(quantile(rolled, 0.5), "roll-p50-us")
	b.ReportMetric(quantile(rolled, 0.99), "roll-p99-us")
}
