package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
)

// journaled is a store whose commits go through a journal that is made already, and what its disk is asked for.
func journaled(t testing.TB, before func(vfs.Op) error, change ...func(*Options)) *harness {
	t.Helper()
	fsys := &vfs.Faulty{FS: vfs.NewMem(), Before: before}
	if err := fsys.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	h := start(t, append([]func(*Options){func(o *Options) { o.Dirs, o.FS, o.JournalBytes, o.Cleaner = []string{"/data"}, fsys, 1<<20, byHand }}, change...)...)
	h.makeJournals()
	return h
}

// TestNoLockIsHeldAcrossACommit: while the disk does not answer, appends, reads, watermarks and new waiters go on, in the
// partitions of the commit and in others; what is appended meanwhile shares the next commit.
func TestNoLockIsHeldAcrossACommit(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(fmt.Sprint("direct ", direct), func(t *testing.T) {
			t.Parallel()
			var holding atomic.Bool
			var syncs atomic.Int64
			began, proceed := make(chan struct{}, 1000), make(chan struct{})
			h := journaled(t, func(op vfs.Op) error {
				if op.Kind == vfs.OpDatasync && holding.Load() {
					syncs.Add(1)
					began <- struct{}{}
					<-proceed
				}
				return nil
			})
			const partitions, rounds = 20, 5
			value := "v"
			if direct {
				value = strings.Repeat("v", limits.CommitJournalEntryBytes)
			}
			var parts []*Partition
			for i := range partitions {
				parts = append(parts, h.partition(fmt.Sprint("t", i)))
				put(t, parts[i], records(value))
			}
			holding.Store(true)
			var served sync.WaitGroup
			wait := func(p *Partition, offset int64) {
				served.Add(1)
				p.WhenCommitted(&Waiter{Offset: offset, Done: func(_ *Waiter, err error) {
					if err != nil {
						t.Error(err)
					}
					served.Done()
				}})
			}
			for round := range int64(rounds) {
				for _, p := range parts {
					r, err := p.Append(records(value), AppendOptions{})
					if err != nil {
						t.Fatal(err)
					}
					wait(p, r.LastOffset+1)
					if round == 0 && p == parts[0] {
						<-began // everything else happens while a sync hangs
					}
					if p.HighWatermark() != 1 || p.LastStableOffset() != 1 || p.LogEndOffset() != round+2 {
						t.Fatalf("high watermark %d, stable %d, end %d", p.HighWatermark(), p.LastStableOffset(), p.LogEndOffset())
					}
					s, err := p.Read(0, 1<<20, true, ReadUncommitted)
					if err != nil || s.Len == 0 {
						t.Fatalf("%d bytes: %v", s.Len, err)
					}
					s.Release()
				}
			}
			close(proceed)
			served.Wait()
			holding.Store(false)
			for _, p := range parts {
				if p.HighWatermark() != rounds+1 {
					t.Errorf("high watermark %d", p.HighWatermark())
				}
			}
			// The first partition's, then one for all. Its own files take one for each partition and commit.
			if most := int64(3); !direct && syncs.Load() > most || direct && syncs.Load() > 2*partitions+1 {
				t.Errorf("%d syncs for %d appends in %d partitions", syncs.Load(), rounds*partitions, partitions)
			}
		})
	}
}

// TestRoundAllocatesNothing: append, round and completion, of many partitions.
func TestRoundAllocatesNothing(t *testing.T) {
	h := journaled(t, nil)
	const partitions = 50
	b := newCommitted(t, h, partitions, 100)
	for range 150 { // until every index has its first piece of memory
		b.round(t)
	}
	if n := testing.AllocsPerRun(100, func() { b.round(t) }); n > partitions/10 { // an index takes memory now and then; one for each append would be 50
		t.Errorf("%v allocations a round of %d partitions", n, partitions)
	}
}

// committed appends to many partitions and waits for all.
type committed struct {
	parts   []*Partition
	batches [][]byte
	waiters []Waiter
	left    atomic.Int64
	done    chan struct{}
}

func newCommitted(t testing.TB, h *harness, partitions, valueBytes int) *committed {
	t.Helper()
	b := &committed{done: make(chan struct{}, 1), waiters: make([]Waiter, partitions)}
	for i := range partitions {
		b.parts = append(b.parts, h.partition(fmt.Sprint("a", i)))
		b.batches = append(b.batches, stamped(h.s.nowMs(), strings.Repeat("x", valueBytes)))
		b.waiters[i].Done = func(_ *Waiter, err error) {
			if err != nil {
				t.Error(err)
			}
			if b.left.Add(-1) == 0 {
				b.done <- struct{}{}
			}
		}
	}
	return b
}

