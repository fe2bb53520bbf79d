package coordinators

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/group"
	"kaas/logstore"
	"kaas/meta"
	"kaas/txn"
)

// TopicPartition names a partition of a transaction.
type TopicPartition = txn.TopicPartition

// newTransactions makes the runtime of the transaction coordinators: one coord shard
// for each partition of __transaction_state that this broker serves.
func (c *Coordinators) newTransactions(clock func() time.Time) *coord.Runtime[*txn.Machine] {
	machine := txn.Config{
		ExpirationMs:            int64(c.config.TransactionalIDExpirationMs),
		AbortTimedOutIntervalMs: int64(c.config.TransactionAbortTimedOutTransactionCleanupIntervalMs),
		RemoveExpiredIntervalMs: int64(c.config.TransactionRemoveExpiredTransactionCleanupIntervalMs),
		Counters:                &c.counters.transactions,
		Logger:                  c.logger.With("room", "txn"),
	}
	return coord.NewRuntime(coord.Options[*txn.Machine]{
		NewMachine: func(shard int32) *txn.Machine {
			own := machine
			own.WriteMarkers = func(m txn.Markers) { c.writeMarkers(shard, m) }
			return txn.NewMachine(&own, c.coordinatorEpoch(shard))
		},
		Logger: c.logger.With("room", "coord"), Clock: clock, Loaded: c.counters.loaded(&c.counters.transactionLoads),
	})
}

// coordinatorEpoch is the leader epoch of the shard's partition.
func (c *Coordinators) coordinatorEpoch(shard int32) int32 {
	if log, ok := c.transactionLogs.Load(shard); ok {
		return log.(*logstore.Partition).LeaderEpoch()
	}
	return 0
}

// submitTransaction routes an event to the shard of the transactional id. failed is
// called instead of run, perhaps on another goroutine, with the code for the client.
func (c *Coordinators) submitTransaction(id string, run func(*txn.Machine, *coord.Turn), failed func(code int16)) {
	shard, ok := c.transactionShard(id)
	if !ok {
		failed(kerr.NotCoordinator.Code)
		return
	}
	c.transactions.Submit(shard, coord.Event[*txn.Machine]{Run: run, Refused: func(err error) { failed(txn.ErrorCode(err)) }})
}

// transactionShard is the partition of the transactional id; false: nobody coordinates
// before the topic is there. FindCoordinator makes it.
func (c *Coordinators) transactionShard(id string) (shard int32, ok bool) {
	topic := c.topics.Topic(meta.TransactionStateTopic)
	if topic == nil {
		return 0, false
	}
	return coord.PartitionFor(id, int32(topic.Partitions())), true
}

// Enlist asks the coordinator of the transactional id whether the partitions are in
// the producer's transaction, or adds them to it. done is called once, on any
// goroutine, with a code for each partition, after everything that the answer rests
// on is on stable storage. Calls for one id are answered in their order.
func (c *Coordinators) Enlist(id string, producerID int64, epoch int16, partitions []TopicPartition, add bool, done func(codes []int16)) {
	all := func(code int16) {
		codes := make([]int16, len(partitions))
		for i := range codes {
			codes[i] = code
		}
		done(codes)
	}
	if id == "" {
		all(kerr.InvalidRequest.Code)
		return
	}
	request := txn.AddRequest{TransactionalID: id, ProducerID: producerID, ProducerEpoch: epoch, Partitions: partitions, ClientVersion: txn.Version2}
	c.submitTransaction(id, func(m *txn.Machine, t *coord.Turn) {
		if add {
			m.AddPartitions(t, request, all)
			return
		}
		m.Verify(t, request, done)
	}, all)
}

