package segment

import (
	"slices"
	"sync/atomic"

	"kaas/internal/limits"
)

// A log of 20,000 segments must not take as many descriptors (and maps, of which there are three a segment) only because somebody
// read it once, or because it was written in one go. A segment never closes its file while it lives, which is what lets readers do
// without locks. So one that nobody reads gives its place in the list to a fresh one of the same files, and dies as one does that was
// deleted, but for its files.

// openFiles counts the .log files of a store's segments that are open.
type openFiles struct {
	open    atomic.Int64
	limit   atomic.Int64
	askAt   atomic.Int64 // so many are too many
	crowded chan struct{}
}

// LimitFiles says how many files may be open.
func (e *Env) LimitFiles(n int64) {
	e.files.limit.Store(n)
	e.files.askAt.Store(n)
}

// OpenFiles is how many .log files are open.
func (e *Env) OpenFiles() int64 { return e.files.open.Load() }

func (e *Env) fileOpened() {
	if e.files.open.Add(1) > e.files.askAt.Load() {
		e.askForLess()
	}
}

func (e *Env) askForLess() {
	select {
	case e.files.crowded <- struct{}{}:
	default: // asked already
	}
}

// Crowded says that too many files are open or mapped: somebody has to call LetGo of segments until Enough, and then Settled.
func (e *Env) Crowded() <-chan struct{} { return e.files.crowded }

// Enough says that there is room again for some time.
func (e *Env) Enough() bool {
	return e.files.open.Load() <= e.files.limit.Load()*3/4 && e.maps.Load() <= limits.FileMaps*3/4
}

// Late says that who is asked to let go does not keep up.
func (e *Env) Late() bool {
	return e.files.open.Load() > max(e.files.limit.Load()*5/4, e.files.askAt.Load())
}

// Settled sets when to ask again: where nothing could be closed, active segments are too many, and it would not help to ask each time.
func (e *Env) Settled() {
	limit := e.files.limit.Load()
	e.files.askAt.Store(max(limit, e.files.open.Load()+limit/8))
}

// LetGo returns the list to be published in which each segment of all[from:to] that nobody reads has given way to one of the same files
// that has none of them open; nil: there is none. Those that were used since the last call stay, unless anyway. gone are those that gave
// way: once the new list is published, and not before, the caller drops their references. It holds Partition.mu, and what keeps the list
// from changing but for a roll.
func LetGo(all []*Segment, from, to int, anyway bool) (changed, gone []*Segment) {
	for i := from; i < to; i++ {
		fresh := all[i].fresh(anyway)
		if fresh == nil {
			continue
		}
		if changed == nil {
			changed = slices.Clone(all)
		}
		changed[i] = fresh
		gone = append(gone, all[i])
	}
	return changed, gone
}

// fresh returns what takes the place of g, nil: g is active, in use, has nothing open, or was used and not anyway.
//
// +checklocksignore: it does not know TryLock.
func (g *Segment) fresh(anyway bool) *Segment {
	f := g.file.Load()
	if !g.Sealed.Load() || g.refs.Load() != 1 || f == nil && g.files.Load() == nil || g.Unsynced || g.TxnMissing > 0 || g.txnUnsynced.Load() {
		return nil
	}
	if f != nil && f.used.Swap(false) && !anyway {
		return nil
	}
	if !g.aheadMu.TryLock() {
		return nil
	}
	ahead := g.aheadBytes
	g.aheadMu.Unlock()
	if ahead > 0 || g.window.counted || g.window.long || g.endUnsynced.Load() {
		return nil // it is freed with the indexes, or not yet durable
	}
	n := New(g.env, g.dir, g.BaseOffset)
	n.SizeBytes.Store(g.SizeBytes.Load())
	n.EndOffset.Store(g.EndOffset.Load())
	n.Sealed.Store(true)
	// Who got hold of g just now, or has a slice of an older one, may have the index files mapped.
	n.recovered, n.compacted = true, g.compacted
	n.BytesSinceIndex, n.CreatedMs, n.HasTxnIndex = g.BytesSinceIndex, g.CreatedMs, g.HasTxnIndex
	n.MaxTimestampMs, n.MaxTimestampAt, n.FirstTimestampMs = g.MaxTimestampMs, g.MaxTimestampAt, g.FirstTimestampMs
	n.WrittenOffsets, n.WrittenTimes = g.WrittenOffsets, g.WrittenTimes
	n.aborted.Store(g.aborted.Load())
	g.mu.Lock() // nobody makes the index anew meanwhile
	defer g.mu.Unlock()
	n.mem.Store(g.mem.Load()) // of an index whose files are not there, or are wrong
	n.reindexed.Store(g.reindexed.Load())
	n.unreadable.Store(g.unreadable.Load())
	return n
}
