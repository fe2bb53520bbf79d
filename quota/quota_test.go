package quota

import (
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"kaas/internal/limits"
)

func manager(resources map[string]map[string]float64) *Manager {
	m := NewManager(func(user string) (map[string]float64, bool) {
		quotas, known := resources[user]
		return quotas, known
	})
	m.clock = func() time.Time { return time.Unix(1000, 0) }
	return m
}

func at(seconds float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(seconds * 1e9)) }

func value(v float64) *float64 { return &v }

func TestDebtIsCarriedOver(t *testing.T) {
	t.Parallel()
	m := manager(map[string]map[string]float64{"u": {ProducerByteRate: 1000}})
	c := m.Client("u")
	for i, step := range []struct {
		at, bytes float64
		want      time.Duration
	}{
		{0, 1000, 0}, // a second's worth at once
		{0, 500, 500 * time.Millisecond},
		{0.5, 0, 0},
		{0.5, 2000, 2 * time.Second},
		{1.5, 1000, 2 * time.Second}, // one second paid, one more owed
		{100, 1000, 0},               // no more than a second's worth was saved
		{100, 1, time.Millisecond},
		{99, 1, 2 * time.Millisecond}, // a clock that goes back pays nothing
	} {
		if got := c.Charge(Produce, step.bytes, at(step.at)); got.Round(time.Microsecond) != step.want {
			t.Errorf("%d: %v, want %v", i, got, step.want)
		}
	}
	if c.Charge(Consume, 1e12, at(0)) != 0 || c.Counts(Consume) || !c.Counts(Produce) {
		t.Error("a quota counts something else")
	}
	if got := m.Client("v").Charge(Produce, 1e12, at(0)); got != 0 {
		t.Error("a user without quotas is throttled")
	}
	var none *Client
	if none.Charge(Produce, 1, at(0)) != 0 || none.Counts(Produce) || (*Manager)(nil).Client("u") != nil {
		t.Error("nil has quotas")
	}
}

// TestAverageIsTheQuota: whoever waits as long as told takes the quota's rate, also
// with requests above a throttle's bound.
func TestAverageIsTheQuota(t *testing.T) {
	t.Parallel()
	for _, size := range []float64{10, 700, 5000, 50_000} {
		c := manager(map[string]map[string]float64{"u": {ConsumerByteRate: 1000}}).Client("u")
		now, sum := at(0), 0.0
		for now.Before(at(1000)) {
			throttle := c.Charge(Consume, size, now)
			if throttle > limits.QuotaThrottleMaxMs*time.Millisecond {
				t.Fatal(throttle)
			}
			sum += size
			now = now.Add(throttle + time.Millisecond)
			for size == 50_000 && c.Charge(Consume, 0, now) > 0 { // asks for nothing while it is in debt
				now = now.Add(limits.QuotaThrottleMaxMs * time.Millisecond)
			}
		}
		if rate := sum / now.Sub(at(0)).Seconds(); math.Abs(rate-1000) > 60 {
			t.Errorf("requests of %.0f bytes: %.0f bytes a second", size, rate)
		}
	}
}

func TestRequestPercentage(t *testing.T) {
	t.Parallel()
	c := manager(map[string]map[string]float64{"u": {RequestPercentage: 50}}).Client("u")
	if c.Charge(Request, 0.5e9, at(0)) != 0 {
		t.Error("half a second of a thread is a second's worth")
	}
	if got := c.Charge(Request, 0.1e9, at(0)); got.Round(time.Millisecond) != 200*time.Millisecond {
		t.Error(got)
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	resources := map[string]map[string]float64{"u": {ProducerByteRate: 1000, RequestPercentage: 10}}
	m := manager(resources)
	c := m.Client("u")
	c.Charge(Produce, 2000, at(0)) // a debt of one second
	if err := m.Override("u", map[string]*float64{ProducerByteRate: value(1)}); err != ErrHasResource || m.Effective("u")[ProducerByteRate] != 1000 {
		t.Errorf("%v: what a resource says is overridden in memory", err)
	}
	resources["u"] = map[string]float64{ProducerByteRate: 500}
	if m.Refresh(); c.Charge(Produce, 0, at(0)) != time.Second || c.Counts(Request) {
		t.Error("a live bucket does not go on with the new rate")
	}
	delete(resources, "u")
	if m.Refresh(); c.Counts(Produce) || m.Effective("u") != nil {
		t.Error("the quota outlives its resource")
	}
	for _, changes := range []map[string]*float64{{ProducerByteRate: value(500), ConsumerByteRate: value(7)}, {ConsumerByteRate: nil, RequestPercentage: value(5)}} {
		if err := m.Override("u", changes); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Effective("u"); len(got) != 2 || got[ProducerByteRate] != 500 || got[RequestPercentage] != 5 || !c.Counts(Produce) || c.Counts(Consume) || len(m.Overridden()) != 1 {
		t.Errorf("%v", got)
	}
	resources["u"] = nil // a resource without quotas
	if m.Refresh(); m.Effective("u") != nil || c.Counts(Produce) || len(m.Overridden()) != 0 {
		t.Error("the override outlives the lack of a resource")
	}
	delete(resources, "u")
	if m.Effective("u") != nil {
		t.Error("the override is back")
	}
	for range 2 {
		if err := m.Override("u", map[string]*float64{ProducerByteRate: nil}); err != nil || len(m.Overridden()) != 0 {
			t.Errorf("%v: an override without content", err)
		}
	}
	m.mu.Lock()
	for i := range limits.QuotaOverrides {
		m.overrides[strconv.Itoa(i)] = map[string]float64{}
	}
	m.mu.Unlock()
	if err := m.Override("one too many", map[string]*float64{ProducerByteRate: value(1)}); err != ErrTooManyOverrides {
		t.Error("overrides are not bounded")
	}
}

// TestContention: many connections of one user share one bucket and lose nothing.
func TestContention(t *testing.T) {
	t.Parallel()
	c := manager(map[string]map[string]float64{"u": {ProducerByteRate: 1000}}).Client("u")
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 1000 {
				c.Charge(Produce, 1, at(0))
			}
		}()
	}
	wait.Wait()
	if got := c.Charge(Produce, 0, at(0)); got != 7*time.Second {
		t.Errorf("8,000 bytes at 1,000 a second owe %v", got)
	}
}

func TestChargeDoesNotAllocate(t *testing.T) {
	c := manager(map[string]map[string]float64{"u": {ProducerByteRate: 1}}).Client("u")
	now := at(0)
	if n := testing.AllocsPerRun(100, func() { c.Charge(Produce, 1, now); c.Charge(Consume, 1, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCharge(b *testing.B) {
	c := manager(map[string]map[string]float64{"u": {ProducerByteRate: 1e9}}).Client("u")
	b.ReportAllocs()
	now := at(0)
	for b.Loop() {
		c.Charge(Produce, 1, now)
	}
}
