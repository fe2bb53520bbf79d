package logstore

import (
	"fmt"
	"slices"

	"kaas/internal/limits"
	"kaas/logstore/groupcommit"
	"kaas/logstore/journal"
	"kaas/logstore/segment"
)

// commit makes everything durable that was appended before it began, by a sync of the partition's own files. It runs on a
// worker; one commit of a partition runs at a time.
func (p *Partition) commit() {
	p.syncFiles()
	p.commits.SinceMs.Store(0)
}

// syncFiles syncs the files up to the log end. It is a commit of the partition, and what lets the journal forget it. Calls
// take turns: one that found nothing to sync because another one is at it must not return before that one. Caller: no lock.
func (p *Partition) syncFiles() {
	waiters, moved, err := p.syncInTurn()
	if err != nil {
		// The kernel may have dropped the dirty pages and reports the error once: a second fdatasync would succeed
		// without having written them. Only a recovery from disk tells what is left.
		p.fail(err)
		return
	}
	p.announce(waiters, moved)
}

func (p *Partition) syncInTurn() (waiters *Waiter, moved bool, err error) {
	p.syncMu.Lock()
	defer p.syncMu.Unlock()
	p.mu.Lock()
	if p.failure.Load() != nil {
		p.mu.Unlock()
		return nil, false, nil
	}
	generation := p.generation
	end := p.end.load()
	p.unflushed, p.flushDueMs = 0, 0
	syncDir := p.dirUnsynced
	p.dirUnsynced, p.dirSyncing = false, syncDir
	all := p.segments.Load().all
	for i := len(all) - 1; i >= 0; i-- {
		g := all[i]
		if !g.Unsynced && g.Sealed.Load() {
			break // appends went on behind it: what stands before was synced with it or earlier
		}
		if g.Unsynced && g.Acquire() {
			p.syncing = append(p.syncing, g)
			g.Unsynced = false
		}
	}
	p.mu.Unlock()

	if err := p.sync(syncDir); err != nil {
		p.mu.Lock()
		current := p.generation == generation
		p.mu.Unlock()
		if !current {
			return nil, false, nil // recovered from disk meanwhile: this was about files that it has let go of
		}
		return nil, false, fmt.Errorf("commit up to offset %d: %w", end.offset, err)
	}
	waiters, moved = p.committed(end, generation, true)
	return waiters, moved, nil
}

// committed takes over that everything below end is durable; inFiles: in the partition's own files. announce what it returns.
func (p *Partition) committed(end position, generation int64, inFiles bool) (waiters *Waiter, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != generation {
		return nil, false // recovered from disk meanwhile
	}
	if end.offset >= p.durable.Load() {
		p.durable.Store(end.offset)
		p.committedTo = end
	}
	if inFiles {
		p.dirSyncing = false
		p.synced.Store(max(p.synced.Load(), end.offset))
	}
	if p.failure.Load() != nil {
		return nil, false // its waiters know; the recovery keeps what is durable
	}
	return p.advance(end)
}

// announce tells who waited for a commit. Caller: no lock.
func (p *Partition) announce(waiters *Waiter, moved bool) {
	groupcommit.Complete(waiters, nil)
	if l := p.store.options.Listener; l != nil && moved {
		l.Advanced(p)
	}
}

// What gather says.
const (
	gathered      = iota
	gatherNothing // nothing to commit
	gatherDirect  // its files have to be synced
	gatherFull    // the block has no room
)

// gather copies what was appended since the last commit into the block of j, which may become room bytes long. Caller: j.turn,
// and the group's goroutine.
func (p *Partition) gather(j *commitJournal, room int64) (part roundPart, verdict int) {
	p.mu.Lock()
	if p.failure.Load() != nil || p.end.offset.Load() == p.durable.Load() && !p.dirUnsynced && !p.dirSyncing {
		p.unflushed, p.flushDueMs = 0, 0
		p.commits.SinceMs.Store(0)
		p.mu.Unlock()
		return part, gatherNothing
	}
	part = roundPart{p: p, end: p.end.load(), generation: p.generation}
	segments, at := p.segments.Load().from(p.committedTo)
	if p.logDir() != j.dir || p.dirUnsynced || p.dirSyncing || len(segments) == 0 || len(segments) > 2 {
		p.mu.Unlock()
		return part, gatherDirect
	}
	bytes := segments[0].SizeBytes.Load() - at
	if len(segments) > 1 {
		bytes += segments[1].SizeBytes.Load()
	}
	if bytes <= 0 || bytes > limits.CommitJournalEntryBytes {
		p.mu.Unlock()
		return part, gatherDirect
	}
	if j.block.Room(p.topic, int(bytes)) > room {
		p.mu.Unlock()
		return part, gatherFull
	}
	// The sizes are this moment's, and so are the ends.
	var pieces [2]piece
	for i, g := range segments {
		pieces[i] = piece{segment: g, bytes: g.SizeBytes.Load(), end: g.EndOffset.Load()}
	}
	pieces[0].at = at
	if !pieces[0].segment.Acquire() || len(segments) > 1 && !pieces[1].segment.Acquire() {
		panic("logstore: a segment of the list has no reference") // the list holds one, and mu is held
	}
	p.unflushed, p.flushDueMs = 0, 0
	p.mu.Unlock()
	verdict = gathered
	before := j.block.Mark()
	for i := range segments {
		if verdict == gathered && !j.add(p, &pieces[i]) {
			j.block.Rewind(before) // a block has nothing of a partition that is not committed by it
			verdict = gatherDirect
		}
		pieces[i].segment.Release()
	}
	return part, verdict
}

// piece is a part of a segment.
type piece struct {
	segment *segment.Segment
	at      int64
	bytes   int64 // end of it in the file
	end     int64 // offset
}

// add copies a piece into the block.
func (j *commitJournal) add(p *Partition, x *piece) bool {
	if x.bytes == x.at {
		return true
	}
	f, err := x.segment.Open()
	if err != nil {
		return false
	}
	e := journal.Entry{Topic: p.topic, TopicID: p.topicID, Partition: p.id, BaseOffset: x.segment.BaseOffset, Position: x.at, EndOffset: x.end}
	if _, err := f.ReadAt(j.block.Add(&e, int(x.bytes-x.at)), x.at); err != nil {
		return false
	}
	return true
}

// sync flushes what syncFiles has taken into p.syncing and releases it.
func (p *Partition) sync(syncDir bool) (err error) {
	for i, g := range slices.Backward(p.syncing) { // oldest first
		if err == nil {
			err = g.Sync()
		}
		g.Release()
		p.syncing[i] = nil
	}
	p.syncing = p.syncing[:0]
	if err == nil && syncDir {
		err = p.store.fs.SyncDir(p.path())
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
