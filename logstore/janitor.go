package logstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"

	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/index"
	"kaas/logstore/janitor"
	"kaas/logstore/layout"
	"kaas/logstore/segment"
)

// newJanitor is what is done in the background, and when.
func newJanitor(s *Store) *janitor.Janitor[*Partition] {
	o := &s.options
	return janitor.New(s.segments, janitor.Chores[*Partition]{
		WriteOut: func(p *Partition) {
			if err := p.writeOut(); err != nil {
				s.logger.Warn("sealed segment's indexes not written, again at the next checkpoint", "topic", p.topic, "partition", p.id, "error", err)
			}
		},
		MakeSpare: (*Partition).makeSpare,
		Remove: func(dir string) {
			if err := s.fs.RemoveAll(dir); err != nil {
				s.logger.Warn("directory not removed, again at the next start", "dir", dir, "error", err)
			}
		},
		DiskFull: func() { s.giveBackAhead(true) },
		LetGo:    s.letGo,
		Checkpoint: func() {
			s.checkpoint()
			s.giveBackAhead(false)
		},
		Retention:    s.applyRetention,
		CheckpointMs: o.CheckpointIntervalMs, FirstRetentionMs: o.InitialDelayMs, RetentionMs: o.RetentionCheckIntervalMs,
		UpMs: s.upMs,
	})
}

// giveBackAhead frees the space ahead of logs that do not grow, on a full disk that of all.
func (s *Store) giveBackAhead(full bool) {
	if s.segments.AheadBytes() == 0 {
		return
	}
	for _, p := range s.All() {
		p.mu.Lock()
		if p.failure.Load() == nil {
			if err := p.segments.Load().active().GiveBackAhead(full); err != nil {
				s.logger.Warn("space ahead not freed", "topic", p.topic, "partition", p.id, "error", err)
			}
		}
		p.mu.Unlock()
	}
}

// writeOut writes the index files and snapshots of sealed segments, durably. Calls take turns.
func (p *Partition) writeOut() error {
	p.writeOutMu.Lock()
	defer p.writeOutMu.Unlock()
	return p.writeOutLocked()
}

