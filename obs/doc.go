// Package obs is what an operator sees of a running kaas: the logger, the
// metrics registry, and the health and readiness state behind /healthz and
// /readyz.
//
// It is a leaf that every room may import. It does not open sockets (cmd/kaas
// serves the handlers) and keeps no global state: a logger, a Registry and a
// Health are made once in cmd/kaas and handed down.
//
// Goroutines: none. Locks: Health.mu and Limited's atomics, each held for a
// few instructions; neither is held while calling out.
package obs
