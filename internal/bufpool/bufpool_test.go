package bufpool

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"kaas/internal/invariants"
	"kaas/internal/limits"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	for n, capacity := range map[int]int{
		0: 512, 1: 512, 512: 512, 513: 1024, 1024: 1024, 1025: 2048, 65536: 65536, 65537: 131072,
		limits.BufLargestBytes: limits.BufLargestBytes, limits.BufLargestBytes + 1: limits.BufLargestBytes + 1,
	} {
		b := Get(n)
		if len(b.B) != n || cap(b.B) < n {
			t.Errorf("Get(%d): length %d, capacity %d", n, len(b.B), cap(b.B))
		}
		if got := Capacity(n); got != capacity {
			t.Errorf("Capacity(%d) is %d, want %d", n, got, capacity)
		}
		b.Release()
	}
}

func TestReleaseTwicePanics(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, limits.BufLargestBytes + 1} {
		b := &Buf{class: -1}
		b.B = make([]byte, n)
		b.refs.Store(1)
		b.Retain()
		b.Release()
		b.Release()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the second release does not panic")
				}
			}()
			b.Release()
		}()
	}
}

func TestPoisonInInvariantsBuilds(t *testing.T) {
	t.Parallel()
	if !invariants.Enabled {
		t.Skip("the build has no tag invariants")
	}
	b := Get(300_000)
	memory := b.memory
	b.Release()
	for i, v := range memory {
		if v != 0xDB {
			t.Fatalf("byte %d is %x after release", i, v)
		}
	}
}

// No buffer is in two hands: every holder fills its buffer with its own byte and finds it unchanged.
func TestManyHands(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var group sync.WaitGroup
	for hand := range 8 {
		random := rand.New(rand.NewPCG(seed, uint64(hand)))
		group.Go(func() {
			for range 150 {
				b := Get(1 + random.IntN(20_000))
				for i := range b.B {
					b.B[i] = byte(hand)
				}
				b.Retain()
				b.Release()
				for i, v := range b.B {
					if v != byte(hand) {
						t.Errorf("byte %d belongs to %d, not to %d", i, v, hand)
						return
					}
				}
				b.Release()
			}
		})
	}
	group.Wait()
}

// Not parallel: it counts allocations and empties the pool.
func TestSteadyStateAndIdle(t *testing.T) {
	for _, n := range []int{64, 70_000, 1 << 20} {
		if allocs := testing.AllocsPerRun(200, func() { Get(n).Release() }); allocs > 0.02 {
			t.Errorf("Get(%d) and Release: %v allocations", n, allocs)
		}
	}
	var held []*Buf
	for range 40 {
		held = append(held, Get(1<<20))
	}
	for _, b := range held {
		b.Release()
	}
	if idle := Idle(); idle > 2*limits.BufIdleBytesPerClass {
		t.Errorf("%d idle bytes after 40 MiB were released: more than the class may keep", idle)
	}
	trim()
	if kept, _ := trim(); kept != 0 || Idle() != 0 { // the trimmer may have been here, too
		t.Errorf("%d bytes are idle after two trims without use", Idle())
	}
}

func BenchmarkGetRelease(b *testing.B) {
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			Get(64 << 10).Release()
		}
	})
}
