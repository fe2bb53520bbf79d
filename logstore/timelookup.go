package logstore

import (
	"context"
	"iter"

	"kaas/logstore/segment"
)

// OffsetForTimestamp finds the first record whose timestamp is at or after timestampMs (KIP-79), exact to the record: the
// one batch that holds it is decoded, which Counters.TimeLookupBatches counts. It may block; keep it off event loops.
func (p *Partition) OffsetForTimestamp(ctx context.Context, timestampMs int64, iso Isolation) (TimestampOffset, bool, error) {
	if err := p.Err(); err != nil {
		return TimestampOffset{}, false, err
	}
	limit := p.limit(iso)
	start := p.logStart.Load()
	for g := range p.held(start) {
		if g.BaseOffset >= limit.offset {
			break
		}
		largest, _, err := p.largestTimestamp(g)
		if err != nil {
			return TimestampOffset{}, false, p.wrap(err)
		}
		if largest < timestampMs {
			continue
		}
		found, ok, err := g.FirstSince(ctx, timestampMs, start, limit.offset)
		if err != nil {
			return TimestampOffset{}, false, p.wrap(err)
		}
		if ok {
			return found, true, nil
		}
	}
	return TimestampOffset{}, false, nil
}

// held yields the segments from the one that holds offset on, each with a reference while the body runs. When one was
// deleted or compacted away meanwhile it goes on in the list of now, where the one before ended.
func (p *Partition) held(offset int64) iter.Seq[*segment.Segment] {
	return func(yield func(*segment.Segment) bool) {
		list := p.segments.Load()
		for i := max(list.find(offset), 0); i < len(list.all); i++ {
			g := list.all[i]
			p.store.roomForFiles()
			if !g.Acquire() {
				now := p.segments.Load()
				if now == list {
					return // closed
				}
				list = now
				i = max(list.find(offset), 0) - 1
				continue
			}
			offset = max(offset, g.EndOffset.Load())
			more := yield(g)
			g.Release()
			if !more {
				return
			}
		}
	}
}

// largestTimestamp is the largest timestamp of a segment and the last offset of the first batch that carries it. The caller holds
// a reference.
func (p *Partition) largestTimestamp(g *segment.Segment) (timestampMs, lastOffset int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	err = g.LoadMaxTimestamp()
	return g.MaxTimestampMs, g.MaxTimestampAt, err
}

// MaxTimestamp finds the first record that carries the largest timestamp (KIP-734).
func (p *Partition) MaxTimestamp(ctx context.Context, iso Isolation) (TimestampOffset, bool, error) {
	if err := p.Err(); err != nil {
		return TimestampOffset{}, false, err
	}
	limit := p.limit(iso)
	start := p.logStart.Load()
	best := TimestampOffset{TimestampMs: -1}
	found := false
	for g := range p.held(start) {
		if g.BaseOffset >= limit.offset {
			break
		}
		largest, largestAt, err := p.largestTimestamp(g)
		if err != nil {
			return TimestampOffset{}, false, p.wrap(err)
		}
		if largest <= best.TimestampMs {
			continue
		}
		t, ok, err := g.Newest(ctx, largest, largestAt, start, limit.offset, best.TimestampMs)
		if err != nil {
			return TimestampOffset{}, false, p.wrap(err)
		}
		if ok {
			best, found = t, true
		}
	}
	return best, found, nil
}
