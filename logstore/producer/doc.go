// Package producer is what a partition knows of its producers: the window of batches by which a repeated or missing one is
// recognised, open transactions, and the snapshot file, as docs/format/snapshot.md describes it. It matches Kafka's
// ProducerStateManager and ProducerAppendInfo.
//
// It is a state machine without I/O and without a clock: check decides and changes nothing, apply changes and can't fail,
// so an append that fails in between has left no trace.
//
// It owns no goroutines and has no locks; logstore calls it under Partition.mu.
package producer
