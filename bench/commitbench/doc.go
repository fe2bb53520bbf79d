// Command commitbench measures what a group commit costs on a volume, by the ways in which one could be made:
// docs/design/commit.md says what was chosen by its figures and why. It writes below -dir, with system calls of its own:
//
//	go run ./bench/commitbench -dir /var/lib/kaas
//
// It is not a benchmark of the log store (that is logstore's BenchmarkCommit) and uses none of its code.
//
// Goroutines: the ways that sync in parallel start one for each sync and wait for it; a journal has one that writes its
// files back. No locks.
package main
