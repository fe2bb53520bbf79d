package recovery

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// scan finds the end of the log: it reads from the recovery point on, checks each batch, and cuts at the first one that
// does not hold. Segments below the recovery point are trusted.
func (t *Task) scan() error {
	all := t.log.Segments
	first := 0
	for i, g := range all {
		// Strictly below: a segment that ends at the recovery point was still active when the point was written, and its
		// last index entries may be missing.
		if g.BaseOffset < t.Point {
			first = i
		}
	}
	below := 0
	for i, g := range all[:first] {
		if !t.hasIndexes(g) && g.SizeBytes > 0 {
			if err := t.rebuild(g, "missing"); errors.Is(err, logfile.ErrTorn) && t.isDeleted(i) {
				below = t.damagedBelow(i, err)
			} else if err != nil {
				return err
			}
		}
	}
	next := all[first].BaseOffset
	for i := first; i < len(t.log.Segments); i++ {
		g := t.log.Segments[i]
		end, reason, err := t.scanSegment(g, next)
		if errors.Is(err, errBelowPoint) && t.isDeleted(i) {
			reason, err = err, nil
		}
		if err != nil {
			return err
		}
		next = end
		if reason == nil && i+1 < len(all) && all[i+1].BaseOffset > max(end, t.Point, t.CleanedTo) {
			// Compaction leaves gaps only below the recovery point, which may be lost: writes to the older file are lost, those
			// to the newer are not, and nobody was told that either is durable.
			reason = fmt.Errorf("the segment ends at offset %d, the next one begins at %d", end, all[i+1].BaseOffset)
		}
		if reason == nil {
			if g.Sealed {
				t.log.Seals = append(t.log.Seals, Seal{Segment: g})
			}
			continue
		}
		if t.isDeleted(i) {
			below, next = t.damagedBelow(i, reason), all[i+1].BaseOffset
			continue
		}
		if err := t.cutAfter(i, reason); err != nil {
			return err
		}
	}
	if err := t.dropBelow(below); err != nil {
		return err
	}
	t.log.EndOffset = t.log.Active().EndOffset
	if t.log.EndOffset < t.Point {
		t.Logger.Error("the log ends below its recovery point: the disk lost what it had synced", "dir", t.Dir, "endOffset", t.log.EndOffset, "recoveryPoint", t.Point)
	}
	t.log.Epochs.TruncateEnd(t.log.EndOffset)
	return nil
}

// isDeleted says that all of segment i lies below the log start: it was being deleted, and a crash brought it back. That nobody has
// synced it since costs what lies behind it nothing.
func (t *Task) isDeleted(i int) bool {
	all := t.log.Segments
	return i+1 < len(all) && all[i+1].BaseOffset <= t.LogStart
}

// damagedBelow returns how many segments have to go because i, which isDeleted, can't be read.
func (t *Task) damagedBelow(i int, reason error) int {
	t.Logger.Warn("damaged below the log start: removed up to there", "file", t.log.Segments[i].path(layout.LogSuffix), "logStart", t.LogStart, "reason", reason)
	return i + 1
}

// dropBelow removes the first segments, all of them below the log start.
func (t *Task) dropBelow(count int) error {
	for _, g := range t.log.Segments[:count] {
		if err := errors.Join(g.close(), RemoveSegment(t.FS, t.Dir, g.BaseOffset, "")); err != nil {
			return err
		}
		t.log.Seals = slices.DeleteFunc(t.log.Seals, func(s Seal) bool { return s.Segment == g })
		t.scanned = true // the directory is synced
	}
	t.log.Segments = t.log.Segments[count:]
	return nil
}

// scanSegment walks one segment, builds its indexes and epochs, and sets its size and end. reason says why it ends before
// its file does; nil: it does not.
func (t *Task) scanSegment(g *Segment, next int64) (end int64, reason, err error) {
	b := index.NewBuilder(g.BaseOffset, t.IndexIntervalBytes)
	at := t.resume(g, &b)
	end, reason, err = t.scanFrom(g, next, at, &b)
	if at > 0 && errors.Is(err, errBelowPoint) { // an index led there
		t.Logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", err)
		b = index.NewBuilder(g.BaseOffset, t.IndexIntervalBytes)
		end, reason, err = t.scanFrom(g, next, 0, &b)
	}
	return end, reason, err
}

// errBelowPoint: bytes that were synced, and everything behind them was, are no batches any more. Recovery never cuts there.
var errBelowPoint = errors.New("damaged below the recovery point")

func (t *Task) belowPoint(g *Segment, at, offset int64, reason error) error {
	name := g.path(layout.LogSuffix)
	return fmt.Errorf("%w: %s from byte %d, offset %d, on: %w; what was synced is not cut: restore the file from a copy, or, to give up what it holds from there on, stop the broker and truncate -s %d %s",
		errBelowPoint, name, at, offset, reason, at, name)
}

