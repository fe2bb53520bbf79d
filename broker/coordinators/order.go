package coordinators

import "sync"

// Order keeps the requests of a connection in their order while one of them waits for
// a coordinator: those behind it queue. The zero value is empty.
type Order[T any] struct {
	mu sync.Mutex
	// waiting has an entry, perhaps an empty one, while a request of the session waits.
	// A connection has at most its bound of requests in flight in it.
	waiting map[uint64][]T // mu
}

// Queue puts a request behind those of its session; false: none waits. It is called
// on the connection's event loop only, so no other request of the session comes in
// between a false and the Begin that may follow it.
func (q *Order[T]) Queue(session uint64, request T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	queued, behind := q.waiting[session]
	if behind {
		q.waiting[session] = append(queued, request)
	}
	return behind
}

// Begin notes that a request of the session waits.
func (q *Order[T]) Begin(session uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == nil {
		q.waiting = map[uint64][]T{}
	}
	if _, ok := q.waiting[session]; !ok {
		q.waiting[session] = nil
	}
}

// Next takes the request that comes after the one that waits no more, or ends the
// queue: false.
func (q *Order[T]) Next(session uint64) (next T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queued := q.waiting[session]
	if len(queued) == 0 {
		delete(q.waiting, session)
		return next, false
	}
	q.waiting[session] = queued[1:]
	return queued[0], true
}
