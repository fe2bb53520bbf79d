package coordtest

import (
	"cmp"
	"slices"
)

// Schedule is the time of a simulation: what shall happen, in the order of its time
// and then of its scheduling, so that a run is a function of its seed.
type Schedule struct {
	NowMs int64
	queue []scheduled
	order int64
}

type scheduled struct {
	atMs, order int64
	run         func()
}

// After runs f that many milliseconds from now.
func (s *Schedule) After(ms int64, f func()) {
	s.order++
	e := scheduled{s.NowMs + ms, s.order, f}
	i, _ := slices.BinarySearchFunc(s.queue, e, func(a, b scheduled) int {
		return cmp.Or(cmp.Compare(a.atMs, b.atMs), cmp.Compare(a.order, b.order))
	})
	s.queue = slices.Insert(s.queue, i, e)
}

// RunUntil lets time pass.
func (s *Schedule) RunUntil(endMs int64) {
	for len(s.queue) > 0 && s.queue[0].atMs <= endMs {
		e := s.queue[0]
		s.queue = s.queue[1:]
		s.NowMs = e.atMs
		e.run()
	}
	s.NowMs = endMs
}
