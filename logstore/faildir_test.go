package logstore

import (
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
