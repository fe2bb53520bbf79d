package obs

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Health is the state behind /healthz and /readyz. Each part of the program
// reports under its own name; the broker is ready when every part that has
// reported is ready. The zero value is ready.
type Health struct {
	mu sync.Mutex
	// parts maps a part to why it is not ready, "" when it is.
	// Bounded: names are constants of the program and log directories.
	// +checklocks:mu
	parts map[string]string
	// probes maps a part to what is asked, at each State, why it is not ready; "" when it is.
	// +checklocks:mu
	probes map[string]func() string
}

// Probe has State ask why the part cannot serve, instead of being told. ask may be called from any goroutine and must not
// wait for a disk.
func (h *Health) Probe(part string, ask func() string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.probes == nil {
		h.probes = make(map[string]func() string)
	}
	h.probes[part] = ask
}

// NotReady says why a part cannot serve. Calling it again replaces the reason.
func (h *Health) NotReady(part, reason string) { h.set(part, reason) }

// Ready says that a part serves.
func (h *Health) Ready(part string) { h.set(part, "") }

func (h *Health) set(part, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.parts == nil {
		h.parts = make(map[string]string)
	}
	h.parts[part] = reason
}

// State reports whether every part is ready; if not, reasons has one line
// `part: reason` for each that is not, sorted.
func (h *Health) State() (ready bool, reasons string) {
	h.mu.Lock()
	found, probes := maps.Clone(h.parts), maps.Clone(h.probes)
	h.mu.Unlock()
	if found == nil {
		found = make(map[string]string)
	}
	for part, ask := range probes {
		if reason := ask(); reason != "" {
			found[part] = reason
		}
	}
	var lines []string
	for _, part := range slices.Sorted(maps.Keys(found)) {
		if reason := found[part]; reason != "" {
			lines = append(lines, part+": "+reason)
		}
	}
	return len(lines) == 0, strings.Join(lines, "\n")
}
