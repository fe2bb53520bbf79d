package rig

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// TestFetchChecks feeds the driver answers that it must not take.
func TestFetchChecks(t *testing.T) {
	t.Parallel()
	answer := func(partition int32, code int16, bases ...int64) []byte {
		response := kmsg.NewPtrFetchResponse()
		response.SetVersion(fetchVersion)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = "bench"
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode = partition, code
		for _, base := range bases {
			batch, _ := MakeBatch(rand.New(rand.NewPCG(1, 1)), 2000, 900)
			binary.BigEndian.PutUint64(batch, uint64(base))
			p.RecordBatches = append(p.RecordBatches, batch...)
		}
		topic.Partitions = append(topic.Partitions, p)
		response.Topics = append(response.Topics, topic)
		return response.AppendTo(make([]byte, 8))
	}
	fresh := func() *Driver {
		return NewDriver(Load{Topic: "bench", Partitions: 2, BatchBytes: 2000, ValueBytes: 900}, "")
	}
	d := fresh()
	if err := d.checkFetch(answer(1, 0, 0, 2), d.next[0]); err != nil || d.next[0][1] != 4 {
		t.Errorf("two batches of two records: %v, next offset %d", err, d.next[0][1])
	}
	for name, wrong := range map[string][]byte{
		"an error":         answer(0, 6),
		"a gap":            answer(0, 0, 0, 4),
		"a batch twice":    answer(0, 0, 0, 0),
		"another begin":    answer(1, 0, 2),
		"another position": answer(0, 0, 2, 0),
	} {
		if d := fresh(); d.checkFetch(wrong, d.next[0]) == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
}

// TestWideAcks feeds the driver answers to requests with a batch for each partition.
func TestWideAcks(t *testing.T) {
	t.Parallel()
	answer := func(code int16, partitions []int32, bases ...int64) []byte {
		response := kmsg.NewPtrProduceResponse()
		response.SetVersion(produceVersion)
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic = "bench"
		for i, base := range bases {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode, p.BaseOffset = partitions[i], code, base
			topic.Partitions = append(topic.Partitions, p)
		}
		response.Topics = append(response.Topics, topic)
		return response.AppendTo(make([]byte, 4))
	}
	d := NewDriver(Load{Topic: "bench", Partitions: 2, Producers: 2, BatchBytes: 2000, ValueBytes: 900, Wide: true}, "")
	if len(d.Frames()) != 1 || d.records != 2 {
		t.Fatalf("%d frames, %d records a batch", len(d.Frames()), d.records)
	}
	both, next := []int32{0, 1}, []int64{0, 0}
	for i, bases := range [][]int64{{0, 2}, {4, 4}} { // another producer was between them
		if err := d.checkWideAck(answer(0, both, bases...), next); err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	if next[0] != 6 || next[1] != 6 {
		t.Errorf("next are %v", next)
	}
	for name, wrong := range map[string][]byte{
		"an error":               answer(6, both, 6, 6),
		"an offset twice":        answer(0, both, 6, 4),
		"an offset inside":       answer(0, both, 7, 6),
		"a partition too few":    answer(0, both[:1], 6),
		"a partition that isn't": answer(0, []int32{0, 2}, 6, 6),
	} {
		if d.checkWideAck(wrong, []int64{6, 6}) == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
}

// TestFramesDecode holds the hand-written frames against franz-go's decoders.
func TestFramesDecode(t *testing.T) {
	t.Parallel()
	batch, records := MakeBatch(rand.New(rand.NewPCG(3, 4)), 64<<10, 1<<10)
	if len(batch) > 64<<10 || records != 63 || crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
		t.Errorf("a batch of %d bytes with %d records", len(batch), records)
	}
	var decoded kmsg.RecordBatch
	if err := decoded.ReadFrom(batch); err != nil || decoded.NumRecords != 63 || decoded.LastOffsetDelta != 62 {
		t.Errorf("batch: %v", err)
	}
	fetch, offsetAt := FetchFrame("topic", []int32{3, 5}, 1<<20, 0)
	binary.BigEndian.PutUint64(fetch[offsetAt[1]:], 42)
	for _, f := range []struct {
		frame   []byte
		request kmsg.Request
	}{
		{ProduceFrame("topic", 7, -1, batch), kmsg.NewPtrProduceRequest()},
		{wideProduceFrame("topic", []int32{0, 1, 2}, -1, batch), kmsg.NewPtrProduceRequest()},
		{fetch, kmsg.NewPtrFetchRequest()},
		{CreateTopicFrame("topic", 3, [][2]string{{"a", "b"}}), kmsg.NewPtrCreateTopicsRequest()},
		{MetadataFrame("topic", true), kmsg.NewPtrMetadataRequest()},
		{deleteTopicFrame("topic"), kmsg.NewPtrDeleteTopicsRequest()},
	} {
		if got := int(binary.BigEndian.Uint32(f.frame)); got != len(f.frame)-4 {
			t.Errorf("%T: the length says %d of %d", f.request, got, len(f.frame)-4)
		}
		f.request.SetVersion(int16(binary.BigEndian.Uint16(f.frame[6:])))
		body := f.frame[14+len(clientID):]
		if err := f.request.ReadFrom(body); err != nil {
			t.Errorf("%T: %v", f.request, err)
		}
		if again := f.request.AppendTo(nil); string(again) != string(body) {
			t.Errorf("%T is not the bytes that franz-go writes", f.request)
		}
	}
}

// A paced run and its parts, against the echo.
func TestAgainstEcho(t *testing.T) {
	t.Parallel()
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := RunEcho(address); err != nil { // serves until the process ends
			panic(err)
		}
	}()
	awaitListening(t, address)
	frame := ProduceFrame("t", 0, 1, KeyedBatch(rand.New(rand.NewPCG(1, 1)), 3, 100))
	p := &Paced{Address: address, Frames: [][]byte{frame}, Check: AnyAnswer, Connections: 3, Rate: 1000, WarmUp: 100 * time.Millisecond, Length: 300 * time.Millisecond}
	l, err := p.Run()
	if err != nil || len(l) != 300 || l.At(0.5) <= 0 || l.At(0.5) > l.At(1) {
		t.Errorf("%d latencies, %v", len(l), err)
	}
	stop := make(chan struct{})
	close(stop)
	p.Stop = stop
	if l, err = p.Run(); err != nil || len(l) != 0 {
		t.Errorf("a run that was stopped: %d, %v", len(l), err)
	}
	s := &Storm{Address: address, Connections: 3, InFlight: 4, Check: AnyAnswer, Frames: func(int) [][]byte { return [][]byte{frame} }}
	if _, err := s.Run(1000); err != nil {
		t.Error(err)
	}
	if l, err = Timed(address, [][]byte{frame}, AnyAnswer, 50*time.Millisecond); err != nil || len(l) == 0 {
		t.Errorf("%d, %v", len(l), err)
	}
	r, err := NewRota(address, 20, 4, frame, AnyAnswer)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Run(100), r.Close()); err != nil {
		t.Error(err)
	}
}

