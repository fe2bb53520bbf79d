package segment

import (
	"errors"
	"fmt"

	"kaas/internal/limits"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// Slice is a range of a segment file that holds whole batches. It pins the segment until Release: the descriptor stays
// open, the map mapped and the bytes as they are, whatever rolls, retention or compaction do meanwhile.
type Slice struct {
	FD     int
	Offset int64
	Len    int
	Mem    []byte // mmap view of the same bytes, or nil

	segment  *Segment
	resident bool // the bytes were in memory when they were read
}

// Release unpins the segment. It is idempotent for one owner of the value; do not copy a Slice and release both.
func (s *Slice) Release() {
	if s.segment != nil {
		s.segment.Release()
		s.segment = nil
	}
}

// Pin takes the pin out of the slice, so that it can be handed on without an allocation; Release on the slice does
// nothing after it. It returns nil for an empty slice.
func (s *Slice) Pin() interface{ Release() } {
	g := s.segment
	s.segment = nil
	if g == nil {
		return nil
	}
	return g
}

// Resident says whether the bytes are in memory and likely to be so when they are sent, without touching them. What a disk's
// readahead brought and nobody has used is the first that goes when memory is short, often before the next fetch. So where a
// reader met bytes that were not in memory, only what was appended just now counts as being there for some seconds; who
// populates the rest marks it as used, too.
func (s *Slice) Resident() bool {
	g := s.segment
	if g == nil {
		return s.resident || logfile.Resident(s.FD, s.Offset, s.Len, s.Mem)
	}
	missed := g.missedMs.Load()
	if missed == 0 && s.resident || g.isYoung(s.Offset) {
		return true
	}
	if g.isCold(missed) {
		return false
	}
	if s.resident || logfile.Resident(s.FD, s.Offset, s.Len, s.Mem) {
		return true
	}
	g.Missed()
	return false
}

// isCold says whether missed, when a reader last had to wait for a disk, is not long ago.
func (g *Segment) isCold(missed int64) bool {
	return missed != 0 && g.env.clock().UnixMilli()-missed < limits.ColdReaderMs
}

// Missed notes that a reader has to wait for a disk.
func (g *Segment) Missed() { g.missedMs.Store(g.env.clock().UnixMilli()) }

// Populate brings the bytes into memory and into this process' page table; it blocks, so never call it on an event loop.
func (s *Slice) Populate() {
	if s.segment != nil && !logfile.Resident(s.FD, s.Offset, s.Len, s.Mem) {
		s.segment.Missed()
	}
	logfile.Populate(s.FD, s.Offset, s.Len, s.Mem)
}

// Read looks for the first batch that ends at or after offset. What may be seen ends at position limitAt of the segment with the
// base offset limitBase. mapBytes is how long a map of the active segment is made; 0: the bytes may not be mapped. Answers without
// bytes: FD 0, a batch is there but too large; FD -1, nothing in this segment. The caller holds a reference, which a slice with
// bytes takes over.
func (g *Segment) Read(offset, limitBase, limitAt int64, maxBytes int, minOneBatch, noWait bool, mapBytes int64) (Slice, error) {
	none := Slice{FD: -1}
	end := g.SizeBytes.Load()
	if g.BaseOffset == limitBase {
		// A limit that was loaded before a swap tells of positions in the file that was replaced.
		if !g.compacted {
			end = limitAt
		}
	} else if g.BaseOffset > limitBase && limitBase >= 0 {
		return none, nil
	}
	if noWait && g.file.Load() == nil {
		return none, logfile.ErrWouldBlock
	}
	f, err := g.Open()
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	fd := f.FD()
	walk := logfile.HeaderWalk{FD: fd, NoWait: noWait}
	at, size, ok := g.recentBatch(offset)
	missed := g.missedMs.Load()
	cold := g.isCold(missed) && !(ok && g.isYoung(at))
	if cold && noWait {
		return none, logfile.ErrWouldBlock // not even a question: it may make the system read ahead, and wait for that
	}
	if !ok {
		now := g.env.clock().UnixMilli()
		due := now-g.lookedUpMs.Load() > limits.ColdReaderMs/2
		if due && noWait {
			return none, logfile.ErrWouldBlock // the index may have to be opened, or was evicted
		}
		if due && g.aborted.Load() == nil {
			_, _ = g.AbortedTxns() // so that no event loop reads it; an error is told to who asks
		}
		if at, err = g.PositionBefore(offset); err != nil {
			return none, headerError(g, at, err)
		}
		if due { // not before: an event loop that believed it would wait for the same locks
			g.lookedUpMs.Store(now)
		}
	}
	if !noWait && (cold || !ok) && at < end && !logfile.Resident(fd, at, int(min(end-at, int64(maxBytes))), nil) {
		g.Missed()
	}
	if noWait && mapBytes > 0 && (!ok || end-at > int64(maxBytes)) {
		g.lookInto(&walk, at, end, maxBytes, mapBytes)
	}
	if !ok {
		if at, size, err = g.find(&walk, at, offset, end); err != nil {
			return none, headerError(g, at, err)
		}
	}
	if at >= end {
		return none, nil
	}
	return g.slice(&walk, at, size, end, maxBytes, minOneBatch, mapBytes)
}

// find is walk.Find from where the index says. An index that names no batch there, although its file is well formed, is made anew.
func (g *Segment) find(walk *logfile.HeaderWalk, from, offset, end int64) (at, size int64, err error) {
	at, size, err = walk.Find(from, offset, end, g.BaseOffset, g.EndOffset.Load()) // loaded after end, so it is not behind that
	if err == nil || from == 0 || !errors.Is(err, logfile.ErrTorn) {
		return at, size, err
	}
	if walk.NoWait {
		return at, 0, logfile.ErrWouldBlock // the whole segment has to be read
	}
	if err = g.reindex(err); err == nil {
		if from, err = g.PositionBefore(offset); err == nil {
			return walk.Find(from, offset, end, g.BaseOffset, g.EndOffset.Load())
		}
	}
	return at, 0, err
}

// slice returns whole batches from that of size bytes at at.
func (g *Segment) slice(walk *logfile.HeaderWalk, at, size, end int64, maxBytes int, minOneBatch bool, mapBytes int64) (Slice, error) {
	length := size
	switch {
	case size > int64(maxBytes):
		if !minOneBatch {
			return Slice{}, nil
		}
	case end-at <= int64(maxBytes):
		length = end - at
	default:
		var err error
		if length, err = g.wholeBatches(walk, at, size, at+int64(maxBytes)); err != nil {
			return Slice{FD: -1}, headerError(g, at, err)
		}
	}
	s := Slice{FD: walk.FD, Offset: at, Len: int(length), segment: g}
	if mapBytes == 0 {
		return s, nil
	}
	if m := g.mmap(at+length, mapBytes); m != nil {
		s.Mem = m[at : at+length : at+length]
		s.resident = at >= walk.MemAt && at+length <= walk.MemAt+int64(len(walk.Mem))
	}
	return s, nil
}

// lookInto lets the walk read headers from the map, if what a read from at on may return is in memory. It was appended just now,
// or the system is asked once, which the answer would need anyway, instead of for each header.
func (g *Segment) lookInto(walk *logfile.HeaderWalk, at, end int64, maxBytes int, mapBytes int64) {
	to := min(end, at+min(int64(maxBytes), limits.LookIntoBytes)+limits.LookBehindBytes)
	if at >= to {
		return
	}
	if m := g.mmap(to, mapBytes); m != nil && (g.isYoung(at) || logfile.Resident(walk.FD, at, int(to-at), m[at:to])) {
		walk.Mem, walk.MemAt = m[at:to], at
	}
}

// wholeBatches returns how many bytes from at on are whole batches that end at or before stop. The batch at at has size
// bytes and fits.
func (g *Segment) wholeBatches(walk *logfile.HeaderWalk, at, size, stop int64) (int64, error) {
	end := at + size
	if indexed, err := g.boundaryBefore(stop); err == nil && indexed > end {
		if whole, err := walk.WholeBefore(indexed, stop); !errors.Is(err, logfile.ErrTorn) {
			return whole - at, err
		}
		// What the index names is no batch. The headers tell as well, and a lookup there will have the index made anew.
	}
	end, err := walk.WholeBefore(end, stop)
	if errors.Is(err, logfile.ErrTorn) {
		err = nil // the log is damaged there, and read up to it
	}
	return end - at, err
}

func headerError(g *Segment, at int64, err error) error {
	if err == logfile.ErrWouldBlock {
		g.Missed()
		return err
	}
	if errors.Is(err, logfile.ErrTorn) { // the disk answers; what it has is no log
		return fmt.Errorf("%s at %d: %w", g.Path(layout.LogSuffix), at, err)
	}
	return fmt.Errorf("%w: %s at %d: %w", ErrStorage, g.Path(layout.LogSuffix), at, err)
}
