package txn

import (
	"maps"
	"math"
	"slices"
	"strings"

	"kaas/coord"
)

// State of a transaction; the numbers are those of the records (TransactionState).
type State int8

// States. Dead and PrepareEpochFence are never in the log: an id that expires is
// gone at once, and fencing goes straight to PrepareAbort.
const (
	Empty             State = 0
	Ongoing           State = 1
	PrepareCommit     State = 2
	PrepareAbort      State = 3
	CompleteCommit    State = 4
	CompleteAbort     State = 5
	Dead              State = 6
	PrepareEpochFence State = 7
)

var stateNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}

// String is the name in DescribeTransactions and ListTransactions.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return "Unknown"
	}
	return stateNames[s]
}

func (s State) prepared() bool { return s == PrepareCommit || s == PrepareAbort }

const (
	noProducerID    int64 = -1
	noProducerEpoch int16 = -1
	noTimestamp     int64 = -1
)

// Transaction versions (KIP-890): what the client of a transition speaks.
const (
	Version0 int16 = 0 // partitions are added by name, the epoch stays
	Version2 int16 = 2 // partitions are added by writing to them, the epoch rises at each end
)

// metadata is what the newest record of a transactional id says. Changed by Replay
// only; partitions is never changed in place.
type metadata struct {
	producerID int64
	// previousProducerID had the id before the last transition, nextProducerID is the
	// one that the end of this transaction moves on to (the epochs are used up), or -1.
	previousProducerID, nextProducerID int64
	epoch                              int16
	timeoutMs                          int32
	state                              State
	partitions                         map[TopicPartition]struct{}
	startMs, updateMs                  int64 // wall clock; startMs -1: no transaction was begun
	clientVersion                      int16
}

// epochExhausted: an epoch of 32767 is never handed out, so that a producer can
// always be fenced.
func epochExhausted(epoch int16) bool { return epoch >= math.MaxInt16-1 }

func (d *metadata) sortedPartitions() []TopicPartition {
	return slices.SortedFunc(maps.Keys(d.partitions), func(a, b TopicPartition) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
}

// transaction is one transactional id.
type transaction struct {
	id string
	metadata

	// lastEpoch is the epoch before the last bump, when the producer that has the id
	// now knew it (KIP-360); -1 else, and after a load.
	lastEpoch int16

	// outstanding are the partitions whose marker is not known to be written, nil
	// outside of a Prepare state. attempt numbers the tries of this id; retryMs is the
	// wait before the next one.
	outstanding map[TopicPartition]struct{}
	attempt     uint64
	retryMs     int64
	retry       coord.Timer

	// waiting requests want to add partitions and found the last transaction not yet
	// complete; patience ends their wait.
	waiting  []func(t *coord.Turn, expired bool)
	patience coord.Timer
}
