package rig

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// PingPong drives partition 0 of a driver's topic over one connection, one
// request at a time. Nothing overlaps, so what the broker does for a request
// does not depend on how fast anybody is: its counts are exact.
type PingPong struct {
	*Driver
	conn    net.Conn
	request []byte // Fetch of one batch
	offset  int    // where the offset stands in request
	answer  []byte
}

// NewPingPong connects and makes the topic if settings is not nil.
func NewPingPong(address, topic string, acks int16, batchBytes, valueBytes int, settings [][2]string) (*PingPong, error) {
	l := Load{Topic: topic, Partitions: 1, Acks: acks, BatchBytes: batchBytes, ValueBytes: valueBytes}
	p := &PingPong{Driver: NewDriver(l, address), answer: make([]byte, 256<<10)}
	if settings != nil {
		if err := p.CreateTopic(settings); err != nil {
			return nil, err
		}
	}
	var offsets []int
	p.request, offsets = FetchFrame(topic, []int32{0}, int32(p.batch), 0)
	p.offset = offsets[0]
	var err error
	if p.conn, err = net.Dial("tcp", address); err != nil {
		return nil, err
	}
	return p, p.conn.SetDeadline(time.Now().Add(10 * Patience))
}

// Close ends the connection.
func (p *PingPong) Close() error { return p.conn.Close() }

// Produce sends one batch so many times.
func (p *PingPong) Produce(times int) (err error) {
	for range times {
		if _, err = p.conn.Write(p.frames[0]); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		if p.answer, err = ReadAnswer(p.conn, p.answer); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		if err := p.checkAck(p.answer[4:], 0); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// Fetch reads the next batches, one each; they must have been produced.
func (p *PingPong) Fetch(times int) (err error) {
	for range times {
		due := p.next[0][0] + int64(p.records)
		binary.BigEndian.PutUint64(p.request[p.offset:], uint64(p.next[0][0]))
		if _, err = p.conn.Write(p.request); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if p.answer, err = ReadAnswer(p.conn, p.answer); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if err := p.checkFetch(p.answer, p.next[0]); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if p.next[0][0] != due {
			return fmt.Errorf("fetch: one batch was due, and the next offset is %d instead of %d", p.next[0][0], due)
		}
	}
	return nil
}

// Both produces one batch and reads it, so many times.
func (p *PingPong) Both(times int) error {
	for range times {
		if err := p.Produce(1); err != nil {
			return err
		}
		if err := p.Fetch(1); err != nil {
			return err
		}
	}
	return nil
}
