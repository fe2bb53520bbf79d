// Package layout is the names of files and directories below log.dirs, Kafka's except where marked ours, and how to read them,
// as docs/format/directory.md lists them.
//
// It touches no file, and it does not know what a file means or when it may go; logstore does.
//
// It owns no goroutines and has no locks.
package layout
