package netio

import (
	"net/netip"
	"sync"
)

// quota counts open connections (Kafka's ConnectionQuotas). A connection enters when it is accepted and leaves exactly
// once, in Conn.closed, or in accept when it never opened.
type quota struct {
	mu sync.Mutex
	// maxTotal and maxPerIP: 0 is unlimited.
	// +checklocks:mu
	maxTotal int
	// +checklocks:mu
	maxPerIP int
	// room is told when total has gone down and when ended is set.
	// +checklocks:mu
	room sync.Cond
	// +checklocks:mu
	total int
	// perIP has no entry of 0.
	// +checklocks:mu
	perIP map[netip.Addr]int
	// +checklocks:mu
	ended bool
}

// newQuota makes a quota that nobody else knows yet.
//
// +checklocksignore
func newQuota(maxTotal, maxPerIP int) *quota {
	q := &quota{maxTotal: maxTotal, maxPerIP: maxPerIP, perIP: map[netip.Addr]int{}}
	q.room.L = &q.mu
	return q
}

// limit changes the bounds. Connections above a lower one stay.
func (q *quota) limit(maxTotal, maxPerIP int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.maxTotal, q.maxPerIP = maxTotal, maxPerIP
	q.room.Broadcast()
}

type admission int

const (
	admitted       admission = iota
	tooManyFromIP            // close it
	notServingMore           // the server stops
)

// enter counts a connection. At max.connections it waits for one to close, as Kafka's acceptor does: the system's
// accept queue holds and then refuses the others. full is called once before it waits.
func (q *quota) enter(ip netip.Addr, full func()) admission {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.maxPerIP > 0 && q.perIP[ip] >= q.maxPerIP {
		return tooManyFromIP
	}
	for told := false; !q.ended && q.maxTotal > 0 && q.total >= q.maxTotal; told = true {
		if !told {
			full()
		}
		q.room.Wait()
	}
	if q.ended {
		return notServingMore
	}
	if q.maxPerIP > 0 && q.perIP[ip] >= q.maxPerIP {
		return tooManyFromIP // others of this address came in while this one waited
	}
	q.total++
	q.perIP[ip]++
	return admitted
}

func (q *quota) leave(ip netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perIP[ip] == 0 {
		panic("netio: a connection from " + ip.String() + " left twice")
	}
	q.total--
	if q.perIP[ip]--; q.perIP[ip] == 0 {
		delete(q.perIP, ip)
	}
	q.room.Signal()
}

// end lets every waiting enter return.
func (q *quota) end() {
	q.mu.Lock()
	q.ended = true
	q.room.Broadcast()
	q.mu.Unlock()
}

func (q *quota) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
