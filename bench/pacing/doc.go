// Package pacing is how a load sends at intended times.
//
// What it is: a goroutine's own thread, which sleeps in the kernel until a time. The Go runtime's timers are not
// exact enough for this: an idle process waits for them in its poller, which rounds up to a millisecond, several times
// the latency of a small request.
//
// What it is not: a plan of times. Who sends knows when.
//
// It owns no goroutines and no locks.
package pacing
