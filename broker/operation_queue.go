package broker

import "sync"

// operationQueue runs operations on a fixed number of goroutines, in the order
// in which they came. The queue is a chain through the operations themselves:
// it is bounded by the requests under way and costs no allocation.
type operationQueue struct {
	mu    sync.Mutex
	ready sync.Cond // of mu: head is set, or closed
	// +checklocks:mu
	head *queuedJob
	// +checklocks:mu
	tail *queuedJob
	// +checklocks:mu
	closed  bool
	workers sync.WaitGroup
}

// queuedJob is one operation in a queue; a field of it.
type queuedJob struct {
	run  func() // set once, when the operation is made
	next *queuedJob
}

func (q *operationQueue) start(workers int) {
	q.ready.L = &q.mu
	for range workers {
		q.workers.Go(q.work)
	}
}

// push queues the job. After stop it runs on the caller's goroutine, so that an
// operation is never lost.
func (q *operationQueue) push(j *queuedJob) {
	j.next = nil
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		j.run()
		return
	}
	if q.tail != nil {
		q.tail.next = j
	} else {
		q.head = j
	}
	q.tail = j
	q.mu.Unlock()
	q.ready.Signal()
}

func (q *operationQueue) work() {
	for {
		q.mu.Lock()
		for q.head == nil && !q.closed {
			q.ready.Wait()
		}
		j := q.head
		if j == nil {
			q.mu.Unlock()
			return
		}
		q.head = j.next
		if q.head == nil {
			q.tail = nil
		}
		q.mu.Unlock()
		j.next = nil
		j.run()
	}
}

// stop runs what is queued and ends the workers.
func (q *operationQueue) stop() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ready.Broadcast()
	q.workers.Wait()
}