// writeMarkers is how the machines end transactions: on the shard's goroutine. The
// answer goes to the shard that asked, whatever is served: a shard is loaded before
// its topic is in the broker's view.
func (c *Coordinators) writeMarkers(shard int32, m txn.Markers) {
	results := make([]txn.MarkerResult, len(m.Partitions))
	all := newGather(len(m.Partitions), func() {
		c.transactions.Post(shard, coord.Event[*txn.Machine]{
			Run: func(machine *txn.Machine, t *coord.Turn) { machine.MarkersWritten(t, m, results) },
			Refused: func(err error) {
				// Not led here any more, or stopping: the next load writes all markers again.
				c.logger.Debug("the end of a transaction was not noted", "transactionalId", m.TransactionalID, "error", err)
			},
		})
	})
	for i, p := range m.Partitions {
		mark := marker{producerID: m.ProducerID, epoch: m.ProducerEpoch, coordinatorEpoch: m.CoordinatorEpoch, commit: m.Commit, raised: m.Raised}
		c.writeMarker(p.Topic, p.Partition, mark, func(err error) {
			result := c.markerResult(p, err)
			all.part(func() { results[i] = result })
		})
	}
}

// marker is the end of one producer's transaction in one partition.
type marker struct {
	producerID       int64
	epoch            int16
	coordinatorEpoch int32
	commit           bool
	raised           bool // the epoch is above that of the transaction
}

// writeMarker ends a transaction in a partition. done is called once, after the
// commit of the marker, on any goroutine.
func (c *Coordinators) writeMarker(topicName string, partition int32, m marker, done func(err error)) {
	topic := c.topics.Topic(topicName)
	if topic == nil {
		done(kerr.UnknownTopicOrPartition)
		return
	}
	log, unknown := topic.Log(partition)
	switch {
	case unknown != nil:
		done(unknown)
	case topicName == meta.ConsumerOffsetsTopic:
		// That log has one writer, the group shard; its offsets count from the marker on.
		c.groups.Submit(partition, coord.Event[*group.Machine]{
			Run: func(machine *group.Machine, t *coord.Turn) {
				machine.EndTransaction(t, m.producerID, m.epoch, m.coordinatorEpoch, m.commit, m.raised, done)
			},
			Refused: done,
		})
	case topicName == meta.TransactionStateTopic:
		done(kerr.InvalidTopicException) // one writer as well, and no transaction is ever open in it
	default:
		control := batch.EndTxnMarker(nil, m.producerID, m.epoch, m.commit, m.coordinatorEpoch, c.clock().UnixMilli())
		result, err := log.Append(control, logstore.AppendOptions{Origin: logstore.OriginCoordinator, LeaderEpoch: log.LeaderEpoch(), RaisedEpoch: m.raised})
		if err != nil {
			done(err)
			return
		}
		log.WhenCommitted(&logstore.Waiter{Offset: result.LastOffset + 1, Done: func(_ *logstore.Waiter, err error) { done(err) }})
	}
}

// markerResult says whether the coordinator has to try again.
func (c *Coordinators) markerResult(p TopicPartition, err error) txn.MarkerResult {
	switch {
	case err == nil:
		return txn.MarkerDone
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		// Before all topics are listed, one that is not served may still come.
		if c.topicsLoaded.Load() {
			return txn.MarkerDone
		}
	case errors.Is(err, logstore.ErrInvalidProducerEpoch), errors.Is(err, logstore.ErrCoordinatorFenced):
		c.logger.Warn("a transaction was ended in a partition by somebody newer", "topic", p.Topic, "partition", p.Partition, "error", err)
		return txn.MarkerDone
	}
	return txn.MarkerAgain
}

// fencedFor is the code of a fenced producer in the form that the client's version
// knows: PRODUCER_FENCED came with KIP-588.
func fencedFor(known bool, code int16) int16 {
	if code == kerr.ProducerFenced.Code && !known {
		return kerr.InvalidProducerEpoch.Code
	}
	return code
}

// ProduceCode is what a producer is told of an answer of Enlist (Kafka:
// AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend), by whether it knows
// TRANSACTION_ABORTABLE and whether it adds partitions by writing to them.
func ProduceCode(code int16, abortable, adds bool) int16 {
	switch code {
	case kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case kerr.TransactionAbortable.Code:
		if !abortable {
			return kerr.InvalidTxnState.Code
		}
	case kerr.ConcurrentTransactions.Code:
		if !adds {
			return kerr.NotEnoughReplicas.Code
		}
	case kerr.NotCoordinator.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code:
		// Retriable for every producer, and without a refresh of metadata.
		return kerr.NotEnoughReplicas.Code
	}
	return code
}
