package logstore

import (
	"fmt"
	"path/filepath"

	"kaas/codec/batch"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/segment"
	"kaas/logstore/validate"
)

// segmentFor returns the active segment, after a roll where Kafka rolls (LogSegment.shouldRoll). Caller: mu.
func (p *Partition) segmentFor(bytes int, info *validate.Info, c *Config, nowMs int64) (*segment.Segment, error) {
	g := p.active.Load()
	writable, err := g.MemIndex()
	if err != nil {
		return nil, err
	}
	if err := g.LoadMaxTimestamp(); err != nil {
		return nil, err
	}
	size := g.SizeBytes.Load()
	if size == 0 {
		return g, nil
	}
	full := size+int64(bytes) > int64(c.SegmentBytes)
	if entries := int64(max(16, c.SegmentIndexBytes)); !full && size/batch.HeaderBytes >= entries/index.TimeEntryBytes {
		// Only now may there be so many: an entry stands for a batch, and the index is not in the caches.
		full = int64(writable.Offsets.Len()) >= entries/index.OffsetEntryBytes || int64(writable.Times.Len()) >= entries/index.TimeEntryBytes
	}
	if !full {
		full = p.end.offset.Load()+info.Records-1-g.BaseOffset > 1<<31-1
	}
	if !full {
		waited, err := g.WaitedMs(info.MaxTimestamp, nowMs)
		if err != nil {
			return nil, err
		}
		limit := c.SegmentMs
		if c.CleanupCompact {
			limit = min(limit, max(c.MaxCompactionLagMs, 1)) // only what is not active can be compacted
		}
		full = waited > limit-p.rollJitterMs
	}
	if !full {
		return g, nil
	}
	return p.roll(nowMs)
}

// wantSpare has the janitor make the next file when the active one is nearly full. Caller: mu.
func (p *Partition) wantSpare(g *segment.Segment, c *Config) {
	if !p.spareWanted && g.SizeBytes.Load() > int64(c.SegmentBytes)-int64(c.SegmentBytes)/8 {
		p.spareWanted = true
		p.store.janitor.Spare(p)
	}
}

// makeSpare runs on the janitor.
func (p *Partition) makeSpare() {
	p.mu.Lock()
	generation, wanted := p.generation, p.failure.Load() == nil && p.spare == nil
	p.spares++
	name := filepath.Join(p.path(), fmt.Sprintf("%s%d%s", layout.SpareName, p.spares, layout.TemporarySuffix))
	p.mu.Unlock()
	if !wanted {
		return
	}
	s := p.store.segments.MakeSpare(name)
	p.mu.Lock()
	if p.generation == generation && p.failure.Load() == nil {
		p.spare, s = s, nil
	}
	p.mu.Unlock()
	p.store.segments.DropSpare(s)
}

// roll seals the active segment and makes a new one at the log end. The new file is durable with the next commit, which
// syncs the directory too; the sealed segment's index files and the producer snapshot are written by the janitor. On an error
// nothing has changed. Caller: mu.
func (p *Partition) roll(nowMs int64) (*segment.Segment, error) {
	list := p.segments.Load()
	old := list.active()
	if old.SizeBytes.Load() == 0 {
		return old, nil
	}
	end := p.end.offset.Load()
	g := segment.NewActive(p.store.segments, p.path(), end, nowMs)
	writable, err := old.MemIndex()
	if err != nil {
		return nil, err
	}
	if err := old.LoadMaxTimestamp(); err != nil {
		return nil, err
	}
	spare := p.spare
	p.spare, p.spareWanted = nil, false
	f, err := p.store.segments.NextFile(spare, g, old)
	if err != nil {
		return nil, err
	}
	index.AppendTime(writable, old.MaxTimestampMs, old.MaxTimestampAt, old.BaseOffset)
	g.SetFile(f)
	old.Sealed.Store(true)
	// A snapshot without producers is written too: it saves the next recovery the way from the start of the log.
	seal := pendingSeal{segment: old, snapshot: p.producers.Snapshot(), snapshotOffset: end}
	p.producers.SnapshotTaken(end)
	p.pending = append(p.pending, seal)
	p.dirUnsynced = true
	grown := make([]*segment.Segment, len(list.all)+1)
	copy(grown, list.all)
	grown[len(list.all)] = g
	p.setSegments(grown)
	p.end.store(position{end, g.BaseOffset, 0})
	p.store.janitor.Sealed(p)
	return g, nil
}
