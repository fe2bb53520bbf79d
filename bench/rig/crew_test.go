package rig

import (
	"encoding/binary"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// serving is a broker that answers each request by key; none is an end of the connection.
func serving(t *testing.T, answer func(key int16) kmsg.Response) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go func() {
				defer conn.Close()
				for request := make([]byte, 1<<20); ; {
					var err error
					if request, err = ReadAnswer(conn, request); err != nil {
						return
					}
					response := answer(int16(binary.BigEndian.Uint16(request[4:])))
					if response == nil {
						return
					}
					b := response.AppendTo(make([]byte, 8))
					binary.BigEndian.PutUint32(b, uint32(len(b)-4))
					if _, err := conn.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// nothingNew is an answer to a Fetch of partitions without records.
func nothingNew(topic string, highWatermark int64, partitions ...int32) kmsg.Response {
	response := kmsg.NewPtrFetchResponse()
	response.SetVersion(fetchVersion)
	one := kmsg.NewFetchResponseTopic()
	one.Topic = topic
	for _, p := range partitions {
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.Partition, partition.HighWatermark = p, highWatermark
		one.Partitions = append(one.Partitions, partition)
	}
	response.Topics = append(response.Topics, one)
	return response
}

// TestReaderWithoutRecords: a reader that gets answers and never the records that are due ends its run, and says what it lacks.
func TestReaderWithoutRecords(t *testing.T) {
	t.Parallel()
	address := serving(t, func(int16) kmsg.Response { return nothingNew("lost", 7, 0, 1) })
	d := NewDriver(Load{Topic: "lost", Partitions: 2, Consumers: 1, BatchBytes: 2000, ValueBytes: 900, MaxPartitionBytes: 1 << 20}, address)
	d.patience = 50 * time.Millisecond
	d.sent[0], d.sent[1], d.next[0][0] = 4, 6, 8 // batches of two records: the first partition is read
	_, err := d.Run(0)
	if err == nil {
		t.Fatal("a run that never got its records has ended well")
	}
	for _, wanted := range []string{"topic lost, partition 1", "offset 0 and waits for 12", "high watermark was 7", "0 others of its 2"} {
		if !strings.Contains(err.Error(), wanted) {
			t.Errorf("%q is not in: %v", wanted, err)
		}
	}
}

// TestReaderWithoutAnswer: and so does one that gets no answer at all. The raw loop holds a Fetch until there is something.
func TestReaderWithoutAnswer(t *testing.T) {
	t.Parallel()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	go func() {
		if err := RunRaw(address, dir, 1, false, false); err != nil { // serves until the process ends
			panic(err)
		}
	}()
	awaitListening(t, address)
	d := NewDriver(Load{Topic: "silent", Partitions: 1, Consumers: 1, BatchBytes: 2000, ValueBytes: 900, MaxPartitionBytes: 1 << 20}, address)
	d.patience, d.sent[0] = 50*time.Millisecond, 3
	if _, err = d.Run(0); err == nil || !strings.Contains(err.Error(), "topic silent, partition 0: the reader is at offset 0 and waits for 6") {
		t.Error(err)
	}
}

// TestFirstFailureEndsRun: readers wait for what a producer owes them, so they end with it, and the error is the producer's.
func TestFirstFailureEndsRun(t *testing.T) {
	t.Parallel()
	address := serving(t, func(key int16) kmsg.Response {
		if key == keyProduce {
			return nil
		}
		return nothingNew("gone", 0, 0)
	})
	d := NewDriver(Load{Topic: "gone", Partitions: 1, Producers: 1, Consumers: 1, InFlight: 1, Acks: 1, BatchBytes: 2000, ValueBytes: 900, MaxPartitionBytes: 1 << 20}, address)
	d.patience = time.Hour
	if _, err := d.Run(10_000); err == nil || !strings.HasPrefix(err.Error(), "produce: ") || strings.Contains(err.Error(), "closed network") {
		t.Error(err)
	}
}

// TestOpensNoFasterThanAccepted: a listener holds a few connections that nobody has accepted, and Kafka's resets the others.
func TestOpensNoFasterThanAccepted(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var accepted atomic.Int64
	go func() {
		for ; ; time.Sleep(100 * time.Microsecond) { // slower than connections open
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			accepted.Add(1)
			go func() {
				request := make([]byte, 256)
				for {
					var err error
					if request, err = ReadAnswer(conn, request); err != nil {
						return
					}
					if _, err := conn.Write(request); err != nil {
						return
					}
				}
			}()
		}
	}()
	open := opener{address: listener.Addr().String()}
	for i := range int64(4 * unseen) {
		conn, err := open.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if ahead := i + 1 - accepted.Load(); ahead > unseen {
			t.Fatalf("%d connections are open that nobody has accepted", ahead)
		}
	}
}

// TestLoopsGreet: what brokers are compared with answers the question that follows some of many connections.
func TestLoopsGreet(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(address, dir string) error{
		"raw":   func(address, dir string) error { return RunRaw(address, dir, 1, false, false) },
		"echo":  func(address, _ string) error { return RunEcho(address) },
		"polls": func(address, _ string) error { return RunPolls(address, time.Hour) },
	} {
		address, err := FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		go func() {
			if err := run(address, dir); err != nil { // serves until the process ends
				panic(err)
			}
		}()
		awaitListening(t, address)
		open := opener{address: address}
		for range 2 * unseen {
			conn, err := open.dial()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer conn.Close()
		}
	}
}
