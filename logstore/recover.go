package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
	"kaas/logstore/recovery"
)

// dirState is what the files of a log directory say about the last stop.
type dirState struct {
	clean          bool
	recoveryPoints map[checkpoint.Key][]int64
	logStarts      map[checkpoint.Key][]int64
	cleanedTo      map[checkpoint.Key][]int64
	ends           map[checkpoint.Key][]int64 // end, active base, active size, 1 when producers are known; only if clean
}

// readDirState reads the checkpoints and takes the clean mark away, durably: from here on a crash is a crash. Unreadable
// checkpoints are as if missing: more is scanned.
func (s *Store) readDirState(d *logDir) (st dirState, err error) {
	read := func(name string, numbers int) map[checkpoint.Key][]int64 {
		m, err := checkpoint.ReadOffsets(s.fs, filepath.Join(d.path, name), numbers)
		if err != nil {
			s.logger.Warn("checkpoint ignored", "file", filepath.Join(d.path, name), "reason", err)
		}
		return m
	}
	mark := filepath.Join(d.path, layout.CleanShutdownName)
	if _, err := s.fs.Stat(mark); err == nil {
		st.clean = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return st, err
	}
	st.recoveryPoints = read(layout.RecoveryPointName, 1)
	st.logStarts = read(layout.LogStartName, 1)
	st.cleanedTo = read(layout.CleanedToName, 1)
	d.hasCleanedTo = len(st.cleanedTo) > 0
	if st.clean {
		st.ends = read(layout.EndStateName, 4)
		if err := s.fs.Remove(mark); err != nil {
			return st, err
		}
		if err := s.fs.SyncDir(d.path); err != nil {
			return st, err
		}
	}
	return st, nil
}

// recoverDir opens every partition of a log directory, several at a time.
func (s *Store) recoverDir(ctx context.Context, d *logDir) (count int, err error) {
	st, err := s.readDirState(d)
	if err != nil {
		return 0, err
	}
	entries, err := s.fs.List(d.path)
	if err != nil {
		return 0, err
	}
	type task struct {
		key  checkpoint.Key
		path string
	}
	var tasks []task
	present := map[checkpoint.Key]bool{}
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name)
		topic, partition, ok := layout.ParsePartitionDir(e.Name)
		switch {
		case ok && e.Dir:
			tasks = append(tasks, task{checkpoint.Key{Topic: topic, Partition: partition}, path})
			present[checkpoint.Key{Topic: topic, Partition: partition}] = true
		case layout.OwnNames[e.Name] || e.Dir && (strings.HasSuffix(e.Name, layout.StrayDirSuffix) || strings.HasSuffix(e.Name, layout.FutureDirSuffix)):
		case e.Dir && strings.HasSuffix(e.Name, layout.DeleteDirSuffix) && strings.Contains(e.Name, "."):
			s.janitor.remove(path) // a deletion that a stop interrupted
		case !e.Dir && strings.HasSuffix(e.Name, layout.TemporarySuffix) && layout.OwnNames[strings.TrimSuffix(e.Name, layout.TemporarySuffix)]:
			s.logger.Debug("left over by a crash", "file", path)
		default:
			s.logger.Warn("not a partition, left alone", "path", path)
		}
	}
	for _, m := range []map[checkpoint.Key][]int64{st.recoveryPoints, st.logStarts, st.cleanedTo} {
		for key := range m {
			if !present[key] {
				d.stale[key] = true
			}
		}
	}
	var wg sync.WaitGroup
	queue := make(chan task)
	for range min(s.options.NumRecoveryThreadsPerDataDir, max(len(tasks), 1)) {
		wg.Go(func() {
			for t := range queue {
				s.openPartition(d, t.key, t.path, &st)
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
	return len(tasks), ctx.Err()
}

// openPartition recovers one directory and puts it in the map; a failure takes only this partition down.
func (s *Store) openPartition(d *logDir, key checkpoint.Key, path string, st *dirState) {
	p := s.newPartition(d, key, path)
	err := p.recoverFrom(st.recovery(p, key), st.cleanedTo[key])
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, key)
	if err == nil && s.Get(key.Topic, key.Partition) != nil {
		err = errors.New("the partition is in two log directories")
	}
	if err != nil {
		s.broken[key] = &broken{fmt.Errorf("%s: %w", path, err), d, path, st}
		s.logger.Error("partition not opened", "dir", path, "error", err)
		return
	}
	s.publish(key, p)
}

// recovery is what a recovery of p is told; found takes over what it finds.
func (st *dirState) recovery(p *Partition, key checkpoint.Key) *recovery.Task {
	t := &recovery.Task{
		FS: p.store.fs, Logger: p.store.logger, Dir: p.path(), NowMs: p.store.nowMs(),
		IndexIntervalBytes: int64(p.config.Load().IndexIntervalBytes), Durable: -1,
	}
	if v := st.recoveryPoints[key]; v != nil {
		t.Point = v[0]
	}
	if v := st.logStarts[key]; v != nil {
		t.LogStart = v[0]
	}
	if e := st.ends[key]; e != nil {
		t.Stop = &recovery.StopMark{EndOffset: e[0], ActiveBase: e[1], ActiveSize: e[2], ProducersKnown: e[3] != 0}
	}
	return t
}

// recoverFrom recovers the directory into p, which nobody else has yet.
func (p *Partition) recoverFrom(t *recovery.Task, cleanedTo []int64) error {
	found, err := t.Run()
	p.store.counters.RecoveredBytes.Add(t.ScannedBytes)
	p.store.counters.CutBytes.Add(t.CutBytes)
	if err != nil {
		return err
	}
	p.topicID = found.TopicID
	segments := make([]*segment, 0, len(found.Segments))
	total := int64(0)
	made := map[*recovery.Segment]*segment{}
	for _, f := range found.Segments {
		g := newSegment(p.store, p.path(), f.BaseOffset)
		g.sizeBytes.Store(f.SizeBytes)
		g.endOffset.Store(f.EndOffset)
		g.sealed.Store(f.Sealed)
		g.mem.Store(f.Index)
		g.aborted.Store(f.Aborted)
		g.createdMs, g.hasTxnIndex = f.CreatedMs, f.HasTxnIndex
		g.maxTimestampMs, g.maxTimestampAt, g.bytesSinceIndex = f.MaxTimestampMs, f.MaxTimestampAt, f.SinceIndexBytes
		segments, total = append(segments, g), total+f.SizeBytes
		made[f] = g
	}
	for _, s := range found.Seals {
		p.pending = append(p.pending, pendingSeal{made[s.Segment], s.Snapshot, s.SnapshotOffset})
	}
	p.producers, p.epochs, p.dirUnsynced = found.Producers, found.Epochs, found.DirUnsynced
	p.totalBytes.Store(total)
	p.setSegments(segments)
	p.logStart.Store(found.LogStart)
	if len(cleanedTo) > 0 && cleanedTo[0] <= found.EndOffset {
		p.cleanedTo.Store(cleanedTo[0]) // beyond the end it means another log
	}
	p.leaderEpoch.Store(max(p.epochs.Latest(), 0))
	// The high watermark is the recovered end, so it never goes back behind what a client has seen.
	active := found.Active()
	end := position{found.EndOffset, active.BaseOffset, active.SizeBytes}
	p.end.store(end)
	p.durable.Store(end.offset)
	p.recoveryPoint.Store(found.Point)
	p.advance(end)
	if len(p.pending) > 0 && t.Durable < 0 {
		p.store.janitor.sealed(p)
	}
	return nil
}
