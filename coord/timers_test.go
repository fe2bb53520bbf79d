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
	scheduled := map[*Timer]int{} // when, for those of one deadline
	for i := range timers {
		timers[i] = &Timer{}
	}
	for i := range 20_000 {
		timer := timers[random.IntN(len(timers))]
		switch random.IntN(4) {
		case 0, 1:
			atMs := random.Int64N(100)
			heap.schedule(timer, atMs)
			want[timer], scheduled[timer] = atMs, i
		case 2:
			heap.cancel(timer)
			delete(want, timer)
		case 3:
			nowMs := random.Int64N(100)
			got := heap.popDue(nowMs)
			earliest := int64(100)
			for _, atMs := range want {
				earliest = min(earliest, atMs)
			}
			switch {
			case got == nil && earliest <= nowMs:
				t.Fatalf("nothing is due at %d, want a timer of %d", nowMs, earliest)
			case got != nil && (want[got] != earliest || earliest > nowMs || got.Active()):
				t.Fatalf("got a timer of %d at %d, the earliest is %d", want[got], nowMs, earliest)
			}
			for other, atMs := range want {
				if got != nil && atMs == earliest && scheduled[other] < scheduled[got] {
					t.Fatalf("of the timers of %d one comes first that was scheduled as number %d, another as %d", atMs, scheduled[got], scheduled[other])
				}
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
