package coord_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/internal/limits"
)

func newRuntime(t *testing.T) *coord.Runtime[*words] {
	r := coord.NewRuntime(coord.Options[*words]{NewMachine: func(int32) *words { return newWords() }})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = r.Close(ctx)
	})
	return r
}

// call submits an event and waits for its answer.
func call(r *coord.Runtime[*words], shard int32, run func(*words, *coord.Turn)) error {
	done := make(chan error, 1)
	r.Submit(shard, coord.Event[*words]{
		Run:     func(m *words, t *coord.Turn) { run(m, t); t.Reply(func(err error) { done <- err }) },
		Refused: func(err error) { done <- err },
	})
	return <-done
}

// callWhenLoaded waits for the load and for the turn in which run ran.
func callWhenLoaded(t *testing.T, r *coord.Runtime[*words], shard int32, run func(*words, *coord.Turn)) {
	t.Helper()
	done := make(chan error, 1)
	r.Post(shard, coord.Event[*words]{
		Run:     func(m *words, t *coord.Turn) { run(m, t); t.Reply(func(err error) { done <- err }) },
		Refused: func(err error) { done <- err },
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func writeWord(key, value string) func(*words, *coord.Turn) {
	return func(_ *words, t *coord.Turn) { _ = t.Emit(record(key, value)) }
}

// gatedLog loads when it is told to.
type gatedLog struct {
	*coordtest.Log
	gate chan struct{}
}

func (g *gatedLog) Replay(ctx context.Context, visit func(batch.View) error) (int64, error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	return g.Log.Replay(ctx, visit)
}

func TestRuntimeRefusesWhileLoading(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	log := &gatedLog{coordtest.NewLog(), make(chan struct{})}
	if err := call(r, 1, writeWord("a", "1")); !errors.Is(err, coord.ErrNotCoordinator) {
		t.Errorf("a shard that is not led answers %v", err)
	}
	r.Load(1, log)
	if err := call(r, 1, writeWord("a", "1")); !errors.Is(err, coord.ErrLoading) {
		t.Errorf("a shard that is loading answers %v", err)
	}
	posted := make(chan string, 1)
	r.Post(1, coord.Event[*words]{
		Run:     func(m *words, _ *coord.Turn) { posted <- fmt.Sprint("loaded ", m.loaded) },
		Refused: func(err error) { posted <- err.Error() },
	})
	close(log.gate)
	if got := <-posted; got != "loaded true" {
		t.Errorf("a posted message: %s", got)
	}
	callWhenLoaded(t, r, 1, writeWord("a", "1"))
}

func TestRuntimeStopsAShardThatIsLoading(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	r.Load(1, &gatedLog{coordtest.NewLog(), make(chan struct{})})
	refused := make(chan error, 1)
	r.Post(1, coord.Event[*words]{Run: func(*words, *coord.Turn) {}, Refused: func(err error) { refused <- err }})
	r.Unload(1)
	if err := <-refused; !errors.Is(err, coord.ErrNotCoordinator) {
		t.Errorf("a posted message of a shard that was unloaded: %v", err)
	}
}

func TestRuntimeBoundsItsQueue(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	r.Load(1, coordtest.NewLog())
	callWhenLoaded(t, r, 1, writeWord("a", "1"))
	// The owner is held inside an event while the queue fills.
	entered, leave := make(chan struct{}), make(chan struct{})
	go r.Submit(1, coord.Event[*words]{Run: func(*words, *coord.Turn) { close(entered); <-leave }, Refused: func(error) {}})
	<-entered
	var refused atomic.Int64
	var ran sync.WaitGroup
	ran.Add(limits.CoordQueueEvents)
	event := coord.Event[*words]{
		Run: func(*words, *coord.Turn) { ran.Done() },
		Refused: func(err error) {
			if !errors.Is(err, coord.ErrOverloaded) {
				t.Error(err)
			}
			refused.Add(1)
		},
	}
	for range limits.CoordQueueEvents + 10 {
		r.Submit(1, event)
	}
	close(leave)
	ran.Wait()
	if refused.Load() != 10 {
		t.Errorf("%d events were refused, want 10", refused.Load())
	}
}

func TestRuntimeUnloadAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	log := coordtest.NewLog()
	r.Load(1, log)
	callWhenLoaded(t, r, 1, writeWord("a", "1"))
	log.Hold()
	parked, done := make(chan struct{}), make(chan error, 1)
	r.Submit(1, coord.Event[*words]{
		Run: func(_ *words, turn *coord.Turn) {
			_ = turn.Emit(record("a", "2"))
			turn.Reply(func(err error) { done <- err })
			close(parked)
		},
		Refused: func(err error) { t.Error(err) },
	})
	<-parked
	r.Unload(1)
	if err := <-done; !errors.Is(err, coord.ErrNotCoordinator) {
		t.Errorf("who waited for a commit was told %v", err)
	}
	if err := call(r, 1, writeWord("a", "1")); !errors.Is(err, coord.ErrNotCoordinator) {
		t.Errorf("an unloaded shard answers %v", err)
	}
}

func TestRuntimeLoadsAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	log := coordtest.NewLog()
	r.Load(1, log)
	callWhenLoaded(t, r, 1, writeWord("a", "1"))
	log.Fail(errors.New("a cable was pulled"))
	if err := call(r, 1, writeWord("a", "2")); !errors.Is(err, coord.ErrLogFailed) {
		t.Errorf("a write to a failed log: %v", err)
	}
	log.Fail(nil)
	got := ""
	callWhenLoaded(t, r, 1, func(m *words, _ *coord.Turn) { got = m.values["a"] })
	if got != "1" {
		t.Errorf("after the second load a=%s, want what is in the log", got)
	}
}

func TestRuntimeCloseAnswersWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	log := coordtest.NewLog()
	r.Load(1, log)
	callWhenLoaded(t, r, 1, writeWord("a", "0"))
	log.Hold()
	const writers = 100
	results := make(chan error, writers)
	for i := range writers {
		go func() { results <- call(r, 1, writeWord("a", fmt.Sprint(i))) }()
	}
	go log.Commit() // some are in, some will be refused: both are right
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for range writers {
		if err := <-results; err != nil && !errors.Is(err, coord.ErrNotCoordinator) {
			t.Error(err)
		}
	}
	r.Load(2, coordtest.NewLog())
	if err := call(r, 2, writeWord("a", "0")); !errors.Is(err, coord.ErrNotCoordinator) {
		t.Errorf("a closed runtime loads a shard: %v", err)
	}
}

