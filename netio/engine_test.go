package netio

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/bufpool"
)

// What netio relies on inside gnet: its unexported fields, the descriptor as epoll data, level-triggered reading. When
// gnet changes, this test says so before anything subtle does.
func TestGnetInside(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	h := &testHandler{
		open:  func(c *Conn) { conns <- c },
		frame: echo,
	}
	server, addr := startServer(t, h, func(c *Config) { c.NumNetworkThreads = 3 })
	await(t, "nothing of gnet's pools ticks", func() bool {
		stacks := make([]byte, 4<<20)
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "panjf2000/ants")
	})
	seen := map[int]bool{}
	for _, l := range server.loops {
		link, err := os.Readlink(filepath.Join("/proc/self/fd", itoa(l.engine.epollFD)))
		if err != nil || link != "anon_inode:[eventpoll]" {
			t.Errorf("descriptor %d of a loop is %q, %v, not an epoll instance", l.engine.epollFD, link, err)
		}
		if seen[l.engine.epollFD] {
			t.Error("two loops have the same epoll instance: a wake connection landed twice on one loop")
		}
		seen[l.engine.epollFD] = true
	}
	client := dial(t, addr)
	c := <-conns
	fd, epollFD := c.gnet.fd, c.loop.engine.epollFD

	// /proc says what the kernel has.
	if got := registration(t, epollFD, fd); !strings.Contains(got, "events:       1b data:") || !strings.HasSuffix(got, hex16(fd)) {
		t.Errorf("gnet registers a connection as %q, wanted events 1b (IN|PRI, and ERR|HUP that are always there) and the descriptor %d as data", got, fd)
	}
	c.Mute(time.Hour)
	await(t, "the registration waits for nothing", func() bool {
		// EPOLLERR (8) and EPOLLHUP (10) are always reported.
		return strings.Contains(registration(t, epollFD, fd), "events:       18 data:")
	})
	send(t, client, frameOf([]byte("x")))
	if n := pending(t, fd, 5); n != 5 {
		t.Errorf("%d bytes wait in the socket of a muted connection, want 5: it was read", n)
	}
	c.Mute(0)
	if got := string(receiveFrame(t, client)); got != "x" {
		t.Errorf("got %q", got)
	}
	if got := registration(t, epollFD, fd); !strings.Contains(got, "events:       1b data:") {
		t.Errorf("after a pause the registration is %q", got)
	}
}

// A muted connection whose peer resets is closed at once.
func TestResetOfAMutedConnection(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	h := &testHandler{
		frame: func(c *Conn, frame *bufpool.Buf) error {
			c.Mute(time.Hour)
			return echo(c, frame)
		},
		close: func(_ *Conn, err error) { closed <- err },
	}
	_, addr := startServer(t, h, nil)
	c := dial(t, addr)
	send(t, c, frameOf(nil))
	receiveFrame(t, c)
	reset(t, c)
	<-closed
}

func registration(t *testing.T, epollFD, fd int) string {
	t.Helper()
	info, err := os.ReadFile("/proc/self/fdinfo/" + itoa(epollFD))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 5 && fields[0] == "tfd:" && fields[1] == itoa(fd) {
			line, _, _ = strings.Cut(line, "  pos:")
			return strings.TrimRight(line, "\n")
		}
	}
	return "none"
}

// pending waits until so many bytes wait in the socket.
func pending(t *testing.T, fd, want int) (n int) {
	t.Helper()
	await(t, "bytes wait", func() bool {
		var err error
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err == nil && n >= want
	})
	return n
}
