package netio

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas/internal/bufpool"
)

// testHandler calls functions; nil ones do nothing (a frame is released).
type testHandler struct {
	open  func(*Conn)
	frame func(*Conn, *bufpool.Buf) error
	close func(*Conn, error)
}

func (h *testHandler) OnOpen(c *Conn) {
	if h.open != nil {
		h.open(c)
	}
}

func (h *testHandler) OnFrame(c *Conn, frame *bufpool.Buf) error {
	if h.frame != nil {
		return h.frame(c, frame)
	}
	frame.Release()
	return nil
}

func (h *testHandler) OnFramesEnd(*Conn) {}

func (h *testHandler) OnClose(c *Conn, err error) {
	if h.close != nil {
		h.close(c, err)
	}
}

func reply(payload []byte) *bufpool.Buf {
	b := bufpool.Get(4 + len(payload))
	copy(b.B[4:], payload)
	return b
}

// echo answers every frame with itself, on the loop.
func echo(c *Conn, frame *bufpool.Buf) error {
	s := c.Reserve()
	s.Bytes(reply(frame.B))
	frame.Release()
	s.Done()
	return nil
}

func startServer(t testing.TB, h Handler, change func(*Config)) (*Server, string) {
	t.Helper()
	config := Config{
		Listeners: []Listener{{Name: "PLAINTEXT", Network: "tcp", Address: "127.0.0.1:0"}},
		Logger:    slog.New(slog.NewTextHandler(testWriter{t}, nil)),
		Handler:   h,
	}
	if change != nil {
		change(&config)
	}
	s, err := Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, s.Addrs()[config.Listeners[0].Name].String()
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) { w.t.Logf("%s", p); return len(p), nil }

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	bePatient(t, c)
	return c
}

// bePatient ends what c waits for when nothing moves for a long time. It is called anew
// for each reply, so that many of them may take as long as a busy machine needs.
func bePatient(t testing.TB, c net.Conn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
}

func frameOf(payload []byte) []byte {
	f := make([]byte, 4, 4+len(payload))
	binary.BigEndian.PutUint32(f, uint32(len(payload)))
	return append(f, payload...)
}

func send(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatalf("send: %v", err)
	}
}

func receiveFrame(t testing.TB, c io.Reader) []byte {
	t.Helper()
	if conn, ok := c.(net.Conn); ok {
		bePatient(t, conn)
	}
	var header [4]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		t.Fatalf("read a reply's length: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(header[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("read a reply of %d bytes: %v", len(b), err)
	}
	return b
}

func expectClosed(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); err != nil && isTimeout(err) {
		t.Fatalf("the connection is still open (%d bytes came)", n)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// await waits for a condition that another goroutine brings about. Polls count, too: a
// machine that stood still has not waited.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for polls := 0; !condition(); polls++ {
		if polls > 1000 && time.Now().After(deadline) {
			t.Fatalf("after 10 s still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// countedPin fails when it is released twice.
type countedPin struct {
	t  testing.TB
	mu sync.Mutex
	// +checklocks:mu
	taken int
	// +checklocks:mu
	back int
}

type onePin struct {
	of   *countedPin
	done atomic.Bool
}

func (p *countedPin) pin() Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken++
	return &onePin{of: p}
}

func (o *onePin) Release() {
	if o.done.Swap(true) {
		o.of.t.Error("a pin was released twice")
	}
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.back++
}

func (p *countedPin) allBack() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.back == p.taken
}

func itoa(n int) string { return strconv.Itoa(n) }

func hex16(n int) string { return strconv.FormatInt(int64(n), 16) }
