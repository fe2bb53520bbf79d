package logstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// TestNobodyWaitsForRetentionOrCompaction: what they do to the file system hangs, one step after the other, and meanwhile records are
// appended, committed and read, in the same partition and in another: latency stays as flat as the disk allows.
func TestNobodyWaitsForRetentionOrCompaction(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		steps  func(op vfs.Op) bool
		config func(c *Config)
		work   func(p *Partition)
	}{
		{"retention", func(op vfs.Op) bool {
			return (op.Kind == vfs.OpRename || op.Kind == vfs.OpRemove || op.Kind == vfs.OpTruncate) && strings.Contains(op.Name, "/t-0/0") && !strings.HasSuffix(op.Name, layout.TemporarySuffix)
		}, func(c *Config) { c.RetentionBytes, c.RetentionMs = 300, -1 }, func(p *Partition) {
			if err := p.applyRetention(p.store.nowMs(), false); err != nil {
				t.Error(err)
			}
		}},
		{"compaction", func(op vfs.Op) bool {
			return strings.Contains(op.Name, layout.CleanedSuffix) || strings.Contains(op.Name, layout.SwapSuffix) || op.Kind == vfs.OpRename && strings.Contains(op.Name, "/t-0/0") && !strings.HasSuffix(op.Name, layout.TemporarySuffix)
		}, func(c *Config) { c.CleanupCompact, c.CleanupDelete, c.MinCleanableDirtyRatio = true, false, 0 }, func(p *Partition) {
			p.store.compactor.cleanFilthiest()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			armed := false
			arrived, goOn, finished := make(chan string), make(chan struct{}), make(chan struct{})
			before := func(op vfs.Op) error {
				mu.Lock()
				hangs := armed && tc.steps(op)
				mu.Unlock()
				if hangs {
					select {
					case arrived <- fmt.Sprintf("%+v", op):
						<-goOn
					case <-finished:
					}
				}
				return nil
			}
			h := start(t, func(o *Options) {
				o.Dirs, o.FS, o.Cleaner = []string{"/data"}, &vfs.Faulty{FS: vfs.NewMem(), Before: before}, byHand
			})
			config := func(c *Config) {
				c.SegmentBytes, c.FileDeleteDelayMs, c.RetentionMs = 400, 0, -1
			}
			p, other := h.partition("t", config), h.partition("other")
			for i := range 20 {
				put(t, p, keyed(0, h.s.nowMs(), fmt.Sprintf("k%d=%d", i%3, i)))
			}
			if err := p.writeOut(); err != nil {
				t.Fatal(err)
			}
			h.partition("t", func(c *Config) { config(c); c.SegmentBytes = 1 << 20; tc.config(c) })
			mu.Lock()
			armed = true
			mu.Unlock()
			done := make(chan struct{})
			go func() {
				defer close(done)
				tc.work(p)
				mu.Lock()
				armed = false
				mu.Unlock()
			}()
			steps := 0
			for over := false; !over; {
				select {
				case step := <-arrived:
					steps++
					served := make(chan struct{})
					go func() {
						defer close(served)
						r := put(t, p, keyed(0, h.s.nowMs(), "k0=new"))
						put(t, other, records("x"))
						s, err := p.Read(r.LastOffset, 1<<20, true, ReadCommitted)
						if err != nil || s.Len == 0 {
							t.Errorf("%s: read of %d: %d bytes, %v", step, r.LastOffset, s.Len, err)
						}
						s.Release()
					}()
					select {
					case <-served:
					case <-time.After(time.Minute):
						t.Errorf("while %s hangs nobody is served", step)
					}
					goOn <- struct{}{}
				case <-done:
					over = true
				}
			}
			close(finished)
			if steps < 4 {
				t.Errorf("only %d steps hung", steps)
			}
			t.Logf("%d steps", steps)
		})
	}
}
