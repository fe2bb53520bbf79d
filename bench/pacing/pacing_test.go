package pacing

import (
	"testing"
	"time"
)

// Until never returns early, and what has passed costs no sleep.
func TestUntil(t *testing.T) {
	t.Parallel()
	done := make(chan time.Duration)
	go func() {
		if err := Thread(); err != nil {
			t.Error(err)
		}
		begin := time.Now()
		Until(begin.Add(-time.Second))
		for i := range 20 {
			Until(begin.Add(time.Duration(i) * 300 * time.Microsecond))
		}
		done <- time.Since(begin)
	}()
	if took := <-done; took < 19*300*time.Microsecond {
		t.Errorf("19 waits of 300 µs took %v", took)
	}
}
