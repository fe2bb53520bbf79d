package producer

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kaas/internal/limits"
)

// TestSnapshotsAreOfTheirMoment: whatever is applied and expired while snapshots wait and are being encoded, each is byte for
// byte what was known when it was taken.
func TestSnapshotsAreOfTheirMoment(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const producers = 5 * limits.SnapshotProducersAtOnce
	var mu sync.Mutex
	s := New()
	sequences := map[int64]int32{}
	nowMs := int64(0)
	apply := func(id int64) { // mu is held
		nowMs++
		if s.byID[id] == nil {
			sequences[id] = 0
		}
		s.Apply(data(t, id, 0, sequences[id], id%7 == 0 && sequences[id] == 0, 1), Marker{}, Position{Offset: nowMs}, nowMs)
		sequences[id]++
	}
	for id := range int64(producers) {
		apply(id)
	}
	step := func() {
		for range random.IntN(producers) {
			mu.Lock()
			apply(random.Int64N(2 * producers))
			mu.Unlock()
		}
		if random.IntN(3) == 0 {
			mu.Lock()
			now := nowMs
			mu.Unlock()
			s.Expire(&mu, now, 1+random.Int64N(producers))
		}
	}
	type taken struct {
		snapshot *Snapshot
		want     []byte
	}
	late := 0
	for range 30 {
		var waiting []taken
		for range 1 + random.IntN(3) {
			mu.Lock()
			waiting = append(waiting, taken{s.Snapshot(), s.Encode()})
			if s.snapshots != nil {
				late++
			}
			mu.Unlock()
			step()
		}
		var beside sync.WaitGroup
		beside.Go(step)
		for i, w := range waiting {
			if got := w.snapshot.Encode(&mu); !bytes.Equal(got, w.want) {
				t.Fatalf("snapshot %d of %d: %d bytes, at its moment there were %d", i, len(waiting), len(got), len(w.want))
			}
			if again := w.snapshot.Encode(&mu); !bytes.Equal(again, w.want) {
				t.Fatal("encoded twice it differs")
			}
		}
		beside.Wait()
		if len(s.snapshots) != 0 {
			t.Fatalf("%d snapshots are left", len(s.snapshots))
		}
	}
	if late == 0 {
		t.Fatal("all were encoded at once: nothing was tested")
	}
}

// TestLockIsNotHeldForAllProducers: whoever wants the lock gets it several times while a snapshot of many producers is made.
func TestLockIsNotHeldForAllProducers(t *testing.T) {
	t.Parallel()
	s := New()
	for id := range int64(10 * limits.SnapshotProducersAtOnce) {
		s.Apply(data(t, id, 0, 0, false, 1), Marker{}, Position{Offset: id}, 1)
	}
	var lock countedLock
	n := s.Snapshot()
	if lock.taken != 0 {
		t.Fatal("taken without the caller's lock")
	}
	for what, f := range map[string]func(){
		"Encode":      func() { n.Encode(&lock) },
		"Expire":      func() { s.Expire(&lock, 2, 1000) },
		"LastBatches": func() { s.LastBatches(&lock) },
	} {
		lock.taken = 0
		if f(); lock.taken < 10 {
			t.Errorf("%s takes the lock %d times for %d producers", what, lock.taken, s.Len())
		}
	}
}

type countedLock struct {
	sync.Mutex
	taken int
}

// +checklocksignore: a lock leaves itself locked.
func (l *countedLock) Lock() {
	l.Mutex.Lock()
	l.taken++
}

// BenchmarkRollOf10000 is what a roll costs under the lock of its partition, and the same beside it.
func BenchmarkRollOf10000(b *testing.B) {
	s := New()
	for id := range int64(10_000) {
		s.Apply(data(b, id, 0, 0, false, 1), Marker{}, Position{Offset: id}, 1)
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			s.Encode()
		}
	})
	b.Run("take", func(b *testing.B) {
		var mu sync.Mutex
		for b.Loop() {
			s.Snapshot()
			b.StopTimer()
			s.snapshots[0].Encode(&mu)
			b.StartTimer()
		}
	})
	b.Run("part", func(b *testing.B) { // the longest that the lock is held
		var mu sync.Mutex
		n := 0
		for b.Loop() {
			s.inParts(&mu, func(int64, *entry) { n++ })
		}
	})
}
