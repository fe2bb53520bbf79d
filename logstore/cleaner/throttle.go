package cleaner

import (
	"context"
	"sync"
	"time"
)

// Throttle bounds the bytes that all cleaners of a store read and write in a second (log.cleaner.io.max.bytes.per.second).
type Throttle struct {
	bytesPerSecond float64

	mu   sync.Mutex
	free time.Time // until then what was let through is being paid for; owner: mu
}

// NewThrottle makes one; 0 or less means no bound.
func NewThrottle(bytesPerSecond float64) *Throttle { return &Throttle{bytesPerSecond: bytesPerSecond} }

// throttleSlack is how far I/O may run ahead, so that small pieces do not each need a timer.
const throttleSlack = 20 * time.Millisecond

// Wait lets bytes through at the rate, or returns ctx's error.
func (t *Throttle) Wait(ctx context.Context, bytes int) error {
	if err := ctx.Err(); err != nil || t == nil || t.bytesPerSecond <= 0 {
		return err
	}
	cost := float64(bytes) / t.bytesPerSecond * float64(time.Second)
	if cost < 1 {
		return nil // below the clock: the default is as good as none
	}
	t.mu.Lock()
	now := time.Now()
	if t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(min(cost, float64(time.Hour))))
	ahead := t.free.Sub(now)
	t.mu.Unlock()
	if ahead <= throttleSlack {
		return nil
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
