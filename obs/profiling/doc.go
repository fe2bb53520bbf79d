// Package profiling pushes profiles of the process to a Pyroscope server and
// names the API of a request in CPU samples.
//
// It is a leaf that cmd/kaas wires, and the only package that knows which
// Pyroscope client is used. It is not a profiler: what it pushes are the Go
// runtime's own profiles.
//
// Goroutines: the client's, from Start until the stop function has returned.
// Locks: none of its own. One process has one CPU profiler, so there may be
// one Start at a time.
package profiling
