package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// TestDeletedBeforeItWasSynced: records that stand in the commit journal only are deleted by retention, and others commit after them
// until the journal has forgotten both. A power failure that brings the old segment's name back, and no checkpoint, takes nothing that
// was acknowledged.
func TestDeletedBeforeItWasSynced(t *testing.T) {
	t.Parallel()
	m := vfs.NewRecording()
	makeDataDir(t, m)
	var once sync.Once
	atRename, goOn := make(chan struct{}), make(chan struct{})
	before := func(op vfs.Op) error { // the files are moved aside only when all is over
		if op.Kind == vfs.OpRename && strings.HasPrefix(op.Name, "/data/t-0/0") {
			once.Do(func() {
				close(atRename)
				<-goOn
			})
		}
		return nil
	}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Cleaner, o.JournalBytes = []string{"/data"}, &vfs.Faulty{FS: m, Before: before}, byHand, smallJournal
	})
	h.makeJournals()
	config := func(c *Config) {
		c.SegmentBytes, c.FileDeleteDelayMs, c.RetentionBytes, c.RetentionMs = 1<<20, 0, -1, -1
	}
	p := h.partition("t", config)
	acked := 0
	one := func() {
		awaitWriteBack(t, h.s.dirs[0].journal)
		put(t, p, produced(7, 0, int32(acked), false, fmt.Sprint(acked)))
		acked++
	}
	one()
	p.syncFiles() // the directory: from now on the journal is enough
	for one(); p.synced.Load() == int64(acked); one() {
		if acked == 1000 {
			t.Fatal("the journal is not used")
		}
	}
	deleted := acked
	h.partition("t", func(c *Config) { config(c); c.RetentionBytes = 0 })
	retention := make(chan error, 1)
	go func() { retention <- p.applyRetention(h.s.nowMs(), false) }()
	<-atRename
	if p.LogStartOffset() != int64(deleted) {
		t.Fatalf("the log starts at %d", p.LogStartOffset())
	}
	for range 45 {
		one()
	}
	clone, err := m.Clone(nil)
	close(goOn)
	if err := errors.Join(err, <-retention); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/data/", "/data/t-0/"} {
		if _, err := clone.Stat(name + layout.LogStartName); err == nil {
			if err := clone.Remove(name + layout.LogStartName); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
	if err != nil {
		t.Fatal(err)
	}
	q := s.Get("t", 0)
	if q.LogEndOffset() != int64(acked) {
		t.Errorf("the log goes from %d to %d, %d records were acknowledged", q.LogStartOffset(), q.LogEndOffset(), acked)
	}
	if got := values(t, q, max(q.LogStartOffset(), int64(deleted)), ReadUncommitted); len(got) != 45 || got[0] != fmt.Sprint(deleted) {
		t.Errorf("read %v", got)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := clone.Close(); err != nil {
		t.Error(err)
	}
}

// TestDamageBelowTheLogStart: what was deleted, and came back damaged, takes nothing with it that was not; what came back whole before it
// goes, too.
func TestDamageBelowTheLogStart(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name       string
		checkpoint int  // after so many records
		indexes    bool // come back with it, and the log has to be read for its epochs
	}{
		{"crash", 0, false}, {"crash after a checkpoint", 6, false}, {"crash after a checkpoint at its end", 2, true}, {"epochs lost", 6, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			p := h.partition("t", func(c *Config) { c.SegmentBytes, c.FileDeleteDelayMs = 100, 0 })
			for i := range 6 {
				put(t, p, records(fmt.Sprint(i)))
				if i+1 == x.checkpoint {
					h.s.checkpoint()
				}
			}
			back := map[string][]byte{}
			damaged := p.segments.Load().all[1].Path(layout.LogSuffix)
			for _, g := range p.segments.Load().all[:2] {
				for _, suffix := range []string{layout.LogSuffix, layout.IndexSuffix, layout.TimeIndexSuffix} {
					if b, err := os.ReadFile(g.Path(suffix)); err == nil && (x.indexes || suffix == layout.LogSuffix) {
						back[g.Path(suffix)] = b
					} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			clear(back[damaged])
			if _, err := p.DeleteRecords(3); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() error { // its unlinking may be on its way
				for name := range back {
					if _, err := os.Stat(name); err == nil {
						return fmt.Errorf("%s is there", name)
					}
				}
				return nil
			})
			h.kill()
			for name, b := range back {
				if err := os.WriteFile(name, b, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if x.indexes {
				if err := os.Remove(filepath.Join(filepath.Dir(damaged), checkpoint.EpochsName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			h.open()
			p = h.partition("t", func(c *Config) { c.SegmentBytes = 100 })
			if p.LogStartOffset() != 3 || p.LogEndOffset() != 6 {
				t.Errorf("the log goes from %d to %d, want 3 to 6\n%s", p.LogStartOffset(), p.LogEndOffset(), h.logs)
			}
			if got := strings.Join(values(t, p, 3, ReadUncommitted), " "); got != "3 4 5" {
				t.Errorf("read %q", got)
			}
			for name := range back {
				if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", name, err)
				}
			}
			h.restart()
		})
	}
}

// TestDamageBelowAWrongLogStart: a log start beyond the end is not believed, so it does not make damaged records deleted ones.
func TestDamageBelowAWrongLogStart(t *testing.T) {
	t.Parallel()
	h := start(t)
	config := func(c *Config) { c.SegmentBytes = 100 }
	p := h.partition("t", config)
	for i := range 6 {
		put(t, p, records(fmt.Sprint(i)))
	}
	h.s.checkpoint()
	damaged, dir := p.segments.Load().all[1].Path(layout.LogSuffix), p.path()
	h.kill()
	var wrong checkpoint.Offsets
	wrong.Add("t", 0, 100)
	err := wrong.Write(vfs.OS, filepath.Dir(dir), layout.LogStartName)
	if err = errors.Join(err, os.WriteFile(damaged, make([]byte, fileSize(t, damaged)), 0o644), os.Remove(filepath.Join(dir, checkpoint.EpochsName))); err != nil {
		t.Fatal(err)
	}
	h.open()
	if _, err := h.s.Ensure("t", topicID, 0, DefaultConfig()); err == nil || !strings.Contains(err.Error(), damaged) {
		t.Errorf("%v: %s", err, h.logs)
	}
	if _, err := os.Stat(damaged); err != nil {
		t.Error(err)
	}
}
