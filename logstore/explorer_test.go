package logstore

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
)

var exploreLimit = flag.Int("explore.limit", 4, "outcomes that the crash explorer looks at for each crash point; beyond it half are enumerated, half drawn")

// explorer stops before every file system operation and looks at what a power failure there may leave: all legal outcomes,
// in order, up to a bound.
type explorer struct {
	t     *testing.T
	m     *vfs.Mem
	fs    *vfs.Faulty
	rng   *rand.Rand
	check func(clone *vfs.Mem) error
	fault atomic.Pointer[func(vfs.Op) error] // asked after the crash point; nil: no faults

	mark    func() // notes what was acknowledged before the clones are made; nil: nothing
	journal bool   // commits go through a commit journal
	windows bool   // batches are appended through mapped memory
	pads    bool   // there are zeros behind each batch
	limit   int    // outcomes a crash point
	armed   atomic.Bool
	maps    atomic.Int64 // windows that were mapped
	mu      sync.Mutex   // one crash point at a time; guards what follows
	// points are crash points, whole those of them whose outcomes were all looked at, states the outcomes.
	points, whole, states int
}

func newExplorer(t *testing.T, seed uint64) *explorer {
	t.Helper()
	x := &explorer{t: t, m: vfs.NewRecording(), rng: rand.New(rand.NewPCG(seed, 7)), limit: *exploreLimit}
	x.fs = &vfs.Faulty{FS: x.m, Before: x.before}
	makeDataDir(t, x.m)
	return x
}

// start opens a store; with a journal that is made already.
func (x *explorer) start(dirs ...string) *harness {
	x.t.Helper()
	h := start(x.t, func(o *Options) {
		o.Dirs, o.FS, o.ReopenIntervalMs, o.Cleaner, o.JournalBytes = dirs, x.fs, 2, byHand, -1
		if x.journal {
			o.JournalBytes = smallJournal
		}
		if x.windows {
			o.windows = eagerWindows()
		}
		if x.pads {
			o.windows = eagerPads()
		}
	})
	if x.journal {
		h.makeJournals()
	}
	return h
}

type choice struct{ of, picked int }

func (x *explorer) before(op vfs.Op) error {
	if op.Kind == vfs.OpMap {
		x.maps.Add(1)
	}
	if x.armed.Load() {
		x.crash(op)
	}
	if fault := x.fault.Load(); fault != nil {
		return (*fault)(op)
	}
	return nil
}

// disarm ends the crash points; none is being looked at when it returns.
func (x *explorer) disarm() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.armed.Store(false)
}

// crash walks the tree of choices depth first; the first outcome is that nothing survives.
func (x *explorer) crash(op vfs.Op) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.armed.Load() {
		return
	}
	x.points++
	if x.mark != nil {
		x.mark()
	}
	var path []choice
	for n := range x.limit {
		at := 0
		drawn := n >= max(x.limit/2, 1) && x.limit > 1
		clone, err := x.m.Clone(func(of int) int {
			if drawn {
				return x.rng.IntN(of)
			}
			if at < len(path) && path[at].of != of {
				path = path[:at] // another goroutine's operation went through meanwhile: the tree goes on from here
			}
			if at == len(path) {
				path = append(path, choice{of: of})
			}
			at++
			return path[at-1].picked
		})
		if err != nil {
			x.t.Error(err)
			return
		}
		x.states++
		if err := x.check(clone); err != nil {
			x.t.Errorf("crash before %+v, outcome %v (drawn: %v): %v", op, path, drawn, err)
		}
		if err := clone.Close(); err != nil {
			x.t.Error(err)
		}
		if drawn {
			continue
		}
		path = path[:at]
		for len(path) > 0 && path[len(path)-1].picked+1 == path[len(path)-1].of {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			x.whole++
			return
		}
		path[len(path)-1].picked++
	}
}

