package logstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
	"kaas/logstore/producer"
	"kaas/logstore/recovery"
	"kaas/logstore/segment"
	"kaas/logstore/volume"
)

// recoverDir opens every partition of a log directory, several at a time.
func (s *Store) recoverDir(ctx context.Context, d *logDir) (count int, err error) {
	st, err := d.ReadState()
	if err != nil {
		return 0, err
	}
	d.hasCleanedTo = len(st.CleanedTo) > 0
	tasks, deleted, err := d.List(&s.strays)
	if err != nil {
		return 0, err
	}
	for _, path := range deleted {
		s.janitor.Remove(path)
	}
	present := map[checkpoint.Key]bool{}
	for _, t := range tasks {
		present[t.Key] = true
	}
	for _, m := range []map[checkpoint.Key][]int64{st.RecoveryPoints, st.LogStarts, st.CleanedTo} {
		for key := range m {
			if !present[key] {
				d.stale[key] = true
			}
		}
	}
	var wg sync.WaitGroup
	queue := make(chan volume.Partition)
	for range min(s.options.NumRecoveryThreadsPerDataDir, max(len(tasks), 1)) {
		wg.Go(func() {
			for t := range queue {
				s.openPartition(d, t.Key, t.Path, &st)
			}
		})
	}
	for _, t := range tasks {
		if ctx.Err() != nil {
			break
		}
		queue <- t
	}
	close(queue)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		if st.Journal != nil {
			err = errors.Join(err, st.Journal.Close())
		}
		return len(tasks), err
	}
	return len(tasks), s.settleJournal(d, &st)
}

// abandon goes on without a log directory that failed in the middle of its recovery, if that is possible. Called during Open.
func (s *Store) abandon(d *logDir, reason error) error {
	if err := s.known.Fail(d.Dir, reason); err != nil {
		return err
	}
	s.dirs = slices.DeleteFunc(s.dirs, func(x *logDir) bool { return x == d })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.All() {
		if p.logDir() == d {
			s.publish(checkpoint.Key{Topic: p.topic, Partition: p.id}, nil)
			p.close()
		}
	}
	maps.DeleteFunc(s.broken, func(_ checkpoint.Key, b *broken) bool { return b.dir == d })
	return nil
}

// settleJournal lets go of a journal of which everything was applied and synced. What belongs to a partition that could not be
// recovered is kept for its next try.
func (s *Store) settleJournal(d *logDir, st *volume.State) error {
	c := st.Journal
	if c == nil {
		return nil
	}
	log := s.logger.With("dir", d.path, "blocks", c.Blocks, "torn", c.Torn)
	if c.Gap {
		log.Error("blocks of the commit journal are missing: the disk lost what it had synced")
	}
	if n := c.Stale(); n > 0 {
		log.Error("the commit journal is damaged or of another day: entries that do not fit their logs were left out", "entries", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.broken {
		if b.dir != d || b.st.Journal == nil || !c.Has(key.Topic, key.Partition) {
			continue
		}
		if err := c.Extract(key.Topic, key.Partition, b.path, rand.Uint64()|1); err != nil {
			log.Error("the commit journal is kept for a partition that can't be recovered, and not used meanwhile", "topic", key.Topic, "partition", key.Partition, "error", err)
			d.journal.hold(c)
			return nil
		}
		kept := *b.st // its directory has what the journal had
		kept.Journal = nil
		b.st = &kept
	}
	if c.Blocks > 0 {
		log.Info("commit journal applied")
	}
	return c.Remove()
}

// openPartition recovers one directory and puts it in the map; a failure takes only this partition down.
func (s *Store) openPartition(d *logDir, key checkpoint.Key, path string, st *volume.State) {
	p := s.newPartition(d, key, path)
	t := p.recoveryTask()
	st.Tell(key, t)
	if c := st.Journal; c != nil && c.Has(key.Topic, key.Partition) {
		t.Restore = func(id [16]byte) error {
			n, err := c.Apply(key.Topic, key.Partition, id, t.Point, func(base int64) string { return layout.SegmentFile(path, base, layout.LogSuffix) })
			s.logger.Debug("records taken from the commit journal", "dir", path, "bytes", n)
			return err
		}
	}
	err := p.recoverFrom(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.broken[key]
	delete(s.broken, key)
	if other := s.Get(key.Topic, key.Partition); err == nil && other != nil {
		err = fmt.Errorf("the partition is in %s, too, and is served from neither: move one of them away", other.path())
		recovered := *st
		recovered.Journal = nil // what it had is in the files
		st = &recovered
	}
	if err != nil {
		s.broken[key] = &broken{fmt.Errorf("%s: %w", path, err), d, path, st}
		if was == nil || was.err.Error() != s.broken[key].err.Error() { // it is tried again and again
			s.logger.Error("partition not opened", "dir", path, "error", err)
		}
		return
	}
	s.publish(key, p)
}

// recoveryTask is a recovery of p's directory of which nothing is known.
func (p *Partition) recoveryTask() *recovery.Task {
	return &recovery.Task{
		FS: p.store.fs, Logger: p.store.logger, Dir: p.path(), NowMs: p.store.nowMs(),
		IndexIntervalBytes: int64(p.config.Load().IndexIntervalBytes), Durable: -1, CleanedTo: -1,
	}
}

// recoverFrom recovers the directory into p, which nobody else has yet.
func (p *Partition) recoverFrom(t *recovery.Task) error {
	found, err := t.Run()
	p.store.counters.RecoveredBytes.Add(t.ScannedBytes)
	p.store.counters.CutBytes.Add(t.CutBytes)
	if err != nil {
		return err
	}
	p.topicID = found.TopicID
	segments := make([]*segment.Segment, 0, len(found.Segments))
	total := int64(0)
	made := map[*recovery.Segment]*segment.Segment{}
	for _, f := range found.Segments {
		g := segment.Recovered(p.store.segments, p.path(), f, t.Durable >= 0)
		p.txnMissing = p.txnMissing || f.TxnMissing > 0
		segments, total = append(segments, g), total+f.SizeBytes
		made[f] = g
	}
	for _, s := range found.Seals {
		var snapshot *producer.Snapshot
		if s.Snapshot != nil {
			snapshot = producer.Encoded(s.Snapshot)
		}
		p.pending = append(p.pending, pendingSeal{made[s.Segment], snapshot, s.SnapshotOffset})
	}
	p.producers, p.epochs, p.dirUnsynced = found.Producers, found.Epochs, found.DirUnsynced
	p.totalBytes.Store(total)
	p.setSegments(segments)
	p.logStart.Store(found.LogStart)
	p.startNoted = found.StartNoted
	if t.CleanedTo <= found.EndOffset {
		p.cleanedTo.Store(t.CleanedTo) // beyond the end it means another log
	}
	p.leaderEpoch.Store(max(p.epochs.Latest(), 0))
	// The high watermark is the recovered end, so it never goes back behind what a client has seen.
	active := found.Active()
	end := position{found.EndOffset, active.BaseOffset, active.SizeBytes}
	p.end.store(end)
	p.durable.Store(end.offset)
	p.synced.Store(end.offset)
	p.committedTo = end
	p.recoveryPoint.Store(found.Point)
	p.advance(end)
	if len(p.pending) > 0 && t.Durable < 0 {
		p.store.janitor.Sealed(p)
	}
	return nil
}
