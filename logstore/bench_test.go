package logstore

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"kaas/codec/batch"
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
					if err != nil || s.Len == 0 {
						b.Fatal(err)
					}
					s.Release()
				}
			})
		}
	}
}

// BenchmarkCommit is append and group commit of n partitions at once, beside a bare append + fdatasync.
func BenchmarkCommit(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		h := start(b)
		p := h.partition("a")
		f, err := p.segments.Load().active().open()
		if err != nil {
			b.Fatal(err)
		}
		page := make([]byte, 4096)
		at := int64(0)
		for b.Loop() {
			if _, err := f.WriteAt(page, at); err != nil {
				b.Fatal(err)
			}
			if err := f.Datasync(); err != nil {
				b.Fatal(err)
			}
			at += 4096
		}
		if err := f.Truncate(0); err != nil {
			b.Fatal(err)
		}
	})
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := start(b)
			parts := make([]*Partition, n)
			batches := make([][]byte, n)
			for i := range parts {
				parts[i] = h.partition(fmt.Sprint("a", i))
				batches[i] = stamped(h.s.nowMs(), strings.Repeat("x", 4000))
			}
			done := make(chan struct{}, 1)
			var left atomic.Int64
			waiters := make([]Waiter, n)
			for i := range waiters {
				waiters[i].Done = func(*Waiter, error) {
					if left.Add(-1) == 0 {
						done <- struct{}{}
					}
				}
			}
			for b.Loop() {
				left.Store(int64(n))
				for i, p := range parts {
					batch.View(batches[i]).SetBaseOffset(0)
					r, err := p.Append(batches[i], AppendOptions{})
					if err != nil {
						b.Fatal(err)
					}
					waiters[i].Offset = r.LastOffset + 1
					p.WhenCommitted(&waiters[i])
				}
				<-done
			}
		})
	}
}