// awaitListening waits until somebody takes connections.
func awaitListening(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := Dial(address)
		if err == nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestFollow: each record that was sent is read once at the tail, and a second run goes on where the first has ended.
func TestFollow(t *testing.T) {
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
	batch, _ := MakeBatch(rand.New(rand.NewPCG(1, 1)), 200, 100)
	p := &Paced{Address: address, Frames: [][]byte{ProduceFrame("t", 0, 1, batch)}, Check: ProduceAnswer("t"), Connections: 1, Rate: 1000, WarmUp: 50 * time.Millisecond, Length: 100 * time.Millisecond, Follow: "t"}
	for run := range int64(2) {
		if _, err := p.Run(); err != nil || len(p.Delivered) != 100 || len(p.Late) != 100 || p.Next != 150*(run+1) || p.Delivered[0] <= 0 {
			t.Errorf("run %d: %v, %d delivered, next offset %d", run, err, len(p.Delivered), p.Next)
		}
	}
	stop := make(chan struct{})
	close(stop)
	p.Stop = stop
	if _, err := p.Run(); err != nil {
		t.Errorf("a run that was stopped: %v", err)
	}
}

func TestAppends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Appends(dir, 3, 50, 100); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestDirtyBackground(t *testing.T) {
	t.Parallel()
	if bytes, err := DirtyBackground(); err != nil || bytes <= 0 {
		t.Error(bytes, err)
	}
}

func TestDurableCost(t *testing.T) {
	t.Parallel()
	if seconds, err := DurableCost(t.TempDir(), 4*durableBlockBytes); err != nil || seconds <= 0 {
		t.Fatal(seconds, err)
	}
}

func TestSynced(t *testing.T) {
	t.Parallel()
	if l, err := Synced(t.TempDir(), 20*time.Millisecond); err != nil || len(l) == 0 {
		t.Errorf("%d, %v", len(l), err)
	}
}

func TestKeyedBatchDecodes(t *testing.T) {
	t.Parallel()
	batch := KeyedBatch(rand.New(rand.NewPCG(1, 1)), 7, 100)
	var decoded kmsg.RecordBatch
	if err := decoded.ReadFrom(batch); err != nil || decoded.NumRecords != 7 || crc32.Checksum(batch[21:], castagnoli) != binary.BigEndian.Uint32(batch[17:]) {
		t.Errorf("%v, %d records", err, decoded.NumRecords)
	}
	at := decoded.Records
	for range 7 {
		var r kmsg.Record
		length, n := binary.Varint(at)
		if err := r.ReadFrom(at[:n+int(length)]); err != nil || len(r.Key) != 12 || len(r.Value) != 100 {
			t.Fatalf("%v %+v", err, r)
		}
		at = at[n+int(length):]
	}
	if len(at) != 0 {
		t.Errorf("%d bytes are left", len(at))
	}
}

func TestCompressedBatchDecodes(t *testing.T) {
	t.Parallel()
	plain := NewDriver(Load{Partitions: 1, BatchBytes: 64 << 10, ValueBytes: 1000}, "")
	for codec, kind := range map[string]int16{"lz4": 3, "zstd": 4} {
		d := NewDriver(Load{Partitions: 1, BatchBytes: 64 << 10, ValueBytes: 1000, Codec: codec}, "")
		frame := d.frames[0]
		var decoded kmsg.RecordBatch
		if err := decoded.ReadFrom(frame[len(frame)-d.batch:]); err != nil || decoded.Attributes != kind || int(decoded.NumRecords) != d.records || d.batch > plain.batch*3/4 {
			t.Errorf("%s: %v, attributes %d, %d bytes of %d", codec, err, decoded.Attributes, d.batch, plain.batch)
		}
	}
}

// A child outlives the thread that asked for it. Several ask at a time, since
// the first thread of a process never ends.
func TestChildOutlivesThread(t *testing.T) {
	t.Parallel()
	const several = 4
	started, meet := make(chan *Process, several), sync.WaitGroup{}
	meet.Add(several)
	for range several {
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			meet.Done()
			meet.Wait()
			p, err := StartProcess("sleep", "60")
			if err != nil {
				t.Error(err)
			}
			started <- p
		}()
	}
	for range several {
		p := <-started
		if p == nil {
			continue
		}
		select {
		case <-p.Exited:
			t.Errorf("the child was ended: %v", p.Command.ProcessState)
		case <-time.After(100 * time.Millisecond):
			p.Kill()
		}
	}
}

