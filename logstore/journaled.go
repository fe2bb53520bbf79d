package logstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/groupcommit"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
)

// commitJournal is the group commit of one log directory: a round takes what its partitions appended and makes all of it
// durable by one block of the journal (docs/design/commit.md). What is large is left to workers, which sync the partition's
// files; so is everything while there is no journal, or no room in it. Files are written back when a half is full, before
// it is used again.
//
// Lock order: Partition.headMu → turn → Partition.syncMu → Partition.mu → mu.
type commitJournal struct {
	store *Store
	dir   *logDir
	group *groupcommit.Group

	// turn is held while blocks are written, from the look at a partition to the word that its records are durable. Nothing
	// that produce, fetch or a watermark reads waits for it.
	turn   sync.Mutex
	block  journal.Block     // owner: turn
	parts  []roundPart       // in the block; owner: the group's goroutine
	found  *journal.Contents // of a start that could not apply all of it, for its partitions that are not recovered; nil: none. Set during Open
	worker sync.WaitGroup
	hurry  atomic.Bool // the write-back does not rest: its half is wanted soon, or the store stops. Set under mu

	mu      sync.Mutex
	state   journalState            // owner: mu
	journal *journal.Journal        // while ready or dead; written by the holder of turn. Owner of the pointer: mu
	last    uint64                  // the last block that was acknowledged; owner: mu
	held    [2]map[*Partition]int64 // up to which offset a half has records of a partition; owner: mu
	busy    bool                    // the worker runs; owner: mu
	failed  error                   // why it is dead; owner: mu
	triedMs int64                   // when making one failed last; owner: mu
}

type journalState uint8

const (
	journalNone  journalState = iota // made at the next commit
	journalReady                     //
	journalDead                      // a write failed: what the files hold must be gone before their partitions serve again. Or it was removed
	journalOff                       // not to be used: the volume, or a start that could not apply all of it
)

// roundPart is a partition that takes part in a block.
type roundPart struct {
	p          *Partition
	task       int // of the round
	end        position
	generation int64
	waiters    *Waiter // whom the commit served
	moved      bool
}

// errJournalBusy: the journal has no room for a mark until its files are written back.
//
// errJournalGone: somebody has removed its files. What was acknowledged from it meanwhile stands in the logs, unsynced.
var (
	errJournalBusy = errors.New("the commit journal is full until the logs are written back, again later")
	errJournalGone = errors.New("its files were removed while it was in use")
)

func newCommitJournal(s *Store, d *logDir) *commitJournal {
	j := &commitJournal{store: s, dir: d, held: [2]map[*Partition]int64{{}, {}}}
	if n := s.options.JournalBytes; n < 0 || n == 0 && !vfs.Local(d.path) {
		j.state = journalOff
	}
	j.group = s.committer.NewGroup(j.round)
	return j
}

// round commits the partitions of tasks. It runs on the group's goroutine.
func (j *commitJournal) round(tasks []*groupcommit.Task) {
	for from := 0; from < len(tasks); {
		j.turn.Lock()
		if !j.ready() {
			j.turn.Unlock()
			for i := from; i < len(tasks); i++ {
				j.store.committer.Direct(tasks, i)
			}
			return
		}
		from = j.gather(tasks, from)
		err := j.commit()
		j.turn.Unlock()
		for i := range j.parts {
			part := &j.parts[i]
			switch {
			case errors.Is(err, errJournalGone):
				j.store.committer.Direct(tasks, part.task)
			case err != nil:
				part.p.fail(fmt.Errorf("commit up to offset %d: %w", part.end.offset, err))
			default:
				part.p.announce(part.waiters, part.moved)
			}
			part.p, part.waiters = nil, nil
		}
	}
}

