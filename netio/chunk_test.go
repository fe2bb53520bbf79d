package netio

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"
	"testing"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// Frames that are handed on where they were read keep their bytes for as long as they are held, whatever is read
// meanwhile: sizes around every bound, several connections on one loop, some frames held and released out of order by
// another goroutine, the others released at once.
func TestHeldFramesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	sizes := []int{0, 3, limits.NetReadBufferLeastBytes, limits.NetReadBufferBytes - 4, limits.NetReadBufferBytes, limits.NetInPlaceBytes - 1, limits.NetInPlaceBytes,
		65_000, limits.NetChunkLeastBytes, limits.NetChunkBytes - 4, limits.NetChunkBytes, limits.NetChunkBytes + 1, 700_000}
	held := make(chan *bufpool.Buf, 64)
	var holders sync.WaitGroup
	holders.Go(func() {
		var later []*bufpool.Buf
		check := func(f *bufpool.Buf) {
			if len(f.B) >= 4 && crc32.ChecksumIEEE(f.B[4:]) != binary.BigEndian.Uint32(f.B) {
				t.Errorf("a frame of %d bytes has changed while it was held", len(f.B))
			}
			f.Release()
		}
		for f := <-held; f != nil; f = <-held {
			if later = append(later, f); len(later) > 12 {
				i := len(f.B) % len(later)
				check(later[i])
				later[i] = later[len(later)-1]
				later = later[:len(later)-1]
			}
		}
		for _, f := range later {
			check(f)
		}
	})
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		s := c.Reserve()
		s.Bytes(reply(frame.B[:min(4, len(frame.B))]))
		if len(frame.B)%3 == 0 {
			held <- frame
		} else {
			if len(frame.B) >= 4 && crc32.ChecksumIEEE(frame.B[4:]) != binary.BigEndian.Uint32(frame.B) {
				t.Errorf("a frame of %d bytes came changed", len(frame.B))
			}
			frame.Release()
		}
		s.Done()
		return nil
	}}
	_, addr := startServer(t, h, func(c *Config) { c.NumNetworkThreads = 1 })
	var clients sync.WaitGroup
	for range 3 {
		var stream []byte
		frames := 0
		for ; len(stream) < 6<<20; frames++ {
			size := sizes[random.IntN(len(sizes))]
			if random.IntN(2) == 0 {
				size = random.IntN(200_000)
			}
			payload := make([]byte, size)
			for i := 4; i < size; i += 1 + i/7 {
				payload[i] = byte(random.Uint32())
			}
			if size >= 4 {
				binary.BigEndian.PutUint32(payload, crc32.ChecksumIEEE(payload[4:]))
			}
			stream = append(stream, frameOf(payload)...)
		}
		c := dial(t, addr)
		clients.Go(func() {
			if _, err := c.Write(stream); err != nil {
				t.Errorf("send: %v", err)
			}
		})
		clients.Go(func() {
			for range frames {
				receiveFrame(t, c)
			}
		})
	}
	clients.Wait()
	held <- nil
	holders.Wait()
}

// A chunk is used from its start again when nobody holds a frame of it, goes on behind what is held, and is left when it
// is nearly full.
func TestChunkSettles(t *testing.T) {
	t.Parallel()
	var h chunk
	h.begin()
	first := h.buf
	part := h.buf.Part(0, 100)
	h.used = 100
	h.settle()
	if h.buf != first || h.used != 100 {
		t.Fatalf("a held part: %d bytes are used, want 100", h.used)
	}
	part.Release()
	h.settle()
	if h.used != 0 {
		t.Fatalf("nothing is held: %d bytes are used", h.used)
	}
	full := limits.NetChunkBytes - limits.NetChunkLeastBytes + 1
	part = h.buf.Part(0, full)
	h.used = full
	h.settle()
	if h.buf == first || h.used != 0 {
		t.Fatal("a chunk without room is still read into")
	}
	if got := h.pinned.Load(); got != 1 {
		t.Errorf("%d chunks are pinned, want 1", got)
	}
	part.Release()
	if got := h.pinned.Load(); got != 0 {
		t.Errorf("%d chunks are pinned after the last part was released", got)
	}
	h.buf.Release()
}

// Small frames that wait among others that do not keep a bounded number of chunks, and their own bytes unchanged; when
// they are released frames are handed on in place again.
func TestHeldFramesPinFewChunks(t *testing.T) {
	t.Parallel()
	const small, large, rounds = limits.NetInPlaceBytes, 60_000, 180
	var mu sync.Mutex
	var held []*bufpool.Buf
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		s := c.Reserve()
		s.Bytes(reply(frame.B[:8]))
		if len(frame.B) == small {
			mu.Lock()
			held = append(held, frame)
			mu.Unlock()
		} else {
			frame.Release()
		}
		s.Done()
		return nil
	}}
	server, addr := startServer(t, h, func(c *Config) { c.NumNetworkThreads = 1 })
	pinned := func() int { return int(server.loops[0].chunk.pinned.Load()) }
	c := dial(t, addr)
	most := 0
	filled := func(size, with int) []byte { return frameOf(bytes.Repeat([]byte{byte(with)}, size)) }
	for i := range rounds {
		send(t, c, append(bytes.Repeat(filled(large, i), 6), filled(small, i)...))
		for range 7 {
			receiveFrame(t, c)
		}
		if most = max(most, pinned()); most > limits.NetChunksPinned {
			t.Fatalf("%d chunks are pinned by %d frames of %d bytes", most, i+1, small)
		}
	}
	t.Logf("%d chunks were pinned", most)
	mu.Lock()
	frames := held
	mu.Unlock()
	if len(frames) != rounds {
		t.Fatalf("%d frames are held, want %d", len(frames), rounds)
	}
	for i, frame := range frames {
		if !bytes.Equal(frame.B, bytes.Repeat([]byte{byte(i)}, small)) {
			t.Fatalf("frame %d has changed while it was held", i)
		}
		frame.Release()
	}
	if got := pinned(); got != 0 {
		t.Errorf("%d chunks are pinned and nothing is held", got)
	}
}
