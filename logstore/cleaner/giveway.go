package cleaner

import (
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
)

// turn is a round's turn on a processor. A round computes for seconds, and who is woken behind a thread that computes gets the processor only
// when the scheduler's next tick takes it away, 4 ms at 250 Hz, even where another processor has nothing to do
// (docs/design/logstore-figures.md). So a round offers its turn to whoever waits for one, often enough that an acknowledgement
// does not notice, and goes on at once when nobody does. It bounds nothing: that is what the Throttle is for.
//
// Not a lower priority: a thread of the process that others starve keeps its scheduling slot, and the next collection of garbage, with it
// everything else, would wait for it. Who gives way does so in a system call, for which nobody waits.
type turn struct {
	bytes int // worked on since the clock was read
	began time.Time
	now   func() time.Time // nil: the system's. For tests
	offer func()           // nil: the system's. For tests
}

// worked says that so many bytes were worked on.
func (t *turn) worked(bytes int) {
	// A small record costs as much as its map entry.
	if t.bytes += bytes + limits.CleanerRecordWorkBytes; t.bytes < limits.CleanerTurnBytes {
		return
	}
	t.bytes = 0
	now := t.clock()
	if now.Sub(t.began) < limits.CleanerTurn {
		return
	}
	if t.offer != nil {
		t.offer()
	} else {
		// It can't fail. Not a raw system call: the thread may be gone for a while, and its scheduling slot must not be.
		_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
	t.began = t.clock()
}

func (t *turn) clock() time.Time {
	if t.now != nil {
		return t.now()
	}
	return time.Now()
}
