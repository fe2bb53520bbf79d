package segment

import (
	"errors"
	"io/fs"
	"path/filepath"

	"kaas/internal/vfs"
	"kaas/logstore/cleaner"
	"kaas/logstore/index"
	"kaas/logstore/layout"
)

// WriteSealed writes the indexes of a sealed segment and lets go of their memory. The caller holds a reference.
func (g *Segment) WriteSealed() error {
	m := g.mem.Load()
	if m == nil {
		return nil
	}
	if err := g.WriteIndexes(m, 0, 0); err != nil {
		return err
	}
	aborted, err := g.AbortedTxns()
	if err != nil {
		return err
	}
	if err := g.writeIndex(layout.SumsSuffix, sumsOf(m, len(aborted)).Encode(), 0); err != nil {
		return err
	}
	// A lookup that loaded mem before keeps its arrays; one that comes later maps the files.
	g.DropWritable()
	return nil
}

// MadeNames says once that an index file was made since it was asked last, whose name only a sync of the directory makes durable: before
// the recovery point passes what the file tells of. The caller is who writes the files of the index.
func (g *Segment) MadeNames() (made bool) {
	made, g.madeNames = g.madeNames, false
	return made
}

// WriteIndexes writes the entries from fromOffsets and fromTimes on and cuts what the files have beyond.
func (g *Segment) WriteIndexes(m *index.Writable, fromOffsets, fromTimes int) error {
	offsets, times := m.Offsets.View(), m.Times.View()
	if g.recovered && fromOffsets == 0 && fromTimes == 0 {
		// A file that is cut below a reader's map raises SIGBUS: those who still have the segment as it was keep the old files.
		dir := filepath.Dir(g.Path(layout.IndexSuffix))
		if err := vfs.WriteFileAtomic(g.env.fs, g.Path(layout.IndexSuffix), dir, index.EncodeOffsets(offsets)); err != nil {
			return err
		}
		return vfs.WriteFileAtomic(g.env.fs, g.Path(layout.TimeIndexSuffix), dir, index.EncodeTimes(times))
	}
	if err := g.writeIndex(layout.IndexSuffix, index.EncodeOffsets(offsets[fromOffsets:]), int64(fromOffsets)*index.OffsetEntryBytes); err != nil {
		return err
	}
	return g.writeIndex(layout.TimeIndexSuffix, index.EncodeTimes(times[fromTimes:]), int64(fromTimes)*index.TimeEntryBytes)
}

func (g *Segment) writeIndex(suffix string, b []byte, at int64) error {
	f, err := g.env.fs.OpenFile(g.Path(suffix), 0)
	if errors.Is(err, fs.ErrNotExist) {
		g.madeNames = true
		f, err = g.env.fs.OpenFile(g.Path(suffix), vfs.Create)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at)
	if err == nil {
		err = f.Truncate(at + int64(len(b)))
	}
	if err == nil {
		err = f.Datasync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// WriteCleaned makes the new files durable under their temporary names.
func (g *Segment) WriteCleaned(o *cleaner.Output) error {
	if err := o.File.Datasync(); err != nil {
		return err
	}
	if err := g.writeIndex(layout.IndexSuffix+layout.CleanedSuffix, index.EncodeOffsets(o.Index.Offsets.View()), 0); err != nil {
		return err
	}
	if err := g.writeIndex(layout.TimeIndexSuffix+layout.CleanedSuffix, index.EncodeTimes(o.Index.Times.View()), 0); err != nil {
		return err
	}
	if err := g.writeIndex(layout.SumsSuffix+layout.CleanedSuffix, sumsOf(o.Index, len(o.Aborted)).Encode(), 0); err != nil || len(o.Aborted) == 0 {
		return err
	}
	if err := g.writeIndex(layout.TxnCopySuffix+layout.CleanedSuffix, index.EncodeAbortedCopy(o.Aborted), 0); err != nil {
		return err
	}
	return g.writeIndex(layout.TxnIndexSuffix+layout.CleanedSuffix, index.EncodeAbortedAll(o.Aborted), 0)
}

// TakeOver sets what a sealed segment knows of itself. Nobody else has it yet.
func (g *Segment) TakeOver(o *cleaner.Output, last *Segment) {
	g.SizeBytes.Store(o.SizeBytes)
	g.EndOffset.Store(last.EndOffset.Load())
	g.Sealed.Store(true)
	g.mem.Store(o.Index) // until the files have their names
	g.aborted.Store(&o.Aborted)
	g.HasTxnIndex = len(o.Aborted) > 0
	g.MaxTimestampMs, g.MaxTimestampAt = o.MaxTimestampMs, o.MaxTimestampAt
	g.CreatedMs = last.CreatedMs
	g.compacted = true
}
