package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
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
	r := recovery{p: p, fs: s.fs, st: st, key: key, durable: -1}
	err := r.run()
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

// recovery opens one partition. It has the partition to itself, so it takes none of its locks.
type recovery struct {
	p   *Partition
	fs  vfs.FS
	st  *dirState
	key checkpoint.Key

	files     map[int64]map[string]bool // segment base → suffixes that are there
	snapshots []int64                   // offsets, growing
	segments  []*segment
	point     int64 // recovery point
	durable   int64 // of a recovery in place: the end of what was synced, -1: not known
	relaxed   bool  // of a recovery in place: what lies beyond durable is written again instead of cut
	end       position
	clean     bool
	scanned   bool // some bytes after the recovery point were looked at
	cut       bool
	epochLost bool
	remove    []string // files that describe what is gone
}

func (r *recovery) run() error {
	p := r.p
	id, _, err := checkpoint.ReadPartitionMetadata(r.fs, p.path())
	if err != nil {
		return err
	}
	p.topicID = id
	if err := r.finishSwaps(); err != nil {
		return err
	}
	if err := r.list(); err != nil {
		return err
	}
	start := int64(0)
	if v := r.st.logStarts[r.key]; v != nil {
		start = v[0]
	}
	if err := r.openSegments(start); err != nil {
		return err
	}
	r.loadEpochs()
	if !r.trustEnd() {
		if err := r.scan(); err != nil {
			return err
		}
	}
	start = max(start, r.segments[0].baseOffset)
	if start > r.end.offset {
		p.store.logger.Warn("log start beyond the end, moved", "dir", p.path(), "start", start, "end", r.end.offset)
		start = r.segments[0].baseOffset
	}
	if err := r.replay(); err != nil {
		return err
	}
	return r.publish(start)
}

// list sorts the directory's files.
func (r *recovery) list() error {
	entries, err := r.fs.List(r.p.path())
	if err != nil {
		return err
	}
	r.files = map[int64]map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(r.p.path(), e.Name)
		base, suffix, ok := layout.ParseSegmentFile(e.Name)
		switch {
		case ok && (strings.HasSuffix(suffix, layout.DeletedSuffix) || strings.HasSuffix(suffix, layout.CleanedSuffix)) || strings.HasSuffix(e.Name, layout.TemporarySuffix):
			if err := r.fs.Remove(path); err != nil {
				return err
			}
		case ok && suffix == layout.SnapshotSuffix:
			r.snapshots = append(r.snapshots, base)
		case ok && (suffix == layout.LogSuffix || suffix == layout.IndexSuffix || suffix == layout.TimeIndexSuffix || suffix == layout.TxnIndexSuffix):
			if r.files[base] == nil {
				r.files[base] = map[string]bool{}
			}
			r.files[base][suffix] = true
		case e.Name == layout.MovedName || e.Name == checkpoint.MetadataName || e.Name == checkpoint.EpochsName:
		default:
			r.p.store.logger.Warn("not a file of the log, left alone", "path", path)
		}
	}
	return nil
}

// openSegments makes the list, without reading the logs. Index files without a log are removed.
func (r *recovery) openSegments(start int64) error {
	var bases []int64
	for base, suffixes := range r.files {
		if suffixes[layout.LogSuffix] {
			bases = append(bases, base)
			continue
		}
		for suffix := range suffixes {
			if err := r.fs.Remove(layout.SegmentFile(r.p.path(), base, suffix)); err != nil {
				return err
			}
		}
	}
	slices.Sort(bases)
	slices.Sort(r.snapshots)
	s := r.p.store
	if len(bases) == 0 {
		f, err := r.fs.OpenFile(layout.SegmentFile(r.p.path(), start, layout.LogSuffix), vfs.Create)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		bases = append(bases, start)
		r.p.dirUnsynced = true
	}
	for i, base := range bases {
		g := newSegment(s, r.p.path(), base)
		st, err := r.fs.Stat(g.path(layout.LogSuffix))
		if err != nil {
			return err
		}
		g.createdMs = st.ModifiedMs
		g.sizeBytes.Store(st.SizeBytes)
		g.hasTxnIndex = r.files[base][layout.TxnIndexSuffix]
		if !g.hasTxnIndex {
			g.aborted.Store(new([]AbortedTxn))
		}
		if i+1 < len(bases) {
			g.endOffset.Store(bases[i+1])
			g.sealed.Store(true)
		}
		r.segments = append(r.segments, g)
	}
	return nil
}

