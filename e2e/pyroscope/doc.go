// Package pyroscope lets the built broker push its profiles to a real Pyroscope server,
// and asks that server for them. Run it with `make pyroscope`; it builds the server first
// (see build), once for a machine.
//
// It imports no room of kaas. What pushes cost is the scenario profiling of package bench.
//
// Goroutines and locks: each process under test has one goroutine that waits for its end;
// its output belongs to a tail with a lock of its own.
package pyroscope
