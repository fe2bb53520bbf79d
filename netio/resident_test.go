package netio

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// evicting is a Storage of which a test says what is in memory.
type evicting struct {
	evicted   atomic.Bool // by the test; what Populate was called for is in memory again
	looked    atomic.Int64
	populates chan populating
}

type populating struct {
	FileRange
	ready func()
}

func (s *evicting) Resident(FileRange) bool {
	s.looked.Add(1)
	return !s.evicted.Load()
}

func (s *evicting) Populate(r FileRange, ready func()) {
	s.evicted.Store(false)
	s.populates <- populating{r, ready}
}

func newEvicting() *evicting { return &evicting{populates: make(chan populating, 10)} }

// A peer that takes nothing for a while has half of a reply: what is left is read into memory before the loop touches it, a part at a
// time, from the mapping and by sendfile.
func TestSlowReaderOfEvictedPages(t *testing.T) {
	t.Parallel()
	const bytesOfFile = 3*limits.NetSendBytesPerEvent + 12_345
	file, content, mapping := testFile(t, bytesOfFile)
	for _, mapped := range []bool{true, false} {
		pins, storage := &countedPin{t: t}, newEvicting()
		h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			s := c.Reserve()
			s.Bytes(bufpool.Get(4))
			r := FileRange{FD: int(file.Fd()), Len: bytesOfFile, Pin: pins.pin()}
			if mapped {
				r.Mem = mapping
			}
			s.File(r)
			s.Done()
			return nil
		}}
		server, addr := startServer(t, h, func(c *Config) { c.SocketSendBufferBytes, c.Storage, c.NumNetworkThreads = 32<<10, storage, 1 })
		c := dial(t, addr)
		if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Fatal(err)
		}
		send(t, c, frameOf([]byte("all")))
		await(t, "half of the reply has left", func() bool { return server.Stats().SentBytes > 0 })
		storage.evicted.Store(true)
		server.nowMs.Add(1) // as the janitor does
		var got []byte
		read := func(n int) {
			bePatient(t, c)
			from := len(got)
			got = append(got, make([]byte, n)...)
			if _, err := io.ReadFull(c, got[from:]); err != nil {
				t.Fatal(err)
			}
		}
		readable := make(chan populating)
		go func() { readable <- <-storage.populates }()
		var p populating
		for waiting := true; waiting; {
			select {
			case p = <-readable:
				waiting = false
			default:
				if server.Stats().OutboundBytes > 0 && len(got) < int(server.Stats().SentBytes) {
					read(1)
				}
			}
		}
		if p.Len <= 0 || p.Len > limits.NetSendBytesPerEvent || mapped && (len(p.Mem) != p.Len || &p.Mem[0] != &mapping[p.Offset]) || !mapped && p.Mem != nil {
			t.Fatalf("asked for %d bytes at %d, of the mapping %d", p.Len, p.Offset, len(p.Mem))
		}
		read(4 + int(p.Offset) - len(got)) // all before
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || !isTimeout(err) {
			t.Fatalf("%d bytes that are not in memory were sent: %v", n, err)
		}
		p.ready()
		read(4 + bytesOfFile - len(got))
		if !bytes.Equal(got[4:], content) {
			t.Fatal("the reply arrived changed")
		}
		await(t, "the pin is back", pins.allBack)
		if least := int64((bytesOfFile - int(p.Offset)) / limits.NetSendBytesPerEvent); storage.looked.Load() < least {
			t.Errorf("looked %d times for the rest from %d on", storage.looked.Load(), p.Offset)
		}
	}
}

// A reply that is whole waits behind another one, and its connection ends while its bytes are read into memory.
func TestEvictedReplyOfAConnectionThatEnds(t *testing.T) {
	t.Parallel()
	file, content, mapping := testFile(t, 100_000)
	for _, ends := range []bool{false, true} {
		pins, storage, first, closed := &countedPin{t: t}, newEvicting(), make(chan *Slot, 1), make(chan struct{})
		h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
			defer frame.Release()
			s := c.Reserve()
			if string(frame.B) == "first" {
				first <- s
				return nil
			}
			s.Bytes(bufpool.Get(4))
			s.File(FileRange{FD: int(file.Fd()), Len: len(content), Mem: mapping, Pin: pins.pin()})
			s.Done()
			return nil
		}, close: func(*Conn, error) { close(closed) }}
		server, addr := startServer(t, h, func(c *Config) { c.Storage = storage })
		c := dial(t, addr)
		send(t, c, append(frameOf([]byte("first")), frameOf([]byte("second"))...))
		await(t, "the second reply waits", func() bool { return server.Stats().OutboundBytes > 0 })
		storage.evicted.Store(true)
		server.nowMs.Add(1)
		s := <-first
		s.Bytes(reply([]byte("now")))
		s.Done()
		if got := receiveFrame(t, c); string(got) != "now" {
			t.Fatalf("the first reply is %q", got)
		}
		p := <-storage.populates
		if p.Offset != 0 || p.Len != len(content) {
			t.Errorf("asked for %d bytes at %d", p.Len, p.Offset)
		}
		if ends {
			c.(*net.TCPConn).SetLinger(0) // a reset: an orderly end leaves a connection that is owed replies
			c.Close()
			<-closed
			if pins.allBack() {
				t.Error("the bytes that are being read were let go")
			}
			p.ready()
		} else {
			p.ready()
			if got := receiveFrame(t, c); !bytes.Equal(got, content) {
				t.Error("the second reply arrived changed")
			}
		}
		await(t, "the pin is back", pins.allBack)
	}
}

// What leaves at once is not looked at: that would be a system call for each reply.
func TestRepliesThatLeaveAtOnceAreNotLookedAt(t *testing.T) {
	t.Parallel()
	file, content, mapping := testFile(t, 10_000)
	storage := newEvicting()
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		frame.Release()
		s := c.Reserve()
		s.Bytes(bufpool.Get(4))
		s.File(FileRange{FD: int(file.Fd()), Len: len(content), Mem: mapping})
		s.Done()
		return nil
	}}
	_, addr := startServer(t, h, func(c *Config) { c.Storage = storage })
	c := dial(t, addr)
	for range 100 {
		send(t, c, frameOf([]byte("x")))
		receiveFrame(t, c)
	}
	if n := storage.looked.Load(); n > 10 { // the clock may move now and then
		t.Errorf("looked at %d of 100 replies", n)
	}
}