// writeOutLocked is writeOut for callers that hold writeOutMu.
func (p *Partition) writeOutLocked() error {
	p.mu.Lock()
	txnMissing := p.txnMissing
	p.mu.Unlock()
	if txnMissing {
		if err := p.writeMissingAborted(); err != nil {
			return err
		}
	}
	for {
		p.mu.Lock()
		if len(p.pending) == 0 || p.failure.Load() != nil {
			p.mu.Unlock()
			return nil
		}
		seal := p.pending[0]
		alive := seal.segment.Acquire()
		p.mu.Unlock()
		var err error
		if alive { // once the snapshot stands, no recovery makes these entries again
			p.syncMu.Lock() // a sync that runs may have begun before the file was cut
			err = seal.segment.SyncEnd(p.synced.Load() >= seal.segment.EndOffset.Load())
			p.syncMu.Unlock()
			if err != nil {
				p.fail(err) // a second sync would succeed without having written them
			} else {
				err = seal.segment.WriteAbortedCopy() // nor would they be missed
			}
		}
		if err == nil && seal.snapshot != nil { // also when the segment is gone: it tells of what was in it
			err = vfs.WriteFileAtomic(p.store.fs, layout.SegmentFile(p.path(), seal.snapshotOffset, layout.SnapshotSuffix), p.path(), seal.snapshot.Encode(&p.mu))
		}
		if alive {
			if err == nil {
				err = seal.segment.WriteSealed()
			}
			p.namesMade(seal.segment)
			seal.segment.Release()
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		if len(p.pending) > 0 && p.pending[0].segment == seal.segment {
			p.pending = p.pending[1:]
		}
		p.mu.Unlock()
	}
}

// checkpoint writes everything that lets the next recovery start late: index entries, epochs, then the recovery points.
func (s *Store) checkpoint() {
	dirty := map[*logDir]map[*Partition]int64{}
	for _, p := range s.All() {
		point, changed, err := p.prepareCheckpoint()
		if err != nil {
			s.logger.Warn("partition left out of the checkpoint", "topic", p.topic, "partition", p.id, "error", err)
			continue
		}
		if changed {
			if dirty[p.logDir()] == nil {
				dirty[p.logDir()] = map[*Partition]int64{}
			}
			dirty[p.logDir()][p] = point
		}
	}
	for d, points := range dirty {
		if err := s.writeCheckpoints(d, nil); err != nil {
			s.logger.Warn("checkpoint not written; the next recovery reads more", "dir", d.path, "error", err)
			continue
		}
		for p, point := range points {
			p.mu.Lock()
			p.checkpointed = max(p.checkpointed, point)
			p.mu.Unlock()
		}
	}
}

// prepareCheckpoint makes the files durable that recovery trusts below the recovery point, and sets the point.
func (p *Partition) prepareCheckpoint() (point int64, changed bool, err error) {
	if p.synced.Load() < p.durable.Load() {
		p.syncFiles() // the journal lets the point stand where it was
	}
	p.mu.Lock()
	same := p.synced.Load() == p.recoveryPoint.Load() && !p.epochs.Dirty && len(p.pending) == 0 && !p.txnMissing
	p.mu.Unlock()
	if same || p.failure.Load() != nil {
		return 0, false, nil
	}
	p.writeOutMu.Lock() // a recovery in place must not find index entries of the log as it was
	defer p.writeOutMu.Unlock()
	if err := p.writeOutLocked(); err != nil {
		return 0, false, err
	}
	p.mu.Lock()
	if p.failure.Load() != nil {
		p.mu.Unlock()
		return 0, false, nil
	}
	point = p.synced.Load()
	g := p.segments.Load().active()
	if g.Rewrite() {
		g.WrittenOffsets, g.WrittenTimes = 0, 0
	}
	m := g.Writable() // after Rewrite: an index that was made anew is there before it says so
	fromOffsets, fromTimes := g.WrittenOffsets, g.WrittenTimes
	var epochs []byte
	if p.epochs.Dirty {
		epochs = p.epochs.Encode()
		p.epochs.Dirty = false
	}
	alive := g.Acquire()
	if len(p.pending) > 0 { // rolled since: what is not written out must not be trusted, nor its file's size
		point = min(point, max(p.pending[0].segment.BaseOffset, p.recoveryPoint.Load()))
	}
	p.mu.Unlock()
	if !alive {
		return 0, false, nil
	}
	defer g.Release()
	if m != nil {
		offsets, times := int(m.Offsets.Len()), int(m.Times.Len())
		if offsets > fromOffsets || times > fromTimes {
			err := g.WriteIndexes(m, fromOffsets, fromTimes)
			p.namesMade(g)
			if err != nil {
				return 0, false, err
			}
			p.mu.Lock()
			g.WrittenOffsets, g.WrittenTimes = offsets, times
			p.mu.Unlock()
		}
	}
	if epochs != nil {
		if err := vfs.WriteFileAtomic(p.store.fs, filepath.Join(p.path(), checkpoint.EpochsName), p.path(), epochs); err != nil {
			p.mu.Lock()
			p.epochs.Dirty = true
			p.mu.Unlock()
			return 0, false, err
		}
	}
	if err := p.syncNames(); err != nil {
		return 0, false, err
	}
	p.recoveryPoint.Store(point)
	return point, true, nil
}

// namesMade notes whether the directory has to be synced because g made index files. Caller: writeOutMu, or the stop.
func (p *Partition) namesMade(g *segment.Segment) {
	if g.MadeNames() {
		p.namesUnsynced = true
	}
}

// syncNames makes the names of index files durable: a recovery point that was beyond them, or a clean mark, would have the next start
// miss them, and read the segments whole. Caller: writeOutMu, or the stop.
func (p *Partition) syncNames() error {
	if !p.namesUnsynced {
		return nil
	}
	if err := p.store.fs.SyncDir(p.path()); err != nil {
		return err
	}
	p.namesUnsynced = false
	return nil
}

// writeCheckpoints replaces a directory's recovery point and log start files. starts overrides log start offsets that are
// to become durable before they become visible; a partition in it that lies elsewhere is about to be moved here.
func (s *Store) writeCheckpoints(d *logDir, starts map[*Partition]int64) error {
	d.checkpointMu.Lock()
	defer d.checkpointMu.Unlock()
	s.mu.Lock()
	var stale []checkpoint.Key
	for key := range d.stale {
		stale = append(stale, key)
	}
	s.mu.Unlock()
	var points, logStarts, cleaned checkpoint.Offsets
	for _, p := range s.All() {
		if _, arriving := starts[p]; p.logDir() != d && !arriving {
			continue
		}
		if point := p.recoveryPoint.Load(); point > 0 {
			points.Add(p.topic, p.id, point)
		}
		if start := max(p.logStart.Load(), starts[p]); start > 0 {
			logStarts.Add(p.topic, p.id, start)
		}
		if to := p.cleanedTo.Load(); to >= 0 {
			cleaned.Add(p.topic, p.id, to)
		}
	}
	if cleaned.Len() > 0 || d.hasCleanedTo {
		if err := cleaned.Write(s.fs, d.path, layout.CleanedToName); err != nil {
			return err
		}
		d.hasCleanedTo = true
	}
	if err := points.Write(s.fs, d.path, layout.RecoveryPointName); err != nil {
		return err
	}
	if err := logStarts.Write(s.fs, d.path, layout.LogStartName); err != nil {
		return err
	}
	s.mu.Lock()
	for _, key := range stale {
		delete(d.stale, key)
	}
	s.mu.Unlock()
	return nil
}

// Close flushes, writes checkpoints and snapshots and marks the shutdown as clean. When something fails the mark is not
// written and the next start recovers.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.compactor.cancel()
	s.healer.Stop()
	s.mover.stop()
	s.probes.Stop()
	all := s.All()
	stopped := make(chan struct{})
	var journals error // set before stopped is closed
	go func() {        // it waits for the disk, which may be stalled
		defer close(stopped)
		s.compactor.wait()
		s.healer.Wait()
		s.mover.work.Wait()
		s.probes.Wait()
		s.janitor.Stop()
		s.giveBackAhead(true) // before the last sync of each file
		for _, p := range all {
			p.mu.Lock()
			if p.end.offset.Load() > p.durable.Load() {
				s.committer.Enqueue(&p.commits)
			}
			p.mu.Unlock()
		}
		s.committer.Close()
		journals = s.endJournals(ctx, all)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		return fmt.Errorf("logstore: the disk did not answer in time, the next start recovers: %w", errors.Join(ctx.Err(), s.unlock()))
	}
	ends, errs := s.finishAll(ctx, all)
	if journals != nil {
		errs = append(errs, journals)
	}
	for _, d := range s.dirs {
		if len(errs) > 0 {
			break
		}
		if err := s.markClean(d, ends[d]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.path, err))
		}
	}
	for _, p := range all {
		p.close()
	}
	s.segments.StopAhead() // nobody appends any more
	s.janitor.Doomed.Release(math.MaxInt64)
	s.segments.Bury()
	return errors.Join(append(errs, s.unlock())...)
}

