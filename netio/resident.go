package netio

import (
	"sync/atomic"

	"kaas/internal/limits"
)

// A reply may wait for long between its end and its last byte: the peer reads slowly, or a reply before it takes long. Meanwhile
// the system may evict the pages of its file ranges, and then the event loop that sends them would wait for a disk. So a range that
// has waited since before the server's clock moved (it does each 5 s, by default) is looked at again before it is sent, a part
// at a time, and if it is not in memory the connection waits until Storage has read it. What leaves at once is never looked at.

// isStale says whether the entry is a file range of which nobody has looked since the clock moved.
func (e *entry) isStale(nowMs int64) bool {
	return e.buf == nil && e.residentMs != nowMs && e.file.Len > 0
}

// endsEarly says whether the entry was looked at in part.
func (e *entry) endsEarly() bool { return e.buf == nil && e.residentTo < e.file.Len }

// awaitStorage says whether the connection has to wait for what it would send next, the rest of the head's entry. It is blocked then,
// and goes on as after a full socket. Owner only.
func (c *Conn) awaitStorage() bool {
	storage := c.server.config.Storage
	if storage == nil {
		return false
	}
	e, nowMs := &c.head.entries[c.entryIndex], c.server.nowMs.Load()
	if !e.isStale(nowMs) && (e.buf != nil || c.entryOffset < e.residentTo) {
		return false
	}
	e.residentTo, e.residentMs = min(e.file.Len, c.entryOffset+limits.NetSendBytesPerEvent), nowMs
	next := e.file
	next.Offset, next.Len, next.Pin = next.Offset+int64(c.entryOffset), e.residentTo-c.entryOffset, nil
	if next.Mem != nil {
		next.Mem = next.Mem[c.entryOffset:e.residentTo]
	}
	if storage.Resident(next) {
		return false
	}
	pin, isShared := e.file.Pin.(*sharedPin)
	if !isShared {
		pin = &sharedPin{pin: e.file.Pin}
		pin.holders.Store(1)
		e.file.Pin = pin
	}
	pin.holders.Add(1)
	c.blocked = true
	storage.Populate(next, func() {
		pin.Release()
		c.writableAgain()
	})
	return true
}

// sharedPin is a pin that a reply shares with who reads its bytes into memory, which the connection need not outlive.
type sharedPin struct {
	pin     Pin          // nil: nothing to release
	holders atomic.Int32 // who has one may share it
}

func (p *sharedPin) Release() {
	if p.holders.Add(-1) == 0 && p.pin != nil {
		p.pin.Release()
	}
}
