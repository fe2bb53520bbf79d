package txn

import (
	"log/slog"

	"kaas/coord"
)

// Config is the part of the broker's configuration that transactions obey, and the
// machine's way out. It is immutable.
type Config struct {
	ExpirationMs            int64 // transactional.id.expiration.ms
	AbortTimedOutIntervalMs int64 // transaction.abort.timed.out.transaction.cleanup.interval.ms
	RemoveExpiredIntervalMs int64 // transaction.remove.expired.transaction.cleanup.interval.ms
	// WriteMarkers takes markers over; it must not block. Their fate comes back, from
	// any goroutine, as MarkersWritten on the shard of the transactional id. It is
	// called on the shard's goroutine, never before the transaction's Prepare record
	// is committed.
	WriteMarkers func(Markers)
	Counters     *Counters // nil: nobody looks
	Logger       *slog.Logger
}

// DefaultConfig returns Kafka's defaults; the ports are left to the caller.
func DefaultConfig() Config {
	return Config{ExpirationMs: 604_800_000, AbortTimedOutIntervalMs: 10_000, RemoveExpiredIntervalMs: 3_600_000}
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Markers are the ends of one transaction that are to be written.
type Markers struct {
	TransactionalID  string
	ProducerID       int64
	ProducerEpoch    int16
	CoordinatorEpoch int32
	Commit           bool
	// Raised: the epoch is above that of the transaction (Version2), so what has this epoch
	// in a partition is of the next one.
	Raised bool
	// Attempt tells answers of an older try apart.
	Attempt    uint64
	Partitions []TopicPartition // in order; immutable
}

// MarkerResult is what became of the marker of one partition.
type MarkerResult uint8

// Results of a marker.
const (
	// MarkerDone: it is on stable storage, or there is nothing any more that it could
	// end: the partition was deleted, or a newer epoch has ended the transaction.
	MarkerDone MarkerResult = iota
	// MarkerAgain: it may not be there; write it again later.
	MarkerAgain
)

var _ coord.Machine = (*Machine)(nil)
