package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"kaas/internal/bufpool"
)

// Connections that come, flood, stall, throttle, reset and end in every way at once, with replies of every kind from
// the loop and from other goroutines. Whoever still reads gets the right bytes in order, and at the end nothing is held.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	file, content, mapping := testFile(t, 1<<20)
	pins := &countedPin{t: t}
	random := seeded(t)
	seed := random.Uint64()
	var late sync.WaitGroup
	t.Cleanup(late.Wait) // once the server is closed: until then a frame of a peer that left may begin one more
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		// The request says what it wants: kind, length.
		defer frame.Release()
		kind, length := frame.B[0], int(binary.BigEndian.Uint32(frame.B[1:]))
		s := c.Reserve()
		s.Bytes(reply(frame.B[:5]))
		offset := length % 1000
		switch kind % 4 {
		case 0:
			b := bufpool.Get(length)
			copy(b.B, content[offset:])
			s.Bytes(b)
		case 1:
			s.File(FileRange{FD: int(file.Fd()), Offset: int64(offset), Len: length, Pin: pins.pin()})
		default:
			s.File(FileRange{FD: int(file.Fd()), Offset: int64(offset), Len: length, Mem: mapping[offset : offset+length], Pin: pins.pin()})
		}
		switch {
		case kind >= 250:
			s.CloseConn(errors.New("asked for"))
		case kind >= 240:
			c.Mute(time.Millisecond)
			s.Done()
		case kind >= 128:
			s.Done()
		default:
			late.Go(s.Done)
		}
		return nil
	}}
	server, addr := startServer(t, h, func(c *Config) {
		c.MaxInFlightPerConnection = 7
		c.SocketSendBufferBytes = 64 << 10
		c.ConnectionsMaxIdleMs = 5_000
	})
	var peers sync.WaitGroup
	for n := range 24 {
		peers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 12 {
				stressPeer(t, addr, random, content)
			}
		})
	}
	peers.Wait()
	await(t, "nothing is held", func() bool {
		s := server.Stats()
		return s.Connections == 0 && s.OpenSlots == 0 && s.OutboundBytes == 0 && pins.allBack()
	})
}

func stressPeer(t *testing.T, addr string, random *rand.Rand, content []byte) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(15 * time.Second))
	count := 1 + random.IntN(40)
	var requests [][]byte
	for range count {
		request := make([]byte, 5+random.IntN([]int{1, 100, 5000, 100_000}[random.IntN(4)]))
		request[0] = byte(random.Uint32())
		binary.BigEndian.PutUint32(request[1:], uint32(random.IntN([]int{1, 1000, 100_000}[random.IntN(3)])))
		requests = append(requests, request)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for _, r := range requests {
			if _, err := c.Write(frameOf(r)); err != nil {
				return
			}
		}
	})
	defer writing.Wait()
	stop := count
	if random.IntN(3) == 0 {
		stop = random.IntN(count) // leaves early, with a reset half of the time
		defer c.Close()
		if random.IntN(2) == 0 {
			defer c.(*net.TCPConn).SetLinger(0)
		}
	}
	for _, r := range requests[:stop] {
		length := int(binary.BigEndian.Uint32(r[1:]))
		got := make([]byte, 4+5+length)
		n, err := io.ReadFull(c, got)
		if r[0] >= 250 {
			if n != 0 {
				t.Errorf("%d bytes came where the server should close", n)
			}
			return
		}
		if err != nil {
			t.Errorf("reply of %d bytes: %v after %d", len(got), err, n)
			return
		}
		offset := length % 1000
		if !bytes.Equal(got[4:9], r[:5]) || !bytes.Equal(got[9:], content[offset:offset+length]) {
			t.Errorf("a reply of %d bytes arrived changed", length)
			return
		}
	}
}
