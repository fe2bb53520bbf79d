package logstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
)

// TestDirectoryThatFailsWhileServing: one of two volumes answers everything with an error. Its partitions are down, those of the other are
// served, made, checkpointed and deleted as ever; when it is well again its partitions come back with what was acknowledged.
func TestDirectoryThatFailsWhileServing(t *testing.T) {
	t.Parallel()
	for _, journal := range []int64{-1, smallJournal} {
		t.Run(fmt.Sprint("journal ", journal), func(t *testing.T) {
			t.Parallel()
			var failing atomic.Bool
			m := vfs.NewMem()
			fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
				if failing.Load() && strings.HasPrefix(op.Name, "/b/") {
					return unix.EIO
				}
				return nil
			}}
			h := start(t, func(o *Options) {
				o.Dirs, o.FS, o.Cleaner, o.JournalBytes, o.ReopenIntervalMs = []string{"/a", "/b"}, fsys, byHand, journal, 1
			})
			if journal > 0 {
				h.makeJournals()
			}
			in := map[string][]*Partition{}
			for i := range 8 {
				p := h.partition(fmt.Sprint("t", i), func(c *Config) { c.RetentionMs = -1 })
				put(t, p, records("0"))
				in[p.Dir()] = append(in[p.Dir()], p)
			}
			if len(in["/a"]) < 3 || len(in["/b"]) < 3 {
				t.Fatalf("placement: %d and %d", len(in["/a"]), len(in["/b"]))
			}
			failing.Store(true)
			for _, p := range in["/b"] {
				r, err := p.Append(records("lost"), AppendOptions{})
				if err == nil {
					err = awaitErr(p, r.LastOffset+1)
				}
				if !errors.Is(err, ErrStorage) {
					t.Errorf("%s in the directory that fails: %v", p.Topic(), err)
				}
			}
			for round := range 3 {
				for _, p := range in["/a"] {
					put(t, p, records(fmt.Sprint(round+1)))
				}
				h.s.checkpoint()
				h.s.applyRetention()
			}
			for _, p := range in["/a"][1:] {
				expect(t, p, "0", "1", "2", "3")
			}
			if err := h.s.Delete(in["/a"][0].Topic(), 0); err != nil {
				t.Errorf("a deletion in the other directory: %v", err)
			}
			failing.Store(false)
			for _, p := range in["/b"] {
				eventually(t, p.Err)
				expect(t, p, "0")
				put(t, p, records("again"))
			}
		})
	}
}

// TestIdleDirectoryThatFails: nobody writes to the directory, and it is told all the same which one fails; its partitions stay as they
// were, a stop does not wait for a question that hangs longer than it may, and the file that is written to is nobody's.
func TestIdleDirectoryThatFails(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	var hold atomic.Pointer[chan struct{}]
	m := vfs.NewMem()
	fsys := &vfs.Faulty{FS: m, Before: func(op vfs.Op) error {
		if !strings.HasPrefix(op.Name, "/b/") {
			return nil
		}
		if wait := hold.Load(); wait != nil && op.Kind == vfs.OpDatasync {
			<-*wait
		}
		if failing.Load() {
			return unix.EROFS
		}
		return nil
	}}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Cleaner, o.ProbeIntervalMs = []string{"/a", "/b"}, fsys, byHand, 1
	})
	for i := range 4 {
		put(t, h.partition(fmt.Sprint("t", i)), records("0"))
	}
	faulty := func() error {
		if faults := h.s.DirFaults(); len(faults) != 1 || !strings.Contains(faults[0].Error(), "/b: ") || !strings.Contains(faults[0].Error(), "read-only") {
			return fmt.Errorf("faults: %v", faults)
		}
		return nil
	}
	failing.Store(true)
	eventually(t, faulty)
	for i := range 4 {
		expect(t, h.partition(fmt.Sprint("t", i)), "0")
	}
	failing.Store(false)
	eventually(t, func() error { return errors.Join(h.s.DirFaults()...) })
	for i := range 4 {
		put(t, h.partition(fmt.Sprint("t", i)), records("1"))
	}
	if !strings.Contains(h.logs.String(), "log directory fails") || !strings.Contains(h.logs.String(), "log directory is well again") {
		t.Errorf("the log says nothing:\n%s", h.logs)
	}
	h.restart()
	if strings.Contains(h.logs.String(), "left alone") {
		t.Errorf("the next start does not know the file:\n%s", h.logs)
	}
	gate := make(chan struct{})
	hold.Store(&gate)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.s.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop while the disk hangs: %v", err)
	}
	close(gate)
	h.open()
}
