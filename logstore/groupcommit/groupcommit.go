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

// Task is one log that is committed. Its owner sets Commit, Owner and Group before the first Enqueue.
type Task struct {
	SinceMs atomic.Int64 // since when a commit is queued or runs; the commit sets it to 0 when the disk has answered. First: appends look at it
	Commit  func()       // commits this log alone; runs on a worker, one at a time
	Owner   any          // for the Commit of the group

	group *Group // nil: Commit is called for each; owner: Committer.mu
	state state  // owner: Committer.mu
	next  *Task  // owner: Committer.mu
}

// Group are logs that are committed together: those of one volume.
type Group struct {
	commit func(tasks []*Task)
	first  *Task      // queue; owner: Committer.mu
	last   *Task      // owner: Committer.mu
	work   *sync.Cond // something was queued, or closed; uses Committer.mu
	parked bool       // its goroutine waits for work; owner: Committer.mu
	begun  bool       // it has a goroutine; owner: Committer.mu
	tasks  []*Task    // scratch; owner: the group's goroutine
}

// Committer is the group commit: appenders queue their partition. The partitions of a group are committed together by one
// call, which hands those that it would rather not take to workers, which commit each alone and in parallel. While a
// partition is being committed all its appends gather for the next commit, so one sync serves every producer that waits.
//
// Workers are started on demand, at most limit, and park when nothing is queued. Each group has one goroutine of its own, so
// that a volume that hangs with all workers keeps no other waiting.
type Committer struct {
	limit    int
	counters *Counters

	mu        sync.Mutex
	head      *Task      // queue of the workers; owner: mu
	tail      *Task      // owner: mu
	workers   int        // started; owner: mu
	parked    int        // of them waiting for work; owner: mu
	groups    []*Group   // owner: mu
	closed    bool       // owner: mu
	work      *sync.Cond // something was queued, or closed; uses mu
	parkedAll *sync.Cond // a group parked, or the last worker with an empty queue; uses mu
	delayed   map[*Task]int64
	timer     *time.Timer // for the earliest of delayed; owner: mu
	timerMs   int64       // its deadline; owner: mu
	settled   *sync.Cond  // some task became idle; uses mu
	now       func() int64
}

// New makes one with at most limit workers; now is the clock, in milliseconds.
func New(limit int, now func() int64, counters *Counters) *Committer {
	c := &Committer{limit: limit, counters: counters, delayed: map[*Task]int64{}, now: now}
	c.work, c.parkedAll = sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	c.settled = sync.NewCond(&c.mu)
	return c
}

// NewGroup makes a group. commit gets everything of the group that was queued, on the group's goroutine, and returns when it
// is committed; it may hand over some of it (Direct). The slice is the Committer's.
func (c *Committer) NewGroup(commit func(tasks []*Task)) *Group {
	g := &Group{commit: commit}
	g.work = sync.NewCond(&c.mu)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.groups = append(c.groups, g)
	return g
}

// SetGroup puts t into a group from its next Enqueue on. A round of the old one may still get it.
func (c *Committer) SetGroup(t *Task, g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.group = g
}

// Enqueue asks for a commit of everything that was appended to p before the call.
func (c *Committer) Enqueue(p *Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.delayed) > 0 {
		delete(c.delayed, p)
	}
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
	if p.group == nil {
		c.pushDirect(p)
		return
	}
	g := p.group
	if g.last == nil {
		g.first = p
	} else {
		g.last.next = p
	}
	g.last = p
	switch {
	case g.parked:
		g.parked = false
		g.work.Signal()
	case !g.begun:
		g.begun = true
		go c.runGroup(g)
	}
}

// pushDirect: owner mu held.
func (c *Committer) pushDirect(p *Task) {
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

// Direct hands tasks[i] of a round to the workers; the round has no more to do with it.
func (c *Committer) Direct(tasks []*Task, i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pushDirect(tasks[i])
	tasks[i] = nil
}

// runGroup is the goroutine of a group.
func (c *Committer) runGroup(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for g.first == nil {
			g.parked = true
			c.parkedAll.Broadcast()
			if c.closed {
				g.begun, g.parked = false, false
				c.parked = 0 // woken without being counted out; who finds nothing to do counts itself in again, or ends
				c.work.Broadcast()
				return
			}
			g.work.Wait()
			g.parked = false
		}
		g.tasks = g.tasks[:0]
		for p := g.first; p != nil; {
			next := p.next
			p.next, p.state = nil, running
			g.tasks = append(g.tasks, p)
			p = next
		}
		g.first, g.last = nil, nil
		c.mu.Unlock()
		began := time.Now()
		g.commit(g.tasks)
		c.counters.round(g.tasks, began)
		c.mu.Lock()
		for i, p := range g.tasks {
			if g.tasks[i] = nil; p != nil {
				c.finish(p)
			}
		}
	}
}

// finish: owner mu held.
func (c *Committer) finish(p *Task) {
	if p.state == again {
		c.push(p)
		return
	}
	p.state = idle
	c.settled.Broadcast()
}

// run is a worker.
func (c *Committer) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for c.head == nil {
			if c.closed && !c.grouped() {
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
		if p.state == queued { // handed over by a round it is running, or wanted again, already
			p.state = running
		}
		c.mu.Unlock()
		began := time.Now()
		p.Commit()
		observe(&c.counters.TaskSeconds, began)
		c.mu.Lock()
		c.finish(p)
	}
}

// grouped says that a group has work, or may hand some over. Owner: mu held.
func (c *Committer) grouped() bool {
	for _, g := range c.groups {
		if g.begun && !g.parked || g.first != nil {
			return true
		}
	}
	return false
}

// Wait returns when nothing is queued or running.
func (c *Committer) Wait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.grouped() || c.head != nil || c.parked < c.workers {
		c.parkedAll.Wait()
	}
}

// Close ends the goroutines when the queues are empty, and waits for them.
func (c *Committer) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, g := range c.groups {
		g.work.Broadcast()
	}
	c.parked = 0
	c.work.Broadcast()
	for c.workers > 0 || c.begun() {
		c.parkedAll.Wait()
	}
}

// begun says that a group has a goroutine. Owner: mu held.
func (c *Committer) begun() bool {
	for _, g := range c.groups {
		if g.begun {
			return true
		}
	}
	return false
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
