package healer

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTries: after which pauses, until when, and again for a key that failed anew while it ran.
func TestTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var atMs []int64
		ill := true
		h := New(10, 40, func(string) (again bool) {
			atMs = append(atMs, time.Since(begun).Milliseconds())
			return len(atMs) < 5
		}, func(string) bool {
			defer func() { ill = false }()
			return ill
		})
		h.Add("a")
		h.Add("a")
		<-time.After(time.Second)
		synctest.Wait()
		want := []int64{10, 30, 70, 110, 150, 160} // the last one since it is ill anew
		if len(atMs) != len(want) {
			t.Fatalf("tried at %v ms, want %v", atMs, want)
		}
		for i := range want {
			if atMs[i] != want[i] {
				t.Errorf("tried at %v ms, want %v", atMs, want)
			}
		}
		h.Stop()
		h.Wait()
		h.Add("b")
		<-time.After(time.Second)
		if len(atMs) != len(want) {
			t.Error("a try after the stop")
		}
	})
}

// TestStopEndsTries that would go on for ever.
func TestStopEndsTries(t *testing.T) {
	t.Parallel()
	h := New(1, 1, func(int) bool { return true }, func(int) bool { return true })
	for k := range 10 {
		h.Add(k)
	}
	h.Stop()
	h.Wait()
}
