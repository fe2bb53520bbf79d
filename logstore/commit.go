package logstore

import (
	"fmt"
	"slices"

	"kaas/internal/vfs"
	"kaas/logstore/groupcommit"
	"kaas/logstore/layout"
)

// commit makes everything durable that was appended before it began. It runs on a worker; one commit of a partition runs
// at a time.
func (p *Partition) commit() {
	p.mu.Lock()
	if p.failure.Load() != nil {
		p.commits.SinceMs.Store(0)
		p.mu.Unlock()
		return
	}
	generation := p.generation
	end := p.end.load()
	p.unflushed, p.flushDueMs = 0, 0
	syncDir := p.dirUnsynced
	p.dirUnsynced = false
	all := p.segments.Load().all
	for i := len(all) - 1; i >= 0; i-- {
		g := all[i]
		if !g.unsynced && g.sealed.Load() {
			break // appends went on behind it: what stands before was synced with it or earlier
		}
		if g.unsynced && g.acquire() {
			p.syncing = append(p.syncing, g)
			g.unsynced = false
		}
	}
	p.mu.Unlock()

	err := p.sync(syncDir)
	p.commits.SinceMs.Store(0)

	p.mu.Lock()
	if p.generation != generation {
		p.mu.Unlock()
		return // recovered from disk meanwhile: this was about files that it has let go of
	}
	if err != nil {
		p.mu.Unlock()
		// The kernel may have dropped the dirty pages and reports the error once: a second fdatasync would succeed
		// without having written them. Only a recovery from disk tells what is left.
		p.fail(fmt.Errorf("commit up to offset %d: %w", end.offset, err))
		return
	}
	if end.offset > p.durable.Load() {
		p.durable.Store(end.offset)
	}
	waiters, moved := p.advance(end)
	p.mu.Unlock()
	groupcommit.Complete(waiters, nil)
	if l := p.store.options.Listener; l != nil && moved {
		l.Advanced(p)
	}
}

// sync flushes what commit has taken into p.syncing and releases it.
func (p *Partition) sync(syncDir bool) (err error) {
	for i, g := range slices.Backward(p.syncing) { // oldest first
		if err == nil {
			err = g.sync()
		}
		g.release()
		p.syncing[i] = nil
	}
	p.syncing = p.syncing[:0]
	if err == nil && syncDir {
		err = p.store.fs.SyncDir(p.path())
	}
	return err
}

func (g *segment) sync() error {
	f, err := g.open()
	if err != nil {
		return err
	}
	if err := f.Datasync(); err != nil {
		return err
	}
	if g.txnUnsynced.Swap(false) {
		return syncFile(g.store.fs, g.path(layout.TxnIndexSuffix))
	}
	return nil
}

func syncFile(fsys vfs.FS, name string) error {
	f, err := fsys.OpenFile(name, 0)
	if err != nil {
		return err
	}
	err = f.Datasync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// WhenCommitted calls w.Done once, when every offset below w.Offset is committed by the flush policy or the partition
// failed; possibly before it returns.
func (p *Partition) WhenCommitted(w *Waiter) {
	p.mu.Lock()
	var err error
	if f := p.failure.Load(); f != nil {
		err = *f
	} else if p.high.offset.Load() < w.Offset {
		p.waiters.Add(w)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	w.Done(w, err)
}
