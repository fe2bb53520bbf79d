package rig

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Load says what a driver sends and reads.
type Load struct {
	Topic             string
	Partitions        int
	Producers         int // connections; partitions are dealt out to them
	Consumers         int
	InFlight          int // Produce requests of one connection without an answer
	Acks              int16
	BatchBytes        int
	ValueBytes        int
	MaxPartitionBytes int32  // of one Fetch
	MaxBytes          int32  // of one Fetch, all partitions; 0 is 50 MiB
	Codec             string // lz4 or zstd; the broker's bytes are the compressed ones
	FanOut            int    // sets of Consumers, each of which reads everything; 0 counts as 1

	// Wide: each producer writes to all partitions, and each of its requests has a batch for every one of them. That is what
	// Kafka's own producers send under load, up to max.request.size. Otherwise a request has one batch, of a partition that is
	// its producer's alone.
	Wide bool
}

// CostOfAByte is the first row of the targets: 1 KB records in 64 KB batches,
// produced to 16 partitions and followed at the tail.
func CostOfAByte(acks int16) Load {
	return Load{Topic: "bench", Partitions: 16, Producers: 4, Consumers: 4, InFlight: 5, Acks: acks,
		BatchBytes: 64 << 10, ValueBytes: 1 << 10, MaxPartitionBytes: 1 << 20}
}

// Driver is a load on its way to one address. Partition p is written by one
// producer and read by one consumer of a set, so its cells below have one
// writer each.
type Driver struct {
	Load
	address string
	frames  [][]byte // Produce, by partition; of Wide the one for all
	batch   int      // bytes of one batch
	records int      // in one batch

	sent    []int64   // batches, by partition; its producer's, of Wide changed between runs only
	next    [][]int64 // the offset to fetch next, by set and partition; its consumer's
	fetches atomic.Int64

	patience time.Duration // with a connection that has no answer and a reader that has no record
}

func NewDriver(l Load, address string) *Driver {
	random := rand.New(rand.NewPCG(1, 2))
	batch, records := MakeBatch(random, l.BatchBytes, l.ValueBytes)
	switch l.Codec {
	case "lz4":
		batch, records = compressedBatch(random, l.BatchBytes, l.ValueBytes, kgo.Lz4Compression())
	case "zstd":
		batch, records = compressedBatch(random, l.BatchBytes, l.ValueBytes, kgo.ZstdCompression())
	}
	d := &Driver{Load: l, address: address, batch: len(batch), records: records,
		sent: make([]int64, l.Partitions), patience: stalled}
	for range max(l.FanOut, 1) {
		d.next = append(d.next, make([]int64, l.Partitions))
	}
	if l.Wide {
		d.frames = append(d.frames, wideProduceFrame(l.Topic, dealt(l.Partitions, 1, 0), l.Acks, batch))
		return d
	}
	for p := range l.Partitions {
		d.frames = append(d.frames, ProduceFrame(l.Topic, int32(p), l.Acks, batch))
	}
	return d
}

// Frames are the Produce requests of the load: one a partition, of Wide one for all.
func (d *Driver) Frames() [][]byte { return d.frames }

// Written tells whether anything has been produced.
func (d *Driver) Written() bool { return slices.Max(d.sent) > 0 }

// BatchLen is the size of one batch, which is the same for all.
func (d *Driver) BatchLen() int { return d.batch }

// Rewind makes the next run read from the begin again.
func (d *Driver) Rewind() {
	for _, next := range d.next {
		clear(next)
	}
}

// Outcome is what one run moved, in the batches' own bytes: each was sent
// once and came back once to each set of consumers.
type Outcome struct {
	Bytes    int64
	Produces int64
	Fetches  int64
	Took     time.Duration
}

// Run produces so many bytes, rounded up to whole batches (none of them
// without producers, whatever is asked), waits until the consumers have read
// all that is there, and checks that every offset came once and
// in order.
func (d *Driver) Run(bytes int64) (Outcome, error) {
	perPartition := (bytes + int64(d.batch*d.Partitions) - 1) / int64(d.batch*d.Partitions)
	if d.Wide { // each producer sends as much as any other
		perPartition = (perPartition + int64(d.Producers) - 1) / int64(d.Producers) * int64(d.Producers)
	}
	fetchesBefore := d.fetches.Load()
	goal := make([]int64, d.Partitions)
	var left int64 // batches to read
	for p := range goal {
		goal[p] = (d.sent[p] + perPartition) * int64(d.records)
		left += (goal[p] - d.next[0][p]) / int64(d.records)
	}
	crew, works := &crew{address: d.address, patience: d.patience}, []func(*link) error{}
	for _, next := range d.next {
		for c := range d.Consumers {
			f := &follower{d: d, partitions: dealt(d.Partitions, d.Consumers, c), next: next, goal: goal, highest: make([]int64, d.Partitions)}
			works = append(works, f.run)
		}
	}
	for c := range d.Producers {
		mine := dealt(d.Partitions, d.Producers, c)
		requests := perPartition * int64(len(mine))
		if d.Wide {
			mine, requests = nil, perPartition/int64(d.Producers)
		}
		works = append(works, func(conn *link) error { return d.produce(conn, mine, requests) })
	}
	if err := crew.begin(works); err != nil {
		return Outcome{}, err
	}
	if err := crew.wait(); err != nil {
		return Outcome{}, err
	}
	batches := perPartition * int64(d.Partitions)
	moved, produces := batches, batches
	if d.Wide {
		produces = perPartition
		for p := range d.sent {
			d.sent[p] += perPartition
		}
	}
	if d.Producers == 0 {
		moved = left
	}
	return Outcome{Bytes: moved * int64(d.batch), Produces: produces, Fetches: d.fetches.Load() - fetchesBefore, Took: time.Since(crew.began)}, nil
}

