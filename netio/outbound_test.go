package netio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

// testFile is a file of random bytes, with a mapping of it.
func testFile(t testing.TB, size int) (file *os.File, content, mapping []byte) {
	t.Helper()
	content = make([]byte, size)
	random := seeded(t)
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(content[i:], random.Uint64())
	}
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	mapping, err = unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Munmap(mapping), file.Close()); err != nil {
			t.Error(err)
		}
	})
	return file, content, mapping
}

// Replies of bytes and file ranges, in random mixtures, through sockets that take a few KB at a time and a reader that
// stops now and then: every byte arrives, every pin comes back.
func TestPartialWritesOfMixedReplies(t *testing.T) {
	t.Parallel()
	const fileBytes = 1 << 20
	file, content, mapping := testFile(t, fileBytes)
	pins := &countedPin{t: t}
	random := seeded(t) // used on the loop only
	expected := make(chan []byte, 10_000)
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		frame.Release()
		s := c.Reserve()
		head := random.IntN(20)
		s.Bytes(bufpool.Get(4 + head))
		var want []byte
		copy(s.entries[0].buf.B[4:], content[:head])
		want = append(want, content[:head]...)
		for range random.IntN(6) {
			length := random.IntN([]int{1, 100, 10_000, 150_000}[random.IntN(4)])
			offset := random.IntN(fileBytes - length)
			want = append(want, content[offset:offset+length]...)
			switch random.IntN(3) {
			case 0:
				b := bufpool.Get(length)
				copy(b.B, content[offset:])
				s.Bytes(b)
			case 1:
				s.File(FileRange{FD: int(file.Fd()), Offset: int64(offset), Len: length, Pin: pins.pin()})
			case 2:
				s.File(FileRange{FD: int(file.Fd()), Offset: int64(offset), Len: length, Mem: mapping[offset : offset+length], Pin: pins.pin()})
			}
		}
		expected <- want
		s.Done()
		return nil
	}}
	server, addr := startServer(t, h, func(c *Config) { c.SocketSendBufferBytes = 32 << 10 })
	c := dial(t, addr)
	if err := c.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil { // replies must wait, so they may not lie in the client's socket
		t.Fatal(err)
	}
	const count = 120
	go func() {
		for range count {
			c.Write(frameOf([]byte("next")))
		}
	}()
	for i := range count {
		if i%20 == 10 {
			await(t, "replies wait", func() bool { return server.Stats().OpenSlots > 0 || i > count-30 })
		}
		got := receiveFrame(t, c)
		if want := <-expected; !bytes.Equal(got, want) {
			t.Fatalf("reply %d of %d bytes arrived changed (%d bytes)", i, len(want), len(got))
		}
	}
	await(t, "all pins are back", pins.allBack)
}

func TestFileShorterThanPromisedClosesTheConnection(t *testing.T) {
	t.Parallel()
	file, _, _ := testFile(t, 4096)
	pins := &countedPin{t: t}
	closed := make(chan error, 1)
	h := &testHandler{
		frame: func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			s := c.Reserve()
			s.Bytes(bufpool.Get(4))
			s.File(FileRange{FD: int(file.Fd()), Offset: 4000, Len: 200, Pin: pins.pin()})
			s.Done()
			return nil
		},
		close: func(_ *Conn, err error) { closed <- err },
	}
	_, addr := startServer(t, h, nil)
	c := dial(t, addr)
	send(t, c, frameOf(nil))
	if err := <-closed; !errors.Is(err, errShortFile) {
		t.Errorf("closed with %v", err)
	}
	expectClosed(t, c)
	await(t, "the pin is back", pins.allBack)
}