// round appends one batch to each partition and returns when all are committed.
func (b *committed) round(t testing.TB) {
	b.left.Store(int64(len(b.parts)))
	for i, p := range b.parts {
		batch.View(b.batches[i]).SetBaseOffset(0)
		r, err := p.Append(b.batches[i], AppendOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.waiters[i].Offset = r.LastOffset + 1
		p.WhenCommitted(&b.waiters[i])
	}
	<-b.done
}

// TestStopLeavesNoJournal, and a start after a crash takes from it what the logs do not have.
func TestStopLeavesNoJournal(t *testing.T) {
	t.Parallel()
	var journalSyncs, logSyncs atomic.Int64
	h := journaled(t, func(op vfs.Op) error {
		switch {
		case op.Kind != vfs.OpDatasync:
		case strings.HasSuffix(op.Name, ".journal"):
			journalSyncs.Add(1)
		case strings.HasSuffix(op.Name, layout.LogSuffix):
			logSyncs.Add(1)
		}
		return nil
	})
	exists := func() bool {
		for _, name := range journal.Names {
			if _, err := h.o.FS.Stat(filepath.Join("/data", name)); !errors.Is(err, fs.ErrNotExist) {
				return true
			}
		}
		return false
	}
	p := h.partition("t")
	journalSyncs.Store(0)
	logSyncs.Store(0)
	for i := range 10 {
		put(t, p, records(fmt.Sprint(i)))
	}
	if j, l := journalSyncs.Load(), logSyncs.Load(); j != 10 || l != 0 || p.DurableOffset() != 10 || p.synced.Load() != 0 {
		t.Errorf("%d syncs of the journal, %d of the log; durable %d, in its own file %d", j, l, p.DurableOffset(), p.synced.Load())
	}
	h.s.checkpoint()
	if p.synced.Load() != 10 || p.recoveryPoint.Load() != 10 {
		t.Errorf("after a checkpoint: synced %d, recovery point %d", p.synced.Load(), p.recoveryPoint.Load())
	}
	if !exists() {
		t.Error("no journal while it runs")
	}
	h.restart()
	if exists() {
		t.Error("a clean stop left a journal")
	}
	p = h.partition("t")
	if p.LogEndOffset() != 10 || h.s.counters.RecoveredBytes.Load() != 0 {
		t.Errorf("end %d, %d bytes scanned", p.LogEndOffset(), h.s.counters.RecoveredBytes.Load())
	}
}

// TestNoBlockForASegmentWithoutAName: while the directory is being synced, what is appended to its new segment is not committed
// by the journal, which can't bring the file back.
func TestNoBlockForASegmentWithoutAName(t *testing.T) {
	t.Parallel()
	var holding atomic.Bool
	began, proceed := make(chan struct{}), make(chan struct{})
	h := journaled(t, func(op vfs.Op) error {
		if op.Kind == vfs.OpSyncDir && op.Name == "/data/t-0" && holding.CompareAndSwap(true, false) {
			close(began)
			<-proceed
		}
		return nil
	})
	p := h.partition("t", func(c *Config) { c.FlushMessages = 1 << 60 }) // commits when it is told to
	add := func() {
		if _, err := p.Append(records("x"), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	j := h.s.dirs[0].journal
	ask := func() int {
		j.turn.Lock()
		defer j.turn.Unlock()
		j.block.Reset()
		_, verdict := p.gather(j, 1<<20)
		return verdict
	}
	add()
	h.s.checkpoint()
	p.syncFiles()
	p.mu.Lock()
	if _, err := p.roll(h.s.nowMs()); err != nil {
		t.Error(err)
	}
	p.mu.Unlock()
	if err := p.writeOut(); err != nil { // it syncs the directory, too
		t.Fatal(err)
	}
	if got := ask(); got != gatherDirect {
		t.Errorf("after a roll: %d", got)
	}
	holding.Store(true)
	var work sync.WaitGroup
	work.Go(p.syncFiles)
	<-began
	if got := ask(); got != gatherDirect {
		t.Errorf("while the directory is synced, nothing appended: %d", got)
	}
	add()
	if got := ask(); got != gatherDirect {
		t.Errorf("while the directory is synced: %d", got)
	}
	close(proceed)
	work.Wait()
	if got := ask(); got != gathered {
		t.Errorf("after it: %d", got)
	}
}

// TestMarksAloneFillTheJournal: compactions without producers go on to the other half, too.
func TestMarksAloneFillTheJournal(t *testing.T) {
	t.Parallel()
	h := journaled(t, nil, func(o *Options) { o.JournalBytes = smallJournal })
	p := h.partition("t")
	put(t, p, records("x"))
	j := h.s.dirs[0].journal
	for range 3 * smallJournal / journal.Alignment {
		if err := j.forget(p, 0); err != nil {
			t.Fatal(err)
		}
		awaitWriteBack(t, j)
	}
	put(t, p, records("y"))
	if c := h.s.Counters(); c.JournalTurns.Load() < 2 || c.JournalBytes.Load() < 3*smallJournal {
		t.Errorf("%d turns, %d bytes are counted", c.JournalTurns.Load(), c.JournalBytes.Load())
	}
	h.crash()
	expect(t, h.partition("t"), "x", "y")
}

// TestJournalIsRemoved: whoever is told that a record is durable finds it after a crash, also when somebody takes the journal
// away while it is used; the log is synced instead, and a new journal made.
func TestJournalIsRemoved(t *testing.T) {
	t.Parallel()
	for half, name := range journal.Names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := vfs.NewRecording()
			makeDataDir(t, m)
			h := start(t, func(o *Options) {
				o.Dirs, o.FS, o.Cleaner, o.JournalBytes = []string{"/data"}, m, byHand, smallJournal
			})
			h.makeJournals()
			p, idle := h.partition("t"), h.partition("idle")
			put(t, p, records("0"))
			put(t, idle, records("kept"))
			j := h.s.dirs[0].journal
			id := j.journal.ID()
			if err := errors.Join(m.Remove(filepath.Join("/data", name)), m.SyncDir("/data")); err != nil {
				t.Fatal(err)
			}
			want := []string{"0"}
			for n := 1; ; n++ {
				want = append(want, fmt.Sprint(n))
				put(t, p, records(want[n]))
				if n == 1 && half == 0 && p.synced.Load() < 2 {
					t.Error("acknowledged by a block in a file without a name, and the log is not synced")
				}
				expectOfSynced(t, m, "t", want...)
				awaitWriteBack(t, j)
				j.mu.Lock()
				done := j.state == journalReady && j.journal.ID() != id
				j.mu.Unlock()
				if done {
					if idle.synced.Load() != 1 {
						t.Error("the old journal is given up and has the only durable copy of a record")
					}
					break
				}
				if n == 4*smallJournal/journal.Alignment {
					t.Fatal("no new journal")
				}
			}
			if err := p.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStopOfADeadJournal: a stop fails by it, and says why it is dead, only when it has something that no log has.
func TestStopOfADeadJournal(t *testing.T) {
	t.Parallel()
	t.Run("removed from outside", func(t *testing.T) {
		t.Parallel()
		h := journaled(t, nil)
		p := h.partition("t")
		put(t, p, records("0"))
		if err := h.o.FS.Remove(filepath.Join("/data", journal.Names[h.s.dirs[0].journal.journal.Active()])); err != nil {
			t.Fatal(err)
		}
		put(t, p, records("1")) // finds out, and syncs the log
		if state := h.s.dirs[0].journal.state; state != journalDead {
			t.Fatalf("state %d", state)
		}
		h.restart() // a stop without an error
		for _, name := range journal.Names {
			if _, err := h.o.FS.Stat(filepath.Join("/data", name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s after a clean stop: %v", name, err)
			}
		}
		if n := h.s.counters.RecoveredBytes.Load(); n != 0 {
			t.Errorf("%d bytes scanned after a clean stop", n)
		}
		expect(t, h.partition("t"), "0", "1")
	})
	t.Run("a mark failed", func(t *testing.T) {
		t.Parallel()
		var broken atomic.Bool
		errBroken := errors.New("the disk is broken")
		h := journaled(t, func(op vfs.Op) error {
			if broken.Load() && op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, ".journal") {
				return errBroken
			}
			return nil
		})
		p := h.partition("t")
		put(t, p, records("0"))
		j := h.s.dirs[0].journal
		broken.Store(true)
		if err := j.forget(p, 0); !errors.Is(err, errBroken) {
			t.Fatalf("a mark: %v", err)
		}
		if err := j.stop(true); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "/data") { // before anything is written back
			t.Errorf("stop: %v", err)
		}
		h.stop()
		broken.Store(false)
		h.open()
		expect(t, h.partition("t"), "0")
	})
}

// awaitWriteBack returns when no write-back runs. A round may begin the next one meanwhile, which a Wait for the journal's
// WaitGroup does not bear.
func awaitWriteBack(t testing.TB, j *commitJournal) {
	t.Helper()
	eventually(t, func() error {
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.busy {
			return errors.New("a write-back of the journal still runs")
		}
		return nil
	})
}

// expectOfSynced is expect of a partition 0 after a power failure in which nothing survives that was not synced.
func expectOfSynced(t *testing.T, m *vfs.Mem, topic string, want ...string) {
	t.Helper()
	clone, err := m.Clone(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s.Get(topic, 0), want...)
	if err := errors.Join(s.Close(t.Context()), clone.Close()); err != nil {
		t.Fatal(err)
	}
}
