package netio

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"

	"kaas/internal/limits"
)

// A loop goes on by itself from the end of an event: it asks gnet's epoll instance, reads the sockets and serves its
// connections, inside the event, and returns to gnet only for what is gnet's: its tasks (a connection that comes, the end), a peer that
// has ended or reset, a descriptor that is not known. Between two such returns there is no second epoll_wait, no Gosched for each
// round, and, what costs most among thousands of connections, nothing of gnet's is touched for a request: its map of descriptors and
// its connection are two more places that are in no cache, each known only when the one before has come.
//
// Nothing is taken from gnet by that. All but one of the members of its epoll instance are level-triggered: what is left there
// is found by its next epoll_wait, and what gnet has found and not come to yet when an event is served here is read as
// EAGAIN there. The one is its wake for tasks, which is armed again when it is found here.
//
// Owner of everything here: the loop.

// onward serves events until gnet is needed. outer is the connection whose event this is, nil for the loop's own; gnet
// holds it, so it is closed by the action that is returned.
func (l *loop) onward(outer *Conn) gnet.Action {
	l.outer = outer
	for done := false; !done; {
		n, ok := l.awaitEvents()
		done = !ok
		for i := range n {
			done = !l.event(&l.rest.found[i]) || done
		}
		done = done || outer != nil && outer.gnet.closeAfter
	}
	l.outer = nil
	*l.engine.buffer = l.engineBuffer()
	if outer != nil {
		return outer.gnet.action()
	}
	return gnet.None
}

// event serves one event; false: it is for gnet, which will find it again.
func (l *loop) event(e *unix.EpollEvent) bool {
	fd := int(e.Fd)
	switch {
	case fd == l.engine.taskFD:
		e.Events = netpoll.ReadEvents | unix.EPOLLET | unix.EPOLLRDHUP // as gnet's own registration
		if err := unix.EpollCtl(l.engine.epollFD, unix.EPOLL_CTL_MOD, fd, e); err != nil {
			panic("netio: cannot give an event back to its engine: " + err.Error())
		}
		return false
	case e.Events != unix.EPOLLIN:
		return false
	case fd == l.engine.wakeFD:
		_, err := unix.Read(fd, l.rest.counter[:])
		l.wakes.Add(1)
		l.serve()
		return err == nil || err == unix.EAGAIN || err == unix.EINTR
	case fd >= len(l.byFD) || l.byFD[fd] == nil:
		return false
	}
	c := l.byFD[fd]
	if !c.reading {
		return true // paused by an event before this one
	}
	if c.gnet.closeAfter {
		return false
	}
	b := l.engineBuffer()
	n, err := unix.Read(fd, b)
	if n <= 0 {
		return err == unix.EAGAIN || err == unix.EINTR // gnet reads the same end or error, and closes
	}
	own := l.beginEvent(c)
	c.received(n, n == len(b))
	l.endEvent(c, own)
	l.chunk.settle()
	if c.gnet.closeAfter && c != l.outer {
		c.gnet.closeNow()
	}
	return true
}

// know makes the loop serve events of the connection's descriptor.
func (l *loop) know(c *Conn) {
	for len(l.byFD) <= c.gnet.fd {
		l.byFD = append(l.byFD, nil)
	}
	l.byFD[c.gnet.fd] = c
}

// awaitEvents waits for events and puts them into rest.found; false: gnet has something to do.
func (l *loop) awaitEvents() (n int, ok bool) {
	r := &l.rest
	if l.server.config.alwaysRest || r.quiet && !l.server.config.neverRest {
		if n := r.find(); n != 0 {
			return l.found(n)
		}
		began := time.Now()
		if err := r.raw.Read(r.wait); err != nil || r.failed != nil {
			r.quiet = false // a wait in a system call is always right
			l.server.config.Logger.Warn("an event loop can't wait in the runtime's poller and costs more while it is quiet", "error", errors.Join(err, r.failed))
			return 0, false
		}
		l.rests.Add(1)
		r.waited(time.Since(began))
		if atomic.LoadInt32(r.tasks) != 0 {
			return 0, false
		}
		return l.found(r.find())
	}
	return l.found(r.block())
}

func (l *loop) found(n int) (int, bool) {
	l.rest.look(l.server.nowMs.Load(), l.connections, max(n, 0))
	return max(n, 0), n >= 0
}

// block waits in a system call. Below 0: gnet has something to do.
func (r *rest) block() int {
	if now := time.Now(); now.Sub(r.scheduled) > limits.NetSlice {
		r.scheduled = now
		runtime.Gosched()
	}
	if atomic.LoadInt32(r.tasks) != 0 {
		return -1
	}
	r.blocks++
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(r.gnetFD), uintptr(unsafe.Pointer(&r.found)), uintptr(len(r.found)), math.MaxUint32, 0, 0) // -1: no end
	return counted(n, errno)
}

// find looks for events without waiting, so the scheduler need not hear of the call.
func (r *rest) find() int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(r.gnetFD), uintptr(unsafe.Pointer(&r.found)), uintptr(len(r.found)), 0, 0, 0)
	return counted(n, errno)
}

// counted: an error that is not a signal is met by gnet's own wait, too.
func counted(n uintptr, errno syscall.Errno) int {
	switch errno {
	case 0:
		return int(n)
	case unix.EINTR:
		return 0
	}
	return -1
}
