package netio

import (
	"sync"

	"kaas/internal/limits"
)

// arrivals bounds the memory of large frames that are arriving, over all connections of a server. A frame reserves its
// whole announced length before it grows beyond limits.BufLargestBytes, that is when its peer has sent as much; one that
// finds no room is not read further until it is its turn. Because the whole length is reserved, a frame that has a
// reservation can always be completed, so frames never wait for each other in a circle; one whose peer stops sending
// ends with connections.max.idle.ms.
type arrivals struct {
	mu sync.Mutex
	// limit never changes.
	// +checklocks:mu
	limit int64
	// +checklocks:mu
	reserved int64
	// first and last are the waiting connections, in the order that they came, linked by Conn.nextArrival. At most
	// one for each open connection.
	// +checklocks:mu
	first *Conn
	// +checklocks:mu
	last *Conn
}

// reserve returns true when the connection's frame may grow. If not, the connection waits: memoryGranted is set and it
// is scheduled when it may. Owner of the connection only.
func (a *arrivals) reserve(c *Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil && a.fits(c.frameBytes) {
		a.reserved += int64(c.frameBytes)
		return true
	}
	if a.last == nil {
		a.first = c
	} else {
		a.last.nextArrival = c
	}
	a.last = c
	return false
}

// fits: a single frame always does, whatever socket.request.max.bytes is.
//
// +checklocks:a.mu
func (a *arrivals) fits(bytes int) bool {
	return a.reserved == 0 || a.reserved+int64(bytes) <= a.limit
}

// release gives back a reservation, or the place of one that waits, and lets those behind it grow. Owner of the
// connection only. frameBytes of a waiting connection does not change, so it may be read here.
func (a *arrivals) release(c *Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.leaveQueue(c) {
		a.reserved -= int64(c.frameBytes)
	}
	for a.first != nil && a.fits(a.first.frameBytes) {
		next := a.first
		a.leaveQueue(next)
		a.reserved += int64(next.frameBytes)
		next.memoryGranted.Store(true)
		next.schedule() // takes no lock
	}
}

// leaveQueue takes the connection out of the queue and says whether it was there.
//
// +checklocks:a.mu
func (a *arrivals) leaveQueue(c *Conn) bool {
	var before *Conn
	for waiting := a.first; waiting != nil; before, waiting = waiting, waiting.nextArrival {
		if waiting != c {
			continue
		}
		if before == nil {
			a.first = c.nextArrival
		} else {
			before.nextArrival = c.nextArrival
		}
		if a.last == c {
			a.last = before
		}
		c.nextArrival = nil
		return true
	}
	return false
}

// growFrame doubles the full buffer of the frame that is arriving, if there is memory for it. Without, reading pauses.
// Owner only.
func (c *Conn) growFrame() {
	if !c.arrivalCounted && c.frameBytes > limits.BufLargestBytes && 2*len(c.frame.B) > limits.BufLargestBytes {
		c.arrivalCounted = true
		c.awaitingMemory = !c.server.arrivals.reserve(c)
	}
	if !c.awaitingMemory {
		c.enlargeFrame()
	}
}

// endArrival gives back what the frame has reserved, when it is whole or will never be. Owner only.
func (c *Conn) endArrival() {
	if !c.arrivalCounted {
		return
	}
	c.server.arrivals.release(c)
	c.arrivalCounted, c.awaitingMemory = false, false
	c.memoryGranted.Store(false)
}
