package rig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Storm keeps a number of requests in flight on each of many connections.
type Storm struct {
	Address     string
	Connections int
	InFlight    int // of one connection
	Frames      func(connection int) [][]byte
	Check       func(answer []byte) error
}

// Run sends so many requests, shared out equally, and waits for the answers.
func (s *Storm) Run(requests int64) (took time.Duration, err error) {
	conns, open := make([]net.Conn, s.Connections), opener{address: s.Address}
	frames := make([][][]byte, s.Connections)
	for i := range conns {
		if conns[i], err = open.dial(); err != nil {
			return 0, err
		}
		defer conns[i].Close()
		if err := conns[i].SetDeadline(time.Now().Add(4 * Patience)); err != nil {
			return 0, err
		}
		frames[i] = s.Frames(i)
	}
	each := (requests + int64(s.Connections) - 1) / int64(s.Connections)
	failures := make([]error, s.Connections)
	begin := time.Now()
	var wg sync.WaitGroup
	for i, conn := range conns {
		wg.Go(func() { failures[i] = s.one(conn, frames[i], each) })
	}
	wg.Wait()
	return time.Since(begin), errors.Join(failures...)
}

// one sends each request by a write of its own, as clients do: what waits
// together in the socket is read together.
func (s *Storm) one(conn net.Conn, frames [][]byte, requests int64) error {
	reader := bufio.NewReaderSize(conn, 16<<10)
	for sent := range min(int64(s.InFlight), requests) {
		if _, err := conn.Write(frames[sent%int64(len(frames))]); err != nil {
			return err
		}
	}
	for sent := int64(s.InFlight); sent < requests+int64(s.InFlight); sent++ {
		answer, err := nextFrame(reader)
		if err != nil {
			return err
		}
		if err := s.Check(answer); err != nil {
			return err
		}
		if _, err := reader.Discard(len(answer)); err != nil {
			return err
		}
		if sent < requests {
			if _, err := conn.Write(frames[sent%int64(len(frames))]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rota keeps a fixed number of requests in flight, however many connections
// they are spread over: hands take their connections in turn.
type Rota struct {
	hands [][]*Caller
	frame []byte
	check func([]byte) error
}

// NewRota opens the connections and deals them out to the hands.
func NewRota(address string, connections, hands int, frame []byte, check func([]byte) error) (*Rota, error) {
	r, open := &Rota{hands: make([][]*Caller, hands), frame: frame, check: check}, opener{address: address}
	for i := range connections {
		conn, err := open.dial()
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.hands[i%hands] = append(r.hands[i%hands], &Caller{conn: conn, answer: make([]byte, 256)})
	}
	return r, nil
}

// Close ends all connections.
func (r *Rota) Close() error {
	var failures []error
	for _, hand := range r.hands {
		for _, c := range hand {
			failures = append(failures, c.Close())
		}
	}
	return errors.Join(failures...)
}

// Run sends so many requests.
func (r *Rota) Run(requests int) error {
	failures := make([]error, len(r.hands))
	var wg sync.WaitGroup
	for h, hand := range r.hands {
		wg.Go(func() {
			for i := range requests / len(r.hands) {
				c := hand[i%len(hand)]
				_, err := c.conn.Write(r.frame)
				if err == nil {
					c.answer, err = ReadAnswer(c.conn, c.answer)
				}
				if err == nil {
					err = r.check(c.answer[4:])
				}
				if err != nil {
					failures[h] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// Polls are consumers that wait for records that do not come: each sends a
// Fetch of one partition again when it was answered.
type Polls struct {
	conns    []net.Conn
	wg       sync.WaitGroup
	failures []error
	closing  chan struct{}
}

// StartPolls opens so many consumers of a topic's partitions, in turn.
// waitMs is how long the broker may hold a Fetch.
func StartPolls(address, topic string, partitions, consumers int, waitMs int32) (*Polls, error) {
	p, open := &Polls{failures: make([]error, consumers), closing: make(chan struct{})}, opener{address: address}
	for i := range consumers {
		conn, err := open.dial()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("idle consumers: %w", err), p.Close())
		}
		p.conns = append(p.conns, conn)
		frame, _ := FetchFrame(topic, []int32{int32(i % partitions)}, 1<<20, 0)
		setFetchWait(frame, waitMs)
		p.wg.Go(func() { p.failures[i] = p.poll(conn, frame) })
	}
	return p, nil
}

func (p *Polls) poll(conn net.Conn, frame []byte) error {
	answer := make([]byte, 256)
	for {
		_, err := conn.Write(frame)
		if err == nil {
			answer, err = ReadAnswer(conn, answer)
		}
		select {
		case <-p.closing:
			return nil
		default:
		}
		if err != nil {
			return fmt.Errorf("an idle consumer: %w", err)
		}
	}
}

// Close ends the consumers and tells what they met.
func (p *Polls) Close() error {
	close(p.closing)
	for _, conn := range p.conns {
		_ = conn.Close() // nothing is left to send
	}
	p.wg.Wait()
	return errors.Join(p.failures...)
}

// Deaf are connections that ask for records and never read them.
type Deaf struct{ conns []net.Conn }

// StartDeaf opens so many, each of which asks for all partitions of a topic a
// few times.
func StartDeaf(address, topic string, partitions, connections int) (*Deaf, error) {
	d, open := &Deaf{}, opener{address: address}
	frame, _ := FetchFrame(topic, dealt(partitions, 1, 0), 1<<20, 0)
	for range connections {
		conn, err := open.dial()
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.conns = append(d.conns, conn)
		for range 4 {
			if _, err := conn.Write(frame); err != nil {
				return nil, errors.Join(err, d.Close())
			}
		}
	}
	return d, nil
}

// Close ends the connections.
func (d *Deaf) Close() error {
	for _, conn := range d.conns {
		_ = conn.Close() // the broker may have closed it, which is its right
	}
	return nil
}

// Trickle reads a topic from its begin at so many bytes a second until stop
// is closed, and returns how many bytes came.
func Trickle(address, topic string, partition int32, bytesPerSecond float64, from *int64, stop <-chan struct{}) (int64, error) {
	conn, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	frame, at := FetchFrame(topic, []int32{partition}, 1<<20, 1<<20)
	answer := make([]byte, 2<<20)
	read, begin := int64(0), time.Now()
	d := &Driver{Load: Load{Topic: topic}}
	next := make([]int64, partition+1)
	next[partition] = *from
	for {
		select {
		case <-stop:
			*from = next[partition]
			return read, nil
		case <-time.After(time.Until(begin.Add(time.Duration(float64(read) / bytesPerSecond * 1e9)))):
		}
		putOffset(frame, at[0], next[partition])
		if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
			return read, err
		}
		_, err := conn.Write(frame)
		if err == nil {
			answer, err = ReadAnswer(conn, answer)
		}
		if err == nil {
			err = d.checkFetch(answer, next)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return read, fmt.Errorf("backfill: %w", err)
		}
		read += int64(len(answer))
	}
}
