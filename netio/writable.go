package netio

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// writePoller tells when a socket takes bytes again. gnet keeps EPOLLOUT to itself, so netio has an epoll instance of
// its own, with one goroutine that only schedules connections.
//
// A descriptor number is used again by the system as soon as it is closed, so an event carries the connection's id,
// not its descriptor: an event for a connection that has closed finds nobody and is forgotten. The registration itself
// ends when the last descriptor of the socket is closed.
type writePoller struct {
	epollFD int
	stopFD  int // eventfd, id 0
	done    chan struct{}

	mu sync.Mutex // never held over a system call or a call of a Conn
	// waiting by id, at most one per open connection.
	// +checklocks:mu
	waiting map[uint64]*Conn
}

func startWritePoller() (*writePoller, error) {
	epollFD, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("write poller: epoll_create1: %w", err)
	}
	stopFD, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(epollFD)
		return nil, fmt.Errorf("write poller: eventfd: %w", err)
	}
	if err := unix.EpollCtl(epollFD, unix.EPOLL_CTL_ADD, stopFD, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		unix.Close(epollFD)
		unix.Close(stopFD)
		return nil, fmt.Errorf("write poller: epoll_ctl: %w", err)
	}
	p := &writePoller{epollFD: epollFD, stopFD: stopFD, done: make(chan struct{}), waiting: map[uint64]*Conn{}}
	go p.run()
	return p, nil
}

// await arranges for one writableAgain. Owner of the connection only, so calls for one connection do not overlap.
func (p *writePoller) await(c *Conn, fd int) error {
	p.mu.Lock()
	p.waiting[c.id] = c
	p.mu.Unlock()
	event := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLONESHOT, Fd: int32(c.id), Pad: int32(c.id >> 32)}
	err := unix.EpollCtl(p.epollFD, unix.EPOLL_CTL_MOD, fd, &event)
	if err == unix.ENOENT {
		err = unix.EpollCtl(p.epollFD, unix.EPOLL_CTL_ADD, fd, &event)
	}
	return err
}

// forget is called when a connection closes, before its descriptor is closed.
func (p *writePoller) forget(c *Conn) {
	p.mu.Lock()
	delete(p.waiting, c.id)
	p.mu.Unlock()
}

func (p *writePoller) run() {
	defer close(p.done)
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(p.epollFD, events, -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			panic(fmt.Sprintf("netio: the write poller's own epoll instance fails: %v", err))
		}
		for _, event := range events[:n] {
			id := uint64(uint32(event.Fd)) | uint64(uint32(event.Pad))<<32
			if id == 0 {
				return
			}
			p.mu.Lock()
			c := p.waiting[id]
			delete(p.waiting, id)
			p.mu.Unlock()
			if c != nil {
				c.writableAgain()
			}
		}
	}
}

// stop ends the goroutine. No connection exists any more.
func (p *writePoller) stop() {
	if _, err := unix.Write(p.stopFD, eventfdOne[:]); err != nil {
		panic(fmt.Sprintf("netio: cannot stop the write poller: %v", err))
	}
	<-p.done
	unix.Close(p.epollFD)
	unix.Close(p.stopFD)
}