func (r *recovery) active() *segment { return r.segments[len(r.segments)-1] }

// trustEnd takes the end from the clean stop, when everything that it wrote down still holds.
func (r *recovery) trustEnd() bool {
	point := r.st.recoveryPoints[r.key]
	if point != nil {
		r.point = point[0]
	}
	e := r.st.ends[r.key]
	if e == nil {
		return false
	}
	g := r.active()
	if e[1] != g.baseOffset || e[2] != g.sizeBytes.Load() || r.point != e[0] {
		r.p.store.logger.Warn("the log changed after a clean stop, scanning it", "dir", r.p.path(),
			"base", g.baseOffset, "size", g.sizeBytes.Load(), "expectedBase", e[1], "expectedSize", e[2])
		r.point = min(r.point, g.baseOffset)
		return false
	}
	for _, g := range r.segments {
		if g.sizeBytes.Load() > 0 && !(r.files[g.baseOffset][layout.IndexSuffix] && r.files[g.baseOffset][layout.TimeIndexSuffix]) {
			if err := r.rebuild(g); err != nil {
				r.p.store.logger.Warn("index not rebuilt, scanning the log", "dir", r.p.path(), "error", err)
				r.point = 0
				return false
			}
		}
	}
	r.clean = true
	r.end = position{e[0], g.baseOffset, e[2]}
	g.endOffset.Store(e[0])
	return true
}

// rebuild makes the indexes of a segment that lacks one, and has them written.
func (r *recovery) rebuild(g *segment) error {
	r.p.store.logger.Warn("index missing, rebuilt", "file", g.path(layout.IndexSuffix))
	m, err := g.rebuildIndex()
	if err != nil {
		return err
	}
	g.mem.Store(m)
	if g.sealed.Load() {
		r.p.pending = append(r.p.pending, pendingSeal{segment: g})
	}
	return nil
}

// scan finds the end of the log: it reads from the recovery point on, checks each batch, and cuts at the first one that
// does not hold. Segments below the recovery point are trusted.
func (r *recovery) scan() error {
	first := 0
	for i, g := range r.segments {
		// Strictly below: a segment that ends at the recovery point was still active when the point was written, and its
		// last index entries may be missing.
		if g.baseOffset < r.point {
			first = i
		}
	}
	for _, g := range r.segments[:first] {
		if !(r.files[g.baseOffset][layout.IndexSuffix] && r.files[g.baseOffset][layout.TimeIndexSuffix]) && g.sizeBytes.Load() > 0 {
			if err := r.rebuild(g); err != nil {
				return err
			}
		}
	}
	next := r.segments[first].baseOffset
	for i := first; i < len(r.segments); i++ {
		g := r.segments[i]
		end, reason, err := r.scanSegment(g, next)
		if err != nil {
			return err
		}
		next = end
		if reason == nil && i+1 < len(r.segments) && r.segments[i+1].baseOffset > max(end, r.point) {
			// Compaction leaves gaps only below the recovery point: writes to the older file are lost, those to the newer
			// are not, and nobody was told that either is durable.
			reason = fmt.Errorf("the segment ends at offset %d, the next one begins at %d", end, r.segments[i+1].baseOffset)
		}
		if reason == nil {
			if g.sealed.Load() {
				r.p.pending = append(r.p.pending, pendingSeal{segment: g})
			}
			continue
		}
		if err := r.cutAfter(i, reason); err != nil {
			return err
		}
	}
	g := r.active()
	r.end = position{g.endOffset.Load(), g.baseOffset, g.sizeBytes.Load()}
	r.p.epochs.TruncateEnd(r.end.offset)
	return nil
}

