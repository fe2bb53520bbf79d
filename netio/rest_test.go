package netio

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/bufpool"
	"kaas/internal/limits"
)

func TestRestsLoseNoWake(t *testing.T) {
	t.Parallel()
	server := loseNoWake(t, func(c *Config) { c.alwaysRest = true })
	for _, l := range server.loops {
		if l.rests.Load() == 0 {
			t.Error("a loop has not rested once")
		}
	}
}

func TestBlocksLoseNoWake(t *testing.T) {
	t.Parallel()
	server := loseNoWake(t, func(c *Config) { c.neverRest = true })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil { // the loops have ended
		t.Fatal(err)
	}
	for _, l := range server.loops {
		if l.rest.blocks == 0 {
			t.Error("a loop has not waited inside an event once")
		}
	}
}

// loseNoWake: requests one by one, replies of the loop and of another goroutine, connections that come and go: everything that ends a
// wait, as close as possible to its begin. The janitor does not help, so a lost wake is a reply that never comes.
func loseNoWake(t *testing.T, waits func(*Config)) *Server {
	late, ended := make(chan *Slot, 64), make(chan struct{})
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			select {
			case s := <-late:
				s.Bytes(reply([]byte("late")))
				s.Done()
			case <-ended:
				return
			}
		}
	})
	h := &testHandler{frame: func(c *Conn, frame *bufpool.Buf) error {
		if frame.B[0] == 'l' {
			frame.Release()
			late <- c.Reserve()
			return nil
		}
		return echo(c, frame)
	}}
	server, addr := startServer(t, h, func(c *Config) {
		c.NumNetworkThreads = 2
		waits(c)
	})
	var clients sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			const rounds, perConnection = 2_000, 100
			var conn net.Conn
			for round := range rounds {
				if round%perConnection == 0 {
					if conn != nil {
						conn.Close()
					}
					var err error
					if conn, err = net.Dial("tcp", addr); err == nil {
						err = conn.SetDeadline(time.Now().Add(60 * time.Second))
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
				want := []byte("at once")
				if (round+i)%3 == 0 {
					want = []byte("late")
				}
				got := make([]byte, 4+len(want))
				_, err := conn.Write(frameOf(want))
				if err == nil {
					_, err = io.ReadFull(conn, got)
				}
				if err != nil || !bytes.Equal(got, frameOf(want)) {
					t.Errorf("round %d: %q instead of %q: %v", round, got, want, err)
					break
				}
			}
			conn.Close()
		})
	}
	clients.Wait()
	close(ended)
	answering.Wait()
	return server
}

// A loop that has just begun waits in gnet's way; whether it is quiet is known when the clock has moved.
func TestRestsBeginWithTheClock(t *testing.T) {
	t.Parallel()
	server, addr := startServer(t, &testHandler{frame: echo}, func(c *Config) {
		c.NumNetworkThreads, c.ConnectionsMaxIdleMs = 1, 3_600_000 // the janitor comes every 5 s
	})
	var conn net.Conn
	for range limits.NetRestConnections {
		conn = dial(t, addr)
		send(t, conn, frameOf([]byte("x"))) // it has been added to its loop when this is answered
		receiveFrame(t, conn)
	}
	ping := func() {
		send(t, conn, frameOf([]byte("x")))
		receiveFrame(t, conn)
	}
	server.nowMs.Add(1) // as the janitor does
	await(t, "a quiet loop rests", func() bool {
		ping() // ends a rest, unless it comes before it
		return server.loops[0].rests.Load() > 0
	})
}

func TestBusyLoopsDoNotRest(t *testing.T) {
	t.Parallel()
	const enough = limits.NetRestConnections
	r := &rest{middle: os.Stdin, patience: limits.NetShortWaits}
	for range limits.NetQuietEvents {
		r.look(0, enough, 1)
	}
	if r.look(1, enough, 1); r.quiet {
		t.Fatalf("quiet after %d events", limits.NetQuietEvents)
	}
	if r.look(2, enough, 1); !r.quiet {
		t.Fatal("not quiet after one event")
	}
	for range 10 * limits.NetShortWaits {
		r.waited(limits.NetLongWait)
	}
	for range limits.NetShortWaits - 1 {
		r.waited(limits.NetLongWait - 1)
	}
	if !r.quiet {
		t.Fatal("not quiet while waits are long")
	}
	if r.waited(0); r.quiet {
		t.Fatalf("quiet after %d short waits", limits.NetShortWaits)
	}
	if r.look(2, enough, 1); r.quiet {
		t.Fatal("quiet again before the clock has moved")
	}
	if r.look(3, enough, 1); !r.quiet || r.patience != limits.NetShortWaits {
		t.Fatal("not quiet again")
	}
	if r.look(4, enough-1, 1); r.quiet {
		t.Fatal("quiet with so few connections")
	}
}

// Whatever a loop does by itself, the engine gets its tasks, and Go's scheduler the goroutine now and then.
func TestBlocksEndForTheEngine(t *testing.T) {
	t.Parallel()
	epollFD, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epollFD)
	eventFD, err := unix.Eventfd(1, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(eventFD)
	if err := unix.EpollCtl(epollFD, unix.EPOLL_CTL_ADD, eventFD, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(eventFD)}); err != nil {
		t.Fatal(err)
	}
	r := &rest{gnetFD: epollFD, tasks: new(int32)}
	for want, tasks := range []int32{0, 1, 0} {
		*r.tasks = tasks
		if n := r.block(); (n == 1 && int(r.found[0].Fd) == eventFD) != (tasks == 0) || tasks != 0 && n >= 0 {
			t.Fatalf("%d: %d events, tasks %d", want, n, tasks)
		}
	}
	if r.blocks != 2 {
		t.Fatalf("waited %d times, want 2", r.blocks)
	}
	scheduled := time.Now().Add(-2 * limits.NetSlice)
	r.scheduled = scheduled
	if r.block(); !r.scheduled.After(scheduled) {
		t.Fatal("the goroutine was due to be let go")
	}
}
