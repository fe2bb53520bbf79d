package segment

import (
	"errors"
	"fmt"
	"io/fs"

	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
)

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
	b, err := vfs.ReadFile(g.env.fs, g.Path(layout.TxnIndexSuffix), 1<<31)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a, err := index.DecodeAborted(b, g.BaseOffset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Path(layout.TxnIndexSuffix), err)
	}
	g.aborted.Store(&a)
	return a, nil
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
	var b []byte
	for _, a := range all[from:] {
		b = append(b, index.EncodeAborted(a)...)
	}
	_, err = f.WriteAt(b, int64(from)*index.AbortedEntryBytes)
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
