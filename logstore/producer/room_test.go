package producer

import (
	"testing"

	"kaas/internal/limits"
)

// full has as many producers as a partition remembers; the one with id i was last heard of at i.
func full(t testing.TB) *States {
	t.Helper()
	s := New()
	for id := range int64(limits.ProducersPerPartition) {
		s.Apply(data(t, id, 0, 0, id%1000 == 7, 1), Marker{}, Position{Offset: id}, id)
	}
	return s
}

// TestProducersAreBounded: above the bound those go that were silent for long, never one with an open transaction.
func TestProducersAreBounded(t *testing.T) {
	t.Parallel()
	const most, more = int64(limits.ProducersPerPartition), 10_000
	s := full(t)
	for id := most; id < most+more; id++ {
		s.Apply(data(t, id, 0, 0, false, 1), Marker{}, Position{Offset: id}, id)
		if s.Len() != limits.ProducersPerPartition {
			t.Fatalf("%d producers", s.Len())
		}
	}
	for id := range most + more {
		e := s.byID[id]
		if (id >= most/2 || id%1000 == 7) && e == nil { // that one of the newer half goes has a chance of 2^-64
			t.Fatalf("producer %d was forgotten", id)
		}
	}
}

// BenchmarkAppendAtTheBound is what an append of a new producer costs under the partition's lock when the bound is reached.
func BenchmarkAppendAtTheBound(b *testing.B) {
	s := full(b)
	v := data(b, 1<<40, 0, 0, false, 1)
	at := int64(limits.ProducersPerPartition)
	for b.Loop() {
		at++
		v[43], v[44], v[45], v[46], v[47], v[48], v[49], v[50] = 0, byte(at>>48), byte(at>>40), byte(at>>32), byte(at>>24), byte(at>>16), byte(at>>8), byte(at)
		s.Apply(v, Marker{}, Position{Offset: at}, at)
	}
}