// TestCrashExplorer: for each durable operation of docs/format/operations.md, every crash point with its outcomes, recovered
// and compared with a model.
func TestCrashExplorer(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, at most %d outcomes a crash point (-explore.limit)", seed, *exploreLimit)
	states, points := 0, 0
	for _, s := range []struct {
		name    string
		run     func(t *testing.T, x *explorer)
		journal bool
	}{
		{"append and commit", exploreAppend, false}, {"append and commit, journal", exploreAppend, true}, {"journal that wraps", exploreWrap, true},
		{"append and commit, mapped", exploreAppend, false}, {"append and commit, journal, mapped", exploreAppend, true},
		{"roll and checkpoint", exploreRoll, false}, {"roll and checkpoint, journal", exploreRoll, true},
		{"roll and checkpoint, mapped", exploreRoll, false}, {"roll and checkpoint, journal, mapped", exploreRoll, true},
		{"DeleteRecords and retention", exploreDeletion, false}, {"DeleteRecords and retention, journal", exploreDeletion, true},
		{"clean stop and start, journal, mapped", exploreStop, true},
		{"clean stop and start", exploreStop, false}, {"clean stop and start, journal", exploreStop, true},
		{"recovery", exploreRecovery, false}, {"recovery, journal", exploreRecovery, true},
		{"recovery, mapped", exploreRecovery, false}, {"recovery in place, mapped", exploreInPlace, false},
		{"recovery in place", exploreInPlace, false}, {"recovery in place, journal", exploreInPlace, true},
		{"append and commit, padded", exploreAppend, false}, {"roll and checkpoint, journal, padded", exploreRoll, true},
		{"roll and checkpoint, padded", exploreRoll, false}, {"clean stop and start, journal, padded", exploreStop, true},
		{"recovery, padded", exploreRecovery, false}, {"recovery in place, padded", exploreInPlace, false},
		{"failed write-back", exploreWriteBack, true}, {"journal that is removed", exploreRemoved, true},
		{"compaction", exploreCompaction, false}, {"compaction, journal", exploreCompaction, true},
		{"compaction, mapped", exploreCompaction, false}, {"move, journal, mapped", exploreMove, true},
		{"recovery of a compaction", exploreSwapRecovery, false}, {"first start", exploreFirstStart, false},
		{"move", exploreMove, false}, {"move, journal", exploreMove, true},
		{"create and delete", exploreTopics, false}, {"create and delete, journal", exploreTopics, true},
		{"set aside and back", exploreStray, false}, {"set aside and back, journal", exploreStray, true},
		{"producer ids", exploreProducerIDs, false}, {"names of index files", exploreNames, false}, {"names of index files, journal", exploreNames, true},
	} {
		t.Run(s.name, func(t *testing.T) {
			x := newExplorer(t, seed)
			x.journal, x.windows, x.pads = s.journal, strings.HasSuffix(s.name, "mapped"), strings.HasSuffix(s.name, "padded")
			s.run(t, x)
			x.mu.Lock() // the store's own goroutines may be at a crash point yet
			defer x.mu.Unlock()
			if x.windows && x.maps.Load() == 0 {
				t.Error("nothing was appended through mapped memory")
			}
			t.Logf("%d states at %d crash points, %d of them with every outcome", x.states, x.points, x.whole)
			states, points = states+x.states, points+x.points
		})
	}
	t.Logf("%d states at %d crash points of all operations", states, points)
}

// numbers is a log of records "0", "1", … of one idempotent producer, and what its producer knows.
type numbers struct {
	// segmentBytes is the size of segments, 0: so small that they roll all the time.
	segmentBytes int32

	t     *testing.T
	x     *explorer
	h     *harness
	p     *Partition
	model crashModel

	acked, start int64 // when the clones were made
}

func (n *numbers) note() { n.acked, n.start = n.model.acked.Load(), n.model.start.Load() }

func newNumbers(t *testing.T, x *explorer) *numbers {
	t.Helper()
	n := &numbers{t: t, x: x}
	n.model.whole = true
	x.mark = n.note
	x.check = func(clone *vfs.Mem) error {
		return verifyClone(clone, n.acked, n.start, &n.model)
	}
	n.h = x.start("/data")
	n.open()
	return n
}

func (n *numbers) open() {
	n.p = n.h.partition("t", func(c *Config) {
		c.SegmentBytes, c.IndexIntervalBytes, c.FileDeleteDelayMs = cmp.Or(n.segmentBytes, 400), 100, 0
	})
}

func (n *numbers) produce(count int) {
	n.t.Helper()
	for range count {
		i := n.model.tried.Add(1) - 1
		if r := put(n.t, n.p, produced(7, 0, int32(i), false, fmt.Sprint(i))); r.BaseOffset != i {
			n.t.Fatalf("record %d got offset %d", i, r.BaseOffset)
		}
		n.model.acked.Store(i + 1)
	}
}