// endJournals writes back what the journals hold and removes them, unless the stop has taken too long: then the directories are
// unlocked already. Nothing is committed any more.
func (s *Store) endJournals(ctx context.Context, all []*Partition) error {
	whole := map[*logDir]bool{}
	for _, d := range s.dirs {
		whole[d] = true
	}
	for _, p := range all {
		if p.synced.Load() < p.durable.Load() {
			p.syncFiles()
		}
		if p.synced.Load() < p.durable.Load() {
			whole[p.logDir()] = false // it failed, and its records stand in the journal only
		}
	}
	var errs []error
	for _, d := range s.dirs {
		errs = append(errs, d.journal.stop(whole[d] && ctx.Err() == nil))
	}
	return errors.Join(errs...)
}

// finishAll writes what the next start needs of each partition, several at a time: most of it is waiting for the disk.
func (s *Store) finishAll(ctx context.Context, all []*Partition) (ends map[*logDir]*checkpoint.Offsets, errs []error) {
	ends = map[*logDir]*checkpoint.Offsets{}
	for _, d := range s.dirs {
		ends[d] = new(checkpoint.Offsets)
	}
	var mu sync.Mutex // guards ends and errs
	var workers sync.WaitGroup
	queue := make(chan *Partition)
	for range min(s.options.FlushWorkers, max(len(all), 1)) {
		workers.Go(func() {
			for p := range queue {
				err := p.finish(func(numbers ...int64) {
					mu.Lock()
					defer mu.Unlock()
					ends[p.logDir()].Add(p.topic, p.id, numbers...)
				})
				if err != nil {
					mu.Lock()
					errs = append(errs, p.wrap(err))
					mu.Unlock()
				}
			}
		})
	}
	for _, p := range all {
		if ctx.Err() != nil {
			break
		}
		if p.failure.Load() == nil { // else recovered at the next start: it has no line
			queue <- p
		}
	}
	close(queue)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		errs = append(errs, err)
	}
	return ends, errs
}

