package coord

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"kaas/internal/limits"
)

// shard is the owner goroutine of one partition's machines and its mailbox.
type shard[M Machine] struct {
	runtime *Runtime[M]
	index   int32
	log     Log
	logger  *slog.Logger
	box     *mailbox[M]
	ended   chan struct{} // closed when the goroutine has ended
	cancel  context.CancelFunc
	ctx     context.Context // ends a load and the waits between loads
}

// mailbox is how other goroutines reach the owner.
type mailbox[M Machine] struct {
	// wake holds a token when there may be something to do. A sender that finds it
	// full has nothing to add: the owner empties it before it looks.
	wake chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	queue []Event[M] // mu; requests; empty while not open
	// +checklocks:mu
	posted []Event[M] // mu; messages of the broker; they wait for open
	// +checklocks:mu
	open bool // mu; a machine is loaded and takes events
	// +checklocks:mu
	stopping stopKind // mu
}

type stopKind uint8

const (
	running  stopKind = iota
	draining          // no new events; end when everything is answered
	stopNow           // end, answering ErrNotCoordinator
)

func newLoaderTokens() chan struct{} { return make(chan struct{}, limits.CoordLoaders) }

// newOffloaderTokens leaves processors to the event loops.
func newOffloaderTokens() chan struct{} { return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)) }

func newShard[M Machine](r *Runtime[M], index int32, log Log) *shard[M] {
	ctx, cancel := context.WithCancel(context.Background())
	return &shard[M]{
		runtime: r, index: index, log: log, logger: r.options.Logger.With("shard", index),
		box: &mailbox[M]{wake: make(chan struct{}, 1)}, ended: make(chan struct{}), ctx: ctx, cancel: cancel,
	}
}

func (b *mailbox[M]) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (s *shard[M]) submit(e Event[M]) error {
	b := s.box
	b.mu.Lock()
	stopping, open := b.stopping != running, b.open
	accepted := !stopping && open && len(b.queue) < limits.CoordQueueEvents
	if accepted {
		b.queue = append(b.queue, e)
		if len(b.queue) == 1 {
			b.ring()
		}
	}
	b.mu.Unlock()
	return refusal(accepted, stopping, !open)
}

func (s *shard[M]) post(e Event[M]) error {
	b := s.box
	b.mu.Lock()
	stopping := b.stopping != running
	accepted := !stopping && len(b.posted) < limits.CoordPosted
	if accepted {
		b.posted = append(b.posted, e)
		b.ring()
	}
	b.mu.Unlock()
	return refusal(accepted, stopping, false)
}

// refusal says why an event was not accepted.
func refusal(accepted, stopping, loading bool) error {
	switch {
	case accepted:
		return nil
	case stopping:
		return ErrNotCoordinator
	case loading:
		return ErrLoading
	default:
		return ErrOverloaded
	}
}

func (s *shard[M]) stop(drain bool) {
	s.box.mu.Lock()
	if drain {
		s.box.stopping = max(s.box.stopping, draining)
	} else {
		s.box.stopping = stopNow
	}
	loading := !s.box.open
	s.box.mu.Unlock()
	if !drain || loading {
		s.cancel()
	}
	s.box.ring()
}

func (s *shard[M]) stopState() stopKind {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	return s.box.stopping
}

// own is the shard's goroutine: load, run, and after a failure again.
func (s *shard[M]) own() {
	defer close(s.ended)
	defer s.refusePosted()
	defer s.cancel()
	waitMs := int64(limits.CoordReloadFirstMs)
	for s.stopState() == running {
		core, machine, err := s.load()
		if err == nil {
			loadedMs := s.runtime.nowMs()
			err = s.run(core, machine)
			s.close(core, err)
			if s.runtime.nowMs()-loadedMs > limits.CoordReloadMaxMs {
				// It has worked for a while. A log that can be read and not written fails at
				// once again, and must not be read ten times a second.
				waitMs = limits.CoordReloadFirstMs
			}
		}
		if errors.Is(err, ErrNotCoordinator) || s.ctx.Err() != nil {
			return
		}
		s.logger.Error("the coordinator's log failed; the shard is loaded again", "error", err, "retryMs", waitMs)
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(time.Duration(waitMs) * time.Millisecond):
		}
		waitMs = min(2*waitMs, limits.CoordReloadMaxMs)
	}
}