// Timers fire without any request.
func TestRuntimeWakesForTimers(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	r.Load(1, coordtest.NewLog())
	fired := make(chan struct{})
	callWhenLoaded(t, r, 1, func(m *words, turn *coord.Turn) {
		m.timer.Fire = func(*coord.Turn) { close(fired) }
		turn.Schedule(&m.timer, turn.NowMs+5)
	})
	select {
	case <-fired:
	case <-time.After(10 * time.Second):
		t.Fatal("the timer did not fire")
	}
}

// Many submitters, shards that fail, come and go: every event is answered once.
func TestRuntimeAnswersEveryEventOnce(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	logs := []*coordtest.Log{coordtest.NewLog(), coordtest.NewLog(), coordtest.NewLog()}
	for i, log := range logs {
		r.Load(int32(i), log)
	}
	const submitters, each = 8, 300
	var answered atomic.Int64
	var all sync.WaitGroup
	for s := range submitters {
		all.Go(func() {
			for i := range each {
				_ = call(r, int32((s+i)%3), writeWord(fmt.Sprint(s), fmt.Sprint(i)))
				answered.Add(1)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			logs[0].Fail(errors.New("flaky"))
			logs[0].Fail(nil)
			r.Unload(1)
			r.Load(1, logs[1])
		}
	})
	all.Wait()
	if answered.Load() != submitters*each {
		t.Errorf("%d answers for %d events", answered.Load(), submitters*each)
	}
}

// What was offloaded comes back as a turn of the incarnation that wanted it, while
// others go on; one that has ended since takes nothing.
func TestOffload(t *testing.T) {
	t.Parallel()
	r := newRuntime(t)
	log := coordtest.NewLog()
	r.Load(1, log)
	gate, done := make(chan struct{}), make(chan *words, 1)
	var asked *words
	callWhenLoaded(t, r, 1, func(m *words, turn *coord.Turn) {
		asked = m
		turn.Offload(func() { <-gate }, func(turn *coord.Turn) {
			_ = turn.Emit(record("plan", "1"))
			done <- m
		})
	})
	if err := call(r, 1, writeWord("a", "1")); err != nil { // nobody waits for it
		t.Fatal(err)
	}
	close(gate)
	if m := <-done; m != asked {
		t.Error("another machine took the result")
	}

	gate = make(chan struct{})
	worked := make(chan struct{})
	callWhenLoaded(t, r, 1, func(_ *words, turn *coord.Turn) {
		turn.Offload(func() { <-gate; close(worked) }, func(*coord.Turn) { t.Error("an incarnation that has ended takes a result") })
	})
	log.Fail(errors.New("broken"))
	_ = call(r, 1, writeWord("b", "1"))
	log.Fail(nil)
	close(gate)
	<-worked
	callWhenLoaded(t, r, 1, func(m *words, _ *coord.Turn) {
		if m == asked {
			t.Error("the machine is the old one")
		}
	})
	_ = call(r, 1, writeWord("c", "1"))
}
