package registry

import "sync"

// Turns has who wants the same thing wait for one another. Its zero value is ready.
type Turns[K comparable] struct {
	mu   sync.Mutex
	busy map[K]chan struct{} // closed when the turn ends; owner: mu
}

// Take waits for its turn on key and returns what ends it.
func (t *Turns[K]) Take(key K) (done func()) {
	mine := make(chan struct{})
	for {
		t.mu.Lock()
		other := t.busy[key]
		if other == nil {
			if t.busy == nil {
				t.busy = map[K]chan struct{}{}
			}
			t.busy[key] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, key)
				t.mu.Unlock()
				close(mine)
			}
		}
		t.mu.Unlock()
		<-other
	}
}
