package main

import (
	"fmt"
	"log/slog"
	"time"

	"kaas/auth"
	"kaas/codec"
	"kaas/kube/filestore"
	"kaas/obs"
	"kaas/quota"
)

// requestMetrics implements broker.Metrics. It is called on event loops:
// everything is looked up before, so a request costs a few atomic adds and no
// allocation. Immutable after newRequestMetrics.
type requestMetrics struct {
	byKey   [maxAPIKey]*apiMetrics
	other   *apiMetrics
	refused map[string]*obs.Counter
}

const maxAPIKey = 128

type apiMetrics struct {
	requests, requestBytes *obs.Counter
	seconds                *obs.Histogram
}

// refusals are the reasons that the broker gives to RequestRefused.
var refusals = []string{"malformed", "not served", "memory of requests under way", "worker pool", "not authenticated", "authentication failed"}

func newRequestMetrics(registry *obs.Registry) *requestMetrics {
	m := &requestMetrics{other: newAPIMetrics(registry, "other"), refused: make(map[string]*obs.Counter)}
	for _, reason := range refusals {
		m.refused[reason] = registry.Counter(fmt.Sprintf("kaas_requests_refused_total{reason=%q}", reason))
	}
	return m
}

// serves makes the series of the registry's APIs; before the first request.
func (m *requestMetrics) serves(registry *obs.Registry, apis *codec.Registry) {
	for _, api := range apis.All() {
		if api.Key >= 0 && api.Key < maxAPIKey {
			m.byKey[api.Key] = newAPIMetrics(registry, api.Name)
		}
	}
}

func newAPIMetrics(registry *obs.Registry, api string) *apiMetrics {
	return &apiMetrics{
		requests:     registry.Counter(fmt.Sprintf("kaas_requests_total{api=%q}", api)),
		requestBytes: registry.Counter(fmt.Sprintf("kaas_request_bytes_total{api=%q}", api)),
		seconds:      registry.Histogram(fmt.Sprintf("kaas_request_seconds{api=%q}", api)),
	}
}

// RequestEnded implements broker.Metrics. Bytes of replies are counted by the
// network: the broker does not know them for replies that hold file ranges.
func (m *requestMetrics) RequestEnded(api *codec.API, _ int16, requestBytes, _ int, took time.Duration) {
	a := m.other
	if api.Key >= 0 && api.Key < maxAPIKey && m.byKey[api.Key] != nil {
		a = m.byKey[api.Key]
	}
	a.requests.Inc()
	a.requestBytes.Add(requestBytes)
	a.seconds.Update(took.Seconds())
}

// newThrottleMetrics counts throttled replies and for how long.
func newThrottleMetrics(registry *obs.Registry) func(quota.Kind, time.Duration) {
	var replies [3]*obs.Counter
	var seconds [3]*obs.FloatCounter
	for kind, name := range []string{quota.Produce: "produce", quota.Consume: "fetch", quota.Request: "request"} {
		replies[kind] = registry.Counter(fmt.Sprintf("kaas_throttled_total{quota=%q}", name))
		seconds[kind] = registry.FloatCounter(fmt.Sprintf("kaas_throttled_seconds_total{quota=%q}", name))
	}
	return func(kind quota.Kind, throttle time.Duration) {
		replies[kind].Inc()
		seconds[kind].Add(throttle.Seconds())
	}
}

// newDenialMetrics counts denials and writes what Kafka's authorizer writes of them
// (its audit line at INFO), at most one line a second.
func newDenialMetrics(registry *obs.Registry, logger *slog.Logger) func(auth.Denial) {
	type question struct {
		op       auth.Operation
		resource auth.ResourceType
	}
	counters := map[question]*obs.Counter{} // not changed any more
	for _, resource := range []auth.ResourceType{auth.ResourceTopic, auth.ResourceGroup, auth.ResourceCluster, auth.ResourceTransactionalID} {
		for _, op := range auth.SupportedOperations(resource) {
			counters[question{op, resource}] = registry.Counter(fmt.Sprintf("kaas_authorization_denied_total{operation=%q,resource_type=%q}", op, resource))
		}
	}
	limited := &obs.Limited{}
	return func(d auth.Denial) {
		if c := counters[question{d.Operation, d.Resource}]; c != nil {
			c.Inc()
		}
		limited.Info(logger, "authorization denied", "principal", d.Principal, "operation", d.Operation.String(), "host", d.Host,
			"resource", d.Pattern(), "request", d.Request)
	}
}

// resourceMetrics counts the resources and the files that can't be read.
func resourceMetrics(registry *obs.Registry, files *filestore.Store) {
	registry.Collect(func(add obs.Add) {
		for of, n := range files.Census() {
			add("kaas_resources", float64(n), string(of.Kind), of.Ready)
		}
	})
	registry.Gauge("kaas_resource_files_unreadable", func() float64 { return float64(files.UnreadableFiles()) })
}

// RequestRefused implements broker.Metrics.
func (m *requestMetrics) RequestRefused(reason string) {
	if c := m.refused[reason]; c != nil {
		c.Inc()
	}
}
