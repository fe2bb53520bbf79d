package segment

import (
	"context"
	"fmt"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// TimestampOffset is the answer of a lookup by time.
type TimestampOffset struct {
	Offset      int64
	TimestampMs int64
	LeaderEpoch int32
}

// FirstSince searches the segment for the first record at or after timestampMs in [start, limit). The caller holds a
// reference.
func (g *Segment) FirstSince(ctx context.Context, timestampMs, start, limit int64) (none TimestampOffset, ok bool, err error) {
	from, err := g.offsetBeforeTime(timestampMs)
	if err != nil {
		return none, false, err
	}
	at, err := g.Locate(max(from, start))
	if err != nil {
		return none, false, err
	}
	f, err := g.Open()
	if err != nil {
		return none, false, err
	}
	sc := logfile.Scanner{File: f, At: at, Size: g.SizeBytes.Load(), HeadersOnly: true}
	defer sc.Close()
	for {
		if err := ctx.Err(); err != nil {
			return none, false, err
		}
		v, at, err := sc.Next()
		if err != nil {
			return none, false, fmt.Errorf("%w: %s at %d: %w", ErrStorage, g.Path(layout.LogSuffix), at, err)
		}
		if v == nil || v.BaseOffset() >= limit {
			return none, false, nil
		}
		if v.MaxTimestamp() < timestampMs || v.LastOffset() < start {
			continue
		}
		found, ok, err := g.firstRecord(at, v.SizeBytes(), func(r *batch.Record) bool {
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
func (g *Segment) firstRecord(at int64, size int, match func(*batch.Record) bool) (none TimestampOffset, ok bool, err error) {
	f, err := g.Open()
	if err != nil {
		return none, false, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, at); err != nil {
		return none, false, err
	}
	v := batch.View(b)
	g.env.lookups.TimeLookupBatches.Add(1)
	it, err := v.Records(limits.DecompressedBatchBytes)
	if err != nil {
		g.passOver(at, err)
		return none, false, nil
	}
	defer it.Close()
	for it.Next() {
		if r := it.Record(); match(r) {
			return TimestampOffset{Offset: r.Offset, TimestampMs: r.TimestampMs, LeaderEpoch: v.PartitionLeaderEpoch()}, true, nil
		}
	}
	if err := it.Err(); err != nil {
		g.passOver(at, err)
	}
	return none, false, nil
}

func (g *Segment) passOver(at int64, err error) {
	g.env.lookups.UndecodableBatches.Add(1)
	g.env.logger.Debug("lookup by time passes over a batch", "file", g.Path(layout.LogSuffix), "position", at, "reason", err)
}

// Newest finds the record of the segment whose timestamp is the largest in [start, limit) and above floor. It reads
// headers only from the batch that the time index names last below the limit: the one that ends at largestAt and carries largest. The
// caller holds a reference.
func (g *Segment) Newest(ctx context.Context, largest, largestAt, start, limit, floor int64) (best TimestampOffset, ok bool, err error) {
	from, named := largestAt, true
	if largestAt < start || largestAt >= limit {
		from, named = start, false // rare: the record that carries it may not be seen, so look at every batch
	}
	at, err := g.Locate(from)
	if err != nil {
		return best, false, err
	}
	f, err := g.Open()
	if err != nil {
		return best, false, err
	}
	sc := logfile.Scanner{File: f, At: at, Size: g.SizeBytes.Load(), HeadersOnly: true}
	defer sc.Close()
	best.TimestampMs = floor
	for {
		if err := ctx.Err(); err != nil {
			return best, false, err
		}
		v, at, err := sc.Next()
		if err != nil {
			return best, false, fmt.Errorf("%w: %s at %d: %w", ErrStorage, g.Path(layout.LogSuffix), at, err)
		}
		if v == nil || v.BaseOffset() >= limit {
			return best, ok, nil
		}
		if v.LastOffset() < from || v.MaxTimestamp() <= best.TimestampMs {
			continue
		}
		t, found, err := g.largestRecord(at, v.SizeBytes(), start)
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
			if at, err = g.Locate(from); err != nil {
				return best, false, err
			}
			sc = logfile.Scanner{File: f, At: at, Size: g.SizeBytes.Load(), HeadersOnly: true}
			continue
		}
		named = false // the record that carries it may be deleted: look at every batch
	}
}

// largestRecord decodes the batch at position at and returns its first record from start on with the largest timestamp.
func (g *Segment) largestRecord(at int64, size int, start int64) (best TimestampOffset, ok bool, err error) {
	best.TimestampMs = -1
	_, _, err = g.firstRecord(at, size, func(r *batch.Record) bool {
		if r.Offset >= start && r.TimestampMs > best.TimestampMs {
			best.Offset, best.TimestampMs, ok = r.Offset, r.TimestampMs, true
		}
		return false
	})
	best.LeaderEpoch = g.epochAt(at)
	return best, ok, err
}

// epochAt is the leader epoch of the batch at a position; -1 when it can't be read.
func (g *Segment) epochAt(at int64) int32 {
	f, err := g.Open()
	if err != nil {
		return -1
	}
	var b [4]byte
	if _, err := f.ReadAt(b[:], at+12); err != nil {
		return -1
	}
	return be32(b[:])
}
