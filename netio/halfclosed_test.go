package netio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// halfClosing is a server of one loop that holds replies back: a frame "hold" gets a slot that the test ends, "bad" an error, any other
// frame itself at once.
type halfClosing struct {
	t      *testing.T
	server *Server
	addr   string
	held   chan *Slot
	closed chan error
	probe  net.Conn
}

func newHalfClosing(t *testing.T) *halfClosing {
	h := &halfClosing{t: t, held: make(chan *Slot, 100), closed: make(chan error, 100)}
	handler := &testHandler{close: func(_ *Conn, err error) { h.closed <- err }}
	handler.frame = func(c *Conn, frame *bufpool.Buf) error {
		switch string(frame.B) {
		case "how many are half closed?":
			n := byte(0)
			for other := c.loop.first; other != nil; other = other.following {
				if other.halfClosed {
					n++
				}
			}
			s := c.Reserve()
			s.Bytes(reply([]byte{n}))
			s.Done()
		case "end their time":
			for other := c.loop.first; other != nil; other = other.following {
				if other.halfClosed {
					other.lingerTimer.Reset(0)
				}
			}
			c.Reserve().Drop()
		case "hold":
			h.held <- c.Reserve()
		case "bad":
			frame.Release()
			return errors.New("bad")
		default:
			return echo(c, frame)
		}
		frame.Release()
		return nil
	}
	h.server, h.addr = startServer(t, handler, func(c *Config) { c.NumNetworkThreads = 1 })
	h.probe = dial(t, h.addr)
	return h
}

// halfClose ends the sending side of c and waits until the server knows it.
func (h *halfClosing) halfClose(c net.Conn) {
	h.t.Helper()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		h.t.Fatal(err)
	}
	h.awaitHalfClosed(1)
}

func (h *halfClosing) awaitHalfClosed(count byte) {
	h.t.Helper()
	await(h.t, "the server has seen the end", func() bool {
		send(h.t, h.probe, frameOf([]byte("how many are half closed?")))
		return receiveFrame(h.t, h.probe)[0] == count
	})
}

func (h *halfClosing) awaitAlone() {
	h.t.Helper()
	await(h.t, "only the probe is open and nothing is held", func() bool {
		s := h.server.Stats()
		return s.Connections == 1 && s.OpenSlots == 0 && s.OutboundBytes == 0
	})
}

func end(s *Slot, payload []byte) {
	s.Bytes(reply(payload))
	s.Done()
}

