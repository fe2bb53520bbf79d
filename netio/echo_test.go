package netio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"kaas/internal/bufpool"
)

func TestFramesSplitAtEveryByte(t *testing.T) {
	t.Parallel()
	_, addr := startServer(t, &testHandler{frame: echo}, nil)
	payloads := [][]byte{[]byte("a"), {}, []byte("seven77"), bytes.Repeat([]byte("x"), 40)}
	var all []byte
	for _, p := range payloads {
		all = append(all, frameOf(p)...)
	}
	c := dial(t, addr)
	for at := 1; at < len(all); at++ {
		send(t, c, all[:at])
		send(t, c, all[at:])
		for _, want := range payloads {
			if got := receiveFrame(t, c); !bytes.Equal(got, want) {
				t.Fatalf("split at %d: got %q, want %q", at, got, want)
			}
		}
	}
	for _, one := range all {
		send(t, c, []byte{one})
	}
	for _, want := range payloads {
		if got := receiveFrame(t, c); !bytes.Equal(got, want) {
			t.Fatalf("byte by byte: got %q, want %q", got, want)
		}
	}
}

func TestFramesOfEverySize(t *testing.T) {
	t.Parallel()
	_, addr := startServer(t, &testHandler{frame: echo}, nil)
	random := seeded(t)
	c := dial(t, addr)
	for _, size := range []int{0, 1, 511, 512, 4091, 4092, 4093, 4096, 65_535, 65_536, 262_143, 262_144, 262_145, 1 << 20, 1<<20 + 1, 5_000_000} {
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(random.Uint32())
		}
		go c.Write(append(frameOf(payload), frameOf([]byte("next"))...))
		if got := receiveFrame(t, c); !bytes.Equal(got, payload) {
			t.Fatalf("a frame of %d bytes came back changed", size)
		}
		if got := receiveFrame(t, c); string(got) != "next" {
			t.Fatalf("the frame behind one of %d bytes is %q", size, got)
		}
	}
}

func TestRepliesLeaveInRequestOrder(t *testing.T) {
	t.Parallel()
	const count = 1000
	var mu sync.Mutex
	var slots []*Slot
	arrived := make(chan struct{})
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		s := c.Reserve()
		s.Bytes(reply(frame.B))
		frame.Release()
		mu.Lock()
		defer mu.Unlock()
		if slots = append(slots, s); len(slots) == count {
			close(arrived)
		}
		return nil
	}}
	server, addr := startServer(t, h, nil)
	c := dial(t, addr)
	var all []byte
	for i := range count {
		all = append(all, frameOf(fmt.Appendf(nil, "%d", i))...)
	}
	go c.Write(all)
	<-arrived
	for i := count - 1; i >= 0; i-- {
		slots[i].Done()
	}
	for i := range count {
		if got := string(receiveFrame(t, c)); got != fmt.Sprint(i) {
			t.Fatalf("reply %d is %s", i, got)
		}
	}
	await(t, "no slot is open", func() bool { return server.Stats().OpenSlots == 0 })
	if wakes := server.Stats().Wakes; wakes > 20 {
		t.Errorf("%d completions that one send could answer woke the loop %d times", count, wakes)
	}
}

