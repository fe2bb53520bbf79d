package coord

import (
	"context"

	"kaas/codec/batch"
)

// Log is one partition of the internal topic, as a shard sees it. The broker
// implements it over logstore.Partition.
type Log interface {
	// Append writes whole record batches, in order, and returns the offset after
	// the last record. The bytes are borrowed and may be patched. It does not wait
	// for a commit. Called by the shard's goroutine only.
	Append(batches []byte) (endOffset int64, err error)
	// WhenCommitted calls done once: with nil when every record below endOffset is
	// committed, with an error when the log has failed or is closed. On any
	// goroutine, possibly before WhenCommitted returns.
	WhenCommitted(endOffset int64, done func(err error))
	// Replay calls visit for every batch of the log, also for those not yet
	// committed, in offset order, and returns the offset after the last one. The
	// view is valid during the call. An error of visit ends it.
	Replay(ctx context.Context, visit func(batch.View) error) (endOffset int64, err error)
	// CheckProducer says whether Append would refuse a batch of this producer: records
	// of a transaction, or with marker its end, which carries a coordinator epoch and,
	// with raised, an epoch above that of its transaction. It neither waits nor changes
	// anything.
	CheckProducer(producerID int64, producerEpoch int16, marker, raised bool, coordinatorEpoch int32) error
	// MaxBatchBytes is the largest batch that Append takes (max.message.bytes).
	MaxBatchBytes() int
}

// Record is one key and value of the log.
type Record struct {
	Key   []byte
	Value []byte // nil: a tombstone
	// Offset is known at load only; -1 for a record that was just emitted.
	Offset int64
	// InTransaction: the record counts when the producer's transaction commits, see
	// Machine.ReplayMarker. The other two fields are set only then.
	InTransaction bool
	ProducerID    int64
	ProducerEpoch int16
}

// Machine is the state machine of one shard. Its methods run on the shard's
// goroutine.
type Machine interface {
	// Replay applies one record; it is the only mutator of the durable part. The
	// record's bytes are valid during the call. At load an error means that the
	// record is skipped and counted; for a record that the machine itself has
	// emitted an error is a bug.
	Replay(r *Record) error
	// ReplayMarker ends the transaction that this producer has open in the log.
	ReplayMarker(producerID int64, producerEpoch int16, commit bool) error
	// Loaded is the first turn after the log was replayed.
	Loaded(t *Turn)
	// Unloaded ends the machine: it answers with err whatever it has parked
	// itself. No method is called afterwards.
	Unloaded(err error)
}
