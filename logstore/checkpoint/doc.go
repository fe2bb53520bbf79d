// Package checkpoint is the small files beside the logs: offset checkpoints, leader epochs, meta.properties,
// partition.metadata and the blocks of producer ids, as docs/format/directory.md describes them. Each is replaced whole, so
// a crash leaves the old or the new one.
//
// It is not a policy: when a file is written, and what its loss means, is logstore's.
//
// It owns no goroutines. ProducerIDs.mu is a leaf, held across the write that reserves a block; Epochs has no lock, its
// partition's lock guards it.
package checkpoint