// commit makes the block durable, and what its partitions know of it. Caller: turn.
func (j *commitJournal) commit() error {
	if len(j.parts) == 0 {
		return nil
	}
	err := j.append(&j.block, j.parts)
	if errors.Is(err, errJournalGone) {
		return err // nothing is wrong with the logs: they are synced
	}
	for i := range j.parts {
		part := &j.parts[i]
		part.p.commits.SinceMs.Store(0)
		if err == nil {
			part.waiters, part.moved = part.p.committed(part.end, part.generation, false)
		}
	}
	return err
}

// ready says that there is a journal; the first commit has one made. Caller: turn.
func (j *commitJournal) ready() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if (j.state == journalNone || j.state == journalDead) && !j.busy && j.store.upMs()-j.triedMs >= j.pauseMs() {
		if j.state == journalNone {
			j.begin(j.make)
		} else {
			j.begin(j.retireAlone)
		}
	}
	return j.state == journalReady
}

// begin starts the worker. Owner: mu held.
func (j *commitJournal) begin(work func()) {
	j.busy = true
	j.worker.Go(func() {
		work()
		j.mu.Lock()
		j.busy = false
		j.mu.Unlock()
	})
}

// pauseMs is how long after a failure the next try is made.
func (j *commitJournal) pauseMs() int64 {
	if j.state == journalDead {
		return limits.ReopenIntervalMs
	}
	return limits.ReopenMaxMs
}

func (j *commitJournal) make() {
	size := min(int64(limits.CommitJournalMinBytes), j.maxBytes())
	made, err := journal.Create(j.store.fs, j.dir.path, size, rand.Uint64()|1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.triedMs = j.store.upMs()
		j.store.logger.Warn("no commit journal: each partition's files are synced", "dir", j.dir.path, "error", err)
		return
	}
	j.state, j.journal, j.last = journalReady, made, 0
}

func (j *commitJournal) maxBytes() int64 {
	if n := j.store.options.JournalBytes; n > 0 {
		return n
	}
	return limits.CommitJournalMaxBytes
}

// gather fills the block from tasks[from] on and returns where the next one begins. Caller: turn.
func (j *commitJournal) gather(tasks []*groupcommit.Task, from int) (next int) {
	j.block.Reset()
	j.parts = j.parts[:0]
	room := min(j.room(), limits.CommitJournalBlockBytes)
	for i := from; i < len(tasks); i++ {
		p := tasks[i].Owner.(*Partition)
		part, verdict := p.gather(j, room)
		switch verdict {
		case gathered:
			part.task = i
			j.parts = append(j.parts, part)
		case gatherDirect:
			j.store.committer.Direct(tasks, i)
		case gatherFull:
			if len(j.parts) > 0 {
				return i
			}
			j.store.committer.Direct(tasks, i)
		}
	}
	return len(tasks)
}

// room is how long a block may be; it changes to the other half when this one is full and that one free. Caller: turn.
func (j *commitJournal) room() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	room, size := j.journal.Room()-limits.CommitJournalMarkBytes, j.journal.Size(j.journal.Active())
	if j.busy && room < size/2 {
		j.hurry.Store(true)
	}
	if room >= min(size/2, 2*limits.CommitJournalEntryBytes) || j.busy {
		return room
	}
	other := 1 - j.journal.Active()
	if !j.free(other) {
		j.begin(func() { j.writeBack(other, 0, 1) }) // something failed there
		return room
	}
	full := j.journal.Active()
	j.store.counters.JournalTurns.Add(1)
	j.hurry.Store(false)
	filledMs, factor := j.journal.Switch(j.store.upMs())
	j.begin(func() { j.writeBack(full, filledMs, factor) })
	return j.journal.Room() - limits.CommitJournalMarkBytes
}

// free says that nobody needs what a half holds. Owner: mu held.
func (j *commitJournal) free(half int) bool {
	for p, end := range j.held[half] {
		if p.synced.Load() < end && p.logDir() == j.dir && !errors.Is(p.Err(), ErrClosed) {
			return false
		}
	}
	clear(j.held[half])
	return true
}

