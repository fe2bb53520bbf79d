package logstore

import (
	"errors"
	"fmt"

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
		if !noWait {
			p.store.roomForFiles()
		}
		list := p.segments.Load()
		i := max(list.find(offset), 0)
		for ; i < len(list.all); i++ {
			g := list.all[i]
			if !g.Acquire() {
				break // retention or compaction took it: look again
			}
			// What is not durable may be cut off when the partition is recovered in place: the bytes of a map that lie beyond the new
			// end of the file would raise SIGBUS, where a read by descriptor ends.
			mapBytes := int64(0)
			if iso != ReadLogEnd || limit.offset <= p.durable.Load() {
				mapBytes = int64(p.config.Load().SegmentBytes)
			}
			s, err := g.Read(offset, limit.base, limit.at, maxBytes, minOneBatch, noWait, mapBytes)
			if err != nil || s.Len > 0 {
				if err != nil {
					g.Release()
					if errors.Is(err, logfile.ErrTorn) { // LogSegment.read throws CorruptRecordException
						err = fmt.Errorf("%w: %w", ErrCorruptMessage, err)
					}
					err = p.wrap(err)
				}
				return s, err
			}
			g.Release()
			if s.FD >= 0 || g.BaseOffset >= limit.base {
				return Slice{}, nil // the first batch is larger than maxBytes, or nothing is left below the limit
			}
		}
		if i == len(list.all) {
			return Slice{}, nil
		}
	}
}
