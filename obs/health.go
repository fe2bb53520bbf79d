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
	defer h.mu.Unlock()
	var lines []string
	for _, part := range slices.Sorted(maps.Keys(h.parts)) {
		if reason := h.parts[part]; reason != "" {
			lines = append(lines, part+": "+reason)
		}
	}
	return len(lines) == 0, strings.Join(lines, "\n")
}
