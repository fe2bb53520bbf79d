package netio

import (
	"errors"
	"fmt"

	"kaas/internal/limits"
)

// errShortFile is a bug or a damaged file: the reply's length has been sent already, so only closing is left.
var errShortFile = errors.New("the file ended inside a range that was promised to a peer")

// flush sends what may leave: the ended slots from the head on. It stops at a slot that is still open, at a socket that
// takes no more, and after the connection's share of the loop. Owner only.
func (c *Conn) flush() {
	if c.blocked || c.isEnding() {
		return
	}
	for budget := limits.NetSendBytesPerEvent; budget > 0; {
		if !c.dropEmpty() || c.awaitStorage() {
			return
		}
		sent, more := c.sendSome()
		budget -= sent
		if !more {
			return
		}
	}
	c.loop.postpone(c)
}

// dropEmpty takes slots without bytes off the head. It returns false when nothing is left to send, or closed.
func (c *Conn) dropEmpty() bool {
	for c.head != nil && c.head.state.Load() == slotEnded {
		s := c.head
		for c.entryIndex < len(s.entries) && s.entries[c.entryIndex].size() == 0 {
			s.entries[c.entryIndex].release()
			c.entryIndex++
		}
		if c.entryIndex < len(s.entries) {
			return true
		}
		if s.closes {
			c.shutGently(s.err)
			return false
		}
		c.pop()
	}
	return false
}

// sendSome makes one system call. more: the socket took everything, go on.
func (c *Conn) sendSome() (sent int, more bool) {
	vectors, total, fileFollows := c.gather()
	var err error
	if total == 0 {
		e := &c.head.entries[c.entryIndex]
		file := &e.file
		total = e.residentTo - c.entryOffset
		sent, err = c.socket.sendFile(file.FD, file.Offset+int64(c.entryOffset), total)
		if err == nil && sent == 0 {
			c.shut(fmt.Errorf("%w: descriptor %d, offset %d, %d bytes missing", errShortFile, file.FD, file.Offset+int64(c.entryOffset), total))
			return 0, false
		}
	} else {
		sent, err = c.socket.send(vectors, fileFollows)
		clear(vectors)
	}
	if sent > 0 {
		c.hasSent = true
		c.lastActiveMs = c.server.nowMs.Load()
		c.loop.sentBytes.Add(int64(sent))
		c.outboundBytes.Add(-int64(sent))
		c.loop.outboundBytes.Add(-int64(sent))
		c.advance(sent)
	}
	if err != nil && err != errWouldBlock {
		c.shut(fmt.Errorf("send: %w", err))
		return sent, false
	}
	if sent == total {
		return sent, true
	}
	if sent > 0 && fileSent(vectors) {
		return sent, true // sendfile stops at page or pipe bounds; only EAGAIN means that the socket is full
	}
	c.blocked = true
	if err := c.socket.awaitWritable(); err != nil {
		c.shut(fmt.Errorf("wait until the socket is writable: %w", err))
	}
	return sent, false
}

func fileSent(vectors [][]byte) bool { return len(vectors) == 0 }

// gather collects what leaves in one sendmsg: bytes and mapped ranges of as many ended slots as follow each other, up to a range
// that may not be in memory any more. total is 0 when the first thing to leave is a range for sendfile.
func (c *Conn) gather() (vectors [][]byte, total int, fileFollows bool) {
	vectors = c.loop.vectors[:0]
	now := c.server.nowMs.Load()
	index, offset := c.entryIndex, c.entryOffset
	for s := c.head; s != nil && s.state.Load() == slotEnded && !s.closes; s = s.next {
		for ; index < len(s.entries); index++ {
			e := &s.entries[index]
			if total > 0 && e.isStale(now) && c.server.config.Storage != nil {
				return vectors, total, false
			}
			piece, ok := e.inMemory()
			if !ok {
				return vectors, total, true
			}
			if len(piece) == 0 {
				continue
			}
			piece = piece[offset:]
			offset = 0
			vectors = append(vectors, piece)
			total += len(piece)
			if len(vectors) == limits.NetIovecs || total >= limits.NetSendBytesPerEvent || e.endsEarly() {
				return vectors, total, false
			}
		}
		index = 0
	}
	return vectors, total, false
}

// inMemory returns the bytes that sendmsg takes, or false for a range that sendfile takes: one without a mapping. A
// mapped range leaves from its mapping whatever its size: at no size was sendfile cheaper by more than the noise, and
// from 128 KiB on it was dearer (docs/design/netio.md).
func (e *entry) inMemory() ([]byte, bool) {
	if e.buf != nil {
		return e.buf.B, true
	}
	if e.file.Len == 0 {
		return nil, true
	}
	if e.file.Mem == nil {
		return nil, false
	}
	return e.file.Mem[:e.residentTo], true
}

// advance takes n sent bytes off the queue and releases what has left whole.
func (c *Conn) advance(n int) {
	for n > 0 {
		s := c.head
		e := &s.entries[c.entryIndex]
		left := e.size() - c.entryOffset
		c.sentOfHead += min(n, left)
		if n < left {
			c.entryOffset += n
			return
		}
		n -= left
		e.release()
		c.entryIndex++
		c.entryOffset = 0
		if c.entryIndex == len(s.entries) {
			c.pop()
		}
	}
}

// pop takes the head, all of which has left, off the queue. The write of headSequence comes before the caller's read of
// the next head's state: see Slot.end.
func (c *Conn) pop() {
	s := c.head
	c.head = s.next
	if c.head == nil {
		c.tail = nil
	}
	c.entryIndex, c.entryOffset, c.sentOfHead = 0, 0, 0
	c.inFlight--
	c.headSequence.Store(s.sequence + 1)
	s.next = nil
	s.entries = s.entries[:0]
	c.loop.freeSlot(s)
	c.loop.openSlots.Add(-1)
}

// releaseOutbound empties the queue of a dead connection: ended slots are released here, open ones by who ends them.
func (c *Conn) releaseOutbound() {
	for s := c.head; s != nil; {
		next := s.next
		if !s.state.CompareAndSwap(slotOpen, slotOrphan) {
			left := s.bytes
			if s == c.head {
				left -= c.sentOfHead
			}
			c.loop.outboundBytes.Add(-int64(left))
			s.releaseEntries() // entries before entryIndex have been zeroed by their release
			s.next = nil
			c.loop.freeSlot(s)
		}
		c.loop.openSlots.Add(-1)
		s = next
	}
	c.head, c.tail, c.inFlight = nil, nil, 0
	c.entryIndex, c.entryOffset, c.sentOfHead = 0, 0, 0
}
