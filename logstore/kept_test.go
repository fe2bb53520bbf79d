package logstore

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
)

// TestJournalOfABrokenPartition: what the commit journal has of a partition that can't be recovered is kept in its directory, so
// the others of the log directory move, are set aside and committed through a journal as if nothing were. Its acknowledged
// records are there when it can be recovered again, whatever the disk had of its files.
func TestJournalOfABrokenPartition(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{true, false} {
		m := vfs.NewRecording()
		makeDataDir(t, m)
		var failing atomic.Bool
		hook := func(op vfs.Op) error {
			if failing.Load() && strings.HasPrefix(op.Name, "/data/broken-0/") && strings.HasSuffix(op.Name, layout.LogSuffix) {
				return unix.EIO
			}
			return nil
		}
		h := start(t, func(o *Options) {
			o.Dirs, o.FS, o.Cleaner, o.JournalBytes = []string{"/data"}, &vfs.Faulty{FS: m, Before: hook}, byHand, smallJournal
		})
		h.makeJournals()
		for _, topic := range []string{"broken", "well"} {
			put(t, h.partition(topic), records("0"))
			h.partition(topic).syncFiles()
			put(t, h.partition(topic), records("1"))
			if p := h.partition(topic); p.synced.Load() != 1 {
				t.Fatalf("%s is synced up to %d: the test proves nothing", topic, p.synced.Load())
			}
		}
		clone, err := m.Clone(nil) // nothing survives that was not synced
		if err != nil {
			t.Fatal(err)
		}
		h.stop()
		h.o.FS = &vfs.Faulty{FS: clone, Before: hook}
		if err := clone.MkdirAll("/more"); err != nil {
			t.Fatal(err)
		}
		h.o.Dirs = []string{"/data", "/more"}
		failing.Store(true)
		h.open()
		if _, err := h.s.Ensure("broken", topicID, 0, DefaultConfig()); !errors.Is(err, ErrStorage) {
			t.Fatalf("the partition is not broken: %v", err)
		}
		if restart {
			h.crash()
		}
		p := h.partition("well")
		expect(t, p, "0", "1")
		awaitWriteBack(t, h.s.dirs[0].journal)
		for i := range 2 * smallJournal / journal.Alignment {
			put(t, p, records(fmt.Sprint("more ", i)))
			awaitWriteBack(t, h.s.dirs[0].journal)
		}
		if state := stateOf(h.s.dirs[0].journal); state != journalReady {
			t.Errorf("no journal is used: %d", state)
		}
		if err := h.s.MoveTo("well", 0, "/more"); err != nil {
			t.Fatal(err)
		}
		settled(p)
		if p.Dir() != "/more" {
			t.Errorf("not moved:\n%s", h.logs)
		}
		failing.Store(false)
		if restart {
			h.crash()
		}
		broken := h.partition("broken")
		expect(t, broken, "0", "1")
		put(t, broken, records("2"))
		for _, name := range journal.Names {
			if _, err := clone.Stat("/data/broken-0/" + name); err == nil {
				t.Errorf("%s is left", name)
			}
		}
		h.crash()
		expect(t, h.partition("broken"), "0", "1", "2")
		h.stop()
	}
}

func stateOf(j *commitJournal) journalState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state
}

// TestHalfIsNotReusedWhileItIsNeeded: records that were acknowledged from the journal and can't be written back stay in it,
// however much others write meanwhile.
func TestHalfIsNotReusedWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	m := vfs.NewRecording()
	makeDataDir(t, m)
	var failing atomic.Bool
	hook := func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpDatasync && strings.HasPrefix(op.Name, "/data/bad-0/") {
			m.LosePages(op.Name) // a failed sync may drop what it was about
			return unix.EIO
		}
		return nil
	}
	h := start(t, func(o *Options) {
		o.Dirs, o.FS, o.Cleaner, o.JournalBytes, o.ReopenIntervalMs = []string{"/data"}, &vfs.Faulty{FS: m, Before: hook}, byHand, smallJournal, 1
	})
	h.makeJournals()
	bad, well := h.partition("bad"), h.partition("well")
	put(t, bad, records("0"))
	bad.syncFiles()
	failing.Store(true)
	want := []string{"0", "1", "2"}
	for _, value := range want[1:] {
		put(t, bad, records(value))
	}
	if bad.synced.Load() != 1 || bad.durable.Load() != 3 {
		t.Fatalf("synced up to %d, durable up to %d: the test proves nothing", bad.synced.Load(), bad.durable.Load())
	}
	j := h.s.dirs[0].journal
	for i := range 5 * smallJournal / journal.Alignment { // more than both halves hold
		put(t, well, records(fmt.Sprint(i)))
		awaitWriteBack(t, j)
	}
	if err := bad.Err(); !errors.Is(err, ErrStorage) {
		t.Fatalf("nothing was written back: %v", err)
	}
	expectOfSynced(t, m, "bad", want...)
	failing.Store(false)
	eventually(t, bad.Err)
	expect(t, bad, want...)
	put(t, bad, records("3"))
	h.crash()
	expect(t, h.partition("bad"), append(want, "3")...)
}