// writeBack syncs the files of what a half holds, and makes the half larger by a factor, 1: as it is. filledMs is how long the
// half took to be filled, and so what the other one may take: of a quarter of it the worker rests between files, so that a
// commit that meets a sync does not meet the next one, too.
func (j *commitJournal) writeBack(half int, filledMs, factor int64) {
	j.mu.Lock()
	todo := make([]*Partition, 0, len(j.held[half]))
	for p, end := range j.held[half] {
		if p.synced.Load() < end {
			todo = append(todo, p)
		}
	}
	j.mu.Unlock()
	queue := make(chan *Partition, len(todo))
	for _, p := range todo {
		queue <- p
	}
	close(queue)
	var workers sync.WaitGroup
	writers := min(1+len(todo)/64, limits.CommitJournalWriters) // few, and each file by itself: those who wait for a commit share the disk with them
	rest := min(time.Duration(filledMs)*time.Millisecond/4*time.Duration(writers)/time.Duration(max(len(todo), 1)), limits.CommitJournalMaxRest)
	for range writers {
		workers.Go(func() {
			for p := range queue {
				began := time.Now()
				p.syncFiles()
				if !j.hurry.Load() {
					<-time.After(min(rest, 3*time.Since(began)))
				}
			}
		})
	}
	workers.Wait()
	j.mu.Lock()
	grow := factor > 1 && j.state == journalReady && j.journal.Active() != half && j.free(half)
	file := j.journal
	j.mu.Unlock()
	if !grow {
		return
	}
	// The half is not used before this has ended: room looks at busy.
	if size := min(factor*file.Size(half), j.maxBytes()); size > file.Size(half) && j.hasDiskFor(size-file.Size(half)) {
		if err := file.Grow(half, size); err != nil {
			j.store.logger.Warn("commit journal not made larger", "dir", j.dir.path, "error", err)
		}
	}
}

// hasDiskFor says that a half may take so many bytes more: on a small volume the logs need them.
func (j *commitJournal) hasDiskFor(bytes int64) bool {
	_, usable, err := j.store.fs.Usage(j.dir.path)
	return err == nil && bytes <= usable/limits.CommitJournalDiskShare
}

// append writes a block and notes what the half holds now. Caller: turn.
func (j *commitJournal) append(b *journal.Block, parts []roundPart) error {
	err := j.journal.Write(b)
	if err == nil {
		linked, linkErr := j.journal.Linked() // after the write: nobody is told of a block that nobody will find
		if err = linkErr; err == nil && !linked {
			err = errJournalGone
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.state, j.failed = journalDead, err
		j.store.logger.Error("commit journal failed", "dir", j.dir.path, "error", err)
		return err
	}
	j.store.counters.JournalBytes.Add(b.Len())
	j.last = j.journal.Sequence()
	held := j.held[j.journal.Active()]
	for i := range parts {
		p := parts[i].p
		p.journalID = j.journal.ID()
		held[p] = max(held[p], parts[i].end.offset)
	}
	return nil
}

// forget makes what the journal holds of p's segments below baseOffset mean nothing, durably: they are about to be replaced.
// The files of those segments are synced. It waits for a round.
func (j *commitJournal) forget(p *Partition, baseOffset int64) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	if f := j.found; f != nil && f.Has(p.topic, p.id) {
		return fmt.Errorf("the commit journal of %s has records of it, and of a partition that could not be recovered", j.dir.path)
	}
	j.mu.Lock()
	state, file, failed := j.state, j.journal, j.failed
	j.mu.Unlock()
	switch {
	case file == nil || p.journalID != file.ID():
		return nil
	case state == journalDead:
		return fmt.Errorf("the commit journal failed: %w", failed)
	}
	var b journal.Block
	b.Reset()
	b.Add(&journal.Entry{Topic: p.topic, TopicID: p.topicID, Partition: p.id, BaseOffset: baseOffset, Forget: true}, 0)
	if j.room(); file.Room() < b.Len() { // it goes on to the other half when it can
		return errJournalBusy
	}
	return j.append(&b, nil)
}

