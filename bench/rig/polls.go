package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pollServer is the limit for consumers that wait: it reads each request, holds it for as long as consumers let a broker hold a
// Fetch, and answers with nothing. One goroutine, one epoll, one read and one send a request, deadlines at common ticks, as
// few as a broker may have. It waits in the runtime's poller, since a Go program that waits in epoll_wait has a monitor that
// keeps waking (see netio's rest).
//
// Everything belongs to the goroutine of RunPolls.
type pollServer struct {
	epoll    int
	listener int
	wait     time.Duration
	tick     time.Duration
	begin    time.Time
	held     []heldPolls // by time
	answer   []byte
	in       [4096]byte
	events   [128]unix.EpollEvent
}

// heldPolls are the requests that end at one tick.
type heldPolls struct {
	due   time.Time
	conns []int
}

// ticksOfAWait: deadlines are exact to so many parts of what consumers wait.
const ticksOfAWait = 64

// RunPolls serves idle consumers until the process is killed.
func RunPolls(listen string, wait time.Duration) error {
	address, err := netip.ParseAddrPort(listen)
	if err != nil {
		return err
	}
	s := &pollServer{wait: wait, tick: wait / ticksOfAWait, begin: time.Now(), answer: make([]byte, 60)}
	binary.BigEndian.PutUint32(s.answer, uint32(len(s.answer)-4))
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	if err := errors.Join(unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(s.listener, &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}), unix.Listen(s.listener, 1024)); err != nil {
		return fmt.Errorf("listen on %s: %w", listen, err)
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if err := errors.Join(unix.SetNonblock(s.epoll, true), s.watch(s.listener)); err != nil {
		return err
	}
	file := os.NewFile(uintptr(s.epoll), "connections")
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	ready := func(uintptr) bool {
		n, err := unix.EpollWait(s.epoll, s.events[:], 0)
		if err != nil && err != unix.EINTR {
			failed = err
			return true
		}
		for _, e := range s.events[:max(n, 0)] {
			s.arrived(int(e.Fd))
		}
		return n > 0
	}
	for failed == nil {
		due := time.Time{}
		if len(s.held) > 0 {
			due = s.held[0].due
		}
		if err := file.SetReadDeadline(due); err != nil {
			return err
		}
		if err := raw.Read(ready); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		s.release(time.Now())
	}
	return failed
}

func (s *pollServer) watch(fd int) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// arrived takes a connection or a request. Whoever asks something that does not come whole is no consumer of this loop.
func (s *pollServer) arrived(fd int) {
	if fd == s.listener {
		conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			return // it has gone
		}
		if err := errors.Join(unix.SetsockoptInt(conn, unix.SOL_TCP, unix.TCP_NODELAY, 1), s.watch(conn)); err != nil {
			_ = unix.Close(conn) // it was not served
		}
		return
	}
	n, err := unix.Read(fd, s.in[:])
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case n <= 0:
		s.forget(fd)
	case n >= 8 && binary.BigEndian.Uint16(s.in[4:]) == keyAPIVersions:
		_ = unix.Sendto(fd, s.answer, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil) // as release does
	default:
		s.hold(fd, time.Now())
	}
}

// hold keeps a request until the first tick behind its time.
func (s *pollServer) hold(fd int, now time.Time) {
	after := (now.Add(s.wait).Sub(s.begin) + s.tick - 1) / s.tick * s.tick
	due := s.begin.Add(after)
	if last := len(s.held) - 1; last >= 0 && s.held[last].due.Equal(due) {
		s.held[last].conns = append(s.held[last].conns, fd)
		return
	}
	s.held = append(s.held, heldPolls{due, []int{fd}})
}

// release answers what is due.
func (s *pollServer) release(now time.Time) {
	for len(s.held) > 0 && !s.held[0].due.After(now) {
		for _, fd := range s.held[0].conns {
			_ = unix.Sendto(fd, s.answer, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil) // who has gone is told apart by its next read
		}
		s.held = s.held[1:]
	}
}

// forget closes a connection and takes it off what is held: its number is going to be another's.
func (s *pollServer) forget(fd int) {
	for i := range s.held {
		for k, other := range s.held[i].conns {
			if other == fd {
				s.held[i].conns[k] = -1
			}
		}
	}
	_ = unix.Close(fd) // the other side has gone
}