func (t *Task) scanFrom(g *Segment, next, at int64, b *index.Builder) (end int64, reason, err error) {
	f, err := t.open(g)
	if err != nil {
		return 0, nil, err
	}
	// Below the recovery point headers are enough: those bytes were synced, and the point was written after that.
	sc := logfile.Scanner{File: f, At: at, Size: g.SizeBytes, HeadersOnly: t.Point > g.BaseOffset}
	defer sc.Close()
	end = max(next, g.BaseOffset)
	for {
		v, at, err := sc.Next()
		if v == nil || err != nil {
			if err != nil && !errors.Is(err, logfile.ErrTorn) {
				return 0, nil, err
			}
			if err != nil && end < t.Point {
				return 0, nil, t.belowPoint(g, at, end, err)
			}
			reason = err
			break
		}
		if sc.HeadersOnly && v.LastOffset() >= t.Point {
			sc.Rewind(at)
			continue
		}
		if !sc.HeadersOnly {
			t.scanned = true
			t.ScannedBytes += int64(len(v))
			if reason = v.Validate(); reason != nil {
				if min(end, v.BaseOffset()) < t.Point {
					return 0, nil, t.belowPoint(g, at, end, reason)
				}
				sc.At = at
				break
			}
		}
		if v.BaseOffset() < end || v.LastOffset()-g.BaseOffset > 1<<31-1 || v.LastOffset() < v.BaseOffset() {
			reason = fmt.Errorf("batch of offsets %d to %d after offset %d", v.BaseOffset(), v.LastOffset(), end)
			if min(end, v.BaseOffset()) < t.Point {
				return 0, nil, t.belowPoint(g, at, end, reason)
			}
			sc.At = at
			break
		}
		if t.Durable >= 0 && v.LastOffset() >= t.Durable && !t.Relaxed {
			// The page cache may show what the disk has not: a failed sync leaves such pages behind. Nobody was told that
			// these records are durable.
			reason = fmt.Errorf("offsets from %d on were not synced", v.BaseOffset())
			sc.At = at
			break
		}
		b.Add(v, at)
		if v.BaseOffset() < t.Point && v.PartitionLeaderEpoch() > t.log.Epochs.Latest() && !t.epochLost {
			t.loseEpochs(fmt.Errorf("%s is of another day: its newest epoch is %d, offset %d has %d", checkpoint.EpochsName, t.log.Epochs.Latest(), v.BaseOffset(), v.PartitionLeaderEpoch()))
		}
		if !t.epochLost {
			t.log.Epochs.Assign(v.PartitionLeaderEpoch(), v.BaseOffset())
		}
		end = v.LastOffset() + 1
	}
	if reason, err = t.freeBehind(f, g, sc.At, end, reason); err != nil {
		return 0, nil, err
	}
	if g.Sealed {
		b.Finish()
	}
	g.Index, g.MaxTimestampMs, g.MaxTimestampAt, g.SinceIndexBytes = b.Index, b.MaxTimestampMs, b.MaxTimestampAt, b.SinceBytes
	g.EndOffset, g.SizeBytes = end, sc.At
	return end, reason, nil
}

// freeBehind gives back what a broker that grew the segment had behind its end, at, when it crashed, and returns reason if it was
// something else that the scan met there.
func (t *Task) freeBehind(f vfs.File, g *Segment, at, end int64, reason error) (other, err error) {
	if reason != nil && end >= t.Point {
		if g.ahead, err = t.cutAhead(f, g, at); g.ahead || err != nil {
			return nil, err
		}
	}
	return reason, freeAhead(f, g.SizeBytes)
}

// cutAhead cuts zeros from position at on; false: what lies there is something else.
func (t *Task) cutAhead(f vfs.File, g *Segment, at int64) (bool, error) {
	n := g.SizeBytes - at
	if zeros, err := allZeros(f, at, g.SizeBytes); !zeros || err != nil {
		return false, err
	}
	if n <= 2*limits.WindowBytes {
		t.Logger.Debug("zeros behind the end of the log cut", "file", g.path(layout.LogSuffix), "bytes", n, "position", at)
	} else { // a broker that serves has not so many there: a batch was going to be written over them
		t.CutBytes += n
		t.Logger.Info(unfinishedAppend, "file", g.path(layout.LogSuffix), "bytes", n, "position", at, "endOffset", g.EndOffset, "reason", "zeros, where it was going to be")
	}
	return true, f.Truncate(at)
}

func allZeros(f vfs.File, from, to int64) (bool, error) {
	b := make([]byte, min(to-from, limits.RecoveryChunkBytes))
	for ; from < to; from += int64(len(b)) {
		b = b[:min(to-from, int64(len(b)))]
		if _, err := f.ReadAt(b, from); err != nil || len(bytes.TrimLeft(b, "\x00")) > 0 {
			return false, err
		}
	}
	return true, nil
}

