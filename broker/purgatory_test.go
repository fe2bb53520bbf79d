package broker

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Whoever signals and whoever parks agree on one owner, and no signal is lost.
func TestParkStateHasOneOwner(t *testing.T) {
	t.Parallel()
	var state parkState
	state.own()
	var owners atomic.Int32
	owners.Store(1)
	var seen, sent atomic.Int64
	own := func() { // runs as owner until it parks
		for {
			if owners.Load() != 1 {
				t.Error("two owners")
			}
			if state.take()&parkDirty != 0 {
				seen.Add(1)
			}
			owners.Add(-1)
			if state.park() {
				return
			}
			owners.Add(1)
		}
	}
	own()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 20_000 {
				sent.Add(1)
				if state.signal(parkDirty) {
					owners.Add(1)
					own()
				}
			}
		})
	}
	wait.Wait()
	if bits := state.bits.Load(); bits != 0 {
		t.Fatalf("bits %b are left: a signal was lost", bits)
	}
	if seen.Load() == 0 || seen.Load() > sent.Load() {
		t.Fatalf("%d of %d signals were seen", seen.Load(), sent.Load())
	}
}

// Produces that came at once wake a fetch of several partitions once, at their end: it finds the news of all of them. An
// append of another loop meanwhile relies on that, too.
func TestWakesAreDeferredToTheEndOfFrames(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 3})
	topic := b.topic("t")
	for i := range topic.partitions {
		log := topic.partitions[i].log
		config := log.Config()
		config.FlushMessages = 1 << 40 // visible at once
		log.SetConfig(config)
	}
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0, 1: 0, 2: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
	sink := send(t, b, testConnection(), request)
	producer := testConnection()
	for partition := range int32(3) {
		c := producer
		if producer.inFrame = partition < 2; partition == 2 {
			c = testConnection() // of another loop
			topic.partitions[2].purgatory.held.Add(1)
		}
		produce := produceOne(t, b, 9, 1, "t", partition, testBatch("x"))
		receive[*kmsg.ProduceResponse](t, produce, send(t, b, c, produce))
		if isEnded(sink) {
			t.Fatal("answered before the end of what came at once")
		}
	}
	topic.partitions[2].purgatory.held.Add(-1)
	producer.wakes.wake(b)
	for _, p := range receive[*kmsg.FetchResponse](t, request, sink).Topics[0].Partitions {
		if values, _ := valuesOf(t, p.RecordBatches); len(values) != 1 {
			t.Errorf("partition %d: %d records, want 1", p.Partition, len(values))
		}
	}
	if len(producer.wakes.partitions) != 0 {
		t.Error("a wake is left")
	}
	assertNothingParked(t, b)
}

// Readers follow several partitions by long-polls with random bounds while
// writers append, connections close and sessions come and go: every record
// arrives once, in order, and nothing stays parked.
func TestReadersFollowWriters(t *testing.T) {
	t.Parallel()
	const partitions, perPartition, readers = 4, 150, 6
	b := newDataBroker(t, testTopics{"t": partitions})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wait sync.WaitGroup
	for p := range int32(partitions) {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(p)))
			for i := range perPartition {
				put(t, b, "t", p, fmt.Sprintf("%d", i))
				if random.IntN(20) == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for reader := range readers {
		wait.Go(func() { followAll(t, b, rand.New(rand.NewPCG(seed, uint64(100+reader))), partitions, perPartition) })
	}
	wait.Wait()
	assertNothingParked(t, b)
}

func followAll(t *testing.T, b *Broker, random *rand.Rand, partitions int32, count int64) {
	next := make(map[int32]int64)
	for p := range partitions {
		next[p] = 0
	}
	session := sessionClient{version: int16(7 + random.IntN(12))}
	c := testConnection()
	for {
		asked := make(map[int32]int64)
		for p, offset := range next {
			if offset < count {
				asked[p] = offset
			}
		}
		if len(asked) == 0 {
			return
		}
		spec := fetchSpec{version: session.version, topic: "t", partitions: asked, epoch: -1, minBytes: int32(1 + random.IntN(300)), maxWait: int32(1 + random.IntN(30)), isolation: int8(random.IntN(2))}
		request := fetchOf(t, b, spec)
		sink := send(t, b, c, request)
		if random.IntN(10) == 0 {
			// The connection goes while the fetch waits, or just after.
			c.fetches.close()
			c = testConnection()
			waitFor(t, sink)
			continue
		}
		got := receive[*kmsg.FetchResponse](t, request, sink)
		for p, answer := range partitionsOf(got) {
			if answer.ErrorCode != 0 {
				t.Errorf("error %d", answer.ErrorCode)
				return
			}
			values, offsets := valuesOf(t, answer.RecordBatches)
			for i, value := range values {
				if offsets[i] != next[p] || value != fmt.Sprint(offsets[i]) {
					t.Errorf("partition %d: value %q at %d, want %d", p, value, offsets[i], next[p])
					return
				}
				next[p]++
			}
		}
	}
}
