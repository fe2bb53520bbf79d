package coord

import (
	"math/rand/v2"
	"testing"
)

// Random schedules against a plain list.
func TestTimerHeap(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var heap timerHeap
	timers := make([]*Timer, 100)
	want := map[*Timer]int64{}
	for i := range timers {
		timers[i] = &Timer{}
	}
	for range 20_000 {
		timer := timers[random.IntN(len(timers))]
		switch random.IntN(4) {
		case 0, 1:
			atMs := random.Int64N(1000)
			heap.schedule(timer, atMs)
			want[timer] = atMs
		case 2:
			heap.cancel(timer)
			delete(want, timer)
		case 3:
			nowMs := random.Int64N(1000)
			got := heap.popDue(nowMs)
			earliest := int64(1000)
			for _, atMs := range want {
				earliest = min(earliest, atMs)
			}
			switch {
			case got == nil && earliest <= nowMs:
				t.Fatalf("nothing is due at %d, want a timer of %d", nowMs, earliest)
			case got != nil && (want[got] != earliest || earliest > nowMs || got.Active()):
				t.Fatalf("got a timer of %d at %d, the earliest is %d", want[got], nowMs, earliest)
			}
			delete(want, got)
		}
		if timer.Active() != (func() bool { _, ok := want[timer]; return ok }()) {
			t.Fatal("Active does not say what is scheduled")
		}
		if len(heap.timers) != len(want) {
			t.Fatalf("%d timers in the heap, want %d", len(heap.timers), len(want))
		}
	}
}
