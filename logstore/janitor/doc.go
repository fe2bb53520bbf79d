// Package janitor is the log store's background goroutine: it writes out sealed segments, makes the files of next ones, buries dead
// ones, removes directories, and has retention applied and checkpoints written in their time. Nothing that a request waits for is
// done here.
//
// It is not any of these works, which are its owner's (logstore), and it knows no partition.
//
// It owns one goroutine, from Start to Stop. Janitor.mu is a leaf and may be taken under a partition's lock; no work is done under it.
package janitor