func exploreAppend(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	x.armed.Store(true)
	n.produce(3)
	for range 3 { // one commit for several
		i := n.model.tried.Add(1) - 1
		if _, err := n.p.Append(produced(7, 0, int32(i), false, fmt.Sprint(i)), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, n.p, 6)
	x.disarm()
	n.model.acked.Store(6)
}

// exploreWrap: halves are filled, written back and used again.
func exploreWrap(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.segmentBytes = 1 << 20 // a roll has the files synced
	n.open()
	n.produce(5)
	x.armed.Store(true)
	for range 12 {
		n.produce(2)
		awaitWriteBack(n.t, n.h.s.dirs[0].journal) // the write-back: without it the files are synced
	}
	x.disarm()
}

// exploreWriteBack: the files of records that were acknowledged from the journal can't be synced, and what the disk had of
// them is lost.
func exploreWriteBack(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.segmentBytes = 1 << 20 // a roll has the files synced
	n.open()
	n.produce(3)
	var failing atomic.Bool
	fault := func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpDatasync && strings.HasSuffix(op.Name, layout.LogSuffix) {
			x.m.LosePages(op.Name)
			return unix.EIO
		}
		return nil
	}
	x.fault.Store(&fault)
	x.armed.Store(true)
	failing.Store(true)
	n.p.syncFiles()
	if err := n.p.Err(); !errors.Is(err, ErrStorage) {
		t.Fatalf("after a failed write-back: %v", err)
	}
	failing.Store(false)
	n.eventually(n.p)
	if end := n.p.LogEndOffset(); end < 3 || n.p.HighWatermark() != end {
		t.Fatalf("the log ends at %d, high watermark %d", end, n.p.HighWatermark())
	}
	n.produce(1)
	x.disarm()
	for range 16 { // until the journal has forgotten the first records
		n.produce(1)
		awaitWriteBack(n.t, n.h.s.dirs[0].journal)
	}
	x.armed.Store(true)
	n.produce(1)
	x.disarm()
}

// exploreRemoved: somebody removes the journal while it is used. What nobody could know to be in danger was synced before.
func exploreRemoved(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.segmentBytes = 1 << 20 // a roll has the files synced
	n.open()
	n.produce(3)
	n.p.syncFiles()
	for half, name := range journal.Names {
		if err := x.m.Remove("/data/" + name); err != nil {
			t.Fatal(err)
		}
		x.armed.Store(true)
		for range 4 + half*smallJournal/journal.Alignment { // it is found when that half is written; then the log is synced, a new journal made, and used
			n.produce(1)
			awaitWriteBack(n.t, n.h.s.dirs[0].journal)
		}
		x.disarm()
		n.p.syncFiles()
	}
}

// eventually returns when a partition that failed was recovered.
func (n *numbers) eventually(p *Partition) {
	for p.Err() != nil {
		time.Sleep(time.Millisecond)
	}
}

func exploreRoll(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.produce(4)
	x.armed.Store(true)
	n.produce(4)
	n.h.s.checkpoint()
	n.produce(5)
	n.h.s.checkpoint()
	x.disarm()
}

// exploreNames: a checkpoint, or a clean stop, after which the next thing is a power failure. The epochs, whose file is replaced and the
// directory synced with it, do not change.
func exploreNames(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.segmentBytes = 1000
	n.open()
	n.produce(9)
	n.h.s.checkpoint()
	n.produce(9)
	x.armed.Store(true)
	n.h.s.checkpoint()
	n.produce(9)
	n.h.restart()
	n.open()
	n.produce(1)
	x.disarm()
}

func exploreDeletion(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.model.whole = false
	n.produce(20)
	x.armed.Store(true)
	for _, to := range []int64{2, 9, 15, 20} { // the last one deletes the active segment, too
		if _, err := n.p.DeleteRecords(to); err != nil {
			t.Fatal(err)
		}
		n.model.start.Store(to)
	}
	n.produce(3)
	x.disarm()
}

func exploreStop(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.produce(7)
	x.armed.Store(true)
	n.h.restart()
	n.open()
	n.produce(1)
	x.disarm()
}