// reset makes the peer vanish with RST.
func reset(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// The peer resets in every state a reply can be in; pins come back once, and slots that handlers still hold stay safe.
func TestPeerResetsInEveryState(t *testing.T) {
	t.Parallel()
	file, _, mapping := testFile(t, 8<<20)
	pins := &countedPin{t: t}
	fill := func(s *Slot) {
		s.Bytes(bufpool.Get(4))
		s.File(FileRange{FD: int(file.Fd()), Len: len(mapping), Pin: pins.pin()})
		s.File(FileRange{FD: int(file.Fd()), Len: 100, Mem: mapping[:100], Pin: pins.pin()})
	}
	states := map[string]func(s *Slot) (afterwards func()){
		"reserved":         func(s *Slot) func() { return func() { fill(s); s.Done() } },
		"filled":           func(s *Slot) func() { fill(s); return s.Done },
		"dropped later":    func(s *Slot) func() { fill(s); return s.Drop },
		"close later":      func(s *Slot) func() { fill(s); return func() { s.CloseConn(errors.New("no")) } },
		"half sent":        func(s *Slot) func() { fill(s); s.Done(); return func() {} },
		"behind an open":   func(s *Slot) func() { other := s.conn.Reserve(); fill(other); other.Done(); return s.Drop },
		"muted":            func(s *Slot) func() { s.conn.Mute(time.Hour); fill(s); return s.Done },
		"closed by itself": func(s *Slot) func() { s.conn.Close(errors.New("enough")); fill(s); return s.Done },
	}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ready := make(chan func(), 1)
			closed := make(chan error, 2)
			h := &testHandler{
				frame: func(c *Conn, frame *bufpool.Buf) error {
					frame.Release()
					ready <- state(c.Reserve())
					return nil
				},
				close: func(_ *Conn, err error) { closed <- err },
			}
			server, addr := startServer(t, h, nil)
			c := dial(t, addr)
			send(t, c, frameOf([]byte("x")))
			afterwards := <-ready
			reset(t, c)
			<-closed
			afterwards()
			await(t, "the connection is forgotten", func() bool {
				return server.Stats() == Stats{Accepted: 1, ReceivedBytes: 5, SentBytes: server.Stats().SentBytes, Wakes: server.Stats().Wakes}
			})
			await(t, "pins are back", pins.allBack)
			select {
			case err := <-closed:
				t.Errorf("OnClose came twice: %v", err)
			default:
			}
		})
	}
}

func TestCloseConnAfterTheRepliesBefore(t *testing.T) {
	t.Parallel()
	var first *Slot
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		defer frame.Release()
		s := c.Reserve()
		switch string(frame.B) {
		case "first":
			first = s
		case "acks=0":
			s.Drop()
		case "bad":
			s.CloseConn(errors.New("bad"))
			first.Bytes(reply([]byte("the first")))
			first.Done()
		}
		return nil
	}}
	_, addr := startServer(t, h, nil)
	c := dial(t, addr)
	send(t, c, append(append(frameOf([]byte("first")), frameOf([]byte("acks=0"))...), frameOf([]byte("bad"))...))
	if got := string(receiveFrame(t, c)); got != "the first" {
		t.Errorf("got %q", got)
	}
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Errorf("after the reply %d bytes came, %v", n, err)
	}
}

// A peer that sends requests and reads nothing: reading pauses, memory stays bounded, and it loses its connection.
func TestPeerThatNeverReads(t *testing.T) {
	t.Parallel()
	const replyBytes = 1 << 20
	var requests, held atomic.Int64
	closed := make(chan error, 1)
	h := &testHandler{
		frame: func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			requests.Add(1)
			s := c.Reserve()
			s.Bytes(bufpool.Get(replyBytes))
			s.Done()
			held.Store(max(held.Load(), c.outboundBytes.Load()))
			return nil
		},
		close: func(_ *Conn, err error) { closed <- err },
	}
	_, addr := startServer(t, h, func(c *Config) { c.ConnectionsMaxIdleMs = 2_000 }) // longer than a busy machine takes to send the first
	c := dial(t, addr)
	go func() {
		request := bytes.Repeat(frameOf([]byte("more")), 100)
		for {
			if _, err := c.Write(request); err != nil {
				return
			}
		}
	}()
	if err := <-closed; !errors.Is(err, errStalled) {
		t.Errorf("closed with %v", err)
	}
	if got, most := held.Load(), int64(limits.OutboundBytes+replyBytes); got > most {
		t.Errorf("%d bytes of replies were held, at most %d may", got, most)
	}
	t.Logf("%d requests were read, %d bytes held", requests.Load(), held.Load())
}

func TestSlotMisusePanics(t *testing.T) {
	t.Parallel()
	panics := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic", name)
			}
		}()
		f()
	}
	l := &loop{server: &Server{}}
	c := &Conn{loop: l, server: l.server}
	c.scheduled.Store(true) // nobody serves it
	panics("a reply without a length", func() { c.Reserve().Done() })
	panics("a reply that begins with a file", func() {
		s := c.Reserve()
		s.File(FileRange{Len: 4})
		s.Done()
	})
	panics("Done twice", func() {
		s := c.Reserve()
		s.Bytes(bufpool.Get(4))
		s.Done()
		s.Done()
	})
}