// TestPolls: the raw loop of idle consumers holds each request for as long as was asked, at a common tick, and serves on
// when some have gone.
func TestPolls(t *testing.T) {
	t.Parallel()
	const wait = 320 * time.Millisecond
	address, err := FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	go func() { t.Errorf("the loop ended: %v", RunPolls(address, wait)) }() // it ends with the process
	for range 2 {
		var took [3]time.Duration
		var wg sync.WaitGroup
		for i := range took {
			wg.Go(func() {
				conn, err := net.Dial("tcp", address)
				for deadline := time.Now().Add(Patience); err != nil && time.Now().Before(deadline); conn, err = net.Dial("tcp", address) {
					time.Sleep(time.Millisecond) // it does not listen yet
				}
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				began := time.Now()
				frame, _ := FetchFrame("idle", []int32{0}, 1<<20, 0)
				if _, err := conn.Write(frame); err != nil {
					t.Error(err)
					return
				}
				if i == 2 {
					return // it goes without an answer
				}
				if _, err := ReadAnswer(conn, make([]byte, 256)); err != nil {
					t.Error(err)
				}
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		if took[0] < wait || took[1] < wait {
			t.Errorf("held for %v", took)
		}
	}
}

// TestForgottenPoll: the number of a connection that has gone is going to be another's, which must not get its answer.
func TestForgottenPoll(t *testing.T) {
	t.Parallel()
	gone, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	stays, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &pollServer{wait: time.Second, tick: time.Second / ticksOfAWait, begin: time.Now(), answer: make([]byte, 60)}
	s.hold(gone[0], s.begin)
	s.hold(stays[0], s.begin)
	s.forget(gone[0])
	for _, h := range s.held {
		if slices.Contains(h.conns, gone[0]) {
			t.Fatalf("%d is still to be answered: %v", gone[0], h.conns)
		}
	}
	s.release(s.begin.Add(2 * time.Second))
	if n, err := unix.Read(stays[1], make([]byte, 256)); n != len(s.answer) || err != nil {
		t.Errorf("whoever stays has %d bytes of an answer: %v", n, err)
	}
	for _, fd := range []int{gone[1], stays[0], stays[1]} {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	}
}
