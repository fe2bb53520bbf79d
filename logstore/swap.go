package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kaas/internal/vfs"
	"kaas/logstore/cleaner"
	"kaas/logstore/layout"
	"kaas/logstore/recovery"
	"kaas/logstore/segment"
)

// cleanGroup writes what is left of group as one segment and puts it into the group's place. Steps and what a crash between
// them leaves: docs/format/operations.md, compaction.
func (p *Partition) cleanGroup(ctx context.Context, r *cleaner.Round, group []*segment.Segment, sources []cleaner.Source) error {
	first, last := group[0], group[len(group)-1]
	g := segment.New(p.store.segments, p.path(), first.BaseOffset)
	f, err := p.store.fs.OpenFile(g.Path(layout.LogSuffix)+layout.CleanedSuffix, vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	g.SetFile(f)
	o := cleaner.Output{File: f, BaseOffset: g.BaseOffset, IndexInterval: int64(p.config.Load().IndexIntervalBytes)}
	aborted, err := p.AbortedTransactions(g.BaseOffset, last.EndOffset.Load(), nil)
	if err == nil {
		err = r.Clean(ctx, sources, aborted, &o)
	}
	if err == nil && (len(group) > 1 || o.Changed) {
		if err = g.WriteCleaned(&o); err == nil {
			g.TakeOver(&o, last)
			swapped := false
			if swapped, err = p.swap(group, g); swapped {
				return err
			}
		}
	}
	// Nothing was swapped: the log is as it was, and what was written goes.
	g.Release()
	return errors.Join(err, recovery.RemoveSegment(p.store.fs, p.path(), g.BaseOffset, layout.CleanedSuffix))
}

// swap puts g into the place of group. swapped false: nothing has happened. From the moment when <base>.log.swap may be
// durable there is no way back: a failure takes the partition down, and its recovery finishes the swap.
func (p *Partition) swap(group []*segment.Segment, g *segment.Segment) (swapped bool, err error) {
	p.headMu.Lock()
	defer p.headMu.Unlock()
	if err := p.swappable(group); err != nil {
		return false, err
	}
	next := group[len(group)-1].EndOffset.Load()
	if err := p.logDir().journal.forget(p, next); err != nil { // a start would write into the new file what stood in the old ones
		return false, err
	}
	fsys := p.store.fs
	if err := recovery.RenameSegment(fsys, p.path(), g.BaseOffset, layout.CleanedSuffix, layout.SwapSuffix); err != nil {
		if removeErr := recovery.RemoveSegment(fsys, p.path(), g.BaseOffset, layout.SwapSuffix); removeErr != nil {
			return p.swapFailed(g, "taking the new files back", errors.Join(err, removeErr))
		}
		return false, err
	}
	if err := fsys.SyncDir(p.path()); err != nil {
		return p.swapFailed(g, "naming the new files", err)
	}
	if !p.replace(group, g) {
		g.Release()
		return true, p.wrap(ErrClosed) // closed meanwhile; whoever opens it again finishes the swap
	}
	defer p.store.janitor.Doom(p.store.upMs()+p.config.Load().FileDeleteDelayMs, group)
	for _, old := range group {
		if err := old.MoveAside(); err != nil {
			return p.swapFailed(nil, "moving the old files aside", err)
		}
		if old.BaseOffset != g.BaseOffset {
			if err := p.removeSnapshot(old.BaseOffset); err != nil {
				return p.swapFailed(nil, "removing a snapshot", err)
			}
		}
	}
	if err := recovery.RenameSegment(fsys, p.path(), g.BaseOffset, layout.SwapSuffix, ""); err != nil {
		return p.swapFailed(nil, "giving the new files their names", err)
	}
	if err := fsys.SyncDir(p.path()); err != nil {
		return p.swapFailed(nil, "giving the new files their names", err)
	}
	g.DropWritable() // lookups map the files from here on
	return true, nil
}

// swapFailed takes the partition down. unpublished is the new segment while nobody reads it, else nil.
func (p *Partition) swapFailed(unpublished *segment.Segment, step string, err error) (swapped bool, _ error) {
	if unpublished != nil {
		unpublished.Release()
	}
	err = fmt.Errorf("%w: compaction, %s: %w", ErrStorage, step, err)
	p.fail(err)
	return true, err
}

// swappable says whether the group still stands in the list, written out. Caller: headMu, so it stays so.
func (p *Partition) swappable(group []*segment.Segment) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.failure.Load(); f != nil {
		return *f
	}
	all := p.segments.Load().all
	at := slices.Index(all, group[0])
	if at < 0 || at+len(group) >= len(all) || !slices.Equal(all[at:at+len(group)], group) {
		return errSegmentGone
	}
	for _, seal := range p.pending {
		if slices.Contains(group, seal.segment) {
			return errors.New("a segment's indexes are not written yet")
		}
	}
	return nil
}

// replace publishes the list with g instead of group; false: the partition is closed. Watermarks that point to the end of
// the group point to the segment behind it from now on: the same place, in a file that stays. Caller: headMu.
func (p *Partition) replace(group []*segment.Segment, g *segment.Segment) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure.Load() != nil {
		return false
	}
	all := p.segments.Load().all
	at := slices.Index(all, group[0])
	next := all[at+len(group)]
	changed := append(slices.Clone(all[:at]), g)
	p.setSegments(append(changed, all[at+len(group):]...))
	bytes := g.SizeBytes.Load()
	for _, old := range group {
		bytes -= old.SizeBytes.Load()
	}
	p.totalBytes.Add(bytes)
	for _, m := range []*mark{&p.high, &p.stable} {
		if pos := m.load(); pos.base >= g.BaseOffset && pos.base < next.BaseOffset {
			m.store(position{pos.offset, next.BaseOffset, 0})
		}
	}
	return true
}
