package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

var otherID = [16]byte{99}

// straysOf are the directories of a topic that were set aside.
func straysOf(t testing.TB, h *harness, topic string) (out []string) {
	t.Helper()
	for _, dir := range h.o.Dirs {
		entries, err := h.s0().List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name, topic) && strings.HasSuffix(e.Name, layout.StrayDirSuffix) {
				out = append(out, filepath.Join(dir, e.Name))
			}
		}
	}
	return out
}

// ensureID is harness.partition with a topic id.
func (h *harness) ensureID(topic string, id [16]byte) *Partition {
	h.t.Helper()
	p, err := h.s.Ensure(topic, id, 0, DefaultConfig())
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// TestStrayComesBack: a partition that was set aside is what it was when its topic id is asked for again, at once and after a
// stop or a kill; another id leaves it where it is.
func TestStrayComesBack(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 240) // its name is cut in the name of the directory
	for _, topic := range []string{"t", long} {
		for name, between := range map[string]func(*harness){"at once": func(*harness) {}, "after a stop": (*harness).restart, "after a kill": (*harness).crash} {
			h := start(t)
			p := h.partition(topic)
			for i := range 5 {
				put(t, p, produced(7, 0, int32(i), false, fmt.Sprint(i)))
			}
			if _, err := p.DeleteRecords(2); err != nil {
				t.Fatal(err)
			}
			other := h.ensureID(topic, otherID)
			if other.LogEndOffset() != 0 {
				t.Fatalf("%s: another topic id has %d records", name, other.LogEndOffset())
			}
			put(t, other, records("other"))
			between(h)
			neighbour := h.ensureID(topic[:len(topic)-1]+"y", otherID) // of the same shortened name
			if neighbour.LogEndOffset() != 0 {
				t.Fatalf("%s: the neighbour has %d records", name, neighbour.LogEndOffset())
			}
			for range 2 {
				p = h.partition(topic)
				if p.LogStartOffset() != 2 || p.LogEndOffset() != 5 || p.HighWatermark() != 5 || p.TopicID() != topicID {
					t.Fatalf("%s: from %d to %d", name, p.LogStartOffset(), p.LogEndOffset())
				}
				expect(t, p, "2", "3", "4")
				if r, err := p.Append(produced(7, 0, 4, false, "4"), AppendOptions{}); err != nil || !r.Duplicate {
					t.Fatalf("%s: its producer is forgotten: %+v %v", name, r, err)
				}
				other = h.ensureID(topic, otherID)
				expect(t, other, "other")
			}
			expect(t, h.partition(topic), "2", "3", "4")
			between(h)
			expect(t, h.partition(topic), "2", "3", "4")
			if left := straysOf(t, h, topic[:1]); len(left) != 1 {
				t.Fatalf("%s: %v", name, left)
			}
		}
	}
}

// TestStrayComesBackAfterStray: the same where nobody asked for another id, as with a resource that is gone at a start.
func TestStrayComesBackAfterStray(t *testing.T) {
	t.Parallel()
	h := start(t)
	put(t, h.partition("t"), records("a", "b"))
	h.restart()
	if err := h.s.Stray(func(string, int32, [16]byte) bool { return false }); err != nil || len(straysOf(t, h, "t")) != 1 {
		t.Fatalf("%v, %v", err, straysOf(t, h, "t"))
	}
	expect(t, h.partition("t"), "a", "b")
	if left := straysOf(t, h, "t"); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// TestJournalOfAStray: what the commit journal holds of a partition from before it was set aside is not written over what
// became of it.
func TestJournalOfAStray(t *testing.T) {
	t.Parallel()
	h := journaled(t, nil, func(o *Options) { o.Cleaner = byHand })
	keep := func() *Partition { return h.partition("t", compacted) }
	p := keep()
	for n := range 40 {
		put(t, p, keyed(batch.None, h.s.nowMs(), fmt.Sprintf("k%d=%d", n%3, n)))
	}
	h.ensureID("t", otherID)
	p = keep()
	before := everything(t, p, ReadUncommitted)
	if len(before) != 40 || !cleanNow(t, p) {
		t.Fatalf("%d records, or nothing to clean", len(before))
	}
	want := everything(t, p, ReadUncommitted)
	if len(want) >= len(before) {
		t.Fatalf("%d records of %d after compaction", len(want), len(before))
	}
	h.crash()
	if got := everything(t, keep(), ReadUncommitted); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestStraysThatStay: a disk that fails leaves the data where it is until it works; of two that claim to be the partition
// none is taken; one that says nothing keeps no new topic from being made.
func TestStraysThatStay(t *testing.T) {
	t.Parallel()
	var failing atomic.Bool
	files := vfs.NewMem()
	fsys := &vfs.Faulty{FS: files, Before: func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpRename {
			return unix.EIO
		}
		return nil
	}}
	h := start(t, inMemory, func(o *Options) { o.FS = fsys })
	put(t, h.partition("t"), records("a"))
	put(t, h.ensureID("t", otherID), records("b"))
	if err := h.s.Stray(func(string, int32, [16]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	failing.Store(true)
	if _, err := h.s.Ensure("t", topicID, 0, DefaultConfig()); !errors.Is(err, unix.EIO) || h.s.Get("t", 0) != nil {
		t.Fatalf("%v", err)
	}
	failing.Store(false)
	expect(t, h.partition("t"), "a")

	if err := h.s.Stray(func(string, int32, [16]byte) bool { return false }); err != nil {
		t.Fatal(err)
	}
	all := straysOf(t, h, "t")
	if len(all) != 2 {
		t.Fatalf("%v", all)
	}
	for _, dir := range all {
		if err := checkpoint.WritePartitionMetadata(files, dir, topicID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.s.Ensure("t", topicID, 0, DefaultConfig()); err == nil || !strings.Contains(err.Error(), all[0]) || !strings.Contains(err.Error(), all[1]) {
		t.Fatalf("%v", err)
	}
	for _, dir := range all {
		f, err := files.OpenFile(filepath.Join(dir, checkpoint.MetadataName), vfs.Truncate)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if p := h.partition("t"); p.LogEndOffset() != 0 {
		t.Errorf("%d records", p.LogEndOffset())
	}
}

// exploreStray: at no moment does a crash take from a partition that is set aside, and brought back.
func exploreStray(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.produce(6)
	if _, err := n.p.DeleteRecords(3); err != nil {
		t.Fatal(err)
	}
	n.model.start.Store(3)
	n.produce(2)
	x.armed.Store(true)
	for range 2 {
		put(t, n.h.ensureID("t", otherID), records("other"))
		n.open()
		n.produce(2)
	}
	x.disarm()
}
