package delay

import (
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type testExpirer struct {
	Deadline
	mu      sync.Mutex
	ran     int
	refuses bool
	order   *[]time.Duration
}

func (e *testExpirer) Expire() bool { return !e.refuses }
func (e *testExpirer) Expired() {
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
	d := &Timer{start: time.Now(), moved: make(chan struct{}, 1)}
	model := make(map[*testExpirer]bool)
	for range 20_000 {
		switch random.IntN(5) {
		case 0, 1, 2:
			e := &testExpirer{}
			e.Owner = e
			d.Add(&e.Deadline, time.Duration(random.IntN(1_000_000)))
			model[e] = true
		case 3:
			for e := range model {
				d.Cancel(&e.Deadline)
				d.Cancel(&e.Deadline) // a second time is nothing
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

func TestDeadlinesShareTicks(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 100 * time.Millisecond: time.Millisecond, 128 * time.Millisecond: 2 * time.Millisecond,
		500 * time.Millisecond: 4 * time.Millisecond, 5 * time.Second: 64 * time.Millisecond, time.Hour: 64 * time.Millisecond,
	} {
		if got := tickOf(wait); got != want {
			t.Errorf("a wait of %v is put off to the next %v, want %v", wait, got, want)
		}
		d := &Timer{start: time.Now().Add(-12_345 * time.Microsecond), moved: make(chan struct{}, 1)}
		e := &testExpirer{}
		e.Owner = e
		before := d.now()
		d.Add(&e.Deadline, wait)
		after := d.now()
		if e.at < before+wait || e.at >= after+wait+want || e.at%want != 0 {
			t.Errorf("a wait of %v from %v to %v ends at %v", wait, before, after, e.at)
		}
	}
}

// A reader at the tail waits anew after each record, each time for a little later: that must not wake the goroutine, and a
// deadline before the one that it sleeps for must.
func TestLaterDeadlinesWakeNobody(t *testing.T) {
	t.Parallel()
	d := &Timer{start: time.Now(), moved: make(chan struct{}, 1)}
	if d.fire(d.now()) != -1 {
		t.Fatal("an empty heap has a next deadline")
	}
	woken := func() bool {
		select {
		case <-d.moved:
			d.fire(d.now())
			return true
		default:
			return false
		}
	}
	for i := range 100 {
		e := &testExpirer{}
		e.Owner = e
		d.Add(&e.Deadline, time.Hour+time.Duration(i)*time.Second)
		if got, want := woken(), i == 0; got != want {
			t.Fatalf("deadline %d woke the goroutine: %v, want %v", i, got, want)
		}
		d.Cancel(&e.Deadline)
	}
	for _, wait := range []time.Duration{time.Minute, time.Second} {
		e := &testExpirer{}
		e.Owner = e
		if d.Add(&e.Deadline, wait); !woken() {
			t.Fatalf("a deadline in %v, before the next one, woke nobody", wait)
		}
	}
	if d.ForceAll(); d.Len() != 0 {
		t.Fatal("ForceAll left something")
	}
	e := &testExpirer{}
	e.Owner = e
	if d.Add(&e.Deadline, 2*time.Hour); !woken() {
		t.Fatal("the first deadline after none woke nobody")
	}
}

func TestDeadlineThatRefusesIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := &Timer{start: time.Now(), moved: make(chan struct{}, 1)}
	e := &testExpirer{refuses: true}
	e.Owner = e
	d.Add(&e.Deadline, 0)
	if d.fire(time.Hour) != -1 || e.ran != 0 {
		t.Fatal("an operation whose owner has ended was expired")
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	var q Queue
	q.Start(3)
	var ran atomic.Int32
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 500 {
				q.Push(&Job{Run: func() { ran.Add(1) }})
			}
		})
	}
	wait.Wait()
	q.Stop()
	if ran.Load() != 2000 {
		t.Fatalf("%d of 2000 ran", ran.Load())
	}
	q.Push(&Job{Run: func() { ran.Add(1) }})
	if ran.Load() != 2001 {
		t.Fatal("a job after stop was lost")
	}
}
