package logstore

import (
	"errors"

	"kaas/logstore/producer"
)

// Errors that Append, Read and their like return, wrapped with topic and partition.
var (
	ErrCorruptMessage         = errors.New("corrupt message")
	ErrMessageTooLarge        = errors.New("message too large")
	ErrInvalidRecord          = errors.New("invalid record")
	ErrInvalidTimestamp       = errors.New("invalid timestamp")
	ErrUnsupportedMagic       = errors.New("unsupported message format (magic 0 and 1)")
	ErrUnsupportedCompression = errors.New("unsupported compression type")
	ErrOutOfOrderSequence     = producer.ErrOutOfOrderSequence
	ErrInvalidProducerEpoch   = producer.ErrInvalidProducerEpoch
	ErrUnknownProducer        = errors.New("unknown producer id")
	ErrInvalidTxnState        = producer.ErrInvalidTxnState
	ErrUnverified             = producer.ErrUnverified
	ErrCoordinatorFenced      = producer.ErrCoordinatorFenced
	ErrOffsetOutOfRange       = errors.New("offset out of range")
	ErrStorage                = errors.New("storage error")
	ErrStalled                = errors.New("storage stalled")
	ErrClosed                 = errors.New("partition closed")
	ErrFencedLeaderEpoch      = errors.New("fenced leader epoch")
	// ErrWouldBlock is returned by ReadNoWait: the batch headers are not in memory; call Read off the event loop.
	ErrWouldBlock = errors.New("read would block")
)
