package producer

import (
	"errors"
	"fmt"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

// ErrUnverified: the batch would begin a transaction that the coordinator was not asked about (KIP-890). Begin a
// verification, ask, and append again with its guard; in vain if it is an ErrInvalidProducerEpoch, too.
var ErrUnverified = errors.New("the transaction is not verified")

// verification is a producer's wish to begin a transaction here, which the transaction coordinator is being asked about
// (VerificationStateEntry). It ends with the first batch, or with a marker: what the coordinator said before it is out of
// date then.
type verification struct {
	guard uint64
	epoch int16
	// lowestSequence that asked: of several first batches only the first may begin, since a producer that the partition
	// does not know may begin at any sequence, unless it raises its epoch.
	lowestSequence int32
	// raisesEpoch with each transaction (transaction version 2): then its sequences begin with 0. Immutable: as Kafka, the
	// first batch that asked decides.
	raisesEpoch bool
	atMs        int64
}

// BeginVerification returns the guard that goes with the append of a first batch, or 0 when the transaction is open
// already and needs none. All epochs of a producer share it: an epoch to come, which the coordinator refuses, leaves the
// right one verifiable. raisesEpoch: the producer raises its epoch with each transaction.
func (s *States) BeginVerification(producerID int64, epoch int16, sequence int32, raisesEpoch bool, nowMs int64) (guard uint64) {
	if s.Open(producerID, epoch) {
		return 0
	}
	if v := s.verifying[producerID]; v != nil {
		switch {
		case epoch == v.epoch:
			v.lowestSequence = min(v.lowestSequence, sequence)
		case epoch > v.epoch:
			v.epoch, v.lowestSequence = epoch, sequence
		}
		return v.guard
	}
	if s.verifying == nil || len(s.verifying) >= limits.ProducersPerPartition {
		s.verifying = map[int64]*verification{} // those that are forgotten here are refused, and begin again
	}
	s.lastGuard++
	s.verifying[producerID] = &verification{guard: s.lastGuard, epoch: epoch, lowestSequence: sequence, raisesEpoch: raisesEpoch, atMs: nowMs}
	return s.lastGuard
}

// CheckVerified decides over a transactional batch before Check looks at it: the coordinator is asked first, also about
// what turns out to be a repetition or out of order (Kafka: ReplicaManager.handleProduceAppend), but not about an epoch
// that is known to be over (UnifiedLog.maybeStartTransactionVerification).
func (s *States) CheckVerified(v batch.View, guard uint64) error {
	if guard != 0 || s.Open(v.ProducerID(), v.ProducerEpoch()) {
		return nil
	}
	if err := s.CheckEpochs(v.ProducerID(), v.ProducerEpoch(), false, false, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnverified, err)
	}
	return ErrUnverified
}

// CheckGuard decides over a transactional batch that CheckVerified and Check have let through.
func (s *States) CheckGuard(v batch.View, guard uint64) error {
	if s.Open(v.ProducerID(), v.ProducerEpoch()) {
		return nil
	}
	known := s.verifying[v.ProducerID()]
	if known == nil || known.guard != guard {
		return fmt.Errorf("%w: the transaction of producer %d ended while its first batch here was being verified", ErrInvalidTxnState, v.ProducerID())
	}
	if known.raisesEpoch && v.BaseSequence() != 0 && s.byID[v.ProducerID()] == nil { // of one that is known Check has decided
		return fmt.Errorf("%w: producer %d begins with sequence %d instead of 0", ErrOutOfOrderSequence, v.ProducerID(), v.BaseSequence())
	}
	if v.BaseSequence() > known.lowestSequence {
		return fmt.Errorf("%w: producer %d: sequence %d came, %d is still being verified", ErrOutOfOrderSequence, v.ProducerID(), v.BaseSequence(), known.lowestSequence)
	}
	return nil
}

// CheckRaised decides over a marker that CheckMarker has let through and whose epoch is above that of its transaction
// (transaction version 2): one with the epoch of an open transaction is left over from the transaction before (KIP-1228).
func (s *States) CheckRaised(v batch.View) error {
	if s.Open(v.ProducerID(), v.ProducerEpoch()) {
		return s.leftOver(v.ProducerID(), v.ProducerEpoch())
	}
	return nil
}

func (s *States) leftOver(producerID int64, epoch int16) error {
	return fmt.Errorf("%w: producer %d has a transaction open with epoch %d; a marker with it belongs to the one before", ErrInvalidProducerEpoch, producerID, epoch)
}

// Open says whether the producer has a transaction open here with this epoch.
func (s *States) Open(producerID int64, epoch int16) bool {
	e := s.byID[producerID]
	return e != nil && e.txnFirstOffset >= 0 && e.epoch == epoch
}

// CheckEpochs is what Check and CheckMarker would say of the epochs of a batch of this producer.
func (s *States) CheckEpochs(producerID int64, epoch int16, isMarker, raised bool, coordinatorEpoch int32) error {
	e := s.byID[producerID]
	switch {
	case e == nil:
	case epoch < e.epoch:
		return fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, producerID, e.epoch, epoch)
	case isMarker && raised && s.Open(producerID, epoch):
		return s.leftOver(producerID, epoch)
	case isMarker && coordinatorEpoch < e.coordinatorEpoch:
		return fmt.Errorf("%w: epoch %d, the marker says %d", ErrCoordinatorFenced, e.coordinatorEpoch, coordinatorEpoch)
	}
	return nil
}

// Producer is one producer as DescribeProducers shows it.
type Producer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1: none
	LastTimestampMs  int64
	CoordinatorEpoch int32 // -1: never saw a marker
	TxnFirstOffset   int64 // -1: no open transaction
}

// Producers lists those that are known, in no order.
func (s *States) Producers() []Producer {
	all := make([]Producer, 0, len(s.byID))
	for id, e := range s.byID {
		p := Producer{ID: id, Epoch: e.epoch, LastSequence: -1, LastTimestampMs: e.lastTimestampMs, CoordinatorEpoch: e.coordinatorEpoch, TxnFirstOffset: e.txnFirstOffset}
		if e.count > 0 {
			last := &e.batches[e.count-1]
			p.LastSequence, p.LastTimestampMs = last.lastSequence, last.TimestampMs
		}
		all = append(all, p)
	}
	return all
}
