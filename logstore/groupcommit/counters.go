package groupcommit

import (
	"sync/atomic"
	"time"

	"kaas/obs"
)

// Counters are what a Committer counts. Any goroutine may read them, and may set the histograms.
type Counters struct {
	RoundTasks   atomic.Int64                  // committed by rounds of groups
	JournalBytes atomic.Int64                  // of the blocks that rounds wrote, padding included
	JournalTurns atomic.Int64                  // halves of journals that were full, and whose logs were then written back
	RoundSeconds atomic.Pointer[obs.Histogram] // of rounds that committed something; nil: nobody looks
	TaskSeconds  atomic.Pointer[obs.Histogram] // of tasks that were committed alone
}

func observe(h *atomic.Pointer[obs.Histogram], began time.Time) {
	if h := h.Load(); h != nil {
		h.Update(time.Since(began).Seconds())
	}
}

// round counts a round without what it has handed over. Caller: no lock.
func (c *Counters) round(tasks []*Task, began time.Time) {
	committed := int64(0)
	for _, t := range tasks {
		if t != nil {
			committed++
		}
	}
	if committed > 0 {
		c.RoundTasks.Add(committed)
		observe(&c.RoundSeconds, began)
	}
}