// restore writes again what the journal holds of a failed partition and its files may not: their last sync failed. It waits
// for a round that p may be part of.
func (j *commitJournal) restore(p *Partition) error {
	if err := j.restoreInTurn(p); err != nil {
		return err
	}
	return j.retire(false)
}

func (j *commitJournal) restoreInTurn(p *Partition) error {
	j.turn.Lock()
	defer j.turn.Unlock()
	durable := p.durable.Load()
	if p.synced.Load() < durable {
		j.mu.Lock()
		last := j.last
		j.mu.Unlock()
		c, err := journal.Load(j.store.fs, j.dir.path, last)
		if err != nil {
			return err
		}
		if c == nil {
			return fmt.Errorf("the commit journal of %s is gone, and offsets from %d to %d stand only there", j.dir.path, p.synced.Load(), durable)
		}
		_, err = c.Apply(p.topic, p.id, p.topicID, p.synced.Load(), func(base int64) string { return layout.SegmentFile(p.path(), base, layout.LogSuffix) })
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
		p.synced.Store(durable)
	}
	return nil
}

// retire removes a journal that failed. Until it is gone no partition of its last block may serve: a start would write what it
// holds over what was appended since. Caller: no lock; the worker says so.
func (j *commitJournal) retire(worker bool) error {
	for _, p := range j.needed() {
		p.syncFiles()
	}
	j.turn.Lock()
	defer j.turn.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.state != journalDead:
		return nil
	case j.busy && !worker:
		return errors.New("the commit journal failed and is still being written back") // it may be writing to the files, too
	}
	if !j.free(0) || !j.free(1) {
		return errors.New("the commit journal failed, and a partition is not recovered from it yet")
	}
	if err := j.journal.Remove(); err != nil {
		return fmt.Errorf("the commit journal failed and can't be removed: %w", err)
	}
	j.state, j.journal, j.failed = journalNone, nil, nil
	j.store.logger.Info("commit journal removed after its failure", "dir", j.dir.path)
	return nil
}

// needed are the partitions that a dead journal has records of.
func (j *commitJournal) needed() (all []*Partition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state != journalDead {
		return nil
	}
	for half := range j.held {
		for p := range j.held[half] {
			all = append(all, p)
		}
	}
	return all
}

// retireAlone is retire when no partition's recovery is there to do it: a mark was being written, or the files were removed.
func (j *commitJournal) retireAlone() {
	j.mu.Lock()
	gone := errors.Is(j.failed, errJournalGone)
	j.mu.Unlock()
	err := j.retire(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.triedMs = j.store.upMs()
	if err == nil && gone {
		j.triedMs -= limits.ReopenMaxMs // nothing is wrong with the disk: the next commit makes a new one
	}
	if err != nil {
		j.store.logger.Warn("commit journal not yet replaced", "dir", j.dir.path, "error", err)
	}
}

// stop ends the worker; remove takes the journal away, for everything is written back. That a write of it failed, or that its
// files were removed, is no failure of the stop then: nobody needs what they hold. No commit runs any more.
func (j *commitJournal) stop(remove bool) error {
	j.mu.Lock()
	state := j.state
	j.state = journalOff
	j.hurry.Store(true)
	j.mu.Unlock()
	j.worker.Wait()
	if j.found != nil {
		return j.found.Close()
	}
	j.mu.Lock()
	file, failed := j.journal, j.failed // one may have been made meanwhile
	j.journal = nil
	needed := state == journalDead && (!j.free(0) || !j.free(1))
	j.mu.Unlock()
	switch {
	case file == nil:
		return nil
	case remove && needed:
		return errors.Join(fmt.Errorf("the commit journal of %s failed, and has records that no log has; the next start takes them from it: %w", j.dir.path, failed), file.Close())
	case remove:
		return file.Remove()
	}
	return file.Close()
}

// hold keeps a journal of which a partition needs more than a start could do. Called during Open only.
func (j *commitJournal) hold(c *journal.Contents) {
	j.found = c
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state = journalOff
}
