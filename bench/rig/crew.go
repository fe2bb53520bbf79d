package rig

import (
	"errors"
	"net"
	"sync"
	"time"
)

// crew are the connections of one run. The first that fails ends all, since others may wait for what it owed them: a follower
// for records that nobody is going to send.
type crew struct {
	address  string
	patience time.Duration // of each connection without an answer
	began    time.Time
	wg       sync.WaitGroup
	conns    []net.Conn // written before any of them is used
	mu       sync.Mutex
	// +checklocks:mu
	failed error // what came first; what follows from it is not told
}

// begin gives each work a connection and a goroutine of its own, all at once when the last connection is open.
func (c *crew) begin(works []func(*link) error) error {
	open := opener{address: c.address}
	for range works {
		conn, err := open.dial()
		if err != nil {
			c.end(err)
			return err
		}
		c.conns = append(c.conns, conn)
	}
	c.began = time.Now() // clients connect once, so that is not part of a rate
	for i, work := range works {
		conn := c.conns[i]
		c.wg.Go(func() {
			if err := work(&link{Conn: conn, patience: c.patience}); err != nil {
				c.end(err)
			}
			_ = conn.Close() // everything that was due has come, or the run has failed
		})
	}
	return nil
}

// wait returns when all are through, with what went wrong first.
func (c *crew) wait() error {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *crew) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return
	}
	c.failed = err
	for _, conn := range c.conns {
		_ = conn.Close() // it wakes who waits there
	}
}

// link is a connection whose answers may be waited for, each for as long as the patience lasts or a quarter less.
type link struct {
	net.Conn
	patience time.Duration
	until    time.Time // of whoever reads
}

// expect says that an answer is due from now on. A deadline is moved when a quarter of it is over, not for each answer.
func (l *link) expect(now time.Time) error {
	if l.until.Sub(now) > l.patience*3/4 {
		return nil
	}
	l.until = now.Add(l.patience)
	return l.SetDeadline(l.until)
}

// timedOut tells whether nothing came in time.
func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
