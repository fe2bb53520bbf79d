package groupcommit

import (
	"sync"
	"sync/atomic"
	"time"
)

// state is where a task stands with the Committer.
type state uint8

const (
	idle    state = iota
	queued        // waits for a worker
	running       // a worker syncs it
	again         // running, and appended to meanwhile
)

// Task is one log that is committed. Its owner sets Commit before the first Enqueue.
type Task struct {
	Commit  func()       // runs on a worker, one at a time
	SinceMs atomic.Int64 // since when a commit is queued or runs; the commit sets it to 0 when the disk has answered

	state state // owner: Committer.mu
	next  *Task // owner: Committer.mu
}

// Committer is the group commit: appenders queue their partition, workers sync it. While a partition is being synced all
// its appends gather for the next commit, so one fdatasync serves every producer that waits, and partitions are synced in
// parallel, so that the file system's journal serves them together.
//
// Workers are started on demand, at most limit, and park when nothing is queued.
type Committer struct {
	limit int

	mu        sync.Mutex
	head      *Task      // queue; owner: mu
	tail      *Task      // owner: mu
	workers   int        // started; owner: mu
	parked    int        // of them waiting for work; owner: mu
	closed    bool       // owner: mu
	work      *sync.Cond // something was queued, or closed; uses mu
	parkedAll *sync.Cond // the last worker parked with an empty queue; uses mu
	delayed   map[*Task]int64
	timer     *time.Timer // for the earliest of delayed; owner: mu
	timerMs   int64       // its deadline; owner: mu
	settled   *sync.Cond  // some task became idle; uses mu
	now       func() int64
}

// New makes one with at most limit workers; now is the clock, in milliseconds.
func New(limit int, now func() int64) *Committer {
	c := &Committer{limit: limit, delayed: map[*Task]int64{}, now: now}
	c.work, c.parkedAll = sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	c.settled = sync.NewCond(&c.mu)
	return c
}

// Enqueue asks for a commit of everything that was appended to p before the call.
func (c *Committer) Enqueue(p *Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.delayed, p)
	switch p.state {
	case running:
		p.state = again
	case idle:
		c.push(p)
	}
}

// push: owner mu held.
func (c *Committer) push(p *Task) {
	p.state = queued
	// From here on somebody waits for the disk, also when every worker hangs in it with other partitions.
	p.SinceMs.CompareAndSwap(0, c.now())
	if c.tail == nil {
		c.head = p
	} else {
		c.tail.next = p
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
func (c *Committer) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.head == nil {
			if c.closed {
				c.workers--
				c.parkedAll.Broadcast()
				return
			}
			c.parked++
			if c.parked == c.workers {
				c.parkedAll.Broadcast()
			}
			c.work.Wait()
		}
		p := c.head
		c.head, p.next = p.next, nil
		if c.head == nil {
			c.tail = nil
		}
		p.state = running
		c.mu.Unlock()
		p.Commit()
		c.mu.Lock()
		if p.state == again {
			c.push(p)
		} else {
			p.state = idle
			c.settled.Broadcast()
		}
	}
}

// Wait returns when nothing is queued or running.
func (c *Committer) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.head != nil || c.parked < c.workers {
		c.parkedAll.Wait()
	}
}

// Close ends the workers when the queue is empty, and waits for them.
func (c *Committer) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.parked = true, 0
	if c.timer != nil {
		c.timer.Stop()
	}
	c.work.Broadcast()
	for c.workers > 0 {
		c.parkedAll.Wait()
	}
}

// Delay asks for a commit of p at dueMs (flush.ms).
func (c *Committer) Delay(p *Task, dueMs int64) {
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
func (c *Committer) due() {
	now := c.now()
	var ready []*Task
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
		c.Enqueue(p)
	}
}

// Settle returns when p is neither queued nor running.
func (c *Committer) Settle(p *Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p.state != idle {
		c.settled.Wait()
	}
}
