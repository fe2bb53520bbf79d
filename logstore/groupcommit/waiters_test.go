package groupcommit

import (
	"fmt"
	"testing"
)

// TestWaitersInAnyOrder: a waiter for an earlier offset that comes later is served in the order of offsets.
func TestWaitersInAnyOrder(t *testing.T) {
	t.Parallel()
	var l Waiters
	for _, o := range []int64{5, 3, 9, 3, 1, 7} {
		l.Add(&Waiter{Offset: o})
	}
	var got []int64
	for _, high := range []int64{0, 4, 8, 100} {
		for w := l.Take(high); w != nil; w = w.next {
			got = append(got, w.Offset)
		}
	}
	if fmt.Sprint(got) != "[1 3 3 5 7 9]" || l.first != nil || l.last != nil {
		t.Fatalf("%v", got)
	}
}
