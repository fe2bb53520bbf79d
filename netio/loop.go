package netio

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
)

// loop is what the connections of one event loop share. Fields without another word are touched on the loop only.
//
// The ready list. Any goroutine that has news for a connection (a reply ended, a close was asked for, the socket takes
// bytes again) calls Conn.schedule. It pushes the connection on the loop's ready list and wakes the loop, unless
// somebody else has: a burst of completions, of one connection or of thousands, costs one eventfd write per loop.
// While the loop is inside an event nobody has to wake it at all, it serves the list before the event ends.
//
// Proof that nothing is lost. Conn.scheduled is true from before the push until the loop is about to serve the
// connection; who finds it true relies on a service that has not begun, and since the news was written before scheduled
// was read, and the loop clears scheduled before it reads the state, that service sees the news (Go's atomics are
// sequentially consistent). The same holds one level up: woken is true from before a wake until the loop is about to
// take the list, and a push comes before the read of woken. The list is a stack that is only ever pushed to by
// compare-and-swap and taken whole by swap, so a link is never read while another goroutine may reuse it (no ABA): a
// connection's link is written by the one that set scheduled, and scheduled stays set until the loop has read the link.
type loop struct {
	server *Server

	ready atomic.Pointer[Conn] // stack of scheduled connections
	woken atomic.Bool          // an eventfd write is on its way, or the loop will look before its event ends
	tick  atomic.Bool          // the server asks to look at all connections: for idle ones, or to end them

	wakeFD int // eventfd; open as long as the loop is reachable, so a late Slot.Done never writes to a foreign descriptor

	engine engineLoop // gnet's side, see engine.go

	later   *Conn // postponed connections, linked by nextReady
	current *Conn // whose event runs, nil: none
	outer   *Conn // whose event of gnet's runs, inside which this loop serves others (onward.go); nil: none
	first   *Conn // connections, linked by previous and following

	byFD []*Conn // those that gnet has, by their descriptors

	connections int // from first on

	freeSlots     *Slot // at most limits.NetSlotsKept
	freeSlotCount int

	chunk   chunk    // that sockets are read into
	vectors [][]byte // limits.NetIovecs, for gather
	buffers ioBuffers

	restBytes int // of the buffers in which connections keep what they may not parse
	restLimit int // limits.NetRestBytesPerLoop; immutable

	outboundBytes atomic.Int64 // of replies that were ended and have not left, all connections; by who ends them and the loop

	// Written on the loop, read by Drain and Stats.
	openSlots     atomic.Int64
	receivedBytes atomic.Int64
	sentBytes     atomic.Int64
	wakes         atomic.Int64
	rests         atomic.Int64

	rest rest
}

func newLoop(s *Server) (*loop, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &loop{
		server:  s,
		wakeFD:  fd,
		vectors: make([][]byte, 0, limits.NetIovecs),

		restLimit: limits.NetRestBytesPerLoop,
	}
	l.chunk.begin()
	runtime.AddCleanup(l, func(fd int) { unix.Close(fd) }, fd)
	return l, nil
}

// schedule lets the connection's loop take a turn for it. Any goroutine; one call of many costs something.
func (c *Conn) schedule() {
	if c.scheduled.Load() || c.scheduled.Swap(true) {
		return
	}
	c.loop.push(c)
	c.loop.wake()
}

var eventfdOne = [8]byte{1} // any value but 0, in either byte order

// wake makes the loop serve its ready list.
func (l *loop) wake() {
	if l.woken.Load() || l.woken.Swap(true) {
		return
	}
	l.writeWake()
}

