// Package journal is the commit journal of a log directory: two files that hold, in blocks, what many partitions appended,
// so that one sync makes it durable before their own files are synced. Bytes and crash procedure: docs/format/journal.md.
//
// It is not the group commit: which partition takes part, when a half may be used again and what a failure means is
// logstore's. It knows no segment but by its file name.
//
// It owns no goroutine and has no lock: a Journal belongs to one caller at a time.
package journal