// scanSegment walks one segment, builds its indexes and epochs, and sets its size and end. reason says why it ends before
// its file does; nil: it does not.
func (r *recovery) scanSegment(g *segment, next int64) (end int64, reason, err error) {
	f, err := g.open()
	if err != nil {
		return 0, nil, err
	}
	size := g.sizeBytes.Load()
	b := index.Builder{Base: g.baseOffset, IntervalBytes: int64(r.p.config.Load().IndexIntervalBytes), MaxTimestampMs: -1, MaxTimestampAt: -1, Index: new(index.Writable)}
	at := r.resume(g, &b)
	// Below the recovery point headers are enough: those bytes were synced, and the point was written after that.
	sc := logfile.Scanner{File: f, At: at, Size: size, HeadersOnly: r.point > g.baseOffset}
	defer sc.Close()
	end = max(next, g.baseOffset)
	for {
		v, at, err := sc.Next()
		if v == nil || err != nil {
			if err != nil && !errors.Is(err, logfile.ErrTorn) {
				return 0, nil, err
			}
			reason = err
			break
		}
		if sc.HeadersOnly && v.LastOffset() >= r.point {
			sc.Rewind(at)
			continue
		}
		if !sc.HeadersOnly {
			r.scanned = true
			r.p.store.counters.RecoveredBytes.Add(int64(len(v)))
			if err := v.Validate(); err != nil {
				reason, sc.At = err, at
				break
			}
		}
		if v.BaseOffset() < end || v.LastOffset()-g.baseOffset > 1<<31-1 || v.LastOffset() < v.BaseOffset() {
			reason = fmt.Errorf("batch of offsets %d to %d after offset %d", v.BaseOffset(), v.LastOffset(), end)
			sc.At = at
			break
		}
		if r.durable >= 0 && v.LastOffset() >= r.durable && !r.relaxed {
			// The page cache may show what the disk has not: a failed sync leaves such pages behind. Nobody was told that
			// these records are durable.
			reason = fmt.Errorf("offsets from %d on were not synced", v.BaseOffset())
			sc.At = at
			break
		}
		b.Add(v, at)
		if !r.epochLost {
			r.p.epochs.Assign(v.PartitionLeaderEpoch(), v.BaseOffset())
		}
		end = v.LastOffset() + 1
	}
	if g.sealed.Load() {
		b.Finish()
	}
	g.mem.Store(b.Index)
	g.maxTimestampMs, g.maxTimestampAt, g.bytesSinceIndex = b.MaxTimestampMs, b.MaxTimestampAt, b.SinceBytes
	g.endOffset.Store(end)
	g.sizeBytes.Store(sc.At)
	return end, reason, nil
}

// resume takes over the index entries below the recovery point, when the files hold, and says where to go on.
func (r *recovery) resume(g *segment, b *index.Builder) int64 {
	if r.point <= g.baseOffset || !r.files[g.baseOffset][layout.IndexSuffix] || !r.files[g.baseOffset][layout.TimeIndexSuffix] {
		return 0
	}
	offsets, times, err := g.readIndexFiles()
	if err != nil {
		r.p.store.logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", err)
		return 0
	}
	return b.Resume(offsets, times, r.point)
}

