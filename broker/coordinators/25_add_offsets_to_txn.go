package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/meta"
	"kaas/txn"
)

// AddOffsetsToTxn (key 25), v0 to v4. Kafka: KafkaApis.handleAddOffsetsToTxnRequest.
//
//   - TransactionalId Write, Group Read. It adds the partition of __consumer_offsets
//     that the group hashes to.
//   - v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v4: TRANSACTION_ABORTABLE.
//   - COORDINATOR_NOT_AVAILABLE while there is no __consumer_offsets.
func (c *Coordinators) addOffsetsToTxnAPI() codec.API {
	return codec.API{
		Key: 25, Name: "AddOffsetsToTxn", MinVersion: 0, MaxVersion: 4, Class: codec.TwoPhase, Handle: c.addOffsetsToTxn,
		EstimateBytes: codec.SmallEstimate,
		Refuse:        refuseWith(func(*codec.Request) kmsg.Response { return addOffsetsResponse(refusedCode) }),
	}
}

func addOffsetsResponse(code int16) *kmsg.AddOffsetsToTxnResponse {
	response := kmsg.NewPtrAddOffsetsToTxnResponse()
	response.ErrorCode = code
	return response
}

func (c *Coordinators) addOffsetsToTxn(r *codec.Request) {
	request := kmsg.NewPtrAddOffsetsToTxnRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	done := func(code int16) { r.Respond(addOffsetsResponse(fencedFor(request.Version >= 2, code))) }
	offsets := c.topics.Topic(meta.ConsumerOffsetsTopic)
	switch {
	case !c.allowed(r, auth.OperationWrite, auth.ResourceTransactionalID, request.TransactionalID):
		done(kerr.TransactionalIDAuthorizationFailed.Code)
		return
	case !c.groupAllowed(r, auth.OperationRead, request.Group):
		done(kerr.GroupAuthorizationFailed.Code)
		return
	case request.TransactionalID == "":
		done(kerr.InvalidRequest.Code)
		return
	case offsets == nil:
		done(kerr.CoordinatorNotAvailable.Code)
		return
	}
	add := txn.AddRequest{
		TransactionalID: request.TransactionalID, ProducerID: request.ProducerID, ProducerEpoch: request.ProducerEpoch,
		Partitions: []TopicPartition{{Topic: meta.ConsumerOffsetsTopic, Partition: coord.PartitionFor(request.Group, int32(offsets.Partitions()))}},
	}
	c.submitTransaction(request.TransactionalID, func(m *txn.Machine, t *coord.Turn) { m.AddPartitions(t, add, done) }, done)
}
