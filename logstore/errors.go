package logstore

import (
	"errors"

	"kaas/logstore/logfile"
	"kaas/logstore/producer"
	"kaas/logstore/segment"
	"kaas/logstore/validate"
)

// Errors that Append, Read and their like return, wrapped with topic and partition.
var (
	ErrCorruptMessage         = validate.ErrCorruptMessage
	ErrMessageTooLarge        = validate.ErrMessageTooLarge
	ErrInvalidRecord          = validate.ErrInvalidRecord
	ErrInvalidTimestamp       = validate.ErrInvalidTimestamp
	ErrUnsupportedMagic       = validate.ErrUnsupportedMagic
	ErrUnsupportedCompression = validate.ErrUnsupportedCompression
	ErrOutOfOrderSequence     = producer.ErrOutOfOrderSequence
	ErrInvalidProducerEpoch   = producer.ErrInvalidProducerEpoch
	ErrUnknownProducer        = errors.New("unknown producer id")
	ErrInvalidTxnState        = producer.ErrInvalidTxnState
	ErrUnverified             = producer.ErrUnverified
	ErrCoordinatorFenced      = producer.ErrCoordinatorFenced
	ErrOffsetOutOfRange       = errors.New("offset out of range")
	ErrStorage                = segment.ErrStorage
	ErrStalled                = errors.New("storage stalled")
	ErrClosed                 = errors.New("partition closed")
	ErrLogDirNotFound         = errors.New("no such log directory")
	ErrUnknownPartition       = errors.New("unknown partition")
	ErrFencedLeaderEpoch      = errors.New("fenced leader epoch")
	// ErrWouldBlock is returned by ReadNoWait: the batch headers are not in memory; call Read off the event loop.
	ErrWouldBlock = logfile.ErrWouldBlock
)

// RecordError says what is wrong with one record of a refused batch, RejectedError what is wrong with the batch.
type (
	RecordError   = validate.RecordError
	RejectedError = validate.RejectedError
)