// cutAfter makes segment i end where its scan stopped and removes what comes after it.
func (r *recovery) cutAfter(i int, reason error) error {
	g := r.segments[i]
	f, err := g.open()
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	cut := size - g.sizeBytes.Load()
	r.p.store.counters.CutBytes.Add(cut)
	r.p.store.logger.Warn("log tail cut", "file", g.path(layout.LogSuffix), "bytes", cut, "position", g.sizeBytes.Load(),
		"endOffset", g.endOffset.Load(), "laterSegments", len(r.segments)-1-i, "reason", reason)
	if err := f.Truncate(g.sizeBytes.Load()); err != nil {
		return err
	}
	for _, later := range r.segments[i+1:] {
		r.p.store.counters.CutBytes.Add(later.sizeBytes.Load())
		r.p.store.logger.Warn("segment after the cut removed", "file", later.path(layout.LogSuffix), "bytes", later.sizeBytes.Load())
		for _, suffix := range []string{layout.LogSuffix, layout.IndexSuffix, layout.TimeIndexSuffix, layout.TxnIndexSuffix} {
			if err := r.fs.Remove(later.path(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		later.release()
	}
	r.segments = r.segments[:i+1]
	g.sealed.Store(false)
	r.cut, r.scanned = true, true
	return nil
}

// publish syncs what the scan found and makes it visible: the high watermark is the recovered end, so it never goes back
// behind what a client has seen.
func (r *recovery) publish(start int64) error {
	p := r.p
	if r.relaxed {
		if err := r.writeAgain(); err != nil {
			return err
		}
	}
	if !r.clean {
		for _, g := range r.segments {
			if r.scanned && g.endOffset.Load() > r.point || r.cut {
				f, err := g.open()
				if err != nil {
					return err
				}
				if err := f.Datasync(); err != nil {
					return err
				}
			}
		}
		for _, name := range r.remove {
			if err := r.fs.Remove(name); err != nil {
				return err
			}
		}
		if r.scanned || p.dirUnsynced || len(r.remove) > 0 {
			if err := r.fs.SyncDir(p.path()); err != nil {
				return err
			}
			p.dirUnsynced = false
		}
	}
	total := int64(0)
	for _, g := range r.segments {
		total += g.sizeBytes.Load()
		// Nobody else has the segment yet. It is opened again at first use: an idle partition holds no descriptor.
		if f := g.file.Swap(nil); f != nil {
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	p.totalBytes.Store(total)
	p.setSegments(r.segments)
	p.logStart.Store(start)
	if to := r.st.cleanedTo[r.key]; to != nil && to[0] <= r.end.offset {
		p.cleanedTo.Store(to[0]) // beyond the end it means another log
	}
	p.leaderEpoch.Store(max(p.epochs.Latest(), 0))
	p.end.store(r.end)
	p.durable.Store(r.end.offset)
	point := r.end.offset
	if !r.clean {
		point = min(r.point, r.end.offset) // until the index files and epochs of the scanned part are written
	}
	p.recoveryPoint.Store(point)
	p.advance(r.end)
	if len(p.pending) > 0 && r.durable < 0 {
		p.store.janitor.sealed(p)
	}
	return nil
}

// loadEpochs reads leader-epoch-checkpoint; when it is lost the epochs are taken from the batches.
func (r *recovery) loadEpochs() {
	err := r.p.epochs.Load(r.fs, r.p.path())
	if err == nil {
		return
	}
	r.p.epochs = checkpoint.Epochs{}
	if !errors.Is(err, fs.ErrNotExist) {
		r.p.store.logger.Warn("leader epochs taken from the log", "dir", r.p.path(), "reason", err)
	}
	r.epochLost = true
}

// readSnapshot loads the newest snapshot at or below offset that holds; -1: there is none.
func (r *recovery) readSnapshot(offset int64) (*producer.States, int64) {
	for _, at := range slices.Backward(r.snapshots) {
		name := layout.SegmentFile(r.p.path(), at, layout.SnapshotSuffix)
		if at > offset {
			// It tells of records that are gone, and must not come back when others have taken their offsets.
			r.remove = append(r.remove, name)
			continue
		}
		if at < r.segments[0].baseOffset {
			// Between it and the log there were records, and markers, that nobody can read any more.
			r.remove = append(r.remove, name)
			continue
		}
		b, err := vfs.ReadFile(r.fs, name, limits.StoreFileBytes)
		if err == nil {
			var s *producer.States
			if s, err = producer.Decode(b); err == nil {
				s.SnapshotOffset = at
				return s, at
			}
		}
		r.p.store.logger.Warn("producer snapshot ignored", "file", name, "reason", err)
	}
	return producer.New(), -1
}
