package cleaner

import (
	"context"
	"sync"
	"time"
)

// Throttle bounds the bytes that all its users read and write in a second (log.cleaner.io.max.bytes.per.second,
// replica.alter.log.dirs.io.max.bytes.per.second).
type Throttle struct {
	mu             sync.Mutex
	bytesPerSecond float64       // 0 or less: no bound; owner: mu
	free           time.Time     // until then what was let through is being paid for; owner: mu
	changed        chan struct{} // closed when the rate changes; owner: mu
}

// NewThrottle makes one; 0 or less means no bound.
func NewThrottle(bytesPerSecond float64) *Throttle {
	return &Throttle{bytesPerSecond: bytesPerSecond, changed: make(chan struct{})}
}

// SetRate changes the bound. Who waits under the old one goes on at once.
func (t *Throttle) SetRate(bytesPerSecond float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytesPerSecond == bytesPerSecond {
		return
	}
	t.bytesPerSecond, t.free = bytesPerSecond, time.Time{}
	close(t.changed)
	t.changed = make(chan struct{})
}

// throttleSlack is how far I/O may run ahead, so that small pieces do not each need a timer.
const throttleSlack = 20 * time.Millisecond

// Wait lets bytes through at the rate, or returns ctx's error.
func (t *Throttle) Wait(ctx context.Context, bytes int) error {
	if err := ctx.Err(); err != nil || t == nil {
		return err
	}
	ahead, changed := t.take(bytes)
	if ahead <= throttleSlack {
		return nil
	}
	timer := time.NewTimer(ahead)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C:
	}
	return nil
}

// take books bytes and says how far ahead of the rate that is.
func (t *Throttle) take(bytes int) (ahead time.Duration, changed chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytesPerSecond <= 0 {
		return 0, nil
	}
	cost := float64(bytes) / t.bytesPerSecond * float64(time.Second)
	if cost < 1 {
		return 0, nil // below the clock: the default is as good as none
	}
	now := time.Now()
	if t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(time.Duration(min(cost, float64(time.Hour))))
	return t.free.Sub(now), t.changed
}