// unfinishedAppend is no loss: a batch is acknowledged after it was written and synced, and with flush.messages above 1 after it was
// written, which only a power failure undoes.
const unfinishedAppend = "unfinished append cut, nobody was told that it is durable"

// unfinished says whether all that the file has from position at on, where the log ends at an offset, is one batch that was not written
// to its end: the file ends in it, or from a page in it on there are zeros, over which it was being written.
func unfinished(f vfs.File, at, size, end int64) (bool, error) {
	header := make([]byte, min(size-at, batch.HeaderBytes))
	if _, err := f.ReadAt(header, at); err != nil {
		return false, err
	}
	if len(header) >= 8 && int64(binary.BigEndian.Uint64(header)) != end {
		return false, nil
	}
	if len(header) < batch.HeaderBytes {
		return true, nil
	}
	length := int64(int32(binary.BigEndian.Uint32(header[8:])))
	if header[16] != 2 || length < batch.HeaderBytes-batch.LogOverheadBytes || length > limits.RecoveryBatchBytes {
		return false, nil
	}
	whole := at + batch.LogOverheadBytes + length
	if whole > size {
		return true, nil
	}
	const page = 4096 // a write that is interrupted ends at one
	if last := (whole - 1) &^ (page - 1); last > at {
		return allZeros(f, last, size)
	}
	return false, nil
}

// freeAhead gives back space that the size does not count.
func freeAhead(f vfs.File, sizeBytes int64) error {
	allocated, err := f.AllocatedBytes()
	if err != nil || allocated < sizeBytes+limits.AllocateLeastBytes {
		return err
	}
	return f.Truncate(sizeBytes)
}

// resume takes over the index entries below the recovery point, when the files hold, and says where to go on.
func (t *Task) resume(g *Segment, b *index.Builder) int64 {
	if t.Point <= g.BaseOffset || !t.hasIndexes(g) {
		return 0
	}
	offsets, times, err := index.ReadFiles(t.FS, g.path(layout.IndexSuffix), g.path(layout.TimeIndexSuffix), g.SizeBytes, t.sums(g))
	if err != nil {
		t.Logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", err)
		return 0
	}
	at, offset := b.Resume(offsets, times, t.Point)
	if at == 0 {
		return 0
	}
	if err := t.namesBatch(g, at, offset); err != nil { // well formed and wrong
		t.Logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", err)
		*b = index.NewBuilder(g.BaseOffset, t.IndexIntervalBytes)
		return 0
	}
	return at
}

// cutAfter makes segment i end where its scan stopped and removes what comes after it.
func (t *Task) cutAfter(i int, reason error) error {
	g := t.log.Segments[i]
	f, err := t.open(g)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	cut := size - g.SizeBytes
	later := t.log.Segments[i+1:]
	t.CutBytes += cut
	level, what := slog.LevelWarn, "log tail cut"
	if part, err := unfinished(f, g.SizeBytes, size, g.EndOffset); err != nil {
		return err
	} else if part && len(later) == 0 {
		level, what = slog.LevelInfo, unfinishedAppend
	}
	t.Logger.Log(context.Background(), level, what, "file", g.path(layout.LogSuffix), "bytes", cut, "position", g.SizeBytes,
		"endOffset", g.EndOffset, "laterSegments", len(later), "reason", reason)
	if err := f.Truncate(g.SizeBytes); err != nil {
		return err
	}
	for _, g := range later {
		t.CutBytes += g.SizeBytes
		t.Logger.Warn("segment after the cut removed", "file", g.path(layout.LogSuffix), "bytes", g.SizeBytes)
		if err := g.close(); err != nil {
			return err
		}
		if err := RemoveSegment(t.FS, t.Dir, g.BaseOffset, ""); err != nil {
			return err
		}
	}
	t.log.Segments = t.log.Segments[:i+1]
	g.Sealed = false
	t.cut, t.scanned = true, true
	return nil
}

// writeAgain makes the pages of what was not synced dirty once more, by writing the same bytes: the sync that follows is
// then about them.
func (t *Task) writeAgain() error {
	b := make([]byte, limits.RecoveryChunkBytes)
	for _, g := range t.log.Segments {
		if g.EndOffset <= t.Durable || g.SizeBytes == 0 {
			continue
		}
		at := int64(0)
		if g.BaseOffset < t.Durable {
			var err error
			if at, err = t.positionBefore(g, t.Durable); err != nil {
				return err
			}
		}
		f, err := t.open(g)
		if err != nil {
			return err
		}
		for at < g.SizeBytes {
			n := min(int64(len(b)), g.SizeBytes-at)
			if _, err := f.ReadAt(b[:n], at); err != nil {
				return err
			}
			if _, err := f.WriteAt(b[:n], at); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}
