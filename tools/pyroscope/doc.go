// Package pyroscope pins Grafana's Pyroscope server in a module of its own: the test in
// e2e/pyroscope needs it as a program, and kaas must not depend on any of it (it is under
// the AGPL, and nothing of it is linked with kaas). e2e/pyroscope/build builds it.
//
// v1.9.0 is the newest release that can be built from the Go module proxy alone: those
// after it use packages of github.com/grafana/pyroscope/api that were never published there.
// The replace list is that of Pyroscope itself.
//
// Goroutines and locks: none; there is no code here.
package pyroscope
