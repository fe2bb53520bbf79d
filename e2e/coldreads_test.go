//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

var (
	coldBacklog = flag.Int64("cold.backlog", 0, "bytes of the backlog that TestTailWhileBacklogIsRead reads; 0: the test is skipped")
	coldMemory  = flag.Int64("cold.memory", 512<<20, "memory of the broker in that test, page cache included (memory cgroup, version 1)")
	coldRate    = flag.Int64("cold.rate", 150e6, "bytes that the reader in that test takes in a second")
	coldRounds  = flag.Int("cold.rounds", 3, "rounds of that test")
	coldFor     = flag.Duration("cold.for", 10*time.Second, "how long each phase of that test is")
)

// TestTailWhileBacklogIsRead: a consumer at the end of a topic is not held up by another client that reads a backlog which
// does not fit the broker's memory. The topics do not wait for the disk (flush.messages), so that what is measured is the
// way through the broker and not the disk that both share. Its figures: docs/design/logstore-figures.md.
//
// A second client costs the first one processor time whatever it reads, and so do reads from a disk, whoever asks for them: the kernel
// finds pages, evicts others and takes interrupts. So the control is a reader of the same rate whose topic is in memory, while another
// process than the broker reads the same bytes from the disk. What the backlog costs beyond that is the broker's.
func TestTailWhileBacklogIsRead(t *testing.T) {
	if *coldBacklog == 0 {
		t.Skip("a measurement: -cold.backlog=3000000000, alone on the machine")
	}
	b := startBroker(t)
	limitMemory(t, b.command.Process.Pid, *coldMemory)
	relaxed := map[string]*string{"flush.messages": ptr("1000000000")}
	for _, topic := range []string{"cold", "warm", "tail"} {
		b.createTopic(t, topic, 1, relaxed)
	}
	fillBacklog(t, b, "cold", *coldBacklog)
	tail := &tailLatency{t: t, b: b}
	tail.start()
	fillBacklog(t, b, "warm", *coldMemory/8)
	files := files(t, filepath.Join(b.logDir, "cold-0"), "*.log")
	const control = "warm, and another process reads the disk"
	p99 := map[string][]time.Duration{}
	for range *coldRounds {
		for _, reader := range []string{"nobody", "warm", control, "cold"} {
			before := readFromDisks(t, b.command.Process.Pid)
			stop := func() int64 { return 0 }
			stopDisk := stop
			switch reader {
			case "warm", "cold":
				stop = readBacklog(t, b, reader)
			case control:
				stop, stopDisk = readBacklog(t, b, "warm"), readDisk(t, files)
			}
			beside := tail.measure(*coldFor)
			read, other := stop(), stopDisk()
			p99[reader] = append(p99[reader], beside.at(0.99))
			t.Logf("beside %s (%d MB, %d MB from the disk, %d MB by the other process): %s", reader, read/1e6, (readFromDisks(t, b.command.Process.Pid)-before)/1e6, other/1e6, beside)
		}
	}
	for _, all := range p99 {
		slices.Sort(all)
	}
	t.Logf("p99 in order: %v", p99)
	if got, want := p99["cold"][len(p99["cold"])/2], p99[control][len(p99[control])/2]; got > 2*want {
		t.Errorf("median p99 %v beside the backlog, %v beside the same reads of others: the broker holds the tail up", got, want)
	}
}

// readDisk reads files past the broker at the rate, from the disk: what it has read it has the system forget. stop says how many bytes it
// got.
func readDisk(t *testing.T, names []string) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan int64)
	go func() {
		read, began, chunk := int64(0), time.Now(), make([]byte, 1<<20)
		for i := 0; ctx.Err() == nil; i++ {
			f, err := os.Open(names[i%len(names)])
			for at := int64(0); err == nil && ctx.Err() == nil; at += int64(len(chunk)) {
				_ = unix.Fadvise(int(f.Fd()), at, int64(len(chunk)), unix.FADV_DONTNEED) // it may be in the broker's share
				var n int
				n, err = f.ReadAt(chunk, at)
				read += int64(n)
				_ = unix.Fadvise(int(f.Fd()), at, int64(n), unix.FADV_DONTNEED)
				select {
				case <-time.After(max(time.Duration(float64(read)/float64(*coldRate)*float64(time.Second))-time.Since(began), 0)):
				case <-ctx.Done():
				}
			}
			if f != nil {
				_ = f.Close() // only read from
			}
		}
		done <- read
	}()
	return func() int64 {
		cancel()
		return <-done
	}
}