func (l *loop) writeWake() {
	for {
		_, err := unix.Write(l.wakeFD, eventfdOne[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil && err != unix.EAGAIN { // EAGAIN: the counter is full, so the loop has been woken
			panic("netio: cannot wake an event loop: " + err.Error())
		}
		runtime.KeepAlive(l)
		return
	}
}

// beginEvent starts an event of a connection: until endEvent nobody needs to wake this loop, and nobody needs to
// schedule this connection. own tells endEvent whether this event set scheduled.
func (l *loop) beginEvent(c *Conn) (own bool) {
	l.woken.Store(true)
	l.current = c
	return !c.scheduled.Swap(true)
}

// endEvent sends what became ready in the event, for its connection and for every other one of this loop.
func (l *loop) endEvent(c *Conn, own bool) {
	if own {
		c.scheduled.Store(false)
	}
	c.turn() // news that relied on this event are found here
	l.serve()
	l.current = nil
}

// serve gives every scheduled connection its turn. Turns may schedule others (a produce that completes a waiting
// fetch); those are served in further rounds, a few: what is still new then waits behind the sockets.
func (l *loop) serve() {
	const rounds = 8
	for range rounds {
		l.woken.Store(false)
		if l.tick.Load() && l.tick.Swap(false) {
			l.expireIdle()
			if l.server.ending.Load() {
				l.endAll()
			}
		}
		list := l.take()
		if list == nil {
			if l.later != nil {
				l.servePostponed()
			}
			return
		}
		l.woken.Store(true)
		for list != nil {
			c := list
			list = c.nextReady
			c.nextReady = nil
			c.scheduled.Store(false)
			c.turn()
		}
	}
	l.woken.Store(false)
	if l.later != nil {
		l.servePostponed()
	} else if l.ready.Load() != nil {
		l.wake()
	}
}

// postpone gives the connection its next turn after the sockets of this loop had theirs. Owner only.
func (l *loop) postpone(c *Conn) {
	if c.scheduled.Swap(true) {
		return
	}
	c.nextReady = l.later
	l.later = c
}

// servePostponed makes postponed connections ready, by a wake that comes back through the poller. At the end of serve.
func (l *loop) servePostponed() {
	for c := l.later; c != nil; {
		next := c.nextReady
		l.push(c)
		c = next
	}
	l.later = nil
	l.wake()
}

// push puts a connection whose scheduled the caller has set on the ready list.
func (l *loop) push(c *Conn) {
	for {
		top := l.ready.Load()
		c.nextReady = top
		if l.ready.CompareAndSwap(top, c) {
			return
		}
	}
}

// take empties the ready list, oldest first.
func (l *loop) take() *Conn {
	if l.ready.Load() == nil {
		return nil
	}
	var oldestFirst *Conn
	for c := l.ready.Swap(nil); c != nil; {
		next := c.nextReady
		c.nextReady = oldestFirst
		oldestFirst = c
		c = next
	}
	return oldestFirst
}

func (l *loop) add(c *Conn) {
	l.connections++
	c.following = l.first
	if l.first != nil {
		l.first.previous = c
	}
	l.first = c
}

func (l *loop) remove(c *Conn) {
	l.connections--
	if c.previous != nil {
		c.previous.following = c.following
	} else {
		l.first = c.following
	}
	if c.following != nil {
		c.following.previous = c.previous
	}
	c.previous, c.following = nil, nil
}

// expireIdle closes connections on which nothing moves.
func (l *loop) expireIdle() {
	now := l.server.nowMs.Load()
	maxIdleMs := l.server.config.ConnectionsMaxIdleMs
	stallMs := maxIdleMs
	if stallMs <= 0 {
		stallMs = limits.NetOutboundStallMs
	}
	for c := l.first; c != nil; {
		following := c.following // expire may remove c
		c.expire(now, maxIdleMs, stallMs)
		c = following
	}
}

// closeDetached closes what the engine has not, because it does not know it. The loop has ended.
func (l *loop) closeDetached() {
	for c := l.first; c != nil; {
		following := c.following // shut removes c
		c.shut(errServerClosed)
		c = following
	}
}

// endAll ends every connection: at once, or gently where the system still has bytes to send, which closing would throw
// away if requests lie unread.
func (l *loop) endAll() {
	for c := l.first; c != nil; {
		following := c.following // shut may remove c
		switch {
		case c.isEnding():
		case c.socket.unsent():
			c.shutGently(errServerClosed)
		default:
			c.shut(errServerClosed)
		}
		c = following
	}
}
