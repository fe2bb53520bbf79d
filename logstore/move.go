package logstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/cleaner"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/segment"
	"kaas/logstore/volume"
)

// mover moves partitions between log directories (AlterReplicaLogDirs, KIP-113): the log is copied beside the running one,
// and put into its place in one step when little is left. Steps and what a crash leaves: docs/format/operations.md, move.
type mover struct {
	store    *Store
	throttle *cleaner.Throttle
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu    sync.Mutex
	moves map[*Partition]*move // running; owner: mu
}

// move is one that runs.
type move struct {
	p      *Partition
	to     *logDir
	path   string // the future directory
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	bytes  atomic.Int64  // copied
	end    atomic.Int64  // offset up to which it is copied
	copier volume.Copier // owner: the move's goroutine
	// generation is the partition's when the move began: after a recovery in place the copy may hold what was cut.
	generation int64 // owner: the move's goroutine
	last       bool  // appends are refused while it copies: it does not wait for its rate; owner: the move's goroutine
}

func newMover(s *Store) *mover {
	m := &mover{store: s, throttle: cleaner.NewThrottle(s.options.MoveMaxBytesPerSecond), moves: map[*Partition]*move{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// stop lets no further move begin and gives up those that run.
func (m *mover) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cancel()
}

// MoveTo begins to move a partition to another log directory, an element of Options.Dirs, and returns. A move that runs to
// another one is given up; to where the partition lies ends any move. Future tells how far it is.
func (s *Store) MoveTo(topic string, partition int32, dir string) error {
	p := s.Get(topic, partition)
	if p == nil {
		return fmt.Errorf("%s-%d: %w", topic, partition, ErrUnknownPartition)
	}
	if err := p.Err(); err != nil {
		return err
	}
	for _, d := range s.dirs {
		if d.path == dir {
			return s.mover.begin(p, d)
		}
	}
	return p.wrap(fmt.Errorf("%w: %s", ErrLogDirNotFound, dir))
}

// Future is the directory that the partition is being moved to, how much of it is there, and up to which offset; "" when it is
// not moved.
func (p *Partition) Future() (dir string, copiedBytes, endOffset int64) {
	m := p.store.mover
	m.mu.Lock()
	defer m.mu.Unlock()
	if v := m.moves[p]; v != nil {
		return v.to.path, v.bytes.Load(), v.end.Load()
	}
	return "", 0, 0
}

func (m *mover) begin(p *Partition, to *logDir) error {
	for {
		m.mu.Lock()
		v := m.moves[p]
		if v == nil {
			break
		}
		m.mu.Unlock()
		if v.to == to {
			return nil
		}
		v.cancel()
		<-v.done
	}
	defer m.mu.Unlock()
	if p.logDir() == to {
		return nil
	}
	if m.ctx.Err() != nil {
		return p.wrap(ErrClosed)
	}
	v := &move{p: p, to: to, done: make(chan struct{})}
	v.path = filepath.Join(to.path, layout.AsideDir(p.topic, p.id, checkpoint.RandomUUID(), layout.FutureDirSuffix))
	v.ctx, v.cancel = context.WithCancel(m.ctx)
	v.copier = volume.Copier{FS: m.store.fs, Dir: v.path, Step: func(bytes int) error {
		v.bytes.Add(int64(bytes))
		if v.last {
			return v.ctx.Err()
		}
		return m.throttle.Wait(v.ctx, bytes)
	}}
	m.moves[p] = v
	m.work.Go(func() { m.run(v) })
	return nil
}

// leave ends a move of p and waits for it.
func (m *mover) leave(p *Partition) {
	m.mu.Lock()
	v := m.moves[p]
	m.mu.Unlock()
	if v != nil {
		v.cancel()
		<-v.done
	}
}

func (m *mover) run(v *move) {
	p := v.p
	log := m.store.logger.With("topic", p.topic, "partition", p.id, "from", p.logDir().path, "to", v.to.path)
	log.Info("partition is being moved")
	p.store.compactor.hold(p, true)
	err := v.run(m)
	p.store.compactor.hold(p, false)
	if err != nil && m.ctx.Err() != nil {
		log.Info("the store stops, the next start moves the partition") // it finds the copy
	} else if err != nil {
		err = errors.Join(err, m.store.fs.RemoveAll(v.path))
		log.Warn("partition not moved; ask for it again", "error", err)
	} else {
		log.Info("partition moved", "bytes", v.bytes.Load())
	}
	v.cancel()
	m.mu.Lock()
	delete(m.moves, p)
	m.mu.Unlock()
	close(v.done)
}

// run copies until little is left, then finishes.
func (v *move) run(m *mover) error {
	v.p.mu.Lock()
	v.generation = v.p.generation
	v.p.mu.Unlock()
	if err := m.store.fs.Mkdir(v.path); err != nil {
		return err
	}
	if err := v.to.Sync(); err != nil { // from here on a start goes on with the move
		return err
	}
	for {
		left, err := v.copyLogs()
		if err != nil {
			return err
		}
		if left > limits.MoveFinalBytes {
			continue
		}
		if err = v.finish(m); !errors.Is(err, errJournalBusy) {
			return err
		}
		select { // until the journal's worker has written back
		case <-v.ctx.Done():
			return v.ctx.Err()
		case <-time.After(limits.MoveJournalWait):
		}
	}
}

// finish refuses appends for a moment and puts the copy into the place of the partition. Reads go on.
func (v *move) finish(m *mover) error {
	p := v.p
	p.freeze(true)
	v.last = true
	defer func() {
		v.last = false
		p.freeze(false)
	}()
	p.mu.Lock()
	p.store.committer.Enqueue(&p.commits)
	p.mu.Unlock()
	p.store.committer.Settle(&p.commits)
	return v.replace(m)
}

// copyLogs copies what the logs have got since the last call; left is how much they have got meanwhile.
func (v *move) copyLogs() (left int64, err error) {
	for _, g := range v.p.segments.Load().all {
		if !g.Acquire() {
			continue // deleted, or gave way to another one of the same files: left counts that
		}
		end := g.EndOffset.Load() // before the size: it is not ahead of what is copied
		err := v.copyLog(g)
		g.Release()
		if err != nil {
			return 0, err
		}
		v.end.Store(end)
	}
	if err := v.copyIndexes(); err != nil {
		return 0, err
	}
	for _, g := range v.p.segments.Load().all {
		left += g.SizeBytes.Load() - v.copier.Copied(filepath.Base(g.Path(layout.LogSuffix)))
	}
	return left, nil
}

// copyLog copies what is missing, by a descriptor of its own: a log may have more segments than the process may have files open. The caller
// holds a reference.
func (v *move) copyLog(g *segment.Segment) error {
	name, size := filepath.Base(g.Path(layout.LogSuffix)), g.SizeBytes.Load()
	if size > 0 && v.copier.Copied(name) >= size {
		return nil
	}
	v.p.store.roomForFiles()
	f, err := g.OpenAgain()
	if err != nil {
		return err
	}
	return errors.Join(v.copier.File(f, name, size), f.Close())
}

// copyIndexes copies the index files that will not change any more: those of a large log take longer than appends may be
// refused. Those of the active segment are made anew from the batch headers.
func (v *move) copyIndexes() error {
	changing := map[*segment.Segment]bool{}
	v.p.mu.Lock()
	for _, seal := range v.p.pending {
		changing[seal.segment] = true
	}
	all := v.p.segments.Load().all
	v.p.mu.Unlock()
	for _, g := range all {
		for _, suffix := range []string{layout.IndexSuffix, layout.TimeIndexSuffix, layout.SumsSuffix, layout.TxnCopySuffix, layout.TxnIndexSuffix} {
			if changing[g] || !g.Sealed.Load() && (!v.last || suffix != layout.TxnIndexSuffix) {
				continue
			}
			if err := v.copier.Whole(g.Path(suffix)); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace copies the rest and gives it the partition's place. Caller: appends frozen, everything committed.
func (v *move) replace(m *mover) error {
	p, s := v.p, m.store
	p.headMu.Lock()
	defer p.headMu.Unlock()
	p.writeOutMu.Lock()
	defer p.writeOutMu.Unlock()
	if err := p.writeOutLocked(); err != nil {
		return err
	}
	old, before := p.place.Load(), p.segments.Load()
	if err := v.leaveJournal(old.dir); err != nil {
		return err
	}
	if _, err := v.copyLogs(); err != nil {
		return err
	}
	if err := v.copySmall(m); err != nil {
		return err
	}
	key := checkpoint.Key{Topic: p.topic, Partition: p.id}
	// The log start must be there when the copy is; an earlier life of the partition there must not be.
	if err := s.writeCheckpoints(v.to, map[*Partition]int64{p: p.logStart.Load()}); err != nil {
		return err
	}
	path := filepath.Join(v.to.path, layout.PartitionDir(p.topic, p.id))
	if err := s.fs.Rename(v.path, path); err != nil {
		return err
	}
	q, err := v.openAt(path, key)
	if err == nil {
		err = s.fs.SyncDir(v.to.path)
	}
	if err == nil {
		err = p.adopt(q)
	}
	if err != nil {
		return errors.Join(err, v.takeBack(s, old, path))
	}
	s.mu.Lock()
	old.dir.partitions--
	v.to.partitions++
	old.dir.stale[key] = true
	s.mu.Unlock()
	return v.removeOld(s, old, path, before)
}

// leaveJournal makes what the commit journal of the old directory holds of the partition mean nothing, durably, while nobody
// serves the copy yet: the partition may come back one day, compacted meanwhile, and a start would write those records over it. From
// here on the old directory's files must say everything, whatever becomes of the move. Caller: appends frozen.
func (v *move) leaveJournal(dir *logDir) error {
	p := v.p
	if p.synced.Load() < p.end.offset.Load() {
		p.syncFiles()
	}
	if err := p.Err(); err != nil {
		return err
	}
	if synced, end := p.synced.Load(), p.end.offset.Load(); synced < end {
		return fmt.Errorf("%w: offsets from %d to %d are not synced", ErrStorage, synced, end)
	}
	return dir.journal.forget(p, math.MaxInt64)
}

// takeBack takes the mark away before anything is appended to the old directory: a start would take the copy for the newer
// one. When not even that works the partition stays closed until the next start, which serves the copy.
func (v *move) takeBack(s *Store, old *place, path string) error {
	err := s.fs.Remove(filepath.Join(path, layout.MovedName))
	if err == nil {
		err = s.fs.SyncDir(path)
	}
	if err == nil {
		err = s.fs.Rename(path, v.path)
	}
	s.mu.Lock()
	v.to.stale[checkpoint.Key{Topic: v.p.topic, Partition: v.p.id}] = true
	s.mu.Unlock()
	if err != nil {
		v.p.close()
		err = fmt.Errorf("closed until the next start, because the copy %s can't be taken back: %w", path, err)
	}
	return err
}

// copySmall writes what stands beside the logs: producer state as of now, epochs, metadata, and last the mark that the copy is
// complete. Caller: headMu, writeOutMu, appends frozen.
func (v *move) copySmall(m *mover) error {
	p, fsys := v.p, m.store.fs
	keep := map[string]bool{}
	for _, g := range p.segments.Load().all {
		keep[filepath.Base(g.Path(""))] = true
	}
	if err := v.copier.Keep(keep); err != nil { // retention took the others meanwhile
		return err
	}
	p.mu.Lock()
	f := p.failure.Load()
	end, snapshot, epochs := p.end.offset.Load(), p.producers.Encode(), p.epochs.Encode()
	whole := p.durable.Load() >= end && p.generation == v.generation
	p.mu.Unlock()
	if f != nil || !whole {
		return fmt.Errorf("the partition failed while it was moved: %w", errors.Join(ErrStorage, p.Err()))
	}
	if err := vfs.WriteFileAtomic(fsys, layout.SegmentFile(v.path, end, layout.SnapshotSuffix), v.path, snapshot); err != nil {
		return err
	}
	g := p.segments.Load().active()
	aborted, err := g.AbortedTxns()
	if err == nil && len(aborted) > 0 {
		err = vfs.WriteFileAtomic(fsys, layout.SegmentFile(v.path, g.BaseOffset, layout.TxnCopySuffix), v.path, index.EncodeAbortedCopy(aborted))
	}
	if err != nil {
		return err
	}
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(v.path, checkpoint.EpochsName), v.path, epochs); err != nil {
		return err
	}
	if start := p.logStart.Load(); start > p.segments.Load().all[0].BaseOffset {
		if err := p.writeLogStart(v.path, start); err != nil {
			return err
		}
	}
	if err := checkpoint.WritePartitionMetadata(fsys, v.path, p.topicID); err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, filepath.Join(v.path, layout.MovedName), v.path, nil)
}

// openAt recovers the copy, of which everything is known to be synced.
func (v *move) openAt(path string, key checkpoint.Key) (*Partition, error) {
	p := v.p
	q := p.store.newPartition(v.to, key, path)
	q.config.Store(p.config.Load())
	end := p.end.offset.Load()
	t := q.recoveryTask()
	t.Point, t.LogStart, t.Durable, t.CleanedTo = end, p.logStart.Load(), end, p.cleanedTo.Load()
	if err := q.recoverFrom(t); err != nil {
		return nil, err
	}
	if found := q.end.offset.Load(); found != end {
		q.close()
		return nil, fmt.Errorf("the copy ends at offset %d, the log at %d", found, end)
	}
	// The copy has the same bytes at the same places, and the snapshot does not hold all that is known.
	p.mu.Lock()
	q.producers, q.epochs = p.producers, p.epochs
	p.mu.Unlock()
	return q, nil
}

// removeOld sets the old directory aside, then takes the mark away. What fails here, the next start does.
func (v *move) removeOld(s *Store, old *place, path string, before *segmentList) error {
	aside := filepath.Join(old.dir.path, layout.AsideDir(v.p.topic, v.p.id, checkpoint.RandomUUID(), layout.DeleteDirSuffix))
	err := v.letRead(before)
	if err == nil {
		err = s.fs.Rename(old.path, aside)
	}
	if err == nil {
		err = s.fs.SyncDir(old.dir.path)
	}
	if err == nil {
		err = s.fs.Remove(filepath.Join(path, layout.MovedName))
	}
	if err == nil {
		s.janitor.Remove(aside)
		err = errors.Join(s.writeCheckpoints(v.to, nil), s.writeCheckpoints(old.dir, nil))
	}
	if err != nil {
		s.logger.Warn("old directory of a moved partition not removed, again at the next start", "dir", old.path, "error", err)
	}
	return nil
}

// letRead opens what those who read the list of before the move may look for later by its old name. That list has dropped its references
// by now: a segment that can be acquired is somebody's, any other one nobody's ever again.
func (v *move) letRead(before *segmentList) error {
	for _, g := range before.all {
		if !g.Acquire() {
			continue
		}
		_, err := g.Open()
		if err == nil {
			err = g.LoadIndex()
		}
		if err == nil {
			_, err = g.AbortedTxns()
		}
		g.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// settleMoves brings to an end what moves a stop interrupted; those that have to be begun again are returned.
func (s *Store) settleMoves() ([]volume.Move, error) {
	var dirs []*volume.Dir
	for _, d := range s.dirs {
		dirs = append(dirs, d.Dir)
	}
	unfinished, remove, err := volume.SettleMoves(dirs, s.known.Complete())
	for _, dir := range remove {
		s.janitor.Remove(dir)
	}
	return unfinished, err
}

// resumeMoves begins moves again that a stop interrupted.
func (s *Store) resumeMoves(unfinished []volume.Move) {
	for _, m := range unfinished {
		p := s.Get(m.Key.Topic, m.Key.Partition)
		if p == nil {
			continue
		}
		for _, d := range s.dirs {
			if d.Dir != m.To {
				continue
			}
			if err := s.mover.begin(p, d); err != nil {
				s.logger.Warn("partition not moved; ask for it again", "topic", p.topic, "partition", p.id, "to", d.path, "error", err)
			}
		}
	}
}

// SetMoveMaxBytesPerSecond changes replica.alter.log.dirs.io.max.bytes.per.second; 0: no bound. Moves that run obey it.
func (s *Store) SetMoveMaxBytesPerSecond(rate float64) { s.mover.throttle.SetRate(rate) }
