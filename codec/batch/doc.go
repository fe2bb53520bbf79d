// Package batch is Kafka's RecordBatch v2 as a view over bytes: header fields, CRC32C, the patches that a broker makes in
// place, a record iterator (which decompresses) and a builder.
//
// It is a leaf: it knows no partition, no offset assignment and no protocol request. Produce and fetch use only the
// header view; nothing there allocates. The iterator and the builder serve the few places where records must be looked
// into: time lookup, compaction, coordinator logs, control batches.
//
// It owns no goroutines and has no locks; decompressors come from pools and hold no state between calls.
package batch
