// Package retention says how many of the oldest segments of a log may go.
//
// It deletes nothing, and it knows no partition: what is configured and what may be seen it is told. It has no goroutine and no
// lock; see Rules for the one that its caller holds.
package retention
