package segment

import (
	"fmt"
	"math"

	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/recovery"
)

// NoneAborted says that it is known, without a reference, that no marker of an aborted transaction stands in the segment, nor in
// what took its place: a fetch asks every segment behind its own.
func (g *Segment) NoneAborted() bool {
	a := g.aborted.Load()
	return a != nil && len(*a) == 0 && g.Sealed.Load()
}

// AbortedTxns returns the aborted transactions whose markers stand in the segment. The caller holds a reference.
func (g *Segment) AbortedTxns() ([]index.AbortedTxn, error) {
	if a := g.aborted.Load(); a != nil {
		return *a, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.aborted.Load(); a != nil {
		return *a, nil
	}
	name := g.name(layout.TxnIndexSuffix)
	files := index.ReadAborted(g.env.fs, name, g.name(layout.TxnCopySuffix), g.BaseOffset)
	if g.Sealed.Load() && len(files.All) == 0 {
		files.Expect(index.ReadSums(g.env.fs, g.name(layout.SumsSuffix)))
	}
	a := files.All
	if doubt := files.Doubt(); doubt != nil {
		// Nothing is written here: the segment's directory may be another one's by now. The next start does it.
		g.env.logger.Warn("transaction index taken from the log", "file", name, "reason", doubt)
		told, err := recovery.AbortedBefore(g.env.fs, g.dir, g.BaseOffset, g.SizeBytes.Load(), math.MaxInt64)
		switch {
		case err == nil:
			a = told
		case files.Damage != nil:
			return nil, fmt.Errorf("%s can't be made anew: %w", name, err)
		default: // only the copy is damaged for sure
			g.env.logger.Warn("transaction index taken as it is, the log can't tell", "file", name, "error", err)
		}
	}
	g.aborted.Store(&a)
	return a, nil
}

// WriteAbortedCopy writes what the transaction index holds once more, with a checksum, durably: how a start, or a reader, knows
// that the file is whole. A segment without aborted transactions has none. The caller holds a reference.
func (g *Segment) WriteAbortedCopy() error {
	all, err := g.AbortedTxns()
	if err != nil || len(all) == 0 {
		return err
	}
	return vfs.WriteFileAtomic(g.env.fs, g.Path(layout.TxnCopySuffix), g.dir, index.EncodeAbortedCopy(all))
}

// AppendAborted writes entries to the file and publishes them. Caller: Partition.mu. On error nothing has changed, except
// that the file may be longer; the next write goes to the same place.
func (g *Segment) AppendAborted(newest []index.AbortedTxn) error {
	old, err := g.AbortedTxns()
	if err != nil {
		return err
	}
	// A new array each time: readers may hold the old one.
	grown := append(old[:len(old):len(old)], newest...)
	if err := g.WriteAborted(grown, g.TxnMissing+len(newest)); err != nil {
		return err
	}
	g.aborted.Store(&grown)
	return nil
}

// WriteAborted writes the newest entries of all to the file. Caller: Partition.mu.
func (g *Segment) WriteAborted(all []index.AbortedTxn, newest int) error {
	f, err := g.env.fs.OpenFile(g.Path(layout.TxnIndexSuffix), vfs.Create)
	if err != nil {
		return err
	}
	from := len(all) - newest
	_, err = f.WriteAt(index.EncodeAbortedAll(all[from:]), int64(from)*index.AbortedEntryBytes)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		g.HasTxnIndex, g.TxnMissing = true, 0
		g.txnUnsynced.Store(true)
	}
	return err
}

// SyncTxnIndex makes the transaction index durable, if it was written to since the last time.
func (g *Segment) SyncTxnIndex() error {
	if !g.txnUnsynced.Swap(false) {
		return nil
	}
	return g.SyncTxnFile()
}

// SyncTxnFile makes the transaction index durable, whatever else syncs it.
func (g *Segment) SyncTxnFile() error {
	f, err := g.env.fs.OpenFile(g.Path(layout.TxnIndexSuffix), 0)
	if err != nil {
		return err
	}
	err = f.Datasync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
