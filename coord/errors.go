package coord

import "errors"

// Errors that replies and refused events get.
var (
	// ErrNotCoordinator: this shard is not led here (NOT_COORDINATOR).
	ErrNotCoordinator = errors.New("coord: not the coordinator of this key")
	// ErrLoading: the log is being replayed (COORDINATOR_LOAD_IN_PROGRESS).
	ErrLoading = errors.New("coord: the shard is loading")
	// ErrOverloaded: the shard's queue is full; come again.
	ErrOverloaded = errors.New("coord: the shard's queue is full")
	// ErrLogFailed: the log refused an append or a commit. Whether the event took
	// effect is known after the shard has been loaded again (COORDINATOR_NOT_AVAILABLE).
	ErrLogFailed = errors.New("coord: the shard's log failed")
	// ErrTooLarge: the records of one Emit do not fit into one batch. Nothing was
	// applied.
	ErrTooLarge = errors.New("coord: records exceed the largest batch")
	// ErrProducerFenced: the log knows a newer epoch of the producer. Nothing was
	// applied.
	ErrProducerFenced = errors.New("coord: the log has a newer epoch of the producer")
)
