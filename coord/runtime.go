package coord

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Event is one request, or one message of the broker, for the machine of a shard.
// Exactly one of the functions is called, once.
type Event[M Machine] struct {
	// Run handles the event on the shard's goroutine.
	Run func(m M, t *Turn)
	// Refused is called when the event never reaches a machine, on any goroutine.
	Refused func(err error)
}

// Options configure a Runtime.
type Options[M Machine] struct {
	// NewMachine makes an empty machine for each load of a shard.
	NewMachine func(shard int32) M
	Logger     *slog.Logger
	// Loaded, when set, is told of each load: on the shard's goroutine.
	Loaded func(shard int32, records int64, took time.Duration)
	// Clock is the time of day; nil: time.Now. Deadlines use its monotonic part.
	Clock func() time.Time
}

// Runtime runs the shards that this broker leads.
type Runtime[M Machine] struct {
	options Options[M]
	start   time.Time
	// loaders has one token for each load that may run. It is a channel so that a
	// waiting shard can be stopped.
	loaders chan struct{}
	// offloaders has one token for each piece of work that may run outside the shards.
	offloaders chan struct{}

	mu sync.RWMutex
	// +checklocks:mu
	shards map[int32]*shard[M] // mu
	// +checklocks:mu
	closed bool // mu
}

// NewRuntime returns a runtime without shards.
func NewRuntime[M Machine](o Options[M]) *Runtime[M] {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Runtime[M]{options: o, start: o.Clock(), loaders: newLoaderTokens(), offloaders: newOffloaderTokens(), shards: map[int32]*shard[M]{}}
}

// Load begins to lead a shard; its log is replayed in the background. A shard
// that is led already stays as it is.
func (r *Runtime[M]) Load(index int32, log Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.shards[index] != nil {
		return
	}
	s := newShard(r, index, log)
	r.shards[index] = s
	go s.own()
}

// Unload ends the leadership of a shard: what waits is answered with
// ErrNotCoordinator. It returns when the shard's goroutine has ended.
func (r *Runtime[M]) Unload(index int32) {
	r.mu.Lock()
	s := r.shards[index]
	delete(r.shards, index)
	r.mu.Unlock()
	if s != nil {
		s.stop(false)
		<-s.ended
	}
}

// Submit hands an event to a shard. It never blocks. Event.Refused is called
// before it returns when the shard is not led here, is loading or is overloaded.
func (r *Runtime[M]) Submit(index int32, e Event[M]) {
	r.mu.RLock()
	s := r.shards[index]
	r.mu.RUnlock()
	if s == nil {
		e.Refused(ErrNotCoordinator)
		return
	}
	if err := s.submit(e); err != nil {
		e.Refused(err)
	}
}

// Post is Submit for messages of the broker itself, which must not get lost: they
// wait while the shard is loading and are not counted with the requests. At most
// limits.CoordPosted wait.
func (r *Runtime[M]) Post(index int32, e Event[M]) {
	r.mu.RLock()
	s := r.shards[index]
	r.mu.RUnlock()
	if s == nil {
		e.Refused(ErrNotCoordinator)
		return
	}
	if err := s.post(e); err != nil {
		e.Refused(err)
	}
}

// Shards lists the shards that are led here, in no order.
func (r *Runtime[M]) Shards() []int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	indexes := make([]int32, 0, len(r.shards))
	for index := range r.shards {
		indexes = append(indexes, index)
	}
	return indexes
}

// Close refuses new events, handles those that are queued, waits until their
// records are committed and answered, or until ctx ends, and unloads all shards.
func (r *Runtime[M]) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	shards := r.shards
	r.shards = map[int32]*shard[M]{}
	r.mu.Unlock()
	for _, s := range shards {
		s.stop(true)
	}
	var err error
	for _, s := range shards {
		select {
		case <-s.ended:
		case <-ctx.Done():
			err = ctx.Err()
			s.stop(false)
			<-s.ended
		}
	}
	return err
}

// nowMs is the clock of deadlines: monotonic, from 1 on.
func (r *Runtime[M]) nowMs() int64 { return r.options.Clock().Sub(r.start).Milliseconds() + 1 }

func (r *Runtime[M]) wallMs() int64 { return r.options.Clock().UnixMilli() }
