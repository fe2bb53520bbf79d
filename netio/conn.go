package netio

import (
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// Conn is one connection. Its owner is its event loop: fields without another word belong to it and are touched on it
// only. Among thousands of connections a request finds nothing of its own in the processor's caches, so what each request
// touches stands first and together, down to the blank comment line.
type Conn struct {
	// Context belongs to the handler, which touches it in its calls for this connection.
	Context any

	server *Server    // immutable
	loop   *loop      // immutable after OnOpen
	socket socket     // immutable after OnOpen
	gnet   gnetSocket // what socket points to for a plaintext connection

	// Inbound, see inbound.go.
	header         [4]byte      // of the frame that is arriving
	requestLimit   int32        // of LimitRequest; 0: the server's
	headerBytes    int          // that have arrived of it
	frame          *bufpool.Buf // that is arriving, nil between frames
	frameBytes     int          // announced length of frame
	arrived        int          // bytes of it in frame
	trusted        int          // size of the last frame: so much is taken at once for the next
	ahead          int          // bytes to read at once behind what the engine read; 0: limits.NetReadAheadBytes
	rest           *bufpool.Buf // read but not parsed while not reading; nil: none
	handedOver     bool         // a frame, since the last OnFramesEnd
	reading        bool         // the engine reads; false while paused or muted
	halfClosed     bool         // the peer sends nothing more, and gets the replies that it is owed
	refused        bool         // a malformed request came: nothing more is parsed
	arrivalCounted bool         // frame has reserved memory, or waits for it: see arrivals.go
	awaitingMemory bool         // frame waits for memory
	lingering      bool         // our side is shut down, what comes is thrown away until the peer closes
	isClosed       bool

	// Outbound, see outbound.go: a queue of slots in request order.
	head, tail  *Slot
	sequence    uint64 // of the next slot
	inFlight    int    // slots in the queue
	entryIndex  int    // first entry of head that has not left whole
	entryOffset int    // bytes of that entry that have left
	sentOfHead  int    // bytes of head that have left

	headSequence  atomic.Uint64 // sequence of head, or of the next slot when the queue is empty. Written by the owner
	outboundBytes atomic.Int64  // ended and not sent; added by who ends a slot, subtracted by the owner

	lastActiveMs int64                       // of the server's clock: a byte came or went
	closing      atomic.Pointer[closeReason] // set once, by any goroutine
	mutedUntil   atomic.Int64                // Unix nanoseconds, 0: not muted. Any goroutine
	scheduled    atomic.Bool                 // in the loop's ready list, or inside its own event; see loop.go
	writable     atomic.Bool                 // the write poller saw room
	hasSent      bool                        // a byte
	blocked      bool                        // the socket takes no bytes; writableAgain ends it
	//
	nextReady *Conn // link of the ready list; who set scheduled owns it until the loop takes the list

	// Immutable after OnOpen.
	id            uint64
	listener      string
	local, remote netip.AddrPort

	intoFrame     int         // bytes that the last receiveMore brought into frame
	restFrom      int         // first byte of rest that is not parsed
	memoryGranted atomic.Bool // by who gave back memory: the wait is over
	nextArrival   *Conn       // of arrivals' queue, under its lock

	// Life.
	previous, following *Conn       // the loop's connections
	opened              atomic.Bool // OnOpen was reached: the engine calls closed once
	lingerOver          atomic.Bool // by lingerTimer
	lingerTimer         *time.Timer // ends lingering, or halfClosed
	muteTimer           *time.Timer // reused; nil until first muted

	_ [72]byte // a multiple of 64: it begins with a cache line
}

type closeReason struct{ err error }

// errHalfClosed is the reason of a connection whose peer ended its sending side and then waited too long for a reply.
var errHalfClosed = errors.New("the peer sends no more, and a reply takes longer than it is kept for that")

// errIdle is the reason of a connection that was closed after connections.max.idle.ms.
var errIdle = errors.New("idle for longer than connections.max.idle.ms")

// errServerClosed is the reason of a connection that was open when the server closed.
var errServerClosed = errors.New("the server closes")

// errStalled is the reason of a connection whose peer did not take its replies.
var errStalled = errors.New("the peer takes no bytes, its replies wait for longer than connections.max.idle.ms")

// ID is unique in the life of the server, from 1.
func (c *Conn) ID() uint64 { return c.id }

// Listener is the name of the listener that accepted the connection.
func (c *Conn) Listener() string { return c.listener }

// LocalAddr is the address that the peer connected to.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's address; an IPv4 peer of a dual-stack listener has an IPv4 address.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// Close closes the connection, from any goroutine; replies that have not left are lost. OnClose gets the reason of the
// first call.
func (c *Conn) Close(reason error) {
	if c.closing.CompareAndSwap(nil, &closeReason{reason}) {
		c.schedule()
	}
}

// Mute stops reading from the connection for so long (KIP-219: the broker throttles by not reading). Replies go on
// leaving. Of several reasons to mute the longest counts; 0 unmutes. Any goroutine.
func (c *Conn) Mute(d time.Duration) {
	if d <= 0 {
		c.mutedUntil.Store(0)
		c.schedule()
		return
	}
	until := time.Now().Add(d).UnixNano()
	for {
		earlier := c.mutedUntil.Load()
		if earlier >= until {
			return
		}
		if c.mutedUntil.CompareAndSwap(earlier, until) {
			c.schedule()
			return
		}
	}
}

// LimitRequest makes the connection's largest request smaller than the server's; 0 takes that back. Owner only, for the
// frames that begin to arrive afterwards.
func (c *Conn) LimitRequest(maxBytes int32) { c.requestLimit = max(maxBytes, 0) }

// Reserve takes the place of the next reply. Owner only, in the order of the requests: in OnFrame.
func (c *Conn) Reserve() *Slot {
	s := c.loop.newSlot()
	s.conn = c
	s.sequence = c.sequence
	c.sequence++
	s.state.Store(slotOpen)
	if c.tail == nil {
		c.head = s
	} else {
		c.tail.next = s
	}
	c.tail = s
	c.inFlight++
	c.loop.openSlots.Add(1)
	return s
}

// open begins the connection's life on its loop.
func (c *Conn) open() {
	c.reading = true
	c.lastActiveMs = c.server.nowMs.Load()
	c.loop.add(c)
	c.server.config.Handler.OnOpen(c)
}

// shut asks the engine to close. Owner only.
func (c *Conn) shut(reason error) {
	c.closing.CompareAndSwap(nil, &closeReason{reason})
	if !c.isClosed {
		c.socket.close()
	}
}

// shutGently closes so that replies which have been sent arrive. Closing a socket with unread bytes resets the
// connection, and a reset throws away what the peer has not read yet; so the sending side ends first, and what comes is
// thrown away until the peer closes, for a moment. A peer that was sent nothing is closed at once. Owner only.
func (c *Conn) shutGently(reason error) {
	if !c.hasSent || c.halfClosed || c.isEnding() || c.socket.shutdownSend() != nil {
		c.shut(reason)
		return
	}
	c.closing.CompareAndSwap(nil, &closeReason{reason})
	c.lingering = true
	c.lingerTimer = time.AfterFunc(limits.NetLingerMs*time.Millisecond, func() {
		c.lingerOver.Store(true)
		c.schedule()
	})
	c.releaseInbound()
	if !c.reading {
		c.reading = true
		if err := c.socket.setReading(true); err != nil {
			c.shut(err)
		}
	}
}

// halfClose is called when the peer has ended its sending side. As in Kafka, which does not look at a connection while it
// owes it a reply, the requests before the end are answered; false: there are none. Owner only.
func (c *Conn) halfClose() bool {
	if c.isEnding() || c.head == nil && c.rest == nil || c.socket.detach() != nil {
		return false
	}
	c.halfClosed = true
	c.reading = false
	if c.rest == nil {
		c.releaseInbound() // a frame that will never be whole
	}
	c.lingerTimer = time.AfterFunc(limits.NetHalfClosedMs*time.Millisecond, func() { c.Close(errHalfClosed) })
	c.schedule()
	return true
}

// closed ends the connection's life: called exactly once by the engine, whoever closed. Everything that the connection
// holds is released; slots with handlers become orphans.
func (c *Conn) closed(reason error) {
	if r := c.closing.Load(); r != nil {
		reason = r.err
	} else {
		c.closing.CompareAndSwap(nil, &closeReason{reason})
	}
	c.isClosed = true
	for _, timer := range []*time.Timer{c.muteTimer, c.lingerTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	c.loop.remove(c)
	c.releaseInbound()
	c.releaseOutbound()
	c.server.quota.leave(c.remote.Addr())
	c.server.config.Handler.OnClose(c, reason)
}

// turn is the owner's work for a connection that was scheduled: whatever happened since, it is found in the state.
func (c *Conn) turn() {
	if c.isClosed {
		return
	}
	if r := c.closing.Load(); r != nil {
		if !c.lingering || c.lingerOver.Load() {
			c.shut(r.err)
		}
		return
	}
	if c.writable.Swap(false) {
		c.blocked = false
	}
	if c.awaitingMemory && c.memoryGranted.Swap(false) {
		c.awaitingMemory = false
		c.enlargeFrame()
	}
	c.flush()
	c.adjustReading()
	if c.halfClosed && c.head == nil && c.rest == nil && !c.isEnding() {
		c.shut(io.EOF)
	}
}

// writableAgain is called by the engine, from any goroutine, after awaitWritable.
func (c *Conn) writableAgain() {
	c.writable.Store(true)
	c.schedule()
}

// mayTakeFrame says whether another request may be read now: the bounds of memory, throttling and the graceful stop.
func (c *Conn) mayTakeFrame() bool {
	return !c.refused && !c.awaitingMemory &&
		c.inFlight < c.server.config.MaxInFlightPerConnection &&
		c.mayOweMore() &&
		!c.muted() &&
		!c.server.draining.Load()
}

// mayOweMore bounds replies that wait, of this connection and of its loop: a loop over its bound reads only from
// connections that owe nothing.
func (c *Conn) mayOweMore() bool {
	owed := c.outboundBytes.Load()
	return owed == 0 || owed < limits.OutboundBytes && c.loop.outboundBytes.Load() < limits.NetOutboundBytesPerLoop
}

// muted says whether Mute holds, and lets its timer schedule the connection at its end.
func (c *Conn) muted() bool {
	until := c.mutedUntil.Load()
	if until == 0 {
		return false
	}
	left := time.Until(time.Unix(0, until))
	if left <= 0 {
		c.mutedUntil.CompareAndSwap(until, 0)
		return false
	}
	if c.muteTimer == nil {
		c.muteTimer = time.AfterFunc(left, c.schedule)
	} else {
		c.muteTimer.Reset(left)
	}
	return true
}

// adjustReading makes the engine read or not as mayTakeFrame says, after parsing what was read before. Owner only.
func (c *Conn) adjustReading() {
	for !c.isEnding() && c.rest != nil && c.mayTakeFrame() {
		c.parseRest()
		c.endFrames()
		c.flush()
	}
	if c.isEnding() {
		return
	}
	on := c.rest == nil && !c.halfClosed && c.mayTakeFrame()
	if on == c.reading {
		return
	}
	c.reading = on
	if err := c.socket.setReading(on); err != nil {
		c.shut(err)
	}
}

// expire closes the connection when nothing moved for too long and it is not the handler that is waited for.
func (c *Conn) expire(nowMs, maxIdleMs, stallMs int64) {
	quiet := nowMs - c.lastActiveMs
	switch {
	case c.head == nil:
		if maxIdleMs > 0 && quiet > maxIdleMs {
			c.shut(errIdle)
		}
	case c.blocked && quiet > stallMs:
		c.shut(errStalled)
	}
}
