package logstore

import (
	"fmt"
	"slices"

	"kaas/logstore/layout"
	"kaas/logstore/segment"
)

// writeMissingAborted writes what a recovery on a full disk could not, and syncs it. Caller: writeOutMu.
func (p *Partition) writeMissingAborted() error {
	for _, g := range p.segments.Load().all {
		p.mu.Lock()
		if p.failure.Load() != nil || g.TxnMissing == 0 {
			p.mu.Unlock()
			continue
		}
		missing := g.TxnMissing
		all, err := g.AbortedTxns()
		if err == nil {
			err = g.WriteAborted(all, missing)
		}
		p.mu.Unlock()
		if err == nil {
			err = g.SyncTxnFile()
		}
		if err == nil {
			err = p.store.fs.SyncDir(p.path())
		}
		if err != nil {
			p.mu.Lock()
			g.TxnMissing += missing // the ones that were appended meanwhile stand behind them
			p.mu.Unlock()
			return fmt.Errorf("%s: %w", g.Path(layout.TxnIndexSuffix), err)
		}
	}
	p.mu.Lock()
	p.txnMissing = slices.ContainsFunc(p.segments.Load().all, func(g *segment.Segment) bool { return g.TxnMissing > 0 })
	p.mu.Unlock()
	return nil
}

// AbortedTransactions appends the aborted transactions that overlap [from, to) to into. On an error it is not known which
// records a reader may not see, so it must get none.
func (p *Partition) AbortedTransactions(from, to int64, into []AbortedTxn) ([]AbortedTxn, error) {
	before := len(into)
	for {
		list := p.segments.Load()
		found, complete, err := p.abortedIn(list, from, to, into)
		if err != nil && list == p.segments.Load() {
			return into[:before], p.wrap(fmt.Errorf("%w: %w", ErrStorage, err))
		}
		if complete && err == nil {
			return found, nil
		}
		into = found[:before] // a segment was deleted or compacted away meanwhile: look at what is there now
	}
}

func (p *Partition) abortedIn(list *segmentList, from, to int64, into []AbortedTxn) (found []AbortedTxn, complete bool, err error) {
	for i := max(list.find(from), 0); i < len(list.all); i++ {
		g := list.all[i]
		if g.NoneAborted() {
			continue
		}
		if !g.Acquire() {
			if list == p.segments.Load() {
				return into, true, nil // closed: the list's references are gone with it
			}
			return into, false, nil
		}
		aborted, err := g.AbortedTxns()
		g.Release()
		if err != nil {
			return into, false, err
		}
		for _, a := range aborted {
			if a.LastOffset >= from && a.FirstOffset < to {
				into = append(into, a)
			}
			if a.LastStableOffset >= to {
				return into, true, nil // what comes later began at or after this stable offset
			}
		}
	}
	return into, true, nil
}
