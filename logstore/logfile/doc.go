// Package logfile reads a .log file batch by batch, as docs/format/log.md describes it: for recovery, for lookups and for
// compaction.
//
// It is not the fetch path, which hands bytes on without looking at them, and it knows no segment, no index and no
// partition.
//
// It owns no goroutines and has no locks. A Scanner belongs to one goroutine and does not own its file.
package logfile
