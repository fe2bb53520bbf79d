package netio

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
)

// rest is how a loop waits for its next events (onward.go), never in gnet's own way, which is an epoll_wait of 0 ms, a Gosched, and
// another epoll_wait without an end. There are two ways, of which rests in the stricter sense are the second.
//
// # Waiting in a system call
//
// A Gosched wakes another thread, which looks for work, takes this loop's goroutine from the queue of all, and leaves this thread to
// sleep: at 1,000 requests and 1,000 answers a second three futex calls a request, and each request on another thread. So the loop waits
// with epoll_wait alone (block), and calls Gosched each limits.NetSlice only.
//
// # Resting
//
// A quiet loop of many connections waits in the runtime's poller, like any goroutine that waits for a socket.
//
// A goroutine that blocks in a system call keeps its scheduling slot for 10 ms, and as long as a slot is kept the runtime's
// monitor (sysmon) wakes every 20 to 70 µs to look at it, some 60 times; it sleeps when all slots are free. So for requests that come one
// by one, each some milliseconds after the other, the monitor never slept, and cost ten times as much as the requests: 200 polls a second of
// idle consumers took 3.5 % of a processor, and a bare gnet echo of as many frames 6 to 9 %. A goroutine of the runtime's poller
// gives its slot back at once.
//
// What is registered with the runtime is an epoll instance between (middle) with gnet's as its only member, which is armed
// only while the loop waits: else each event of a busy loop would wake a thread of the runtime.
//
// Proof that no wake is lost. RawConn.Read forgets earlier readiness before it calls wait. wait arms middle, then looks at
// gnet's instance: what came before that look is found by it, and what comes after arming is an edge of middle, which the
// runtime keeps. (Arming looks too, but tells nobody when middle still has its member on its list from the last time.)
// Sockets and netio's own wakes (loop.wake) are level-triggered members of gnet's instance, so those of its last events
// that gnet has not come to are seen by the look. Its wake for tasks is edge-triggered and may have been among them: tasks
// says so, which gnet sets before it writes that wake.
//
// For block it is simpler: what comes while epoll_wait runs ends it, and tasks are looked at before it.
//
// Loops with more events do not rest, since a thread that waits in its own system call wakes faster and they do not wait for long, and
// neither do loops of a few connections, whose requests leave the monitor the time to sleep. Owner: the loop, but for end.
type rest struct {
	middle *os.File // nil: never rests
	raw    syscall.RawConn
	wait   func(fd uintptr) bool // made once: it must not allocate
	gnetFD int
	tasks  *int32 // of gnet's poller, atomic: not 0 from before a wake for its tasks until they have run
	armed  bool
	failed error

	quiet    bool
	periodMs int64 // of the server's clock
	events   int   // in this period
	patience int   // short waits before the loop counts as busy

	blocks    int       // waits in a system call
	scheduled time.Time // when this loop's goroutine was last let go

	found   [128]unix.EpollEvent // by the last wait
	counter [8]byte              // of the loop's eventfd

	asked  [1]unix.PollFd  // argument of ppoll, which arm64 has as well; so is
	atOnce unix.Timespec   // a wait of 0
	event  unix.EpollEvent // argument of epoll_ctl
}

// begin prepares rests.
func (r *rest) begin(gnetFD int, tasks *int32, nowMs int64) error {
	middle, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll_create1: %w", err)
	}
	if err := errors.Join(unix.SetNonblock(middle, true), unix.EpollCtl(middle, unix.EPOLL_CTL_ADD, gnetFD, &unix.EpollEvent{Fd: int32(gnetFD)})); err != nil {
		return errors.Join(fmt.Errorf("an epoll instance of an epoll instance: %w", err), unix.Close(middle))
	}
	r.middle = os.NewFile(uintptr(middle), "event loop")
	if r.raw, err = r.middle.SyscallConn(); err == nil {
		err = r.middle.SetReadDeadline(time.Time{}) // an error: the runtime's poller has not taken it
	}
	if err != nil {
		return errors.Join(fmt.Errorf("an epoll instance in the runtime's poller: %w", err), r.middle.Close())
	}
	r.gnetFD, r.tasks, r.periodMs, r.patience = gnetFD, tasks, nowMs, limits.NetShortWaits
	r.wait = func(fd uintptr) bool {
		if r.armed {
			r.arm(int(fd), 0)
			return true
		}
		if r.arm(int(fd), unix.EPOLLIN); r.failed == nil && r.more() {
			r.arm(int(fd), 0)
			return true
		}
		return r.failed != nil
	}
	return nil
}

// arm never blocks, so the scheduler need not hear of the call.
func (r *rest) arm(middle int, events uint32) {
	r.event = unix.EpollEvent{Events: events, Fd: int32(r.gnetFD)}
	if _, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(middle), unix.EPOLL_CTL_MOD, uintptr(r.gnetFD), uintptr(unsafe.Pointer(&r.event)), 0, 0); errno != 0 {
		r.failed = errno
		return
	}
	r.armed = events != 0
}

// more says whether gnet has something to do.
func (r *rest) more() bool {
	if atomic.LoadInt32(r.tasks) != 0 {
		return true
	}
	r.asked[0] = unix.PollFd{Fd: int32(r.gnetFD), Events: unix.POLLIN}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&r.asked)), 1, uintptr(unsafe.Pointer(&r.atOnce)), 0, 0, 0)
	return n != 0 || errno != 0
}

// look counts events, and decides anew whether the loop is quiet when the clock has moved.
func (r *rest) look(nowMs int64, connections, events int) {
	r.events += events
	if nowMs != r.periodMs {
		r.quiet = r.middle != nil && r.failed == nil && r.events < limits.NetQuietEvents && connections >= limits.NetRestConnections
		r.periodMs, r.events, r.patience = nowMs, 0, limits.NetShortWaits
	}
}

// waited ends the quiet of a loop that does not wait for long any more.
func (r *rest) waited(length time.Duration) {
	if length >= limits.NetLongWait {
		r.patience = limits.NetShortWaits
		return
	}
	r.patience--
	r.quiet = r.patience > 0
}

// end closes what rests need, after the loop has ended.
func (r *rest) end() error {
	if r.middle == nil {
		return nil
	}
	return r.middle.Close()
}
