package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"kaas/bench/generator"
)

// meter notes, for each measured run of a scenario, how busy the load itself was, which shares the machine with what is
// measured, and what of the processors was left: whether the load may have been the bottleneck.
type meter struct {
	mu sync.Mutex
	// Processors, by run.
	// +checklocks:mu
	own, idle []float64
}

// during notes work. A nil meter only does it.
func (m *meter) during(work func() error) error {
	if m == nil {
		return work()
	}
	own, idle, begin := generator.OwnCPU(), idleTime(), time.Now()
	err := work()
	seconds := time.Since(begin).Seconds()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = append(m.own, (generator.OwnCPU()-own).Seconds()/seconds)
	m.idle = append(m.idle, (idleTime()-idle).Seconds()/seconds)
	return err
}

// figures are those of a scenario; none when nothing was metered.
func (m *meter) figures(scenario string) []figure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.own) == 0 {
		return nil
	}
	return loadFigures(scenario, loadSide, m.own, m.idle)
}

const loadSide = "load"

// loadFigures say how busy the load was, and whether the machine was full.
func loadFigures(scenario, side string, own, idle []float64) []figure {
	note := ""
	if saturated(median(own), median(idle)) {
		note = fmt.Sprintf("no processor was idle, and the load itself kept %.1f of %d busy: throughput is that of both together", median(own), runtime.NumCPU())
	}
	return []figure{newFigure(scenario, side, "CPU of the load itself", "processors", note, own), newFigure(scenario, side, "idle meanwhile", "processors", "", idle)}
}

// saturated tells whether the load had a large part in a machine that was full.
func saturated(own, idle float64) bool {
	processors := float64(runtime.NumCPU())
	return idle < 0.05*processors && own > 0.25*processors
}

// idleTime is how long processors had nothing to do since the machine's start, all together, to 10 ms each.
func idleTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0 // then nothing is said to be idle
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line) // cpu, user, nice, system, idle, iowait, …
	var ticks int64
	for _, at := range []int{4, 5} {
		if len(fields) > at {
			n, err := strconv.ParseInt(string(fields[at]), 10, 64)
			if err == nil {
				ticks += n
			}
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