// load replays the log into a new machine and opens the mailbox.
func (s *shard[M]) load() (*core, M, error) {
	machine := s.runtime.options.NewMachine(s.index)
	select {
	case s.runtime.loaders <- struct{}{}:
		defer func() { <-s.runtime.loaders }()
	case <-s.ctx.Done():
		return nil, machine, s.ctx.Err()
	}
	began := time.Now()
	l := loader{machine: machine, logger: s.logger}
	endOffset, err := l.load(s.ctx, s.log)
	if err != nil {
		machine.Unloaded(err)
		return nil, machine, err
	}
	core := newCore(machine, s.log, s.box.ring)
	core.offload = func(work func(), done func(t *Turn)) { go s.offload(core.commits, work, done) }
	core.loaded(endOffset)
	machine.Loaded(core.turn(s.runtime.nowMs(), s.runtime.wallMs()))
	s.box.mu.Lock()
	s.box.open = true
	s.box.mu.Unlock()
	took := time.Since(began)
	if s.runtime.options.Loaded != nil {
		s.runtime.options.Loaded(s.index, l.records, took)
	}
	if l.records > 0 {
		s.logger.Info("coordinator loaded", "records", l.records, "endOffset", endOffset, "ms", took.Milliseconds())
	}
	return core, machine, nil
}

// offload does the work when it is its turn, unless the shard has ended by then.
func (s *shard[M]) offload(owner *commits, work func(), done func(t *Turn)) {
	select {
	case s.runtime.offloaders <- struct{}{}:
	case <-s.ended:
		return
	}
	work()
	<-s.runtime.offloaders
	owner.finish(done)
}

// run takes turns until the log fails or the shard is stopped.
func (s *shard[M]) run(core *core, machine M) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var events []Event[M]
	for {
		if err := core.flush(); err != nil { // of the turn before, or of Loaded
			return err
		}
		if err := core.release(); err != nil {
			return err
		}
		stopping := s.stopState()
		if stopping == stopNow {
			return ErrNotCoordinator
		}
		events = s.take(core, events[:0])
		finished := core.commits.takeFinished()
		due := core.due(s.runtime.nowMs())
		if len(events) == 0 && len(finished) == 0 && !due {
			if stopping == draining && core.parkedCount() == 0 && s.idle() {
				return ErrNotCoordinator
			}
			s.wait(core, timer)
			continue
		}
		turn := core.turn(s.runtime.nowMs(), s.runtime.wallMs())
		for _, done := range finished {
			done(turn)
		}
		core.fire(turn)
		for i := range events {
			events[i].Run(machine, turn)
			events[i] = Event[M]{}
			if core.emittedBytes >= limits.CoordTurnBytes {
				// A long turn is cut into several appends, so that memory stays small.
				if err := core.flush(); err != nil {
					refuse(events[i+1:], err)
					return err
				}
			}
		}
	}
}

// take moves at most one turn's events out of the mailbox. Nothing is taken
// while too many replies wait: the storage is slower than the clients.
func (s *shard[M]) take(core *core, into []Event[M]) []Event[M] {
	if core.parkedCount() >= limits.CoordParkedReplies {
		return into
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	into = append(into, b.posted...)
	b.posted = nil
	n := min(len(b.queue), limits.CoordTurnEvents)
	into = append(into, b.queue[:n]...)
	rest := copy(b.queue, b.queue[n:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	if rest > 0 {
		b.ring()
	} else if cap(b.queue) > limits.CoordTurnEvents {
		b.queue = nil // the memory of a burst returns
	}
	return into
}

func (s *shard[M]) idle() bool {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	return len(s.box.queue) == 0 && len(s.box.posted) == 0
}

// wait sleeps until the mailbox rings or the next timer is due.
func (s *shard[M]) wait(core *core, timer *time.Timer) {
	wait := time.Hour
	if atMs, ok := core.timers.next(); ok {
		wait = min(wait, time.Duration(atMs-s.runtime.nowMs())*time.Millisecond)
	}
	timer.Reset(wait)
	select {
	case <-s.box.wake:
	case <-timer.C:
	}
}

// close ends an incarnation: no new events, and everyone who waits gets err.
func (s *shard[M]) close(core *core, err error) {
	s.box.mu.Lock()
	s.box.open = false
	queue := s.box.queue
	s.box.queue = nil
	s.box.mu.Unlock()
	refuse(queue, err)
	core.end(err)
}

func (s *shard[M]) refusePosted() {
	s.box.mu.Lock()
	posted := s.box.posted
	s.box.posted = nil
	s.box.mu.Unlock()
	refuse(posted, ErrNotCoordinator)
}

func refuse[M Machine](events []Event[M], err error) {
	for _, e := range events {
		e.Refused(err)
	}
}
