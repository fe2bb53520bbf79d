package netio

import (
	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// chunk is the memory that the sockets of one loop are read into. A frame that lies in it whole is handed on as a part
// of it, without a copy. When nobody holds a part any more the chunk is used from its start again, so its bytes stay in
// the cache of the loop's processor; parts that are held are left alone, behind them the chunk goes on until too little
// of it is free, and another one takes its place.
//
// Owner: the loop. Between events nothing unparsed lies in it.
type chunk struct {
	buf  *bufpool.Buf // one reference is the loop's
	used int          // bytes from the start that may belong to parts which are held
}

func newChunk() chunk { return chunk{buf: bufpool.Get(limits.NetChunkBytes)} }

// settle makes room. Nothing unparsed lies in the chunk.
func (h *chunk) settle() {
	switch {
	case h.buf.Unshared():
		h.used = 0
	case len(h.buf.B)-h.used < limits.NetChunkLeastBytes:
		h.buf.Release()
		*h = newChunk()
	}
}

// engineBuffer is where the engine's next read goes.
func (h *chunk) engineBuffer() []byte {
	return h.buf.B[h.used:][:limits.NetReadBufferBytes:limits.NetReadBufferBytes]
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
