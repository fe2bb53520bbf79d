package obs

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestHealthNamesEveryPartThatIsNotReady(t *testing.T) {
	t.Parallel()
	var h Health
	if ready, _ := h.State(); !ready {
		t.Error("a broker of which nobody said anything is not ready")
	}
	h.NotReady("storage", "disk is full")
	h.NotReady("start", "starting")
	if ready, reasons := h.State(); ready || reasons != "start: starting\nstorage: disk is full" {
		t.Errorf("%v %q", ready, reasons)
	}
	h.Ready("start")
	h.Ready("storage")
	if ready, reasons := h.State(); !ready || reasons != "" {
		t.Errorf("%v %q", ready, reasons)
	}
}

func TestLimitedLetsOneThroughAndCountsTheRest(t *testing.T) {
	t.Parallel()
	l := Limited{Every: time.Minute}
	now := time.Unix(1000, 0)
	var allowed atomic.Int64
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				if ok, _ := l.Allow(now); ok {
					allowed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	if allowed.Load() != 1 {
		t.Errorf("%d lines in one interval", allowed.Load())
	}
	if ok, dropped := l.Allow(now.Add(time.Minute)); !ok || dropped != 799 {
		t.Errorf("next interval: %v, %d left out", ok, dropped)
	}
}

func TestLimitedWarnSaysHowManyWereLeftOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := NewLogger(&out, false, slog.LevelInfo)
	l := Limited{Every: time.Nanosecond}
	l.dropped.Store(3)
	l.Warn(logger, "peer misbehaves", slog.String("peer", "1.2.3.4"))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["msg"] != "peer misbehaves" || line["peer"] != "1.2.3.4" || line["leftOut"] != 3.0 || line["level"] != "WARN" {
		t.Errorf("%v", line)
	}
}

func TestLoggerFormats(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	NewLogger(&out, true, slog.LevelInfo).Info("ready", "node", 1)
	if !strings.Contains(out.String(), "msg=ready node=1") {
		t.Errorf("terminal: %q", out.String())
	}
}

func TestRegistryWritesPrometheusText(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	r.Counter(`kaas_requests_total{api="Produce"}`).Add(2)
	r.Histogram("kaas_seconds").Update(0.5)
	r.Gauge("kaas_partitions", func() float64 { return 7 })
	r.Gauge("kaas_partitions", func() float64 { return 8 })
	var out bytes.Buffer
	r.Write(&out)
	for _, want := range []string{`kaas_requests_total{api="Produce"} 2`, `kaas_seconds_bucket{le="0.25"} 0`, `kaas_seconds_bucket{le="+Inf"} 1`, "kaas_seconds_count 1", "kaas_partitions 7", "process_resident_memory_bytes"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestCounterAndLimitedAllocateNothing(t *testing.T) {
	r := NewRegistry()
	c, h := r.Counter("c"), r.Histogram("h")
	h.Update(0.25)
	var l Limited
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { c.Inc(); h.Update(0.25); l.Allow(now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
