package healer

import (
	"context"
	"sync"
	"time"
)

// Healer tries for keys. The zero value is not usable, see New.
type Healer[K comparable] struct {
	pauseMs, maxPauseMs int64
	try                 func(K) (again bool)
	ill                 func(K) bool
	ctx                 context.Context
	cancel              context.CancelFunc
	work                sync.WaitGroup

	mu      sync.Mutex
	running map[K]bool // has a goroutine; owner: mu
}

// New waits pauseMs before the first try of a key and twice as long before each one after it, up to maxPauseMs. ill is asked
// after a try that worked: a key that failed anew meanwhile was not added, because it was still running.
func New[K comparable](pauseMs, maxPauseMs int64, try func(K) (again bool), ill func(K) bool) *Healer[K] {
	h := &Healer[K]{pauseMs: pauseMs, maxPauseMs: max(maxPauseMs, pauseMs), try: try, ill: ill, running: map[K]bool{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Add starts to try k, unless that is under way. One goroutine a key, because a disk that hangs must not keep those of another
// from coming back; the keys bound them.
func (h *Healer[K]) Add(k K) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running[k] || h.ctx.Err() != nil {
		return
	}
	h.running[k] = true
	h.work.Go(func() { h.run(k) })
}

// Stop lets no further try begin.
func (h *Healer[K]) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel()
}

// Wait returns when all tries have ended; call Stop first.
func (h *Healer[K]) Wait() { h.work.Wait() }

func (h *Healer[K]) run(k K) {
	defer h.forget(k)
	pauseMs := h.pauseMs
	timer := time.NewTimer(time.Duration(pauseMs) * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-timer.C:
		}
		if !h.try(k) {
			return
		}
		pauseMs = min(2*pauseMs, h.maxPauseMs)
		timer.Reset(time.Duration(pauseMs) * time.Millisecond)
	}
}

// forget lets k be added again. When it failed between its try and here, Add has found it running.
func (h *Healer[K]) forget(k K) {
	h.mu.Lock()
	delete(h.running, k)
	h.mu.Unlock()
	if h.ill(k) {
		h.Add(k)
	}
}
