package netio

import (
	"sync/atomic"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// chunk is the memory that the sockets of one loop are read into. A frame that lies in it whole is handed on as a part
// of it, without a copy. When nobody holds a part any more the chunk is used from its start again, so its bytes stay in
// the cache of the loop's processor; parts that are held are left alone, behind them the chunk goes on until too little
// of it is free, and another one takes its place. A small part keeps its whole chunk, whatever else lay there: so many
// chunks may be kept that way, then frames are copied until one of them is free.
//
// Owner: the loop. Between events nothing unparsed lies in it.
type chunk struct {
	buf  *bufpool.Buf // one reference is the loop's
	used int          // bytes from the start that may belong to parts which are held

	pinned atomic.Int32 // chunks before this one of which parts are held; by the loop and who releases the last part
}

func (h *chunk) begin() { h.buf, h.used = bufpool.Get(limits.NetChunkBytes), 0 }

// settle makes room. Nothing unparsed lies in the chunk.
func (h *chunk) settle() {
	switch {
	case h.buf.Unshared():
		h.used = 0
	case len(h.buf.B)-h.used < limits.NetChunkLeastBytes:
		h.buf.ReleasePinned(&h.pinned)
		h.begin()
	}
}

// mayBeHeld says whether a frame may be handed on where it lies.
func (h *chunk) mayBeHeld(bytes int) bool {
	return bytes >= limits.NetInPlaceBytes && h.pinned.Load() < limits.NetChunksPinned
}

// engineBuffer is where the engine's next read goes. The chunk is settled.
func (l *loop) engineBuffer() []byte {
	bytes := limits.NetReadBufferBytes
	if l.restBytes >= l.restLimit {
		bytes = limits.NetReadBufferLeastBytes
	}
	return l.chunk.buf.B[l.chunk.used:][:bytes:bytes]
}

// frameInPlace hands over the frame that chunk[from:to] is. False: the connection is closing.
func (c *Conn) frameInPlace(from, to int) bool {
	h := &c.loop.chunk
	frame := h.buf.Part(from, to)
	frame.Retain() // to see afterwards whether somebody holds it
	c.trusted = to - from
	c.handedOver = true
	err := c.server.config.Handler.OnFrame(c, frame)
	if !frame.Unshared() {
		h.used = max(h.used, to)
	}
	frame.Release()
	if err != nil {
		c.fail(err)
		return false
	}
	return !c.isEnding()
}
