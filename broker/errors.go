package broker

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/logstore"
	"kaas/meta"
)

// worldErrors maps the faults of the rooms below to the error codes of the
// protocol. It is the one place where that is decided (Kafka: Errors.forException).
// First match wins.
var worldErrors = []struct {
	cause error
	code  *kerr.Error
}{
	{logstore.ErrCorruptMessage, kerr.CorruptMessage},
	{logstore.ErrMessageTooLarge, kerr.MessageTooLarge},
	{logstore.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{logstore.ErrInvalidRecord, kerr.InvalidRecord},
	{logstore.ErrUnsupportedMagic, kerr.UnsupportedForMessageFormat},
	{logstore.ErrUnsupportedCompression, kerr.UnsupportedCompressionType},
	{logstore.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{logstore.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{logstore.ErrUnknownProducer, kerr.UnknownProducerID},
	{logstore.ErrInvalidTxnState, kerr.InvalidTxnState},
	{logstore.ErrUnverified, kerr.InvalidTxnState},
	{logstore.ErrCoordinatorFenced, kerr.TransactionCoordinatorFenced},
	{logstore.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	// A stalled disk may come back: the client shall try again. NOT_LEADER makes it
	// refresh its metadata too, so it also finds a leader elsewhere.
	{logstore.ErrStalled, kerr.NotLeaderForPartition},
	// The partition was closed under the request: its topic is being deleted, or the
	// broker stops.
	{logstore.ErrClosed, kerr.NotLeaderForPartition},
	{logstore.ErrStorage, kerr.KafkaStorageError},
	// The epoch moved between the look at it and the append.
	{logstore.ErrFencedLeaderEpoch, kerr.NotLeaderForPartition},
	{meta.ErrNotFound, kerr.UnknownTopicOrPartition},
	{meta.ErrAlreadyExists, kerr.TopicAlreadyExists},
	{meta.ErrForbidden, kerr.ClusterAuthorizationFailed},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// kafkaError is the protocol's error of err, nil for nil. What is not in the
// table is UNKNOWN_SERVER_ERROR, whose cause the caller logs.
func kafkaError(err error) *kerr.Error {
	if err == nil {
		return nil
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		return code
	}
	for i := range worldErrors {
		if errors.Is(err, worldErrors[i].cause) {
			return worldErrors[i].code
		}
	}
	return kerr.UnknownServerError
}

// errorCode is kafkaError as the number on the wire, 0 for nil.
func errorCode(err error) int16 {
	if code := kafkaError(err); code != nil {
		return code.Code
	}
	return 0
}
