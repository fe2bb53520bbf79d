package netio

import (
	"errors"
	"net"
	"testing"

	"kaas/internal/bufpool"
)

// Inside an event of one connection the loop serves the events of others: of the same connection again, of one that is closed by
// that, of one that another one's request closes, and of the connection itself whose event it is.
func TestConnectionsCloseInsideForeignEvents(t *testing.T) {
	t.Parallel()
	opened, closed := make(chan *Conn, 3), make(chan error, 3)
	var victim *Conn // of the next request "close"; the loop's
	errAsked := errors.New("asked to close")
	h := &testHandler{
		open:  func(c *Conn) { opened <- c },
		close: func(_ *Conn, err error) { closed <- err },
	}
	h.frame = func(c *Conn, frame *bufpool.Buf) error {
		switch string(frame.B) {
		case "me":
			victim = c
		case "close":
			victim.Close(errAsked)
		case "bad":
			frame.Release()
			return errAsked
		}
		return echo(c, frame)
	}
	_, addr := startServer(t, h, func(c *Config) { c.NumNetworkThreads, c.neverRest = 1, true })
	first, second, third := dial(t, addr), dial(t, addr), dial(t, addr)
	for range 3 {
		<-opened
	}
	for range 100 {
		for _, conn := range []net.Conn{first, second, third} {
			send(t, conn, frameOf([]byte("me")))
			receiveFrame(t, conn)
		}
	}
	send(t, first, frameOf([]byte("me")))
	receiveFrame(t, first)
	send(t, second, frameOf([]byte("close"))) // the first one
	if err := <-closed; !errors.Is(err, errAsked) {
		t.Errorf("closed with %v", err)
	}
	receiveFrame(t, second)
	send(t, third, frameOf([]byte("bad")))
	if err := <-closed; !errors.Is(err, errAsked) {
		t.Errorf("closed with %v", err)
	}
	send(t, second, frameOf([]byte("me")))
	receiveFrame(t, second)
	second.Close()
	<-closed
	fourth := dial(t, addr) // most likely with a descriptor of before
	send(t, fourth, frameOf([]byte("me")))
	if got := string(receiveFrame(t, fourth)); got != "me" {
		t.Errorf("got %q", got)
	}
}
