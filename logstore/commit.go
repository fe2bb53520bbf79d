package logstore

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"kaas/internal/vfs"
)

// commitState is where a partition stands with the committer.
type commitState uint8

const (
	commitIdle    commitState = iota
	commitQueued              // waits for a worker
	commitRunning             // a worker syncs it
	commitAgain               // running, and appended to meanwhile
)

// committer is the group commit: appenders queue their partition, workers sync it. While a partition is being synced all
// its appends gather for the next commit, so one fdatasync serves every producer that waits, and partitions are synced in
// parallel, so that the file system's journal serves them together.
//
// Workers are started on demand, at most limit, and park when nothing is queued.
type committer struct {
	limit int

	mu      sync.Mutex
	head    *Partition // queue; owner: mu
	tail    *Partition // owner: mu
	workers int        // started; owner: mu
	parked  int        // of them waiting for work; owner: mu
	closed  bool       // owner: mu
	work    *sync.Cond // something was queued, or closed; uses mu
	idle    *sync.Cond // the last worker parked with an empty queue; uses mu
	delayed map[*Partition]int64
	timer   *time.Timer // for the earliest of delayed; owner: mu
	timerMs int64       // its deadline; owner: mu
	now     func() int64
}

func newCommitter(limit int, now func() int64) *committer {
	c := &committer{limit: limit, delayed: map[*Partition]int64{}, now: now}
	c.work, c.idle = sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	return c
}

// enqueue asks for a commit of everything that was appended to p before the call.
func (c *committer) enqueue(p *Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.delayed, p)
	switch p.commitState {
	case commitRunning:
		p.commitState = commitAgain
	case commitIdle:
		c.push(p)
	}
}

// push: owner mu held.
func (c *committer) push(p *Partition) {
	p.commitState = commitQueued
	// From here on somebody waits for the disk, also when every worker hangs in it with other partitions.
	p.syncSinceMs.CompareAndSwap(0, c.now())
	if c.tail == nil {
		c.head = p
	} else {
		c.tail.commitNext = p
	}
	c.tail = p
	switch {
	case c.parked > 0:
		c.parked-- // counted out here, so that the next push does not wake the same worker
		c.work.Signal()
	case c.workers < c.limit:
		c.workers++
		go c.run()
	}
}

// run is a worker.
func (c *committer) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.head == nil {
			if c.closed {
				c.workers--
				c.idle.Broadcast()
				return
			}
			c.parked++
			if c.parked == c.workers {
				c.idle.Broadcast()
			}
			c.work.Wait()
		}
		p := c.head
		c.head, p.commitNext = p.commitNext, nil
		if c.head == nil {
			c.tail = nil
		}
		p.commitState = commitRunning
		c.mu.Unlock()
		p.commit()
		c.mu.Lock()
		if p.commitState == commitAgain {
			c.push(p)
		} else {
			p.commitState = commitIdle
		}
	}
}

// wait returns when nothing is queued or running.
func (c *committer) wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.head != nil || c.parked < c.workers {
		c.idle.Wait()
	}
}

// close ends the workers when the queue is empty, and waits for them.
func (c *committer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.parked = true, 0
	if c.timer != nil {
		c.timer.Stop()
	}
	c.work.Broadcast()
	for c.workers > 0 {
		c.idle.Wait()
	}
}

// delay asks for a commit of p at dueMs (flush.ms).
func (c *committer) delay(p *Partition, dueMs int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delayed[p] = dueMs
	if c.timer == nil {
		c.timer = time.AfterFunc(time.Duration(dueMs-c.now())*time.Millisecond, c.due)
		c.timerMs = dueMs
	} else if dueMs < c.timerMs || c.timerMs == 0 {
		c.timerMs = dueMs
		c.timer.Reset(time.Duration(dueMs-c.now()) * time.Millisecond)
	}
}

// due queues every delayed partition whose time has come.
func (c *committer) due() {
	now := c.now()
	var ready []*Partition
	c.mu.Lock()
	c.timerMs = 0
	for p, dueMs := range c.delayed {
		if dueMs <= now {
			ready = append(ready, p)
			delete(c.delayed, p)
		} else if c.timerMs == 0 || dueMs < c.timerMs {
			c.timerMs = dueMs
		}
	}
	if c.timerMs != 0 {
		c.timer.Reset(time.Duration(c.timerMs-now) * time.Millisecond)
	}
	c.mu.Unlock()
	for _, p := range ready {
		c.enqueue(p)
	}
}

// commit makes everything durable that was appended before it began. It runs on a worker; one commit of a partition runs
// at a time.
func (p *Partition) commit() {
	p.mu.Lock()
	if p.failure.Load() != nil {
		p.syncSinceMs.Store(0)
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
	p.syncSinceMs.Store(0)

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
	complete(waiters, nil)
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
		err = p.store.fs.SyncDir(p.path)
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
		return syncFile(g.store.fs, g.path(txnIndexSuffix))
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
		p.addWaiter(w)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	w.Done(w, err)
}

// addWaiter keeps the list in the order of offsets; nearly always the newest has the largest. Caller: mu.
func (p *Partition) addWaiter(w *Waiter) {
	w.next = nil
	switch {
	case p.waiters == nil:
		p.waiters, p.lastWaiter = w, w
	case w.Offset >= p.lastWaiter.Offset:
		p.lastWaiter.next, p.lastWaiter = w, w
	default:
		at := &p.waiters
		for (*at).Offset <= w.Offset {
			at = &(*at).next
		}
		w.next, *at = *at, w
	}
}

// takeWaiters cuts off those that wait for an offset up to highWatermark. Caller: mu.
func (p *Partition) takeWaiters(highWatermark int64) *Waiter {
	first := p.waiters
	if first == nil || first.Offset > highWatermark {
		return nil
	}
	last := first
	for last.next != nil && last.next.Offset <= highWatermark {
		last = last.next
	}
	p.waiters, last.next = last.next, nil
	if p.waiters == nil {
		p.lastWaiter = nil
	}
	return first
}

// complete calls Done in the order of offsets. A waiter may be reused by its owner as soon as Done is called.
func complete(w *Waiter, err error) {
	for w != nil {
		next := w.next
		w.next = nil
		w.Done(w, err)
		w = next
	}
}
