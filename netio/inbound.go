package netio

import (
	"encoding/binary"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// received takes the n bytes that the engine has read for this connection into the loop's chunk. full: the engine filled
// its buffer, so more is likely there; it is read at once. Owner only.
func (c *Conn) received(n int, full bool) {
	c.receive(n, full)
	c.endFrames()
}

// endFrames tells the handler that no frame follows for now, if there were some.
func (c *Conn) endFrames() {
	if c.handedOver {
		c.handedOver = false
		c.server.config.Handler.OnFramesEnd(c)
	}
}

func (c *Conn) receive(n int, full bool) {
	c.lastActiveMs = c.server.nowMs.Load()
	c.loop.receivedBytes.Add(int64(n))
	if c.refused || c.lingering {
		return
	}
	h := &c.loop.chunk
	if c.rest != nil {
		// An event that was on its way when reading was paused. Bounded: the engine is told again to stop.
		c.keepRest(h.buf.B[h.used : h.used+n])
		return
	}
	from, to := h.used, h.used+n
	for budget := limits.NetReadBytesPerEvent - n; ; budget -= n {
		more := full && budget > 0
		ahead := more && c.mayReadAhead()
		var ok bool
		if from, ok = c.parseChunk(from, to, ahead); !ok {
			return
		}
		if from < to && !(ahead && c.frame == nil && c.mayTakeFrame()) {
			c.keepRest(h.buf.B[from:to])
			return
		}
		if !more || c.awaitingMemory || c.frame == nil && !(ahead && c.mayTakeFrame()) {
			return
		}
		if from == to {
			h.settle()
			from, to = h.used, h.used
		}
		if n, full, ok = c.receiveMore(to); !ok {
			return
		}
		to += n
		n += c.intoFrame
	}
}

// parseChunk parses chunk[from:to] and returns how far it came. more: the start of a frame that would lie in the chunk
// whole with what comes next is left there; any other start of a frame gets a buffer of its own.
func (c *Conn) parseChunk(from, to int, more bool) (at int, ok bool) {
	h := &c.loop.chunk
	left, ok := c.parse(h.buf.B[from:to], from, more)
	from = to - len(left)
	if !ok || !more || len(left) == 0 || c.frame != nil || !c.mayTakeFrame() {
		return from, ok
	}
	if len(left) >= len(c.header) {
		if end := from + len(c.header) + int(binary.BigEndian.Uint32(left)); end <= len(h.buf.B) && end <= to+c.readAhead() {
			return from, true
		}
	} else if to+limits.NetReadAheadBytes <= len(h.buf.B) {
		return from, true
	}
	left, ok = c.parse(left, from, false)
	return to - len(left), ok
}

// mayReadAhead says whether more may be read than the engine did and what a frame still lacks. Not when paused connections
// of this loop keep much already: each further one then keeps at most limits.NetReadBufferLeastBytes.
func (c *Conn) mayReadAhead() bool { return c.loop.restBytes < c.loop.restLimit }

// readAhead is how many bytes are read into the chunk at once.
func (c *Conn) readAhead() int { return max(c.ahead, limits.NetReadAheadBytes) }

// receiveMore reads the rest of a frame that has a buffer into it, and what follows into the chunk from at on. It
// returns how much came into the chunk and whether the socket may have more; false: the connection is closing.
func (c *Conn) receiveMore(at int) (n int, full, ok bool) {
	var direct []byte
	b := c.loop.chunk.buf.B
	b = b[at:min(len(b), at+c.readAhead())]
	if c.frame != nil {
		direct = c.frame.B[c.arrived:]
		if len(c.frame.B) < c.frameBytes || !c.mayReadAhead() {
			b = nil // what follows the buffer still belongs to the frame, or may not be read
		}
	}
	n = c.socket.receive(direct, b)
	if n <= 0 {
		c.intoFrame = 0
		return 0, false, true // nothing now; an end or an error comes back as the engine's own event
	}
	c.loop.receivedBytes.Add(int64(n))
	full = n == len(direct)+len(b)
	c.intoFrame = min(n, len(direct))
	if full && len(b) > 0 {
		c.ahead = min(2*c.readAhead(), limits.NetChunkBytes)
	}
	if c.intoFrame > 0 && !c.frameArrived(c.intoFrame) {
		return 0, false, false
	}
	return n - c.intoFrame, full, true
}

// notInChunk as a position: the bytes lie elsewhere.
const notInChunk = -1

// parse cuts frames from data and hands them over; at is where data lies in the chunk, or notInChunk. It returns what it
// may not take now, which begins at the start of a frame or continues one that waits for memory, or with whole the start
// of a frame that has not come whole; false: the connection is closing.
func (c *Conn) parse(data []byte, at int, whole bool) (left []byte, ok bool) {
	for end := at + len(data); len(data) > 0; {
		if c.awaitingMemory {
			return data, true
		}
		if c.frame != nil {
			n := copy(c.frame.B[c.arrived:], data)
			data = data[n:]
			if !c.frameArrived(n) {
				return nil, false
			}
			continue
		}
		if c.headerBytes == 0 && !c.mayTakeFrame() {
			// Replies that were ended in this event have not been sent yet.
			c.flush()
			if c.isEnding() {
				return nil, false
			}
			if !c.mayTakeFrame() {
				return data, true
			}
		}
		if c.headerBytes == 0 && at != notInChunk {
			size, known := c.announced(data)
			switch {
			case known && len(data)-len(c.header) >= size && c.loop.chunk.mayBeHeld(size):
				data = data[len(c.header)+size:]
				if !c.frameInPlace(end-len(data)-size, end-len(data)) {
					return nil, false
				}
				continue
			case whole && (len(data) < len(c.header) || known && len(data)-len(c.header) < size):
				return data, true
			}
		}
		n := copy(c.header[c.headerBytes:], data)
		c.headerBytes += n
		data = data[n:]
		if c.headerBytes == len(c.header) && !c.beginFrame() {
			return nil, false
		}
	}
	return nil, true
}

// announced returns the size of the frame that data begins with, if its length has come and is a valid one.
func (c *Conn) announced(data []byte) (bytes int, valid bool) {
	if len(data) < len(c.header) {
		return 0, false
	}
	size := int32(binary.BigEndian.Uint32(data))
	return int(size), size >= 0 && size <= c.maxRequestBytes()
}

func (c *Conn) maxRequestBytes() int32 {
	maxBytes := c.server.config.MaxRequestBytes
	if c.requestLimit > 0 {
		maxBytes = min(maxBytes, c.requestLimit)
	}
	return maxBytes
}

// beginFrame checks the announced length and takes memory for a first part of it: no more than the peer has shown to
// send. Memory grows with the bytes that arrive, never with the length that is announced.
func (c *Conn) beginFrame() bool {
	size := int32(binary.BigEndian.Uint32(c.header[:]))
	maxBytes := c.maxRequestBytes()
	if size < 0 || size > maxBytes {
		c.fail(notAFrame(c.header, maxBytes))
		return false
	}
	c.headerBytes = 0
	c.frameBytes = int(size)
	c.arrived = 0
	c.frame = bufpool.Get(min(c.frameBytes, max(limits.NetFrameFirstBytes, min(c.trusted, limits.BufLargestBytes))))
	if size == 0 {
		return c.frameArrived(0)
	}
	return true
}

// frameArrived counts n more bytes in the frame's buffer. A full buffer is handed over, or doubled when the frame is
// not whole yet. False: the connection is closing.
func (c *Conn) frameArrived(n int) bool {
	c.arrived += n
	if c.arrived < len(c.frame.B) {
		return true
	}
	if c.arrived < c.frameBytes {
		c.growFrame()
		return true
	}
	c.endArrival()
	frame := c.frame
	c.frame = nil
	c.trusted = c.frameBytes
	c.handedOver = true
	if err := c.server.config.Handler.OnFrame(c, frame); err != nil {
		c.fail(err)
		return false
	}
	return !c.isEnding()
}

// enlargeFrame doubles the full buffer of the frame that is arriving.
func (c *Conn) enlargeFrame() {
	larger := bufpool.Get(min(c.frameBytes, 2*len(c.frame.B)))
	copy(larger.B, c.frame.B)
	c.frame.Release()
	c.frame = larger
}

// isEnding says whether the connection was closed, or asked to close, during this event.
func (c *Conn) isEnding() bool { return c.isClosed || c.closing.Load() != nil }

// fail ends a connection whose peer sent what is no request, with one rate-limited log line: nothing more is parsed, and
// it closes when the replies to the requests before have left, at once when there are none.
func (c *Conn) fail(err error) {
	c.server.malformed.warn("closed a connection that sent no valid request", "listener", c.listener, "peer", c.remote.String(), "error", err)
	c.refused = true
	c.Reserve().CloseConn(err)
}

// keepRest keeps bytes that were read and may not be parsed now.
func (c *Conn) keepRest(data []byte) {
	c.ahead = 0
	if c.rest == nil {
		c.setRest(data, nil)
		return
	}
	c.setRest(c.rest.B[c.restFrom:], data)
}

// setRest makes head and tail the rest, in a buffer of their size.
func (c *Conn) setRest(head, tail []byte) {
	rest := bufpool.Get(len(head) + len(tail))
	copy(rest.B[copy(rest.B, head):], tail)
	c.loop.restBytes += bufpool.Capacity(len(rest.B))
	c.dropRest()
	c.rest = rest
}

func (c *Conn) dropRest() {
	if c.rest == nil {
		return
	}
	c.loop.restBytes -= bufpool.Capacity(len(c.rest.B))
	c.rest.Release()
	c.rest, c.restFrom = nil, 0
}

// parseRest parses what was kept, as far as it may. What is left moves to a smaller buffer when that is half as large or
// less, so a connection that takes a frame now and then does not keep what it once had.
func (c *Conn) parseRest() {
	rest := c.rest
	left, _ := c.parse(rest.B[c.restFrom:], notInChunk, false)
	switch {
	case c.rest == nil: // released: the connection has closed
	case len(left) == 0:
		c.dropRest()
	case bufpool.Capacity(len(left)) < bufpool.Capacity(len(rest.B)):
		c.setRest(left, nil)
	default:
		c.restFrom = len(rest.B) - len(left)
	}
}

func (c *Conn) releaseInbound() {
	c.endArrival()
	if c.frame != nil {
		c.frame.Release()
		c.frame = nil
	}
	c.dropRest()
}
