package delay

import "sync"

// Queue runs operations on a fixed number of goroutines, in the order
// in which they came. The queue is a chain through the operations themselves:
// it is bounded by the requests under way and costs no allocation.
type Queue struct {
	mu    sync.Mutex
	ready sync.Cond // of mu: head is set, or closed
	// +checklocks:mu
	head *Job
	// +checklocks:mu
	tail *Job
	// +checklocks:mu
	closed  bool
	workers sync.WaitGroup
}

// Job is one operation in a queue; a field of it.
type Job struct {
	// Run is set once, when the operation is made.
	Run  func()
	next *Job
}

// Start starts the workers.
func (q *Queue) Start(workers int) {
	q.ready.L = &q.mu
	for range workers {
		q.workers.Go(q.work)
	}
}

// Push queues the job. After Stop it runs on the caller's goroutine, so that an
// operation is never lost.
func (q *Queue) Push(j *Job) {
	j.next = nil
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		j.Run()
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

func (q *Queue) work() {
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
		j.Run()
	}
}

// Stop runs what is queued and ends the workers.
func (q *Queue) Stop() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ready.Broadcast()
	q.workers.Wait()
}
