package rig

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// follower fetches some partitions until each has come to its goal.
type follower struct {
	d          *Driver
	partitions []int32
	next       []int64 // by partition, of the driver
	goal       []int64
	moved      time.Time // when the last record came
	highest    []int64   // high watermarks of the last answer, by partition
}

func (f *follower) run(conn *link) error {
	request, offsetAt := FetchFrame(f.d.Topic, f.partitions, f.d.MaxPartitionBytes, f.d.MaxBytes)
	buffer := make([]byte, 1<<20)
	f.moved = time.Now()
	for {
		left := false
		for i, p := range f.partitions {
			binary.BigEndian.PutUint64(request[offsetAt[i]:], uint64(f.next[p]))
			left = left || f.next[p] < f.goal[p]
		}
		if !left {
			return nil
		}
		if err := conn.expect(time.Now()); err != nil {
			return err
		}
		_, err := conn.Write(request)
		if err == nil {
			buffer, err = ReadAnswer(conn, buffer)
		}
		if timedOut(err) {
			return fmt.Errorf("fetch: no answer came within %v; %s: %w", conn.patience, f.lack(), err)
		}
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		came, err := f.d.readFetch(buffer, f.next, f.highest)
		if err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		f.d.fetches.Add(1)
		now := time.Now()
		switch {
		case came > 0:
			f.moved = now
		case now.Sub(f.moved) > conn.patience:
			return fmt.Errorf("fetch: answers come, and none had a record for %v; %s", conn.patience, f.lack())
		}
	}
}

// lack names a partition that has not come to its goal, and how many others have not.
func (f *follower) lack() string {
	text, others := "", 0
	for _, p := range f.partitions {
		switch {
		case f.next[p] >= f.goal[p]:
		case text == "":
			text = fmt.Sprintf("topic %s, partition %d: the reader is at offset %d and waits for %d, the broker's high watermark was %d", f.d.Topic, p, f.next[p], f.goal[p], f.highest[p])
		default:
			others++
		}
	}
	return fmt.Sprintf("%s; so %d others of its %d partitions", text, others, len(f.partitions))
}

// ReadAnswer reads one answer with its length into a buffer, which grows as need be.
func ReadAnswer(conn net.Conn, buffer []byte) ([]byte, error) {
	buffer = buffer[:cap(buffer)]
	n, err := io.ReadAtLeast(conn, buffer, 4)
	if err != nil {
		return buffer, err
	}
	whole := 4 + int(binary.BigEndian.Uint32(buffer))
	if whole > len(buffer) {
		larger := make([]byte, whole+whole/4)
		copy(larger, buffer[:n])
		buffer = larger
	}
	if n < whole {
		if _, err := io.ReadFull(conn, buffer[n:whole]); err != nil {
			return buffer, err
		}
	}
	return buffer[:whole], nil
}

// checkFetch looks at every batch's head; the records were checked when they were made, and the broker checked the CRC.
func (d *Driver) checkFetch(answer []byte, next []int64) error {
	_, err := d.readFetch(answer, next, nil)
	return err
}

// readFetch moves next along and says how many batches came. It notes the high watermarks, by partition, unless highest is nil.
func (d *Driver) readFetch(answer []byte, next, highest []int64) (came int, err error) {
	be := binary.BigEndian
	at := 4 + 4 + 4 + 2 + 4 // length, correlation id, throttle time, error, session
	if code := int16(be.Uint16(answer[12:])); code != 0 {
		return 0, fmt.Errorf("error %d", code)
	}
	at += 4 + 2 + len(d.Topic)
	count := int(be.Uint32(answer[at:]))
	at += 4
	for range count {
		p, code := int(be.Uint32(answer[at:])), int16(be.Uint16(answer[at+4:]))
		if code != 0 {
			return came, fmt.Errorf("partition %d: error %d", p, code)
		}
		if highest != nil {
			highest[p] = int64(be.Uint64(answer[at+6:]))
		}
		if aborted := int32(be.Uint32(answer[at+30:])); aborted > 0 {
			return came, fmt.Errorf("partition %d: %d aborted transactions", p, aborted)
		}
		length := int(int32(be.Uint32(answer[at+38:])))
		at += fetchPartitionHeaderBytes
		records := answer[at : at+max(length, 0)]
		at += len(records)
		for len(records) >= batchHeaderBytes {
			base, size := int64(be.Uint64(records)), 12+int(be.Uint32(records[batchLengthAt:]))
			if size > len(records) {
				break // Kafka may cut the last batch; it comes again whole
			}
			if base != next[p] {
				return came, fmt.Errorf("partition %d: offset %d came where %d was due", p, base, next[p])
			}
			next[p] = base + int64(be.Uint32(records[batchLastDeltaAt:])) + 1
			records = records[size:]
			came++
		}
	}
	return came, nil
}