// dealt returns the partitions of one of so many hands.
func dealt(partitions, hands, hand int) (mine []int32) {
	for p := hand; p < partitions; p += hands {
		mine = append(mine, int32(p))
	}
	return mine
}

// Patience bounds every wait for the other side.
const Patience = 60 * time.Second

// stalled is when a connection of a run is given up: its answers are due at once, and the slowest disk that was seen made one
// wait for a few seconds.
const stalled = 30 * time.Second

// produce sends so many requests for its partitions in turn, or of Wide, where none is its own, for all of them at once.
func (d *Driver) produce(conn *link, partitions []int32, requests int64) error {
	window := make(chan struct{}, d.InFlight)
	acknowledged := make(chan error, 1)
	go func() { acknowledged <- d.readAcks(conn, partitions, requests, window) }()
	for i := range requests {
		select {
		case window <- struct{}{}:
		case err := <-acknowledged:
			return fmt.Errorf("produce: %w", err)
		}
		frame := d.frames[0]
		if !d.Wide {
			frame = d.frames[partitions[i%int64(len(partitions))]]
		}
		if _, err := conn.Write(frame); err != nil {
			return fmt.Errorf("produce: %w", errors.Join(err, <-acknowledged)) // no answer comes either
		}
	}
	if err := <-acknowledged; err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	return nil
}

// readAcks checks that each answer is of the partition and offset due.
func (d *Driver) readAcks(conn *link, partitions []int32, requests int64, window <-chan struct{}) error {
	reader := bufio.NewReaderSize(conn, 64<<10)
	next := make([]int64, d.Partitions) // of Wide: the lowest offset that may come, by partition
	if d.Wide {
		for p := range next {
			next[p] = d.sent[p] * int64(d.records)
		}
	}
	for i := range requests {
		if err := conn.expect(time.Now()); err != nil {
			return err
		}
		answer, err := nextFrame(reader)
		if timedOut(err) {
			return fmt.Errorf("topic %s, partitions %v: answer %d of %d did not come within %v: %w", d.Topic, partitions, i+1, requests, conn.patience, err)
		}
		if err != nil {
			return err
		}
		if d.Wide {
			err = d.checkWideAck(answer, next)
		} else {
			err = d.checkAck(answer, partitions[i%int64(len(partitions))])
		}
		if err != nil {
			return err
		}
		if _, err := reader.Discard(len(answer)); err != nil {
			return err
		}
		<-window
	}
	return nil
}

// What stands before the partitions of an answer to Produce, with the correlation id and without the topic, and what each takes
// when nothing is wrong: index, error, offset, time, log start, no errors of records, no message.
const (
	ackHeadBytes      = 4 + 4 + 2 + 4
	ackPartitionBytes = 4 + 2 + 8 + 8 + 8 + 4 + 2
)

// ack reads one partition of an answer.
func ack(b []byte) (partition int32, code int16, base int64) {
	return int32(binary.BigEndian.Uint32(b)), int16(binary.BigEndian.Uint16(b[4:])), int64(binary.BigEndian.Uint64(b[6:]))
}

// checkAck takes an answer without its length; it must be that of partition p
// with the offset that is due.
func (d *Driver) checkAck(answer []byte, p int32) error {
	at := ackHeadBytes + len(d.Topic)
	if len(answer) < at+ackPartitionBytes {
		return fmt.Errorf("an answer of %d bytes", len(answer))
	}
	index, code, base := ack(answer[at:])
	if due := d.sent[p] * int64(d.records); index != p || code != 0 || base != due {
		return fmt.Errorf("partition %d, error %d, offset %d was answered where partition %d, offset %d was due", index, code, base, p, due)
	}
	d.sent[p]++
	return nil
}

// checkWideAck takes an answer to a request with a batch for each partition. Others append to them as well, so that offsets rise;
// that each came once is seen by the consumers.
func (d *Driver) checkWideAck(answer []byte, next []int64) error {
	at := ackHeadBytes + len(d.Topic)
	if len(answer) < at+ackPartitionBytes*d.Partitions {
		return fmt.Errorf("an answer of %d bytes", len(answer))
	}
	for i := range d.Partitions {
		p, code, base := ack(answer[at+i*ackPartitionBytes:])
		if int(p) != i || code != 0 || base < next[i] || base%int64(d.records) != 0 {
			return fmt.Errorf("partition %d, error %d, offset %d was answered where partition %d, offset %d or more was due", p, code, base, i, next[i])
		}
		next[i] = base + int64(d.records)
	}
	return nil
}

// nextFrame returns the next answer without its length; it lies in the
// reader's buffer until the caller discards it.
func nextFrame(reader *bufio.Reader) ([]byte, error) {
	head, err := reader.Peek(4)
	if err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head))
	if _, err := reader.Discard(4); err != nil {
		return nil, err
	}
	return reader.Peek(length)
}
