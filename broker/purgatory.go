package broker

import (
	"sync"
	"sync/atomic"

	"kaas/internal/limits"
)

// The purgatory (Kafka: DelayedOperationPurgatory) keeps requests that wait:
// fetches until enough bytes are visible, produces until their commit, both at
// most until a deadline. Waiting costs neither a goroutine nor an allocation:
// all links are fields of the operation.
//
// A parked fetch can be reached from three places, each with its own lock: the
// list of every partition it reads (partitionPurgatory.mu), the heap of
// deadlines (delay.Timer) and the chain of its connection (parkedFetches.mu).
// None of these locks is held while another lock is taken or an operation is
// run.
//
// Why nobody touches an operation that has gone back to its pool: an operation
// is only reached through a link, under the lock of that link, and what is done
// under the lock is one atomic step on parkState, which either makes the caller
// the owner or leaves a signal for the present owner. The owner recycles the
// operation only after it has taken it out of all three places, each under its
// lock.

// parkState says who owns a parked operation, and what happened meanwhile.
type parkState struct{ bits atomic.Uint32 }

const (
	parkRunning   = 1 << iota // somebody owns the operation and runs it
	parkDirty                 // a partition moved: look again
	parkForced                // answer with what is there: time is up, or shutdown
	parkCancelled             // nobody waits for the answer any more
)

// own marks the operation as run by the caller, before anybody else can reach it.
func (s *parkState) own() { s.bits.Store(parkRunning) }

// signal leaves the given bits. True: the operation was parked and the caller
// owns it now. False: its owner will see the bits before it parks again.
func (s *parkState) signal(bits uint32) bool {
	for {
		old := s.bits.Load()
		if s.bits.CompareAndSwap(old, old|bits|parkRunning) {
			return old&parkRunning == 0
		}
	}
}

// take returns the signals since the last take. Owner only.
func (s *parkState) take() uint32 {
	// Forced and cancelled stay: they end the operation.
	return s.bits.And(^uint32(parkDirty))
}

// park gives the operation up. False: there is a signal, the caller stays owner.
func (s *parkState) park() bool { return s.bits.CompareAndSwap(parkRunning, 0) }

// partitionPurgatory is the list of fetches that wait for one partition.
type partitionPurgatory struct {
	// waiting is the length of the list, so that an append to a partition without
	// readers takes no lock.
	//
	// No wake is lost: the log moves its watermark (an atomic store), then wake
	// loads waiting; a fetch adds itself to waiting, then loads the watermark
	// again. Go's atomics are sequentially consistent, so at least one of the two
	// sees the other. When wake sees the fetch it waits for mu and finds it in the
	// list or finds that it has gone.
	waiting atomic.Int32
	// held counts the event loops that append to the partition and wake its fetches
	// when they have handled all that came at once (deferredWakes): meanwhile nobody
	// else needs to. No wake is lost: who skips it moved the watermark before it
	// found held above 0, and the wake of whoever held it comes after that.
	held atomic.Int32
	mu   sync.Mutex
	// +checklocks:mu
	head *fetchWaiter
}

// fetchWaiter is one fetch in the list of one partition.
type fetchWaiter struct {
	operation *fetchOperation // set before add
	list      *partitionPurgatory
	// previous and next are guarded by list.mu.
	previous, next *fetchWaiter
	// dirty: the partition moved since the owner of the operation looked at it.
	dirty atomic.Bool
}

func (p *partitionPurgatory) add(w *fetchWaiter) {
	w.list = p
	p.waiting.Add(1)
	p.mu.Lock()
	w.next = p.head
	if p.head != nil {
		p.head.previous = w
	}
	p.head = w
	p.mu.Unlock()
}

// remove takes the waiter out of its list, if it is in one.
func (w *fetchWaiter) remove() {
	p := w.list
	if p == nil {
		return
	}
	p.mu.Lock()
	if w.previous != nil {
		w.previous.next = w.next
	} else {
		p.head = w.next
	}
	if w.next != nil {
		w.next.previous = w.previous
	}
	p.mu.Unlock()
	p.waiting.Add(-1)
	w.list, w.previous, w.next = nil, nil, nil
}

// wake makes the caller the owner of every parked fetch of the list, and
// returns them as a chain through nextWoken.
func (p *partitionPurgatory) wake() *fetchOperation {
	if p.waiting.Load() == 0 {
		return nil
	}
	var woken *fetchOperation
	p.mu.Lock()
	for w := p.head; w != nil; w = w.next {
		w.dirty.Store(true)
		if w.operation.parked.signal(parkDirty) {
			w.operation.nextWoken = woken
			woken = w.operation
		}
	}
	p.mu.Unlock()
	return woken
}

// deferredWakes are the partitions that an event loop appends to and whose fetches
// it wakes at the end: once for all the requests that came at once, so that a
// fetch of several partitions finds the news of all. Owner: the event loop.
type deferredWakes struct{ partitions []*partitionState }

// hold is called before an append.
func (d *deferredWakes) hold(p *partitionState) {
	p.purgatory.held.Add(1)
	d.partitions = append(d.partitions, p)
}

// wake is called when all appends are done.
func (d *deferredWakes) wake(b *Broker) {
	for _, p := range d.partitions {
		p.purgatory.held.Add(-1)
	}
	for i, p := range d.partitions {
		b.wakeFetches(p)
		d.partitions[i] = nil
	}
	d.partitions = d.partitions[:0]
	if cap(d.partitions) > limits.ProducePartitionsKept {
		d.partitions = nil
	}
}

// parkedFetches is the chain of the parked fetches of one connection, so that
// they end with it: max_wait_ms may be weeks.
type parkedFetches struct {
	mu sync.Mutex
	// +checklocks:mu
	head *fetchOperation
	// +checklocks:mu
	closed bool
}

// add answers false when the connection is closed.
func (c *parkedFetches) add(o *fetchOperation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	o.chain, o.chainNext = c, c.head
	if c.head != nil {
		c.head.chainPrevious = o
	}
	c.head = o
	return true
}

func (c *parkedFetches) remove(o *fetchOperation) {
	c.mu.Lock()
	if o.chainPrevious != nil {
		o.chainPrevious.chainNext = o.chainNext
	} else {
		c.head = o.chainNext
	}
	if o.chainNext != nil {
		o.chainNext.chainPrevious = o.chainPrevious
	}
	c.mu.Unlock()
	o.chain, o.chainPrevious, o.chainNext = nil, nil, nil
}

// close cancels what is parked and all that would be.
func (c *parkedFetches) close() {
	var woken *fetchOperation
	c.mu.Lock()
	c.closed = true
	for o := c.head; o != nil; o = o.chainNext {
		if o.parked.signal(parkCancelled) {
			o.nextWoken = woken
			woken = o
		}
	}
	c.mu.Unlock()
	runWoken(woken)
}

func runWoken(woken *fetchOperation) {
	for woken != nil {
		o := woken
		woken, o.nextWoken = o.nextWoken, nil
		o.run()
	}
}
