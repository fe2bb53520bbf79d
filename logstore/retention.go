package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"kaas/internal/vfs"
	"kaas/logstore/layout"
	"kaas/logstore/retention"
	"kaas/logstore/segment"
)

// applyRetention deletes what retention.ms, retention.bytes and the log start offset allow, in every partition, and
// forgets producers that were silent for too long.
func (s *Store) applyRetention() {
	now := s.nowMs()
	for _, p := range s.All() {
		p.states().Expire(&p.mu, now, s.options.ProducerIDExpirationMs)
		if err := p.applyRetention(now, false); err != nil {
			s.logger.Warn("retention failed, again at the next check", "topic", p.topic, "partition", p.id, "error", err)
		}
	}
}

// applyRetention matches UnifiedLog.deleteOldSegments: expired and surplus segments only under the delete policy, segments
// below the log start always (startOnly: nothing else); the active one after a roll, when all of it goes.
func (p *Partition) applyRetention(nowMs int64, startOnly bool) error {
	p.headMu.Lock()
	defer p.headMu.Unlock()
	p.mu.Lock()
	if p.failure.Load() != nil {
		p.mu.Unlock()
		return nil
	}
	c := p.config.Load()
	list := p.segments.Load()
	rules := retention.Rules{
		Delete: c.CleanupDelete, RetentionBytes: c.RetentionBytes, RetentionMs: c.RetentionMs, StartOnly: startOnly, NowMs: nowMs,
		LogStart: p.logStart.Load(), HighWatermark: p.high.offset.Load(), TotalBytes: p.totalBytes.Load(),
	}
	n, reason, err := rules.Deletable(list.all)
	if err == nil && n == len(list.all) {
		if list.active().SizeBytes.Load() == 0 {
			n--
		} else if _, rollErr := p.roll(nowMs); rollErr == nil {
			list = p.segments.Load()
			p.store.committer.Enqueue(&p.commits) // makes the new file durable
		} else if n--; n == 0 { // a full disk: the others make the room for the next try
			err = rollErr
		}
	}
	if err != nil || n == 0 {
		p.mu.Unlock()
		return err
	}
	if end := list.all[n-1].EndOffset.Load(); end > p.synced.Load() {
		// Once it is out of the list no commit syncs it, and a commit of what lies behind it would let the journal forget it. A crash that
		// brings its name back must not find a hole before acknowledged records.
		p.mu.Unlock()
		p.syncFiles()
		p.mu.Lock()
		if p.failure.Load() != nil || end > p.synced.Load() {
			p.mu.Unlock()
			return p.Err() // stalled: at the next check
		}
		list = p.segments.Load()
	}
	doomed := list.all[:n]
	kept := append([]*segment.Segment(nil), list.all[n:]...)
	start := max(p.logStart.Load(), kept[0].BaseOffset)
	p.setSegments(kept)
	p.logStart.Store(start)
	p.epochs.TruncateStart(start)
	bytes := int64(0)
	for _, g := range doomed {
		bytes += g.SizeBytes.Load()
	}
	p.totalBytes.Add(-bytes)
	p.mu.Unlock()
	p.store.logger.Info("segments deleted", "topic", p.topic, "partition", p.id, "segments", n, "bytes", bytes, "logStartOffset", start, "reason", reason)
	// On a full disk this write fails, and the deletion must go on all the same: the first segment's name says as much.
	if err := p.store.writeCheckpoints(p.logDir(), nil); err != nil {
		p.store.logger.Warn("log start not in the checkpoint", "topic", p.topic, "partition", p.id, "error", err)
	}
	// The snapshot at the new start tells of producers whose batches are deleted: it must be there before they go. When it
	// can't be written (a full disk) the space is worth more: a crash then makes those producers unknown.
	if err := p.writeOut(); err != nil {
		p.store.logger.Warn("producer snapshot not written before a deletion", "topic", p.topic, "partition", p.id, "error", err)
	}
	return p.doom(doomed, c.FileDeleteDelayMs)
}

// doom renames the files to .deleted and lets the janitor drop the references after the delay; the files go when the last
// reader has let go. A crash in between leaves .deleted files, which the next start removes.
func (p *Partition) doom(doomed []*segment.Segment, delayMs int64) error {
	var errs []error
	for _, g := range doomed {
		errs = append(errs, g.MoveAside(), p.removeSnapshot(g.BaseOffset))
	}
	p.store.janitor.Doom(p.store.upMs()+delayMs, doomed)
	return errors.Join(errs...)
}

func (p *Partition) removeSnapshot(offset int64) error {
	if err := p.store.fs.Remove(layout.SegmentFile(p.path(), offset, layout.SnapshotSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// startAt makes a log start offset durable. On a full disk the segments that lie below it go first, which their names make
// durable, and then there is room for the rest.
func (p *Partition) startAt(before int64) error {
	starts := map[*Partition]int64{p: before}
	write := func() error {
		if err := p.noteLogStart(before); err != nil {
			return err
		}
		return p.store.writeCheckpoints(p.logDir(), starts)
	}
	err := write()
	if !vfs.IsFull(err) {
		return err
	}
	p.mu.Lock()
	list := p.segments.Load()
	at := list.find(before)
	if at <= 0 || p.failure.Load() != nil {
		p.mu.Unlock()
		return err
	}
	p.logStart.Store(max(p.logStart.Load(), list.all[at].BaseOffset))
	p.mu.Unlock()
	if retentionErr := p.applyRetention(p.store.nowMs(), true); retentionErr != nil {
		return errors.Join(err, retentionErr)
	}
	p.store.janitor.Doomed.Release(math.MaxInt64)
	p.store.segments.Bury()
	return write()
}

// DeleteRecords moves the log start offset to before (-1: the high watermark), durably before it returns (KIP-107), and
// deletes the segments below it. A lower offset than the log start changes nothing.
func (p *Partition) DeleteRecords(before int64) (lowWatermark int64, err error) {
	if err := p.Err(); err != nil {
		return 0, err
	}
	high := p.high.offset.Load()
	if before == -1 {
		before = high
	}
	if before < 0 || before > high {
		return 0, p.wrap(fmt.Errorf("%w: %d, the high watermark is %d", ErrOffsetOutOfRange, before, high))
	}
	if start := p.logStart.Load(); before <= start {
		return start, nil
	}
	if err := p.startAt(before); err != nil {
		return 0, p.wrap(fmt.Errorf("%w: %w", ErrStorage, err))
	}
	p.mu.Lock()
	if before > p.logStart.Load() {
		p.logStart.Store(before)
		p.epochs.TruncateStart(before)
	}
	start := p.logStart.Load()
	p.mu.Unlock()
	if err := p.applyRetention(p.store.nowMs(), true); err != nil {
		p.store.logger.Warn("records deleted, their segments not yet", "topic", p.topic, "partition", p.id, "error", err)
	}
	return start, nil
}
