package volume

import "sync"

// sharedSync lets those who wait for the sync of one directory share it: a thousand
// partitions that are made or deleted at once need a few, not a thousand. The zero
// value is ready.
//
// A round is joined only before it begins, so what a caller did before it called
// sync is covered by the sync that it waits for.
type sharedSync struct {
	turn sync.Mutex // held through one sync; before mu

	mu sync.Mutex
	// next is the round that has not begun; nil: nobody waits for one.
	next *syncRound // mu
}

type syncRound struct {
	done chan struct{}
	err  error // read after done
}

// sync returns when a sync that began after the call has ended.
func (s *sharedSync) sync(do func() error) error {
	s.mu.Lock()
	round := s.next
	first := round == nil
	if first {
		round = &syncRound{done: make(chan struct{})}
		s.next = round
	}
	s.mu.Unlock()
	if !first {
		<-round.done
		return round.err
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	s.next = nil // whoever comes now waits for the next one
	s.mu.Unlock()
	defer close(round.done)
	round.err = do()
	return round.err
}
