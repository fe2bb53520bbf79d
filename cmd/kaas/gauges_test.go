package main

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaas/internal/limits"
)

// A volume that hangs costs each scrape a second and all of them one question; when it answers, the next scrape has it.
func TestVolumeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		var asked atomic.Int64
		v := &volume{ask: func() (int64, int64, error) {
			asked.Add(1)
			return 10, 4, <-answer
		}}
		for range 3 {
			began := time.Now()
			if _, _, ok := v.usage(); ok || time.Since(began) != limits.MetricsVolumeWait {
				t.Errorf("%v after %v", ok, time.Since(began))
			}
		}
		if asked.Load() != 1 {
			t.Errorf("%d questions are open", asked.Load())
		}
		answer <- nil
		synctest.Wait()
		go func() { answer <- nil }()
		if total, usable, ok := v.usage(); !ok || total != 10 || usable != 4 || asked.Load() != 2 {
			t.Errorf("%d %d %v after %d questions", total, usable, ok, asked.Load())
		}
		synctest.Wait()
		go func() { answer <- errors.New("the device is gone") }()
		if _, _, ok := v.usage(); ok {
			t.Error("a volume that fails is said to have room")
		}
		synctest.Wait()
	})
}
