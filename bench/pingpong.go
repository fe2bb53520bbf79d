package bench

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"
)

// pingPong drives partition 0 of a driver's topic over one connection, one
// request at a time. Nothing overlaps, so what the broker does for a request
// does not depend on how fast anybody is: its counts are exact.
type pingPong struct {
	*driver
	conn    net.Conn
	request []byte // Fetch of one batch
	offset  int    // where the offset stands in request
	answer  []byte
}

// newPingPong connects and makes the topic if settings is not nil.
func newPingPong(address, topic string, acks int16, batchBytes, valueBytes int, settings [][2]string) (*pingPong, error) {
	l := load{Topic: topic, Partitions: 1, Acks: acks, BatchBytes: batchBytes, ValueBytes: valueBytes}
	p := &pingPong{driver: newDriver(l, address), answer: make([]byte, 256<<10)}
	if settings != nil {
		if err := p.createTopic(settings); err != nil {
			return nil, err
		}
	}
	var offsets []int
	p.request, offsets = fetchFrame(topic, []int32{0}, int32(p.batch))
	p.offset = offsets[0]
	var err error
	if p.conn, err = net.Dial("tcp", address); err != nil {
		return nil, err
	}
	return p, p.conn.SetDeadline(time.Now().Add(10 * stalled))
}

// produce sends one batch so many times.
func (p *pingPong) produce(times int) (err error) {
	for range times {
		if _, err = p.conn.Write(p.frames[0]); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		if p.answer, err = readAnswer(p.conn, p.answer); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		if err := p.checkAck(p.answer[4:], 0); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// fetch reads the next batches, one each; they must have been produced.
func (p *pingPong) fetch(times int) (err error) {
	for range times {
		due := p.next[0] + int64(p.records)
		binary.BigEndian.PutUint64(p.request[p.offset:], uint64(p.next[0]))
		if _, err = p.conn.Write(p.request); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if p.answer, err = readAnswer(p.conn, p.answer); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if err := p.checkFetch(p.answer); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		if p.next[0] != due {
			return fmt.Errorf("fetch: one batch was due, and the next offset is %d instead of %d", p.next[0], due)
		}
	}
	return nil
}

// both produces one batch and reads it, so many times.
func (p *pingPong) both(times int) error {
	for range times {
		if err := p.produce(1); err != nil {
			return err
		}
		if err := p.fetch(1); err != nil {
			return err
		}
	}
	return nil
}
