package recovery

import (
	"fmt"
	"math"
	"slices"

	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
)

// AbortedBefore makes the transaction index of the segment with the base offset base and so many bytes anew, as far as its markers
// stand before end: from the newest snapshot at or before the segment, by the batch headers behind it. Nothing is written.
//
// It is exact after a compaction, too: of a transaction whose records are gone there is nothing that a reader must not see.
// The same holds for what began before the start of the log.
func AbortedBefore(fsys vfs.FS, dir string, base, sizeBytes, end int64) ([]index.AbortedTxn, error) {
	logs, snapshots, err := listLogs(fsys, dir)
	if err != nil {
		return nil, err
	}
	logs = slices.DeleteFunc(logs, func(b int64) bool { return b > base })
	if len(logs) == 0 || logs[len(logs)-1] != base {
		return nil, fmt.Errorf("%s is gone", layout.SegmentFile(dir, base, layout.LogSuffix))
	}
	states, from := producer.New(), logs[0]
	for _, at := range slices.Backward(snapshots) {
		if at > base || at < logs[0] {
			continue
		}
		if s, err := decodeSnapshot(fsys, dir, at); err == nil {
			states, from = s, at
			break
		}
	}
	var aborted []index.AbortedTxn
	for i, b := range logs {
		if i+1 < len(logs) && logs[i+1] <= from {
			continue
		}
		size := int64(-1)
		if b == base {
			aborted, size = nil, sizeBytes
		}
		if aborted, err = abortedIn(fsys, layout.SegmentFile(dir, b, layout.LogSuffix), b, size, from, end, states, aborted); err != nil {
			return nil, err
		}
	}
	return aborted, nil
}

func listLogs(fsys vfs.FS, dir string) (logs, snapshots []int64, err error) {
	entries, err := fsys.List(dir)
	for _, e := range entries {
		switch base, suffix, ok := layout.ParseSegmentFile(e.Name); {
		case ok && suffix == layout.LogSuffix:
			logs = append(logs, base)
		case ok && suffix == layout.SnapshotSuffix:
			snapshots = append(snapshots, base)
		}
	}
	slices.Sort(logs)
	slices.Sort(snapshots)
	return logs, snapshots, err
}

// abortedIn applies the batches of one file from an offset on; sizeBytes -1: all of it.
func abortedIn(fsys vfs.FS, name string, base, sizeBytes, from, end int64, states *producer.States, aborted []index.AbortedTxn) (_ []index.AbortedTxn, err error) {
	f, err := fsys.OpenFile(name, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if sizeBytes < 0 {
		if sizeBytes, err = f.Size(); err != nil {
			return nil, err
		}
	}
	sc := logfile.Scanner{File: f, Size: sizeBytes, HeadersOnly: true}
	defer sc.Close()
	for {
		v, at, err := sc.Next()
		if err != nil {
			return nil, fmt.Errorf("%s at %d: %w", name, at, err)
		}
		if v == nil || v.BaseOffset() >= end {
			return aborted, nil
		}
		if v.LastOffset() < from || !v.HasProducerID() {
			continue
		}
		if aborted, err = applyBatch(states, f, v, producer.Position{Offset: v.BaseOffset(), Base: base, At: at}, 0, aborted); err != nil {
			return nil, err
		}
	}
}

// readAborted reads what the segment's directory says of its aborted transactions.
func (t *Task) readAborted(g *Segment) index.AbortedFiles {
	copyName := ""
	if g.hasTxnCopy {
		copyName = g.path(layout.TxnCopySuffix)
	}
	files := index.ReadAborted(t.FS, g.path(layout.TxnIndexSuffix), copyName, g.BaseOffset)
	if len(files.All) == 0 && g.Sealed {
		files.Expect(t.sums(g))
	}
	return files
}

// mendAborted makes the transaction indexes anew that are damaged, or whose copy is, and that the replay had no reason to look at.
// It has to be here and on the disk: of two files a reader knows by the other one that the first is damaged, until that is, too.
// Kafka reads all of them at a start as well (LogSegment.sanityCheck).
func (t *Task) mendAborted() error {
	for _, g := range t.log.Segments {
		if g.Aborted != nil || !g.HasTxnIndex && !g.hasTxnCopy {
			continue // of a segment without either file the sums are asked when a reader does
		}
		files := t.readAborted(g)
		doubt := files.Doubt()
		if doubt == nil {
			continue // read again when somebody asks
		}
		name := g.path(layout.TxnIndexSuffix)
		aborted, err := AbortedBefore(t.FS, t.Dir, g.BaseOffset, g.SizeBytes, math.MaxInt64)
		if err != nil {
			t.Logger.Warn("transaction index damaged, and the log can't tell: left as it is", "file", name, "reason", doubt, "error", err)
			continue // what a reader is told is decided when there is one
		}
		g.Aborted = &aborted
		if files.Damage != nil || !slices.Equal(files.All, aborted) {
			err = vfs.WriteFileAtomic(t.FS, name, t.Dir, index.EncodeAbortedAll(aborted))
			g.HasTxnIndex = g.HasTxnIndex || err == nil
		}
		if vfs.IsFull(err) { // both files stay as they are, so that the next start knows
			t.Logger.Warn("transaction index not made anew, at the next start", "file", name, "reason", doubt, "error", err)
			continue
		}
		if err == nil {
			err = t.writeCopy(g, aborted)
		}
		if err != nil {
			return err
		}
		t.Logger.Warn("transaction index made anew from the log", "file", name, "reason", doubt)
	}
	return nil
}

// renewCopy writes the copy of a transaction index that does not begin so any more.
func (t *Task) renewCopy(g *Segment, aborted []index.AbortedTxn) error {
	if !g.hasTxnCopy || index.CopyHolds(aborted, t.FS, g.path(layout.TxnCopySuffix), g.BaseOffset) {
		return nil
	}
	return t.writeCopy(g, aborted)
}

// writeCopy writes the copy of a transaction index, which stands in its file: a crash in between leaves two that differ. On a full
// disk a copy stays that does not fit, and has the next start look into the log again.
func (t *Task) writeCopy(g *Segment, aborted []index.AbortedTxn) error {
	name := g.path(layout.TxnCopySuffix)
	if len(aborted) == 0 {
		if !g.hasTxnCopy {
			return nil
		}
		g.hasTxnCopy = false
		return t.FS.Remove(name)
	}
	err := vfs.WriteFileAtomic(t.FS, name, t.Dir, index.EncodeAbortedCopy(aborted))
	if vfs.IsFull(err) {
		t.Logger.Warn("copy of the transaction index not written, at the next start", "file", name, "error", err)
		return nil
	}
	g.hasTxnCopy = g.hasTxnCopy || err == nil
	return err
}
