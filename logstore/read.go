package logstore

import (
	"fmt"

	"kaas/internal/limits"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// Read returns whole batches from the one that contains offset, or the next one that is left: at most maxBytes, but with
// minOneBatch never less than one batch when there is one. The slice is empty at the end of what iso may see.
func (p *Partition) Read(offset int64, maxBytes int, minOneBatch bool, iso Isolation) (Slice, error) {
	return p.read(offset, maxBytes, minOneBatch, iso, false)
}

// ReadNoWait is Read for event loops: ErrWouldBlock instead of waiting for a disk.
func (p *Partition) ReadNoWait(offset int64, maxBytes int, minOneBatch bool, iso Isolation) (Slice, error) {
	return p.read(offset, maxBytes, minOneBatch, iso, true)
}

// limit is the first position that iso may not see.
func (p *Partition) limit(iso Isolation) position {
	switch iso {
	case ReadCommitted:
		return p.stable.load()
	case ReadUncommitted:
		return p.high.load()
	}
	return p.end.load()
}

// read takes no lock. The limit is loaded before the list, so the list is at least as new: a segment of the list that
// stands before the limit's was sealed when the limit was stored, and all of it may be seen.
func (p *Partition) read(offset int64, maxBytes int, minOneBatch bool, iso Isolation, noWait bool) (Slice, error) {
	for {
		if f := p.failure.Load(); f != nil {
			return Slice{}, *f
		}
		limit := p.limit(iso)
		if offset < p.logStart.Load() || offset > limit.offset && offset > p.end.offset.Load() {
			return Slice{}, p.wrap(fmt.Errorf("%w: %d is not in [%d, %d]", ErrOffsetOutOfRange, offset, p.logStart.Load(), p.end.offset.Load()))
		}
		if offset >= limit.offset {
			return Slice{}, nil
		}
		list := p.segments.Load()
		i := max(list.find(offset), 0)
		for ; i < len(list.all); i++ {
			g := list.all[i]
			if !g.acquire() {
				break // retention or compaction took it: look again
			}
			s, err := p.readSegment(g, offset, maxBytes, minOneBatch, iso, limit, noWait)
			if err != nil || s.Len > 0 {
				if err != nil {
					g.release()
					err = p.wrap(err)
				}
				return s, err
			}
			g.release()
			if s.FD >= 0 || g.baseOffset >= limit.base {
				return Slice{}, nil // the first batch is larger than maxBytes, or nothing is left below the limit
			}
		}
		if i == len(list.all) {
			return Slice{}, nil
		}
	}
}

// readSegment looks for the first batch that ends at or after offset. Its answers without bytes: FD 0, a batch is there
// but too large; FD -1, nothing in this segment. The caller holds a reference, which a slice with bytes takes over.
func (p *Partition) readSegment(g *segment, offset int64, maxBytes int, minOneBatch bool, iso Isolation, limit position, noWait bool) (Slice, error) {
	none := Slice{FD: -1}
	end := g.sizeBytes.Load()
	if g.baseOffset == limit.base {
		// A limit that was loaded before a swap tells of positions in the file that was replaced.
		if !g.compacted {
			end = limit.at
		}
	} else if g.baseOffset > limit.base && limit.base >= 0 {
		return none, nil
	}
	f, err := g.open()
	if err != nil {
		return none, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	fd := f.FD()
	// What is not durable may be cut off when the partition is recovered in place: the bytes of a map that lie beyond the new
	// end of the file would raise SIGBUS, where a read by descriptor ends.
	mapped := iso != ReadLogEnd || limit.offset <= p.durable.Load()
	walk := logfile.HeaderWalk{FD: fd, NoWait: noWait}
	at, size, ok := g.recentBatch(offset)
	if !ok {
		if at, err = g.positionBefore(offset); err != nil {
			return none, headerError(g, at, err)
		}
	}
	if noWait && mapped && (!ok || end-at > int64(maxBytes)) {
		p.lookInto(g, &walk, at, end, maxBytes)
	}
	if !ok {
		if at, size, err = walk.Find(at, offset, end); err != nil {
			return none, headerError(g, at, err)
		}
	}
	if at >= end {
		return none, nil
	}
	length := size
	switch {
	case size > int64(maxBytes):
		if !minOneBatch {
			return Slice{}, nil
		}
	case end-at <= int64(maxBytes):
		length = end - at
	default:
		if length, err = g.wholeBatches(&walk, at, size, at+int64(maxBytes)); err != nil {
			return none, headerError(g, at, err)
		}
	}
	s := Slice{FD: fd, Offset: at, Len: int(length), segment: g}
	if !mapped {
		return s, nil
	}
	if m := g.mmap(at+length, int64(p.config.Load().SegmentBytes)); m != nil {
		s.Mem = m[at : at+length : at+length]
		s.resident = at >= walk.MemAt && at+length <= walk.MemAt+int64(len(walk.Mem))
	}
	return s, nil
}

// lookInto lets the walk read headers from the map, if what a read from at on may return is in memory: one question to the
// system, which the answer would need anyway, instead of one for each header.
func (p *Partition) lookInto(g *segment, walk *logfile.HeaderWalk, at, end int64, maxBytes int) {
	to := min(end, at+min(int64(maxBytes), limits.LookIntoBytes)+limits.LookBehindBytes)
	if at >= to {
		return
	}
	if m := g.mmap(to, int64(p.config.Load().SegmentBytes)); m != nil && logfile.Resident(walk.FD, at, int(to-at), m[at:to]) {
		walk.Mem, walk.MemAt = m[at:to], at
	}
}

// wholeBatches returns how many bytes from at on are whole batches that end at or before stop. The batch at at has size
// bytes and fits.
func (g *segment) wholeBatches(walk *logfile.HeaderWalk, at, size, stop int64) (int64, error) {
	end := at + size
	if indexed, err := g.boundaryBefore(stop); err == nil && indexed > end {
		end = indexed
	}
	end, err := walk.WholeBefore(end, stop)
	return end - at, err
}

func headerError(g *segment, at int64, err error) error {
	if err == ErrWouldBlock {
		return err
	}
	return fmt.Errorf("%w: %s at %d: %w", ErrStorage, g.path(layout.LogSuffix), at, err)
}
