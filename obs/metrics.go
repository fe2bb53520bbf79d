package obs

import (
	"io"

	"github.com/VictoriaMetrics/metrics"
)

// Registry holds the metrics of one process. A name is a Prometheus series,
// labels included: kaas_produce_requests_total{listener="PLAINTEXT"}.
type Registry struct{ set *metrics.Set }

// Counter only grows. One atomic add, no allocation.
type Counter = metrics.Counter

// Histogram takes observations in seconds; a few nanoseconds and no allocation
// per Update in steady state. It has buckets with le, as Prometheus' own
// histogram_quantile needs them.
type Histogram = metrics.PrometheusHistogram

// secondsBounds are upper bounds of buckets, from a request that is answered from
// memory to one that waits for its timeout.
var secondsBounds = []float64{
	0.000025, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{set: metrics.NewSet()} }

// Counter returns the counter of this name and makes it at first use. Keep
// the result: the look-up takes a lock.
func (r *Registry) Counter(name string) *Counter { return r.set.GetOrCreateCounter(name) }

// Histogram returns the histogram of this name and makes it at first use.
func (r *Registry) Histogram(name string) *Histogram {
	return r.set.GetOrCreatePrometheusHistogramExt(name, secondsBounds)
}

// Gauge registers a function that is asked at each scrape. A second
// registration of a name keeps the first function.
func (r *Registry) Gauge(name string, value func() float64) { r.set.GetOrCreateGauge(name, value) }

// Write writes all series, and those of the process and the Go runtime, in
// Prometheus' text format.
func (r *Registry) Write(w io.Writer) {
	r.set.WritePrometheus(w)
	metrics.WriteProcessMetrics(w)
}
