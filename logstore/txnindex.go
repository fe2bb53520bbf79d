package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
)

// abortedTxns returns the aborted transactions whose markers stand in the segment. The caller holds a reference.
func (g *segment) abortedTxns() ([]AbortedTxn, error) {
	if a := g.aborted.Load(); a != nil {
		return *a, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.aborted.Load(); a != nil {
		return *a, nil
	}
	b, err := vfs.ReadFile(g.store.fs, g.path(layout.TxnIndexSuffix), 1<<31)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a, err := index.DecodeAborted(b, g.baseOffset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.path(layout.TxnIndexSuffix), err)
	}
	g.aborted.Store(&a)
	return a, nil
}

// appendAborted writes entries to the file and publishes them. Caller: Partition.mu. On error nothing has changed, except
// that the file may be longer; the next write goes to the same place.
func (g *segment) appendAborted(newest []AbortedTxn) error {
	old, err := g.abortedTxns()
	if err != nil {
		return err
	}
	// A new array each time: readers may hold the old one.
	grown := append(old[:len(old):len(old)], newest...)
	if err := g.writeAborted(grown, g.txnMissing+len(newest)); err != nil {
		return err
	}
	g.aborted.Store(&grown)
	return nil
}

// writeAborted writes the newest entries of all to the file. Caller: Partition.mu.
func (g *segment) writeAborted(all []AbortedTxn, newest int) error {
	f, err := g.store.fs.OpenFile(g.path(layout.TxnIndexSuffix), vfs.Create)
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
		g.hasTxnIndex, g.txnMissing = true, 0
		g.txnUnsynced.Store(true)
	}
	return err
}

// writeMissingAborted writes what a recovery on a full disk could not, and syncs it. Caller: writeOutMu.
func (p *Partition) writeMissingAborted() error {
	for _, g := range p.segments.Load().all {
		p.mu.Lock()
		if p.failure.Load() != nil || g.txnMissing == 0 {
			p.mu.Unlock()
			continue
		}
		missing := g.txnMissing
		all, err := g.abortedTxns()
		if err == nil {
			err = g.writeAborted(all, missing)
		}
		p.mu.Unlock()
		if err == nil {
			err = syncFile(p.store.fs, g.path(layout.TxnIndexSuffix))
		}
		if err == nil {
			err = p.store.fs.SyncDir(p.path())
		}
		if err != nil {
			p.mu.Lock()
			g.txnMissing += missing // the ones that were appended meanwhile stand behind them
			p.mu.Unlock()
			return fmt.Errorf("%s: %w", g.path(layout.TxnIndexSuffix), err)
		}
	}
	p.mu.Lock()
	p.txnMissing = slices.ContainsFunc(p.segments.Load().all, func(g *segment) bool { return g.txnMissing > 0 })
	p.mu.Unlock()
	return nil
}

// AbortedTransactions appends the aborted transactions that overlap [from, to) to into.
func (p *Partition) AbortedTransactions(from, to int64, into []AbortedTxn) []AbortedTxn {
	before := len(into)
	for {
		found, complete := p.abortedIn(p.segments.Load(), from, to, into)
		if complete {
			return found
		}
		into = found[:before] // a segment was deleted or compacted away meanwhile: look at what is there now
	}
}

func (p *Partition) abortedIn(list *segmentList, from, to int64, into []AbortedTxn) (found []AbortedTxn, complete bool) {
	for i := max(list.find(from), 0); i < len(list.all); i++ {
		g := list.all[i]
		if !g.acquire() {
			if list == p.segments.Load() {
				return into, true // closed: the list's references are gone with it
			}
			return into, false
		}
		aborted, err := g.abortedTxns()
		g.release()
		if err != nil {
			p.store.logger.Error("transaction index unreadable", "topic", p.topic, "partition", p.id, "error", err)
			continue
		}
		for _, a := range aborted {
			if a.LastOffset >= from && a.FirstOffset < to {
				into = append(into, a)
			}
			if a.LastStableOffset >= to {
				return into, true // what comes later began at or after this stable offset
			}
		}
	}
	return into, true
}