// A peer that ends its sending side gets the replies to what it has sent, in their order, and then the end. So does Apache
// Kafka 4.4: Produce, Metadata three times, and a Fetch that waits.
func TestHalfClosedPeerGetsItsReplies(t *testing.T) {
	t.Parallel()
	h := newHalfClosing(t)
	c := dial(t, h.addr)
	send(t, c, append(frameOf([]byte("hold")), frameOf([]byte("second"))...))
	first := <-h.held
	h.halfClose(c)
	end(first, []byte("first"))
	for _, want := range []string{"first", "second"} {
		if got := string(receiveFrame(t, c)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Errorf("after the replies %d bytes came, %v", n, err)
	}
	if err := <-h.closed; err != io.EOF {
		t.Errorf("closed with %v", err)
	}
	h.awaitAlone()
}

// A reply that the socket does not take at once, before and after the end.
func TestHalfClosedPeerGetsALargeReply(t *testing.T) {
	t.Parallel()
	h := newHalfClosing(t)
	for _, before := range []bool{false, true} {
		c := dial(t, h.addr)
		send(t, c, append(frameOf([]byte("hold")), frameOf([]byte("hold"))...))
		large := bytes.Repeat([]byte("large"), 2<<20)
		first, second := <-h.held, <-h.held
		if before {
			end(first, large)
			await(t, "the socket is full", func() bool { return h.server.Stats().SentBytes > 100_000 })
		}
		h.halfClose(c)
		if !before {
			end(first, large)
		}
		end(second, large)
		for range 2 {
			if !bytes.Equal(receiveFrame(t, c), large) {
				t.Error("a large reply arrived changed")
			}
		}
		expectClosed(t, c)
		h.awaitAlone()
	}
}

// A part of a request behind a good one, or one that is no valid one, after which the server does not look for an end.
func TestHalfClosedPeerAndTheRestOfItsBytes(t *testing.T) {
	t.Parallel()
	h := newHalfClosing(t)
	for _, rest := range [][]byte{frameOf([]byte("bad")), frameOf(make([]byte, 100_000))[:50_000], {0, 0, 0, 9, 1}} {
		c := dial(t, h.addr)
		send(t, c, append(frameOf([]byte("hold")), rest...))
		first := <-h.held
		if string(rest[4:]) == "bad" {
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		} else {
			h.halfClose(c)
		}
		end(first, []byte("good"))
		if got := string(receiveFrame(t, c)); got != "good" {
			t.Errorf("got %q", got)
		}
		expectClosed(t, c)
		h.awaitAlone()
	}
}

// Who has closed cannot be told from who has half closed: its requests wait no longer than NetHalfClosedMs.
func TestHalfClosedPeerIsNotKept(t *testing.T) {
	t.Parallel()
	h := newHalfClosing(t)
	c := dial(t, h.addr)
	send(t, c, frameOf([]byte("hold")))
	slot := <-h.held
	began := time.Now()
	c.Close()
	h.awaitHalfClosed(1)
	send(t, h.probe, frameOf([]byte("end their time")))
	if err := <-h.closed; err != errHalfClosed {
		t.Errorf("closed with %v", err)
	}
	if took := time.Since(began); took >= limits.NetHalfClosedMs*time.Millisecond {
		t.Skipf("the machine took %v, this shows nothing", took)
	}
	end(slot, []byte("nobody waits"))
	h.awaitAlone()
	// A reply to who has closed ends the connection, too.
	c = dial(t, h.addr)
	send(t, c, append(frameOf([]byte("hold")), frameOf([]byte("hold"))...))
	first, second := <-h.held, <-h.held
	c.Close()
	h.awaitHalfClosed(1)
	end(first, []byte("nobody"))
	end(second, []byte("nobody"))
	<-h.closed
	h.awaitAlone()
}

// The server closes while it owes replies to half closed peers.
func TestCloseWithHalfClosedPeers(t *testing.T) {
	t.Parallel()
	h := newHalfClosing(t)
	var slots []*Slot
	for i := range 5 {
		c := dial(t, h.addr)
		send(t, c, frameOf([]byte("hold")))
		slots = append(slots, <-h.held)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		h.awaitHalfClosed(byte(i + 1))
	}
	if err := h.server.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 6 { // and the probe
		if err := <-h.closed; err != errServerClosed {
			t.Errorf("closed with %v", err)
		}
	}
	for _, s := range slots {
		end(s, []byte("too late"))
	}
}

// An event of the write poller for a connection that has closed is not taken for one of the connection that has its
// descriptor now, even when the first one's socket lives on (its end waits for replies, see Conn.halfClose).
func TestWritePollerAndAReusedDescriptor(t *testing.T) {
	t.Parallel()
	p, err := startWritePoller()
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	l, err := newLoop(&Server{})
	if err != nil {
		t.Fatal(err)
	}
	old, oldPeer := fullSocket(t)
	reused, reusedPeer := fullSocket(t)
	first, second := &Conn{id: 1, loop: l}, &Conn{id: 1<<32 + 1, loop: l} // ids that differ above 32 bits
	if err := p.await(first, old); err != nil {
		t.Fatal(err)
	}
	kept := dup(t, old)
	p.forget(first)
	if err := unix.Dup3(reused, old, unix.O_CLOEXEC); err != nil { // the number belongs to the other socket now
		t.Fatal(err)
	}
	if err := p.await(second, old); err != nil {
		t.Fatal(err)
	}
	drain(t, oldPeer) // the first socket takes bytes again
	// A third connection, of the socket that was kept, is told; by then the poller has seen what came before.
	third := &Conn{id: 3, loop: l}
	if err := p.await(third, kept); err != nil {
		t.Fatal(err)
	}
	await(t, "the kept socket is writable", third.writable.Load)
	if first.writable.Load() || second.writable.Load() {
		t.Errorf("woken for another's socket: who has closed %v, who has its descriptor %v", first.writable.Load(), second.writable.Load())
	}
	drain(t, reusedPeer)
	await(t, "the socket with the reused descriptor is writable", second.writable.Load)
}

// fullSocket is a socket that takes no more, and its peer.
func fullSocket(t *testing.T) (full, peer int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Close(pair[0]), unix.Close(pair[1])); err != nil {
			t.Error(err)
		}
	})
	for err == nil {
		_, err = unix.Write(pair[0], make([]byte, 4096))
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	return pair[0], pair[1]
}

func dup(t *testing.T, fd int) int {
	t.Helper()
	second, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(second) })
	return second
}

func drain(t *testing.T, fd int) {
	t.Helper()
	b := make([]byte, 64<<10)
	for {
		if n, err := unix.Read(fd, b); n <= 0 {
			if err != unix.EAGAIN {
				t.Fatal(err)
			}
			return
		}
	}
}
