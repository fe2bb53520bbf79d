// Package recovery finds out what a partition's directory holds after a stop of any kind: it ends compactions that were
// interrupted, finds the end of the log, cuts what was never acknowledged, and brings indexes, leader epochs, producer state
// and the transaction index back. docs/format/operations.md says for each operation what a crash leaves and what is done here.
//
// It is not the partition: it serves nobody, and it has the directory to itself. What it found is a description (Log) that
// logstore turns into a partition. It writes only what a recovery has to leave behind for the next one.
//
// It owns no goroutines and no locks; a Task belongs to the goroutine that runs it.
package recovery