func TestCompletionFromManyGoroutines(t *testing.T) {
	t.Parallel()
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		s := c.Reserve()
		go func() {
			s.Bytes(reply(frame.B))
			frame.Release()
			s.Done()
		}()
		return nil
	}}
	_, addr := startServer(t, h, func(c *Config) { c.MaxInFlightPerConnection = 50 })
	var group sync.WaitGroup
	for n := range 8 {
		c := dial(t, addr)
		group.Go(func() {
			go func() {
				for i := range 2000 {
					c.Write(frameOf(fmt.Appendf(nil, "%d/%d", n, i)))
				}
			}()
			for i := range 2000 {
				if got, want := string(receiveFrame(t, c)), fmt.Sprintf("%d/%d", n, i); got != want {
					t.Errorf("got %s, want %s", got, want)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestListenersAreTold(t *testing.T) {
	t.Parallel()
	type seen struct {
		name, local, remote string
	}
	opened := make(chan seen, 1)
	h := &testHandler{open: func(c *Conn) {
		opened <- seen{c.Listener(), c.LocalAddr().String(), c.RemoteAddr().String()}
	}}
	s, _ := startServer(t, h, func(c *Config) {
		c.Listeners = []Listener{
			{Name: "ONE", Network: "tcp", Address: "127.0.0.1:0"},
			{Name: "TWO", Network: "tcp", Address: "127.0.0.1:0"},
			{Name: "ANY", Address: ":0"},
		}
	})
	for name, addr := range s.Addrs() {
		_, port, err := net.SplitHostPort(addr.String())
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, "127.0.0.1:"+port)
		want := seen{name, "127.0.0.1:" + port, c.LocalAddr().String()}
		if got := <-opened; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A large reply is on its way and further requests lie unread when the server closes: the reply arrives whole.
func TestCloseLetsRepliesArrive(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	payload := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	replied := make(chan struct{}, 1)
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		frame.Release()
		s := c.Reserve()
		s.Bytes(reply(payload))
		s.Done()
		replied <- struct{}{}
		return nil
	}}
	server, addr := startServer(t, h, func(c *Config) { c.SocketSendBufferBytes = 1 << 20 })
	c := dial(t, addr)
	if err := c.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	send(t, c, frameOf([]byte("give")))
	<-replied
	server.draining.Store(true)
	send(t, c, bytes.Repeat(frameOf([]byte("unread")), 1000))
	done := make(chan error, 1)
	drained := make(chan struct{})
	go func() {
		err := server.Drain(context.Background())
		close(drained)
		done <- errors.Join(err, server.Close(context.Background()))
	}()
	got := make([]byte, 4+size)
	if _, err := io.ReadFull(c, got[:size/2]); err != nil {
		t.Fatal(err)
	}
	<-drained // the rest lies with the system
	if n, err := io.ReadFull(c, got[size/2:]); err != nil {
		t.Fatalf("%v after %d bytes", err, size/2+n)
	}
	if !bytes.Equal(got[4:], payload) {
		t.Error("the reply arrived changed")
	}
	c.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestCloseInOnOpen(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 2)
	reason := errors.New("not you")
	h := &testHandler{
		open:  func(c *Conn) { c.Close(reason) },
		close: func(_ *Conn, err error) { closed <- err },
	}
	server, addr := startServer(t, h, nil)
	expectClosed(t, dial(t, addr))
	if err := <-closed; err != reason {
		t.Errorf("closed with %v", err)
	}
	await(t, "its place is free", func() bool { return server.Stats().Connections == 0 })
}

func TestStopAcceptingDrainClose(t *testing.T) {
	t.Parallel()
	slots := make(chan *Slot, 1)
	closed := make(chan error, 1)
	h := &testHandler{
		frame: func(c *Conn, frame *bufpool.Buf) error {
			frame.Release()
			slots <- c.Reserve()
			return nil
		},
		close: func(_ *Conn, err error) { closed <- err },
	}
	s, addr := startServer(t, h, nil)
	c := dial(t, addr)
	send(t, c, frameOf([]byte("q")))
	slot := <-slots
	s.StopAccepting()
	if other, err := net.Dial("tcp", addr); err == nil {
		other.Close()
		t.Error("a connection came in after StopAccepting")
	}
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Drain(short); err == nil {
		t.Error("Drain returned while a reply was owed")
	}
	send(t, c, frameOf([]byte("too late"))) // not read any more
	slot.Bytes(reply([]byte("answer")))
	slot.Done()
	if err := s.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	if got := string(receiveFrame(t, c)); got != "answer" {
		t.Errorf("got %q", got)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	<-closed
	expectClosed(t, c)
	select {
	case <-slots:
		t.Error("a request was read after Drain")
	default:
	}
}
