package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/broker/coordinators"
	"kaas/codec"
	"kaas/codec/batch"
)

// A batch that begins a transaction in a partition waits for the coordinator of its
// transactional id (KIP-890; docs/design/txn.md). Everything else of the request
// waits with it, and so do the transactional requests of its connection that come
// after it: else a later batch could find the transaction open before an earlier one
// was appended, and be out of order. Requests of idempotent and plain producers
// overtake them.

// transactionalID is the id as a string. A connection nearly always brings the same
// one, which is made once.
func transactionalID(r *codec.Request, id []byte) string {
	c, ok := r.Session.Context.(*connection)
	if !ok {
		return string(id)
	}
	if c.transactionalID != string(id) {
		c.transactionalID = string(id)
	}
	return c.transactionalID
}

// askCoordinator asks about the partitions that have kept their batch. The answer
// goes on with the request on whatever goroutine brings it.
func (o *produceOperation) askCoordinator() {
	o.broker.data.transactions.Begin(o.request.Session.ID)
	add := o.version >= produceAddsPartitions
	var asked []*producePartition
	var partitions []coordinators.TopicPartition
	var first batch.View
	for i := range o.partitions {
		p := &o.partitions[i]
		if p.batch == nil {
			continue
		}
		v := batch.View(p.batch)
		switch {
		case first == nil:
			first = v
		case first.ProducerID() != v.ProducerID() || first.ProducerEpoch() != v.ProducerEpoch():
			p.batch = nil
			p.fail(kerr.InvalidProducerIDMapping) // Kafka: one request has one transactional producer
			continue
		}
		p.guard = p.state.log.BeginVerification(v.ProducerID(), v.ProducerEpoch(), v.BaseSequence(), add)
		asked = append(asked, p)
		partitions = append(partitions, coordinators.TopicPartition{Topic: p.state.topicName, Partition: p.index})
	}
	o.broker.coordinators.Enlist(o.transactionalID, first.ProducerID(), first.ProducerEpoch(), partitions, add, func(codes []int16) {
		o.verified(asked, codes)
	})
}

// verified appends what the coordinator has agreed to, and goes on with the requests
// behind this one.
func (o *produceOperation) verified(asked []*producePartition, codes []int16) {
	for i, p := range asked {
		if code := coordinators.ProduceCode(codes[i], o.version >= produceKnowsAbortable, o.version >= produceAddsPartitions); code != 0 {
			p.batch, p.code = nil, code
			if code == kerr.InvalidTxnState.Code {
				p.message = "Partition was not added to the transaction" // as Kafka says it
			}
		} else if !o.appendOne(p) {
			// The transaction that made a guard needless has ended in between.
			p.batch = nil
			p.fail(kerr.InvalidTxnState)
		}
	}
	queues, session := &o.broker.data.transactions, o.request.Session.ID
	o.appended() // o may be gone now
	if next, ok := queues.Next(session); ok {
		next.appendQueued()
	}
}

// appendQueued appends requests that were queued, in their order, up to the first
// one that waits itself.
func (o *produceOperation) appendQueued() {
	queues, session := &o.broker.data.transactions, o.request.Session.ID
	for more := true; more; o, more = queues.Next(session) {
		if !o.appendVerified() {
			o.askCoordinator()
			return
		}
		o.appended()
	}
}
