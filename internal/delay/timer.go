package delay

import (
	"sync"
	"time"
)

// Deadline is the moment until which an operation waits; a field of it.
type Deadline struct {
	// Owner is the operation; set before Add.
	Owner Expirer

	at    time.Duration // since Timer.start
	place int           // guarded by Timer.mu: place in the heap plus 1, 0 when not in it
	next  *Deadline     // chain of those that are due; owned by whoever took them out
}

// Expirer is an operation that has a deadline.
type Expirer interface {
	// Expire is called under the timer's lock and may use atomics only. True: the
	// timer owns the operation, or a share of it, and calls Expired next, without
	// the lock. False: the operation's owner has ended it.
	Expire() bool
	Expired()
}

// Timer is a heap of deadlines with one goroutine that sleeps until the earliest one, so
// that a thousand waiting requests cost nothing until one of them is due.
type Timer struct {
	start time.Time
	mu    sync.Mutex
	// heap is ordered by at, earliest first.
	// +checklocks:mu
	heap []*Deadline
	// wakesAt is until when the goroutine sleeps at most: an Add that is due no earlier does not wake it. When what it
	// sleeps for is cancelled, it finds that out once it wakes. Otherwise one request that waits, again and again (a reader
	// at the tail), would wake a thread each time.
	// +checklocks:mu
	wakesAt time.Duration
	// moved tells the goroutine that the earliest one is due before wakesAt; capacity 1.
	moved chan struct{}
	quit  chan struct{}
	done  chan struct{}
}

// Start starts the goroutine.
func (d *Timer) Start() {
	d.start = time.Now()
	d.moved, d.quit, d.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go d.run()
}

// Stop ends the goroutine; deadlines that are left never expire.
func (d *Timer) Stop() {
	close(d.quit)
	<-d.done
}

const never = time.Duration(1<<63 - 1)

func (d *Timer) now() time.Duration { return time.Since(d.start) }

// tickOf is how far a deadline is put off so that several expire with one wake-up
// of the goroutine: a 64th of the wait, rounded down to a power of two, and 1 to
// 64 ms. Kafka's purgatory has 1 ms for all (SystemTimer.tickMs). What expires
// together also comes back together: consumers whose polls end at the same tick
// send the next ones in a moment, and the process sleeps between.
func tickOf(wait time.Duration) time.Duration {
	const finest, coarsest = time.Millisecond, 64 * time.Millisecond
	tick := coarsest
	for tick > finest && tick > wait/64 {
		tick /= 2
	}
	return tick
}

// Add puts the deadline into the heap: at least wait from now, and less than a
// tick more (see tickOf).
func (d *Timer) Add(e *Deadline, wait time.Duration) {
	tick := tickOf(wait)
	e.at = (d.now() + wait + tick - 1).Truncate(tick)
	d.mu.Lock()
	d.heap = append(d.heap, e)
	d.up(len(d.heap) - 1)
	sooner := e.at < d.wakesAt
	if sooner {
		d.wakesAt = e.at
	}
	d.mu.Unlock()
	if sooner {
		select {
		case d.moved <- struct{}{}:
		default:
		}
	}
}

// Cancel takes the deadline out, if it is in. Afterwards the timer goroutine does not touch
// its operation any more, unless Expire has made it the owner.
func (d *Timer) Cancel(e *Deadline) {
	d.mu.Lock()
	if e.place > 0 {
		d.removeAt(e.place - 1)
	}
	d.mu.Unlock()
}

// Len is how many deadlines wait.
func (d *Timer) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.heap)
}

// ForceAll expires everything that waits.
func (d *Timer) ForceAll() {
	d.fire(never)
}

func (d *Timer) run() {
	defer close(d.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := d.fire(d.now())
		if wait < 0 {
			timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-d.moved:
		case <-d.quit:
			return
		}
	}
}

// fire expires what is due at now and returns how long the next one has, -1
// when there is none.
func (d *Timer) fire(now time.Duration) (wait time.Duration) {
	var due *Deadline
	d.mu.Lock()
	for len(d.heap) > 0 && d.heap[0].at <= now {
		e := d.heap[0]
		d.removeAt(0)
		if e.Owner.Expire() {
			e.next = due
			due = e
		}
	}
	wait, d.wakesAt = -1, never
	if len(d.heap) > 0 {
		d.wakesAt = d.heap[0].at
		wait = d.wakesAt - now
	}
	d.mu.Unlock()
	for due != nil {
		e := due
		due, e.next = e.next, nil
		e.Owner.Expired()
	}
	return wait
}

// +checklocks:d.mu
func (d *Timer) removeAt(i int) {
	last := len(d.heap) - 1
	d.heap[i].place = 0
	if i != last {
		d.set(i, d.heap[last])
	}
	d.heap[last] = nil
	d.heap = d.heap[:last]
	if i != last && !d.down(i) {
		d.up(i)
	}
}

// +checklocks:d.mu
func (d *Timer) set(i int, e *Deadline) {
	d.heap[i] = e
	e.place = i + 1
}

// +checklocks:d.mu
func (d *Timer) up(i int) {
	e := d.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if d.heap[parent].at <= e.at {
			break
		}
		d.set(i, d.heap[parent])
		i = parent
	}
	d.set(i, e)
}

// down answers whether it moved anything.
// +checklocks:d.mu
func (d *Timer) down(i int) bool {
	e, start := d.heap[i], i
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			break
		}
		if child+1 < len(d.heap) && d.heap[child+1].at < d.heap[child].at {
			child++
		}
		if e.at <= d.heap[child].at {
			break
		}
		d.set(i, d.heap[child])
		i = child
	}
	d.set(i, e)
	return i != start
}
