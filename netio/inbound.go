package netio

import (
	"encoding/binary"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// received takes what the engine has read for this connection. full: the engine filled its buffer, so more is likely
// there; it is read straight into the frame. Owner only; data is borrowed.
func (c *Conn) received(data []byte, full bool) {
	c.lastActiveMs = c.server.nowMs.Load()
	c.loop.receivedBytes.Add(int64(len(data)))
	if c.refused || c.lingering {
		return
	}
	if c.rest != nil {
		// An event that was on its way when reading was paused. Bounded: the engine is told again to stop.
		c.keepRest(data)
		return
	}
	left, ok := c.parse(data)
	if !ok {
		return
	}
	if len(left) > 0 {
		c.keepRest(left)
		return
	}
	if full && !c.awaitingMemory {
		c.receiveMore()
	}
}

// receiveMore reads the rest of a large frame into the frame itself, and what follows into the loop's scratch buffer.
// It ends when the socket has no more, when the connection may take no more frames, or when it had its share.
func (c *Conn) receiveMore() {
	for budget := limits.NetReadBytesPerEvent; budget > 0; {
		var direct []byte
		scratch := c.loop.scratch[:c.scratchBytes()]
		if c.frame != nil {
			direct = c.frame.B[c.arrived:]
			if len(c.frame.B) < c.frameBytes {
				scratch = nil // what follows the buffer still belongs to the frame
			}
		}
		n := c.socket.receive(direct, scratch)
		if n <= 0 {
			return // nothing now; an end or an error comes back as the engine's own event
		}
		budget -= n
		c.loop.receivedBytes.Add(int64(n))
		intoFrame := min(n, len(direct))
		if intoFrame > 0 && !c.frameArrived(intoFrame) {
			return
		}
		left, ok := c.parse(scratch[:n-intoFrame])
		if !ok {
			return
		}
		if len(left) > 0 {
			c.keepRest(left)
			return
		}
		if n < len(direct)+len(scratch) || c.awaitingMemory || c.frame == nil && !c.mayTakeFrame() {
			return
		}
	}
}

// scratchBytes is how much to read behind the frame: what lands there is copied once more, so a connection with large
// frames gets little more than the next length.
func (c *Conn) scratchBytes() int {
	if c.trusted >= limits.NetScratchBytes/4 {
		return limits.NetReadBufferBytes
	}
	return limits.NetScratchBytes
}

// parse cuts frames from data and hands them over. It returns what it may not take now, which begins at the start of a
// frame or continues one that waits for memory; false: the connection is closing.
func (c *Conn) parse(data []byte) (left []byte, ok bool) {
	for len(data) > 0 {
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
		n := copy(c.header[c.headerBytes:], data)
		c.headerBytes += n
		data = data[n:]
		if c.headerBytes == len(c.header) && !c.beginFrame() {
			return nil, false
		}
	}
	return nil, true
}

// beginFrame checks the announced length and takes memory for a first part of it: no more than the peer has shown to
// send. Memory grows with the bytes that arrive, never with the length that is announced.
func (c *Conn) beginFrame() bool {
	size := int32(binary.BigEndian.Uint32(c.header[:]))
	maxBytes := c.server.config.MaxRequestBytes
	if c.requestLimit > 0 {
		maxBytes = min(maxBytes, c.requestLimit)
	}
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
	if c.rest == nil {
		c.rest = bufpool.Get(len(data))
		copy(c.rest.B, data)
		c.restFrom = 0
		return
	}
	kept := c.rest.B[c.restFrom:]
	larger := bufpool.Get(len(kept) + len(data))
	copy(larger.B[copy(larger.B, kept):], data)
	c.rest.Release()
	c.rest, c.restFrom = larger, 0
}

// parseRest parses what was kept, as far as it may.
func (c *Conn) parseRest() {
	rest := c.rest
	left, _ := c.parse(rest.B[c.restFrom:])
	if c.rest == nil {
		return // released: the connection has closed
	}
	if len(left) > 0 {
		c.restFrom = len(rest.B) - len(left)
		return
	}
	c.rest, c.restFrom = nil, 0
	rest.Release()
}

func (c *Conn) releaseInbound() {
	c.endArrival()
	if c.frame != nil {
		c.frame.Release()
		c.frame = nil
	}
	if c.rest != nil {
		c.rest.Release()
		c.rest = nil
	}
}
