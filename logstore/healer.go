package logstore

import (
	"errors"
	"fmt"

	"kaas/internal/limits"
	"kaas/logstore/checkpoint"
	"kaas/logstore/healer"
	"kaas/logstore/volume"
)

// newHealer brings partitions back that a failing disk took down: it recovers each from disk, again and again, until that
// works. A failed sync is never repeated on the same pages: what was not synced is cut (nobody was told that it is durable)
// or, under a relaxed flush policy, written again.
func newHealer(pauseMs int64) *healer.Healer[*Partition] {
	return healer.New(pauseMs, limits.ReopenMaxMs, (*Partition).heal, func(p *Partition) bool {
		f := p.failure.Load()
		return f != nil && !errors.Is(*f, ErrClosed)
	})
}

func (p *Partition) heal() (again bool) {
	err := p.recoverInPlace()
	if err == nil || errors.Is(err, ErrClosed) {
		return false
	}
	p.store.logger.Warn("partition still offline", "topic", p.topic, "partition", p.id, "error", err)
	return true
}

// recoverInPlace opens the partition's directory as a start does and puts what it finds into p. Readers that hold slices of
// the old segments keep them.
func (p *Partition) recoverInPlace() error {
	s := p.store
	s.compactor.leave(p) // p has failed, so no other round begins
	p.headMu.Lock()
	defer p.headMu.Unlock()
	p.writeOutMu.Lock()
	defer p.writeOutMu.Unlock()
	if f := p.failure.Load(); f == nil || errors.Is(*f, ErrClosed) {
		return ErrClosed
	}
	if err := p.logDir().journal.restore(p); err != nil {
		return err
	}
	key := checkpoint.Key{Topic: p.topic, Partition: p.id}
	q := s.newPartition(p.logDir(), key, p.path())
	q.config.Store(p.config.Load())
	t := q.recoveryTask()
	t.Point, t.LogStart, t.CleanedTo = min(p.recoveryPoint.Load(), p.synced.Load()), p.logStart.Load(), p.cleanedTo.Load()
	t.Durable, t.Relaxed = p.durable.Load(), p.config.Load().FlushMessages > 1
	if err := q.recoverFrom(t); err != nil {
		return err
	}
	if q.topicID != p.topicID {
		q.close()
		return fmt.Errorf("%s belongs to topic id %s now, it was %s", p.path(), checkpoint.UUIDString(q.topicID), checkpoint.UUIDString(p.topicID))
	}
	return p.takeOver(q)
}

// takeOver lets p serve again with the state of q.
func (p *Partition) takeOver(q *Partition) error {
	if err := p.adopt(q); err != nil {
		return err
	}
	p.store.counters.Reopened.Add(1)
	p.store.logger.Info("partition is back", "topic", p.topic, "partition", p.id, "startOffset", p.LogStartOffset(), "endOffset", p.LogEndOffset())
	if l := p.store.options.Listener; l != nil {
		if r, ok := l.(RecoveryListener); ok {
			r.Recovered(p)
		}
		l.Advanced(p)
	}
	return nil
}

// adopt gives p the state and the place of q, which was recovered from a directory of p's and is nobody else's. Caller:
// headMu, writeOutMu.
func (p *Partition) adopt(q *Partition) error {
	found := q.segments.Load()
	p.mu.Lock()
	if f := p.failure.Load(); f != nil && errors.Is(*f, ErrClosed) {
		p.mu.Unlock()
		for _, g := range found.all {
			g.Release()
		}
		return ErrClosed
	}
	old := p.segments.Load()
	if lost := p.high.offset.Load() - q.end.offset.Load(); lost > 0 {
		p.store.logger.Error("the disk lost records that were visible", "topic", p.topic, "partition", p.id, "records", lost, "highWatermark", p.high.offset.Load(), "endOffset", q.end.offset.Load())
	}
	p.place.Store(q.place.Load())
	p.setSegments(found.all)
	p.epochNoted = 0
	p.producers, p.epochs, p.pending, p.dirUnsynced, p.txnMissing = q.producers, q.epochs, q.pending, q.dirUnsynced, q.txnMissing
	p.leaderEpoch.Store(max(p.leaderEpoch.Load(), q.leaderEpoch.Load()))
	p.logStart.Store(q.logStart.Load())
	p.startNoted = q.startNoted
	p.end.store(q.end.load())
	p.high.store(q.high.load())
	p.stable.store(q.stable.load())
	p.durable.Store(q.durable.Load())
	p.synced.Store(q.synced.Load())
	p.committedTo = q.committedTo
	p.store.committer.SetGroup(&p.commits, q.logDir().journal.group)
	p.recoveryPoint.Store(q.recoveryPoint.Load())
	p.cleanedTo.Store(q.cleanedTo.Load())
	p.totalBytes.Store(q.totalBytes.Load())
	p.unflushed, p.flushDueMs, p.markers = 0, 0, nil
	p.dirSyncing = false
	p.generation++
	spare := p.spare
	p.spare, p.spareWanted = nil, false
	p.failure.Store(nil)
	pending := len(p.pending) > 0
	p.mu.Unlock()
	p.store.segments.DropSpare(spare)
	for _, g := range old.all {
		g.Release()
	}
	if pending {
		p.store.janitor.Sealed(p)
	}
	return nil
}

// broken is a directory that could not be recovered at the start.
type broken struct {
	err  error
	dir  *logDir
	path string
	st   *volume.State
}

// mend tries once more to recover a directory that was broken at the start; nil: it is not broken, or not any more. Caller:
// exclusive.
func (s *Store) mend(key checkpoint.Key) error {
	s.mu.Lock()
	b := s.broken[key]
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	s.openPartition(b.dir, key, b.path, b.st)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.broken[key]; b != nil {
		return b.err
	}
	return nil
}

// Offline are the partitions that a failing disk took down, and those whose directory could not be recovered, as
// "topic-partition: why".
func (s *Store) Offline() []string {
	var out []string
	for _, p := range s.All() {
		if f := p.failure.Load(); f != nil && !errors.Is(*f, ErrClosed) {
			out = append(out, (*f).Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.broken {
		out = append(out, fmt.Sprintf("%s-%d: %v", key.Topic, key.Partition, b.err))
	}
	return out
}
