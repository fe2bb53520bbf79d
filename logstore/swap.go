package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kaas/internal/vfs"
	"kaas/logstore/cleaner"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/recovery"
)

// cleanGroup writes what is left of group as one segment and puts it into the group's place. Steps and what a crash between
// them leaves: docs/format/operations.md, compaction.
func (p *Partition) cleanGroup(ctx context.Context, r *cleaner.Round, group []*segment, sources []cleaner.Source) error {
	first, last := group[0], group[len(group)-1]
	g := newSegment(p.store, p.path(), first.baseOffset)
	f, err := p.store.fs.OpenFile(g.path(layout.LogSuffix)+layout.CleanedSuffix, vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	g.file.Store(&openFile{f})
	o := cleaner.Output{File: f, BaseOffset: g.baseOffset, IndexInterval: int64(p.config.Load().IndexIntervalBytes)}
	err = r.Clean(ctx, sources, p.AbortedTransactions(g.baseOffset, last.endOffset.Load(), nil), &o)
	if err == nil && (len(group) > 1 || o.Changed) {
		if err = g.writeCleaned(&o); err == nil {
			g.takeOver(&o, last)
			swapped := false
			if swapped, err = p.swap(group, g); swapped {
				return err
			}
		}
	}
	// Nothing was swapped: the log is as it was, and what was written goes.
	return errors.Join(err, f.Close(), recovery.RemoveSegment(p.store.fs, p.path(), g.baseOffset, layout.CleanedSuffix))
}

// writeCleaned makes the new files durable under their temporary names.
func (g *segment) writeCleaned(o *cleaner.Output) error {
	if err := o.File.Datasync(); err != nil {
		return err
	}
	if err := g.writeIndex(layout.IndexSuffix+layout.CleanedSuffix, index.EncodeOffsets(o.Index.Offsets.View()), 0); err != nil {
		return err
	}
	if err := g.writeIndex(layout.TimeIndexSuffix+layout.CleanedSuffix, index.EncodeTimes(o.Index.Times.View()), 0); err != nil {
		return err
	}
	if len(o.Aborted) == 0 {
		return nil
	}
	var b []byte
	for _, a := range o.Aborted {
		b = append(b, index.EncodeAborted(a)...)
	}
	return g.writeIndex(layout.TxnIndexSuffix+layout.CleanedSuffix, b, 0)
}

// takeOver sets what a sealed segment knows of itself. Nobody else has it yet.
func (g *segment) takeOver(o *cleaner.Output, last *segment) {
	g.sizeBytes.Store(o.SizeBytes)
	g.endOffset.Store(last.endOffset.Load())
	g.sealed.Store(true)
	g.mem.Store(o.Index) // until the files have their names
	g.aborted.Store(&o.Aborted)
	g.hasTxnIndex = len(o.Aborted) > 0
	g.maxTimestampMs, g.maxTimestampAt = o.MaxTimestampMs, o.MaxTimestampAt
	g.createdMs = last.createdMs
	g.compacted = true
}

// swap puts g into the place of group. swapped false: nothing has happened. From the moment when <base>.log.swap may be
// durable there is no way back: a failure takes the partition down, and its recovery finishes the swap.
func (p *Partition) swap(group []*segment, g *segment) (swapped bool, err error) {
	p.headMu.Lock()
	defer p.headMu.Unlock()
	if err := p.swappable(group); err != nil {
		return false, err
	}
	next := group[len(group)-1].endOffset.Load()
	if err := p.logDir().journal.forget(p, next); err != nil { // a start would write into the new file what stood in the old ones
		return false, err
	}
	fsys := p.store.fs
	if err := recovery.RenameSegment(fsys, p.path(), g.baseOffset, layout.CleanedSuffix, layout.SwapSuffix); err != nil {
		if removeErr := recovery.RemoveSegment(fsys, p.path(), g.baseOffset, layout.SwapSuffix); removeErr != nil {
			return p.swapFailed(g, "taking the new files back", errors.Join(err, removeErr))
		}
		return false, err
	}
	if err := fsys.SyncDir(p.path()); err != nil {
		return p.swapFailed(g, "naming the new files", err)
	}
	for _, old := range group {
		if _, err := old.open(); err != nil { // who holds the old list must not look for the old name
			return p.swapFailed(g, "opening the old files", err)
		}
	}
	if !p.replace(group, g) {
		g.release()
		return true, p.wrap(ErrClosed) // closed meanwhile; whoever opens it again finishes the swap
	}
	defer p.store.janitor.doom(doomedSegments{p.store.nowMs() + p.config.Load().FileDeleteDelayMs, group})
	for _, old := range group {
		if err := old.moveAside(); err != nil {
			return p.swapFailed(nil, "moving the old files aside", err)
		}
		if old.baseOffset != g.baseOffset {
			if err := p.removeSnapshot(old.baseOffset); err != nil {
				return p.swapFailed(nil, "removing a snapshot", err)
			}
		}
	}
	if err := recovery.RenameSegment(fsys, p.path(), g.baseOffset, layout.SwapSuffix, ""); err != nil {
		return p.swapFailed(nil, "giving the new files their names", err)
	}
	if err := fsys.SyncDir(p.path()); err != nil {
		return p.swapFailed(nil, "giving the new files their names", err)
	}
	g.mem.Store(nil) // lookups map the files from here on
	return true, nil
}

// swapFailed takes the partition down. unpublished is the new segment while nobody reads it, else nil.
func (p *Partition) swapFailed(unpublished *segment, step string, err error) (swapped bool, _ error) {
	if unpublished != nil {
		unpublished.release()
	}
	err = fmt.Errorf("%w: compaction, %s: %w", ErrStorage, step, err)
	p.fail(err)
	return true, err
}

// swappable says whether the group still stands in the list, written out. Caller: headMu, so it stays so.
func (p *Partition) swappable(group []*segment) error {
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
func (p *Partition) replace(group []*segment, g *segment) bool {
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
	bytes := g.sizeBytes.Load()
	for _, old := range group {
		bytes -= old.sizeBytes.Load()
	}
	p.totalBytes.Add(bytes)
	for _, m := range []*mark{&p.high, &p.stable} {
		if pos := m.load(); pos.base >= g.baseOffset && pos.base < next.baseOffset {
			m.store(position{pos.offset, next.baseOffset, 0})
		}
	}
	return true
}

// indexBytes is the size of the larger index.
func (g *segment) indexBytes() int64 {
	files, mem, err := g.sealedIndex()
	switch {
	case err != nil:
		return 0
	case mem != nil:
		return max(int64(mem.Offsets.Len())*index.OffsetEntryBytes, int64(mem.Times.Len())*index.TimeEntryBytes)
	}
	return int64(max(len(files.Offsets.B), len(files.Times.B)))
}
