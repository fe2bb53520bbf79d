package obs

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"regexp"
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

func TestLimitedInfoIsNoWarning(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := Limited{Every: time.Hour}
	for range 2 {
		l.Info(NewLogger(&out, true, slog.LevelInfo), "denied", "who", "x")
	}
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=INFO msg=denied who=x") {
		t.Errorf("%q", text)
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
	r.FloatCounter(`kaas_throttled_seconds_total{quota="fetch"}`).Add(0.25)
	r.Histogram(`kaas_request_seconds{api="Fetch"}`).Update(0.5)
	r.Gauge("kaas_ready", func() float64 { return 7 })
	r.Gauge("kaas_ready", func() float64 { return 8 })
	r.CounterFunc("kaas_group_offset_commits_total", func() float64 { return 1e9 })
	for _, dir := range []string{"/a", "/b\"\\\n"} { // one after the other, and one family
		r.Collect(func(add Add) {
			add("kaas_log_dir_size_bytes", 1.5, dir)
			add("kaas_log_dir_partitions", 3_000_000, dir)
		})
	}
	var out bytes.Buffer
	r.Write(&out)
	text := out.String()
	for _, want := range []string{
		"# HELP kaas_requests_total Requests that were answered.\n# TYPE kaas_requests_total counter\nkaas_requests_total{api=\"Produce\"} 2\n",
		`kaas_throttled_seconds_total{quota="fetch"} 0.25` + "\n",
		"# TYPE kaas_request_seconds histogram\n", `kaas_request_seconds_bucket{api="Fetch",le="0.25"} 0` + "\n", `kaas_request_seconds_bucket{api="Fetch",le="+Inf"} 1` + "\n", `kaas_request_seconds_count{api="Fetch"} 1` + "\n",
		"# TYPE kaas_ready gauge\nkaas_ready 7\n",
		"# TYPE kaas_group_offset_commits_total counter\nkaas_group_offset_commits_total 1000000000\n",
		"# TYPE kaas_log_dir_size_bytes gauge\nkaas_log_dir_size_bytes{dir=\"/a\"} 1.5\nkaas_log_dir_size_bytes{dir=\"/b\\\"\\\\\\n\"} 1.5\n",
		`kaas_log_dir_partitions{dir="/a"} 3000000` + "\n",
		"# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes ", "# TYPE go_goroutines gauge\n",
		"# HELP go_gc_forced_total\n# TYPE go_gc_forced_total counter\ngo_gc_forced_total ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	checkText(t, text)
}

// checkText fails unless each sample stands below the head of its family, and each family has one.
func checkText(t *testing.T, text string) {
	t.Helper()
	seen, family, kind := map[string]bool{}, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, kind, _ = strings.Cut(name, " ")
			if kind == "counter" && !strings.HasSuffix(family, "_total") {
				t.Errorf("the counter %s does not end in _total", family)
			}
			if seen[family] {
				t.Errorf("%s stands at two places", family)
			}
			seen[family] = true
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		if kind == "histogram" || kind == "summary" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
		}
		if name != family {
			t.Errorf("%q stands below the head of %s", line, family)
		}
	}
}

// What is not in the table is a bug, and so is a sample of another shape.
func TestRegistryKnowsItsFamilies(t *testing.T) {
	t.Parallel()
	for name, bug := range map[string]func(*Registry){
		"an unknown name": func(r *Registry) { r.Counter("kaas_nothing_total") },
		"another kind":    func(r *Registry) { r.Gauge("kaas_requests_total", func() float64 { return 0 }) },
		"too few labels":  func(r *Registry) { r.Collect(func(add Add) { add("kaas_log_dir_partitions", 1) }); r.Write(io.Discard) },
		"a histogram's value": func(r *Registry) {
			r.Collect(func(add Add) { add("kaas_request_seconds", 1, "Fetch") })
			r.Write(io.Discard)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken", name)
				}
			}()
			bug(NewRegistry())
		}()
	}
}

// The table follows Prometheus' rules of naming: base units last, and _total for what only grows.
func TestFamilies(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range Families {
		if seen[f.Name] || !regexp.MustCompile("^kaas(_[a-z0-9]+)+$").MatchString(f.Name) || !strings.HasSuffix(f.Help, ".") || strings.Contains(f.Help, "\n") {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
		if strings.HasSuffix(f.Name, "_total") != (f.Kind == KindCounter) || f.Kind == KindHistogram && !strings.HasSuffix(f.Name, "_seconds") {
			t.Errorf("%s is a %s", f.Name, f.Kind)
		}
		for _, unit := range []string{"milliseconds", "_ms", "megabytes", "percent"} {
			if strings.Contains(f.Name, unit) {
				t.Errorf("%s is not in base units", f.Name)
			}
		}
	}
}

func TestCounterAndLimitedAllocateNothing(t *testing.T) {
	r := NewRegistry()
	c, h := r.Counter("kaas_requests_total"), r.Histogram("kaas_request_seconds")
	h.Update(0.25)
	var l Limited
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { c.Inc(); h.Update(0.25); l.Allow(now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