func exploreRecovery(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.produce(11)
	n.h.s.checkpoint()
	n.produce(6)
	n.h.kill()
	x.armed.Store(true)
	n.h.open()
	n.open()
	n.produce(1)
	x.disarm()
}

func exploreInPlace(t *testing.T, x *explorer) {
	n := newNumbers(t, x)
	n.produce(6)
	var failing atomic.Bool
	tried := make(chan struct{}, 1000)
	fault := func(op vfs.Op) error {
		if failing.Load() && op.Kind == vfs.OpDatasync {
			if !strings.HasSuffix(op.Name, ".journal") { // there it is worse when they reach the disk all the same
				x.m.LosePages(op.Name)
			}
			tried <- struct{}{}
			return unix.EIO
		}
		return nil
	}
	x.fault.Store(&fault)
	failing.Store(true)
	i := n.model.tried.Add(1) - 1
	if _, err := n.p.Append(produced(7, 0, int32(i), false, fmt.Sprint(i)), AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	<-tried
	if err := awaitErr(n.p, i+1); !errors.Is(err, ErrStorage) {
		t.Fatalf("%v", err)
	}
	x.armed.Store(true)
	failing.Store(false)
	again := batch.Builder{HasProducer: true, ProducerID: 7, BaseSequence: int32(i)}
	again.Append(1000, []byte("longer"), fmt.Append(nil, i))
	for { // other bytes at the same place: nothing that remembers those of the failed commit may bring them back
		r, err := n.p.Append(build(&again), AppendOptions{})
		if err == nil && awaitErr(n.p, r.LastOffset+1) == nil {
			break
		}
		if err != nil && !errors.Is(err, ErrStorage) {
			t.Fatal(err)
		}
	}
	n.model.acked.Store(i + 1)
	n.produce(2)
	x.disarm()
}

// dirty is a compacted log with transactions that a round has to clean, and what must be left of it.
func dirty(t *testing.T, x *explorer) (h *harness, p *Partition) {
	want, end := map[string]string{}, int64(0)
	x.check = func(clone *vfs.Mem) error {
		checkCompactedClone(t, "compaction", clone, end, want)
		return nil
	}
	h = x.start("/data")
	p = h.partition("c", compacted)
	now := h.s.nowMs()
	for n := range 6 {
		want[fmt.Sprint("k", n%2)] = fmt.Sprint(n, strings.Repeat("x", 120))
		put(t, p, keyed(batch.Compression(n%5), now, fmt.Sprint("k", n%2, "=", want[fmt.Sprint("k", n%2)])))
		r := put(t, p, transactional(int64(n), "k0", "never"))
		if _, err := p.Append(batch.EndTxnMarker(nil, int64(n), 0, false, 1, now), AppendOptions{Origin: OriginCoordinator}); err != nil {
			t.Fatal(err)
		}
		await(t, p, r.LastOffset+2)
	}
	end = p.LogEndOffset()
	if err := p.writeOut(); err != nil {
		t.Fatal(err)
	}
	return h, p
}

func exploreCompaction(t *testing.T, x *explorer) {
	_, p := dirty(t, x)
	x.armed.Store(true)
	if !cleanNow(t, p) {
		t.Fatal("nothing to clean")
	}
	x.disarm()
}

// exploreSwapRecovery: the crash that a swap left is recovered, and a second one hits that recovery at each of its steps. The
// first one comes before each rename of the swap.
func exploreSwapRecovery(t *testing.T, x *explorer) {
	step := 1
	if *exploreLimit <= 4 {
		step = 5
	}
	for renames := 1; ; renames += step {
		y := newExplorer(t, uint64(renames))
		y.limit = max(x.limit/20, min(x.limit, 4)) // there are twenty of them
		h, p := dirty(t, y)
		var left atomic.Int64
		var broken atomic.Bool
		left.Store(int64(renames))
		fault := func(op vfs.Op) error {
			if op.Kind == vfs.OpRename && strings.Contains(op.Name, "/c-0/") && !broken.Load() {
				broken.Store(left.Add(-1) == 0)
			}
			if broken.Load() { // the process is gone: nothing reaches the disk any more
				return unix.EIO
			}
			return nil
		}
		y.fault.Store(&fault)
		err := tryClean(t, p)
		if h.kill(); !broken.Load() {
			if err != nil || renames < 8 {
				t.Fatalf("the round has fewer than %d renames, %v", renames, err)
			}
			y.fault.Store(nil)
			h.open()
			h.stop()
			return
		}
		y.fault.Store(nil)
		y.armed.Store(true)
		h.open()
		y.disarm()
		y.mu.Lock()
		x.states, x.points, x.whole = x.states+y.states, x.points+y.points, x.whole+y.whole
		y.mu.Unlock()
		h.stop()
	}
}

// exploreFirstStart: a directory that is being made is taken by the next start, with the same ids once they were told.
func exploreFirstStart(t *testing.T, x *explorer) {
	var told atomic.Pointer[string]
	x.check = func(clone *vfs.Mem) error {
		s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
		if err != nil {
			return err
		}
		if id := told.Load(); id != nil && s.ClusterID() != *id {
			return fmt.Errorf("cluster id %s, it was %s", s.ClusterID(), *id)
		}
		return s.Close(context.Background())
	}
	x.armed.Store(true)
	h := x.start("/data")
	id := h.s.ClusterID()
	told.Store(&id)
	h.restart()
	x.disarm()
}

func exploreMove(t *testing.T, x *explorer) {
	n := &numbers{t: t, x: x}
	if err := x.m.MkdirAll("/other"); err != nil {
		t.Fatal(err)
	}
	if err := x.m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	x.mark = n.note
	x.check = func(clone *vfs.Mem) error {
		return verifyClone(clone, n.acked, n.start, &n.model, "/other")
	}
	n.h = x.start("/data", "/other")
	n.open()
	n.produce(9)
	if _, err := n.p.DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	n.model.start.Store(2)
	x.armed.Store(true)
	for _, to := range []string{"/other", "/data"} {
		moveTo(t, n.p, to)
		n.produce(2)
	}
	x.disarm()
}

// exploreTopics: a topic is there whole or not at all, and never with another one's records.
func exploreTopics(t *testing.T, x *explorer) {
	var acked, created atomic.Int64 // generation that must be there, and the newest that may be
	x.check = func(clone *vfs.Mem) error {
		s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
		if err != nil {
			return err
		}
		p := s.Get("t", 0)
		if p == nil && acked.Load() > 0 {
			return fmt.Errorf("the topic of generation %d is gone", acked.Load())
		}
		if p != nil && p.LogEndOffset() > 0 {
			got := values(t, p, 0, ReadUncommitted)
			if want := fmt.Sprint(p.TopicID()[0]); slices.ContainsFunc(got, func(v string) bool { return v != want }) {
				return fmt.Errorf("topic id %v holds %v", p.TopicID(), got)
			}
		}
		if p != nil && int64(p.TopicID()[0]) > created.Load() {
			return fmt.Errorf("topic id %v was never made", p.TopicID())
		}
		next, err := s.Ensure("t", [16]byte{99}, 0, DefaultConfig())
		if err != nil || next.LogEndOffset() != 0 && (p == nil || p.TopicID() != [16]byte{}) {
			return fmt.Errorf("a new topic of the name: %w", err)
		}
		return s.Close(context.Background())
	}
	h := x.start("/data")
	x.armed.Store(true)
	for generation := byte(1); generation <= 2; generation++ {
		created.Store(int64(generation))
		p, err := h.s.Ensure("t", [16]byte{generation}, 0, DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		acked.Store(int64(generation))
		put(t, p, records(fmt.Sprint(generation), fmt.Sprint(generation)))
		acked.Store(0)
		if err := h.s.Delete("t", 0); err != nil {
			t.Fatal(err)
		}
	}
	x.disarm()
}

func exploreProducerIDs(t *testing.T, x *explorer) {
	var last atomic.Int64
	last.Store(-1)
	x.check = func(clone *vfs.Mem) error {
		s, err := Open(context.Background(), Options{Dirs: []string{"/data"}, FS: clone, Cleaner: byHand})
		if err != nil {
			return err
		}
		id, err := s.NextProducerID()
		if err != nil || id <= last.Load() {
			return fmt.Errorf("producer id %d after %d: %w", id, last.Load(), err)
		}
		return s.Close(context.Background())
	}
	h := x.start("/data")
	x.armed.Store(true)
	for range 2500 {
		id, err := h.s.NextProducerID()
		if err != nil {
			t.Fatal(err)
		}
		last.Store(id)
	}
	x.disarm()
}
