package coord

import (
	"context"
	"log/slog"
)

// Steps runs a machine turn by turn on the caller's goroutine with the caller's
// clock: for tests and simulations, which need every schedule to be repeatable.
// A Runtime does the same with a goroutine and the real clock.
type Steps[M Machine] struct {
	Machine M
	core    *core
	jobs    []job // offloaded; the next turn begins with them
}

type job struct {
	work func()
	done func(t *Turn)
}

// NewSteps replays the log into the machine and gives it its first turn.
func NewSteps[M Machine](machine M, log Log, nowMs, wallMs int64) (*Steps[M], error) {
	l := loader{machine: machine, logger: slog.New(slog.DiscardHandler)}
	endOffset, err := l.load(context.Background(), log)
	if err != nil {
		return nil, err
	}
	s := &Steps[M]{Machine: machine, core: newCore(machine, log, func() {})}
	s.core.offload = func(work func(), done func(t *Turn)) { s.jobs = append(s.jobs, job{work, done}) }
	s.core.loaded(endOffset)
	machine.Loaded(s.core.turn(nowMs, wallMs))
	return s, s.finish()
}

// Turn ends what was offloaded before, fires the timers that are due, handles the events, appends what they have
// emitted and releases the replies that are committed. An error means that the log
// has failed and that End is due.
func (s *Steps[M]) Turn(nowMs, wallMs int64, events ...func(m M, t *Turn)) error {
	turn := s.core.turn(nowMs, wallMs)
	jobs := s.jobs
	s.jobs = nil
	for _, j := range jobs {
		j.work()
		j.done(turn)
	}
	s.core.fire(turn)
	for _, event := range events {
		event(s.Machine, turn)
	}
	return s.finish()
}

func (s *Steps[M]) finish() error {
	if err := s.core.flush(); err != nil {
		return err
	}
	return s.core.release()
}

// NextTimer is the earliest deadline.
func (s *Steps[M]) NextTimer() (atMs int64, ok bool) { return s.core.timers.next() }

// Parked is how many replies wait for a commit.
func (s *Steps[M]) Parked() int { return s.core.parkedCount() }

// End throws the machine away; everyone who waits gets err.
func (s *Steps[M]) End(err error) { s.core.end(err) }
