package generator

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// recorder collects latencies in microseconds, three digits exact.
type recorder struct {
	mu sync.Mutex
	// +checklocks:mu
	interval *hdrhistogram.Histogram // since the last exchange
	spare    *hdrhistogram.Histogram // the sampler's
	total    *hdrhistogram.Histogram // the sampler's
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, mostMeasured.Microseconds(), 3)
}

func newRecorder() *recorder {
	return &recorder{interval: newHistogram(), spare: newHistogram(), total: newHistogram()}
}

func (r *recorder) record(d time.Duration) {
	value := min(max(d.Microseconds(), 1), mostMeasured.Microseconds())
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.interval.RecordValue(value) // cannot be outside the bounds
}

// exchange returns what was recorded since the last one. The histogram is the
// caller's until the next exchange. One goroutine calls it.
func (r *recorder) exchange() *hdrhistogram.Histogram {
	r.spare.Reset()
	r.mu.Lock()
	r.interval, r.spare = r.spare, r.interval
	r.mu.Unlock()
	r.total.Merge(r.spare)
	return r.spare
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Count  int64   `json:"count"`
	MeanMs float64 `json:"meanMs"`
	P50Ms  float64 `json:"p50Ms"`
	P90Ms  float64 `json:"p90Ms"`
	P99Ms  float64 `json:"p99Ms"`
	P999Ms float64 `json:"p999Ms"`
	MaxMs  float64 `json:"maxMs"`
}

func latencyOf(h *hdrhistogram.Histogram) Latency {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Latency{Count: h.TotalCount(), MeanMs: h.Mean() / 1000, P50Ms: at(50), P90Ms: at(90), P99Ms: at(99), P999Ms: at(99.9), MaxMs: float64(h.Max()) / 1000}
}

// curve is the distribution by percentile, for the plot: x is 1/(1-q).
func curve(h *hdrhistogram.Histogram) (inverse, ms []float64) {
	for _, q := range []float64{0, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.975, 99.99, 99.995, 99.999} {
		if h.TotalCount() < 1 || (100-q)*float64(h.TotalCount()) < 100 && q > 50 {
			break // not one value lies beyond it
		}
		inverse = append(inverse, 100/(100-q))
		ms = append(ms, float64(h.ValueAtQuantile(q))/1000)
	}
	return inverse, ms
}
