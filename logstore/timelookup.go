package logstore

import (
	"context"
	"fmt"
	"iter"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
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
		if g.baseOffset >= limit.offset {
			break
		}
		found, ok, err := p.lookupTime(ctx, g, timestampMs, start, limit.offset)
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
func (p *Partition) held(offset int64) iter.Seq[*segment] {
	return func(yield func(*segment) bool) {
		list := p.segments.Load()
		for i := max(list.find(offset), 0); i < len(list.all); i++ {
			g := list.all[i]
			if !g.acquire() {
				now := p.segments.Load()
				if now == list {
					return // closed
				}
				list = now
				i = max(list.find(offset), 0) - 1
				continue
			}
			offset = max(offset, g.endOffset.Load())
			more := yield(g)
			g.release()
			if !more {
				return
			}
		}
	}
}

// lookupTime searches one segment for the first record at or after timestampMs in [start, limit). The caller holds a
// reference.
func (p *Partition) lookupTime(ctx context.Context, g *segment, timestampMs, start, limit int64) (none TimestampOffset, ok bool, err error) {
	p.mu.Lock()
	err = g.loadMaxTimestamp()
	largest := g.maxTimestampMs
	p.mu.Unlock()
	if err != nil {
		return none, false, err
	}
	if largest < timestampMs {
		return none, false, nil
	}
	from, err := g.offsetBeforeTime(timestampMs)
	if err != nil {
		return none, false, err
	}
	at, err := g.positionBefore(max(from, start))
	if err != nil {
		return none, false, err
	}
	f, err := g.open()
	if err != nil {
		return none, false, err
	}
	sc := logfile.Scanner{File: f, At: at, Size: g.sizeBytes.Load(), HeadersOnly: true}
	defer sc.Close()
	for {
		if err := ctx.Err(); err != nil {
			return none, false, err
		}
		v, at, err := sc.Next()
		if err != nil {
			return none, false, fmt.Errorf("%w: %s at %d: %w", ErrStorage, g.path(layout.LogSuffix), at, err)
		}
		if v == nil || v.BaseOffset() >= limit {
			return none, false, nil
		}
		if v.MaxTimestamp() < timestampMs || v.LastOffset() < start {
			continue
		}
		found, ok, err := p.firstRecord(g, at, v.SizeBytes(), func(r *batch.Record) bool {
			return r.TimestampMs >= timestampMs && r.Offset >= start && r.Offset < limit
		})
		if err != nil || ok {
			return found, ok, err
		}
	}
}

// firstRecord decodes the batch at position at and returns the first record that matches. Records stay opaque when they are
// appended, so a client's batch may hold something else than records: no consumer gets one from it, and no answer comes from
// it, but those of the other batches must.
func (p *Partition) firstRecord(g *segment, at int64, size int, match func(*batch.Record) bool) (none TimestampOffset, ok bool, err error) {
	f, err := g.open()
	if err != nil {
		return none, false, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, at); err != nil {
		return none, false, err
	}
	v := batch.View(b)
	p.store.counters.TimeLookupBatches.Add(1)
	it, err := v.Records(limits.DecompressedBatchBytes)
	if err != nil {
		p.passOver(g, at, err)
		return none, false, nil
	}
	defer it.Close()
	for it.Next() {
		if r := it.Record(); match(r) {
			return TimestampOffset{Offset: r.Offset, TimestampMs: r.TimestampMs, LeaderEpoch: v.PartitionLeaderEpoch()}, true, nil
		}
	}
	if err := it.Err(); err != nil {
		p.passOver(g, at, err)
	}
	return none, false, nil
}

func (p *Partition) passOver(g *segment, at int64, err error) {
	p.store.counters.UndecodableBatches.Add(1)
	p.store.logger.Debug("lookup by time passes over a batch", "file", g.path(layout.LogSuffix), "position", at, "reason", err)
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
		if g.baseOffset >= limit.offset {
			break
		}
		t, ok, err := p.maxTimestampOf(ctx, g, start, limit.offset, best.TimestampMs)
		if err != nil {
			return TimestampOffset{}, false, p.wrap(err)
		}
		if ok {
			best, found = t, true
		}
	}
	return best, found, nil
}

// maxTimestampOf finds the record of a segment whose timestamp is the largest in [start, limit) and above floor. It reads
// headers only from the batch that the time index names last below the limit.
func (p *Partition) maxTimestampOf(ctx context.Context, g *segment, start, limit, floor int64) (best TimestampOffset, ok bool, err error) {
	p.mu.Lock()
	err = g.loadMaxTimestamp()
	largest, largestAt := g.maxTimestampMs, g.maxTimestampAt
	p.mu.Unlock()
	if err != nil || largest <= floor {
		return best, false, err
	}
	from, named := largestAt, true
	if largestAt < start || largestAt >= limit {
		from, named = start, false // rare: the record that carries it may not be seen, so look at every batch
	}
	at, err := g.positionBefore(from)
	if err != nil {
		return best, false, err
	}
	f, err := g.open()
	if err != nil {
		return best, false, err
	}
	sc := logfile.Scanner{File: f, At: at, Size: g.sizeBytes.Load(), HeadersOnly: true}
	defer sc.Close()
	best.TimestampMs = floor
	for {
		if err := ctx.Err(); err != nil {
			return best, false, err
		}
		v, at, err := sc.Next()
		if err != nil {
			return best, false, fmt.Errorf("%w: %s at %d: %w", ErrStorage, g.path(layout.LogSuffix), at, err)
		}
		if v == nil || v.BaseOffset() >= limit {
			return best, ok, nil
		}
		if v.LastOffset() < from || v.MaxTimestamp() <= best.TimestampMs {
			continue
		}
		t, found, err := p.largestRecord(g, at, v.SizeBytes(), start)
		if err != nil {
			return best, false, err
		}
		if found && t.TimestampMs > best.TimestampMs {
			best, ok = t, true
		}
		if named && found && t.TimestampMs == largest && v.BaseOffset() >= start {
			return best, ok, nil // the index names it, and all of it may be seen
		}
		// Compaction took its records, or its header lied about them: the batches before it count.
		if named && from > start {
			named, from = false, start
			if at, err = g.positionBefore(from); err != nil {
				return best, false, err
			}
			sc = logfile.Scanner{File: f, At: at, Size: g.sizeBytes.Load(), HeadersOnly: true}
			continue
		}
		named = false // the record that carries it may be deleted: look at every batch
	}
}

// largestRecord decodes the batch at position at and returns its first record from start on with the largest timestamp.
func (p *Partition) largestRecord(g *segment, at int64, size int, start int64) (best TimestampOffset, ok bool, err error) {
	best.TimestampMs = -1
	_, _, err = p.firstRecord(g, at, size, func(r *batch.Record) bool {
		if r.Offset >= start && r.TimestampMs > best.TimestampMs {
			best.Offset, best.TimestampMs, ok = r.Offset, r.TimestampMs, true
		}
		return false
	})
	best.LeaderEpoch = g.epochAt(at)
	return best, ok, err
}

// epochAt is the leader epoch of the batch at a position; -1 when it can't be read.
func (g *segment) epochAt(at int64) int32 {
	f, err := g.open()
	if err != nil {
		return -1
	}
	var b [4]byte
	if _, err := f.ReadAt(b[:], at+12); err != nil {
		return -1
	}
	return be32(b[:])
}
