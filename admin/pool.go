package admin

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Pool runs admin requests: at most workers at a time, at most queue more
// accepted. It never blocks who submits.
//
// A request that only waits (for the image to show its topic) parks: it keeps
// its place among the accepted ones and gives its turn to another.
type Pool struct {
	logger *slog.Logger
	turns  chan struct{} // capacity: workers; holding one token is having the turn
	limit  int           // workers + queue
	// Context ends with Close: whoever waits gives up.
	ctx    context.Context
	cancel context.CancelFunc

	// idle is closed, with mu held, when accepted is 0 after Close.
	idle chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	accepted int
	// +checklocks:mu
	closed bool
}

// NewPool makes a pool without goroutines.
func NewPool(workers, queue int, logger *slog.Logger) *Pool {
	p := &Pool{logger: logger, turns: make(chan struct{}, max(workers, 1)), limit: max(workers, 1) + max(queue, 0), idle: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Submit accepts a function to run, or refuses it (false) when the pool is full
// or closed.
func (p *Pool) Submit(work func()) bool {
	p.mu.Lock()
	if p.closed || p.accepted == p.limit {
		p.mu.Unlock()
		return false
	}
	p.accepted++
	p.mu.Unlock()
	go p.run(work)
	return true
}

func (p *Pool) run(work func()) {
	p.turns <- struct{}{}
	defer func() {
		<-p.turns
		p.mu.Lock()
		p.accepted--
		if p.closed && p.accepted == 0 {
			close(p.idle)
		}
		p.mu.Unlock()
	}()
	defer func() {
		// A bug in what is no request (those come guarded, see codec.Guarded) must not
		// take the data plane with it.
		if fault := recover(); fault != nil {
			p.logger.Error("BUG: an admin request panicked", "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
	}()
	work()
}

// Park runs wait without the turn. Only inside a function that Submit runs.
func (p *Pool) Park(wait func()) {
	<-p.turns
	defer func() { p.turns <- struct{}{} }()
	wait()
}

// Waiting returns how many accepted requests there are, for a gauge.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Close refuses new work, lets the waiting give up and waits for all, at most
// until ctx ends.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		if p.accepted == 0 {
			close(p.idle)
		}
	}
	p.mu.Unlock()
	p.cancel()
	select {
	case <-p.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("admin requests are still running: %w", ctx.Err())
	}
}