// readBacklog reads a topic from its start, again and again, at the rate. stop says how many bytes it got.
func readBacklog(t *testing.T, b *broker, topic string) (stop func() int64) {
	t.Helper()
	end := b.endOffsets(t, topic)[0]
	reader := b.client(t, kgo.ConsumeTopics(topic), kgo.FetchMaxBytes(1<<20), kgo.FetchMaxPartitionBytes(1<<20), kgo.MaxConcurrentFetches(1))
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan int64)
	go func() {
		read, began := int64(0), time.Now()
		for ctx.Err() == nil {
			last := int64(-1)
			reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) { read, last = read+int64(len(r.Value)), r.Offset })
			if last == end-1 {
				reader.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 0}}})
			}
			ahead := time.Duration(float64(read)/float64(*coldRate)*float64(time.Second)) - time.Since(began)
			select {
			case <-time.After(max(ahead, 0)):
			case <-ctx.Done():
			}
		}
		done <- read
	}()
	return func() int64 {
		cancel()
		read := <-done
		reader.Close()
		return read
	}
}

// fillBacklog writes values that do not compress.
func fillBacklog(t *testing.T, b *broker, topic string, bytes int64) {
	t.Helper()
	client := b.client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RequiredAcks(kgo.LeaderAck()),
		kgo.DisableIdempotentWrite(), kgo.ProducerBatchMaxBytes(900<<10), kgo.MaxBufferedRecords(2000))
	value := make([]byte, 100<<10)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	ctx := testContext(t)
	for sent := int64(0); sent < bytes; sent += int64(len(value)) {
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	must(t, client.Flush(ctx))
}

// limitMemory puts a process into a memory cgroup of its own.
func limitMemory(t *testing.T, pid int, bytes int64) {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprint("kaas-e2e-", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no memory cgroup of version 1 can be made: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(bytes, 10)), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644))
	root := filepath.Join("/sys/fs/cgroup/memory", "cgroup.procs")
	t.Cleanup(func() {
		_ = os.WriteFile(root, []byte(strconv.Itoa(pid)), 0o644) // the process may have ended
		eventually(t, 10*time.Second, func() error { return os.Remove(dir) })
	})
}

// readFromDisks is what the process has read from disks so far, in bytes, mapped pages included.
func readFromDisks(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	must(t, err)
	var rchar, wchar, syscr, syscw, read int64
	_, err = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d\nread_bytes: %d", &rchar, &wchar, &syscr, &syscw, &read)
	must(t, err)
	return read
}

// tailLatency produces small records at a steady rate and measures how long each takes to a consumer.
type tailLatency struct {
	t       *testing.T
	b       *broker
	samples chan time.Duration
}

func (l *tailLatency) start() {
	l.samples = make(chan time.Duration, 1<<20)
	ctx, stop := context.WithCancel(testContext(l.t))
	producer := l.b.client(l.t, kgo.DefaultProduceTopic("tail"), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.ProducerLinger(0))
	consumer := l.b.client(l.t, kgo.ConsumeTopics("tail"), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	produced, consumed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			producer.Produce(ctx, &kgo.Record{Value: binary.BigEndian.AppendUint64(make([]byte, 0, 108), uint64(time.Now().UnixNano()))}, nil)
		}
	}()
	go func() {
		defer close(consumed)
		for ctx.Err() == nil {
			fetches := consumer.PollFetches(ctx)
			now := time.Now().UnixNano()
			fetches.EachRecord(func(r *kgo.Record) {
				select {
				case l.samples <- time.Duration(now - int64(binary.BigEndian.Uint64(r.Value))):
				default:
				}
			})
		}
	}()
	l.t.Cleanup(func() { stop(); <-produced; <-consumed })
	<-l.samples // it runs
}

// latencies are sorted.
type latencies []time.Duration

func (l latencies) at(q float64) time.Duration {
	if len(l) == 0 {
		return time.Hour // nothing arrived
	}
	return l[int(q*float64(len(l)-1))].Round(10 * time.Microsecond)
}

func (l latencies) String() string {
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, largest %v of %d", l.at(0.5), l.at(0.99), l.at(0.999), l.at(1), len(l))
}

func (l *tailLatency) measure(d time.Duration) latencies {
	for len(l.samples) > 0 {
		<-l.samples
	}
	var got latencies
	end := time.After(d)
	for {
		select {
		case s := <-l.samples:
			got = append(got, s)
			continue
		case <-end:
		}
		break
	}
	slices.Sort(got)
	return got
}
