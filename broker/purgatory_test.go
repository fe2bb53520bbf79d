package broker

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type testExpirer struct {
	deadline
	mu      sync.Mutex
	ran     int
	refuses bool
	order   *[]time.Duration
}

func (e *testExpirer) expire() bool { return !e.refuses }
func (e *testExpirer) expired() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ran++
	if e.order != nil {
		*e.order = append(*e.order, e.at)
	}
}

// The heap against a sorted list, by seeded random adds, cancels and firings.
func TestDeadlinesAgainstAModel(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	d := &deadlines{start: time.Now(), moved: make(chan struct{}, 1)}
	model := make(map[*testExpirer]bool)
	for range 20_000 {
		switch random.IntN(5) {
		case 0, 1, 2:
			e := &testExpirer{}
			e.owner = e
			d.add(&e.deadline, time.Duration(random.IntN(1_000_000)))
			model[e] = true
		case 3:
			for e := range model {
				d.cancel(&e.deadline)
				d.cancel(&e.deadline) // a second time is nothing
				delete(model, e)
				break
			}
		default:
			var all []time.Duration
			for e := range model {
				all = append(all, e.at)
			}
			if len(all) == 0 {
				continue
			}
			sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
			now := all[random.IntN(len(all))]
			wait := d.fire(now)
			for e := range model {
				if due := e.at <= now; due != (e.ran == 1) {
					t.Fatalf("a deadline at %v ran %d times at %v", e.at, e.ran, now)
				}
				if e.ran == 1 {
					delete(model, e)
				}
			}
			if (wait < 0) != (len(model) == 0) {
				t.Fatalf("the next one is in %v, %d are left", wait, len(model))
			}
		}
		if len(d.heap) != len(model) {
			t.Fatalf("%d in the heap, %d in the model", len(d.heap), len(model))
		}
	}
}

func TestDeadlineThatRefusesIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := &deadlines{start: time.Now(), moved: make(chan struct{}, 1)}
	e := &testExpirer{refuses: true}
	e.owner = e
	d.add(&e.deadline, 0)
	if d.fire(time.Hour) != -1 || e.ran != 0 {
		t.Fatal("an operation whose owner has ended was expired")
	}
}

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

func TestOperationQueue(t *testing.T) {
	t.Parallel()
	var q operationQueue
	q.start(3)
	var ran atomic.Int32
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 500 {
				q.push(&queuedJob{run: func() { ran.Add(1) }})
			}
		})
	}
	wait.Wait()
	q.stop()
	if ran.Load() != 2000 {
		t.Fatalf("%d of 2000 ran", ran.Load())
	}
	q.push(&queuedJob{run: func() { ran.Add(1) }})
	if ran.Load() != 2001 {
		t.Fatal("a job after stop was lost")
	}
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
