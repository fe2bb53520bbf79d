package netio

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"kaas/internal/bufpool"
	"kaas/internal/invariants"
	"kaas/internal/limits"
)

// Slot is the place of one reply in the order of its connection's requests.
//
// It is filled (Bytes, File) by one goroutine at a time and ended by exactly one of Done, Drop and CloseConn, from any
// goroutine; after that the caller may not touch it, netio uses it again. Every slot must be ended, or its connection
// answers nothing any more.
//
// Ownership. Until it is ended a slot's fields belong to the caller. The end publishes them with the swap of state from
// slotOpen to slotEnded, and from then on they belong to the connection's owner. When the connection dies first, its
// owner swaps slotOpen to slotOrphan; then the end finds that, and the caller's goroutine releases what the slot holds.
// Exactly one of the two swaps succeeds, so buffers and pins are released exactly once.
type Slot struct {
	conn     *Conn  // immutable while reserved
	sequence uint64 // place in the connection's order; immutable while reserved
	next     *Slot  // the connection's queue, or the loop's free list; owner: the loop
	state    atomic.Int32

	entries []entry
	bytes   int   // sum of the entries
	closes  bool  // CloseConn
	err     error // of CloseConn
}

const (
	slotFree   = iota // not reserved
	slotOpen          // reserved, with the handler
	slotEnded         // with the connection's owner
	slotOrphan        // the connection died, still with the handler
)

// entry is one piece of a reply: bytes when buf is not nil, else a file range.
type entry struct {
	buf  *bufpool.Buf
	file FileRange

	// The file range is known to be in memory up to so many bytes from its start, at that time of the server's clock: see resident.go.
	residentTo int
	residentMs int64
}

func (e *entry) size() int {
	if e.buf != nil {
		return len(e.buf.B)
	}
	return e.file.Len
}

func (e *entry) release() {
	switch {
	case e.buf != nil:
		e.buf.Release()
	case e.file.Pin != nil:
		e.file.Pin.Release()
	}
	*e = entry{}
}

// Bytes appends b to the reply and takes over the caller's reference. The first buffer of a reply begins with 4 bytes
// for its length, which Done writes.
func (s *Slot) Bytes(b *bufpool.Buf) {
	if invariants.Enabled {
		s.checkHeld("Bytes")
	}
	s.entries = append(s.entries, entry{buf: b})
	s.bytes += len(b.B)
}

// File appends a file range to the reply. Its pin is released when the range has left or can no longer leave.
func (s *Slot) File(r FileRange) {
	if invariants.Enabled {
		s.checkHeld("File")
		invariants.Check(r.Mem == nil || len(r.Mem) >= r.Len, "file range of %d bytes with %d bytes of memory", r.Len, len(r.Mem))
	}
	s.entries = append(s.entries, entry{file: r, residentTo: r.Len, residentMs: s.conn.server.nowMs.Load()})
	s.bytes += r.Len
}

// Done ends the reply: it leaves once all replies before it have left.
func (s *Slot) Done() {
	if len(s.entries) == 0 || s.entries[0].buf == nil || len(s.entries[0].buf.B) < 4 {
		panic(fmt.Sprintf("netio: reply %d of connection %d does not begin with 4 bytes for its length", s.sequence, s.conn.id))
	}
	binary.BigEndian.PutUint32(s.entries[0].buf.B, uint32(s.bytes-4))
	s.end()
}

// Drop ends the slot without a reply (acks=0). What was appended is released.
func (s *Slot) Drop() {
	s.releaseEntries()
	s.end()
}

// CloseConn closes the connection once every reply before this one has left.
func (s *Slot) CloseConn(err error) {
	s.releaseEntries()
	s.closes, s.err = true, err
	s.end()
}

// end hands the slot over. Nothing of s may be read after the swap succeeded: its owner may have sent and reused it.
//
// No completion is lost: end writes state, then reads the connection's head; the owner that advances the head
// (Conn.pop) writes it, then reads the state of the slot there. Go's atomics are sequentially consistent, so at least
// one of the two sees the other's write: either end schedules the connection or the running flush goes on.
func (s *Slot) end() {
	c, sequence, bytes := s.conn, s.sequence, s.bytes
	c.outboundBytes.Add(int64(bytes))
	c.loop.outboundBytes.Add(int64(bytes))
	if !s.state.CompareAndSwap(slotOpen, slotEnded) {
		if s.state.Load() != slotOrphan {
			panic(fmt.Sprintf("netio: reply %d of connection %d ended twice", sequence, c.id))
		}
		s.releaseEntries() // the connection is gone, and this slot with it
		c.loop.outboundBytes.Add(-int64(bytes))
		return
	}
	if c.headSequence.Load() == sequence {
		c.schedule()
	}
}

func (s *Slot) releaseEntries() {
	for i := range s.entries {
		s.entries[i].release()
	}
	s.entries = s.entries[:0]
	s.bytes = 0
}

func (s *Slot) checkHeld(what string) {
	state := s.state.Load()
	invariants.Check(state == slotOpen || state == slotOrphan, "netio: %s on a slot that was ended", what)
}

// newSlot takes a slot from the loop's free list. Owner only.
func (l *loop) newSlot() *Slot {
	s := l.freeSlots
	if s == nil {
		return &Slot{entries: make([]entry, 0, 2)}
	}
	l.freeSlots, s.next = s.next, nil
	l.freeSlotCount--
	return s
}

// freeSlot takes back a slot whose entries have been released. Owner only. An `invariants` build never reuses one, so
// that a handler which goes on using its slot is found.
func (l *loop) freeSlot(s *Slot) {
	s.state.Store(slotFree)
	if invariants.Enabled || l.freeSlotCount >= limits.NetSlotsKept {
		return
	}
	if cap(s.entries) > limits.NetSlotEntriesKept {
		s.entries = nil
	}
	s.conn, s.err, s.closes, s.bytes = nil, nil, false, 0
	s.next = l.freeSlots
	l.freeSlots = s
	l.freeSlotCount++
}