// finish writes what the partition needs for a start that reads nothing of the log.
func (p *Partition) finish(add func(numbers ...int64)) error {
	err := p.writeOut() // before the snapshot: the next recovery begins behind it
	if err == nil {
		err = p.noteLogStart(p.logStart.Load())
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	g := p.segments.Load().active()
	end := p.end.load()
	snapshot := []byte(nil)
	if p.producers.Changed {
		snapshot = p.producers.Encode()
	}
	if m := g.Writable(); m != nil && g.MaxTimestampMs > segment.UnknownTimestamp {
		index.AppendTime(m, g.MaxTimestampMs, g.MaxTimestampAt, g.BaseOffset)
	}
	p.mu.Unlock()
	if p.durable.Load() < end.offset {
		return fmt.Errorf("%w: offsets from %d on are not durable", ErrStorage, p.durable.Load())
	}
	if snapshot != nil {
		if g.HasTxnIndex { // the next recovery begins behind the snapshot
			if err := g.WriteAbortedCopy(); err != nil {
				return err
			}
		}
		if err := vfs.WriteFileAtomic(p.store.fs, layout.SegmentFile(p.path(), end.offset, layout.SnapshotSuffix), p.path(), snapshot); err != nil {
			return err
		}
		p.producers.SnapshotTaken(end.offset)
	}
	if _, _, err := p.prepareCheckpoint(); err != nil {
		return err
	}
	if m := g.Writable(); m != nil && (int(m.Offsets.Len()) > g.WrittenOffsets || int(m.Times.Len()) > g.WrittenTimes) {
		if err := g.WriteIndexes(m, g.WrittenOffsets, g.WrittenTimes); err != nil {
			return err
		}
		p.namesMade(g)
	}
	if err := errors.Join(g.SyncEnd(true), p.syncNames()); err != nil {
		return err
	}
	known := min(int64(p.producers.Len()), 1)
	add(append(append([]int64{end.offset, g.BaseOffset, g.SizeBytes.Load(), known}, g.Sums().Numbers()...), int64(p.epochs.Latest()))...)
	return nil
}

func (s *Store) markClean(d *logDir, ends *checkpoint.Offsets) error {
	if err := s.writeCheckpoints(d, nil); err != nil {
		return err
	}
	if err := ends.Write(s.fs, d.path, layout.EndStateName); err != nil {
		return err
	}
	return vfs.WriteFileAtomic(s.fs, filepath.Join(d.path, layout.CleanShutdownName), d.path, []byte(`{"version":0,"brokerEpoch":-1}`))
}
