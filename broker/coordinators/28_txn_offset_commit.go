package coordinators

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
	"kaas/meta"
)

// TxnOffsetCommit (key 28), v0 to v6. Kafka: KafkaApis.handleTxnOffsetCommitRequest,
// OffsetMetadataManager.commitTransactionalOffset.
//
//   - TransactionalId Write, Group Read, Topic Read for each topic. The offsets are
//     pending until the transaction's marker; OffsetFetch with require_stable tells.
//   - The first commit of a transaction is verified by its coordinator (KIP-890): v0–v3
//     INVALID_TXN_STATE, v4 TRANSACTION_ABORTABLE when AddOffsetsToTxn was left out;
//     from v5 on the commit itself adds the group's partition to the transaction.
//   - v2: leader epochs, COORDINATOR_LOAD_IN_PROGRESS instead of
//     COORDINATOR_NOT_AVAILABLE; v3: generation, member and instance fence (KIP-447);
//     v6: topic ids.
func (c *Coordinators) txnOffsetCommitAPI() codec.API {
	return codec.API{
		Key: 28, Name: "TxnOffsetCommit", MinVersion: 0, MaxVersion: 6, Class: codec.TwoPhase, Handle: c.txnOffsetCommit,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrTxnOffsetCommitRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			return group.TxnCommitResponse(request, txnCommitCode(request.Version, refusedCode))
		}),
	}
}

// Versions of TxnOffsetCommit from which on it behaves differently.
const (
	txnCommitKnowsLoading   = 2
	txnCommitKnowsAbortable = 4
	txnCommitAdds           = 5
	txnCommitTopicIDs       = 6
)

// txnCommitCode: producers before v2 break on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
func txnCommitCode(version int16, code int16) int16 {
	if code == kerr.CoordinatorLoadInProgress.Code && version < txnCommitKnowsLoading {
		return kerr.CoordinatorNotAvailable.Code
	}
	return code
}

func (c *Coordinators) txnOffsetCommit(r *codec.Request) {
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.allowed(r, auth.OperationWrite, auth.ResourceTransactionalID, request.TransactionalID) {
		r.Respond(group.TxnCommitResponse(request, kerr.TransactionalIDAuthorizationFailed.Code))
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(group.TxnCommitResponse(request, kerr.GroupAuthorizationFailed.Code))
		return
	}
	request.Topics = slices.DeleteFunc(request.Topics, func(t kmsg.TxnOffsetCommitRequestTopic) bool {
		return len(t.Partitions) == 0 && leftOut(c.offsetTopic(r, request.Version >= txnCommitTopicIDs, t.Topic, t.TopicID, auth.OperationRead))
	})
	response := group.TxnCommitResponse(request, 0)
	valid, places := c.committableInTxn(r, request, response)
	if len(valid.Topics) == 0 {
		r.Respond(response)
		return
	}
	failed := func(code int16) {
		for _, place := range places {
			*place = txnCommitCode(request.Version, code)
		}
		r.Respond(response)
	}
	if request.Group == "" {
		failed(kerr.InvalidGroupID.Code) // before the transaction is touched
		return
	}
	done := func(answer *kmsg.TxnOffsetCommitResponse) {
		next := 0
		for i := range answer.Topics {
			for j := range answer.Topics[i].Partitions {
				*places[next] = txnCommitCode(request.Version, answer.Topics[i].Partitions[j].ErrorCode)
				next++
			}
		}
		r.Respond(response)
	}
	c.submit(request.Group, func(m *group.Machine, t *coord.Turn) {
		var needed *group.Verification
		if request.Version >= txnCommitAdds || c.config.CurrentTransactionPartitionVerification() {
			var err error
			if needed, err = m.NeedsVerification(t, request.ProducerID, request.ProducerEpoch); err != nil {
				failed(kerr.InvalidProducerEpoch.Code)
				return
			}
		}
		if needed == nil {
			m.TxnOffsetCommit(t, valid, nil, done)
			return
		}
		c.verifyCommit(valid, needed, done, failed)
	}, failed)
}

// verifyCommit asks the transaction coordinator and comes back to the group's shard
// with its answer.
func (c *Coordinators) verifyCommit(request *kmsg.TxnOffsetCommitRequest, needed *group.Verification, done func(*kmsg.TxnOffsetCommitResponse), failed func(code int16)) {
	offsets := c.topics.Topic(meta.ConsumerOffsetsTopic)
	if offsets == nil {
		failed(kerr.NotCoordinator.Code)
		return
	}
	partition := TopicPartition{Topic: meta.ConsumerOffsetsTopic, Partition: coord.PartitionFor(request.Group, int32(offsets.Partitions()))}
	add := request.Version >= txnCommitAdds
	c.Enlist(request.TransactionalID, request.ProducerID, request.ProducerEpoch, []TopicPartition{partition}, add, func(codes []int16) {
		code := verifiedCommit(request.Version, codes[0])
		c.submit(request.Group, func(m *group.Machine, t *coord.Turn) {
			if code != 0 {
				m.ReleaseVerification(needed)
				failed(code)
				return
			}
			m.TxnOffsetCommit(t, request, needed, done)
		}, failed)
	})
}

// verifiedCommit is what the producer is told of the transaction coordinator's answer.
func verifiedCommit(version, code int16) int16 {
	switch {
	case code == kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case code == kerr.TransactionAbortable.Code && version < txnCommitKnowsAbortable:
		return kerr.InvalidTxnState.Code
	case code == kerr.ConcurrentTransactions.Code && version < txnCommitAdds,
		code == kerr.NotCoordinator.Code, code == kerr.CoordinatorNotAvailable.Code:
		// Come again, to the same group coordinator.
		return kerr.CoordinatorLoadInProgress.Code
	}
	return code
}

// committableInTxn is committable for the offsets of a transaction.
func (c *Coordinators) committableInTxn(r *codec.Request, request *kmsg.TxnOffsetCommitRequest, response *kmsg.TxnOffsetCommitResponse) (*kmsg.TxnOffsetCommitRequest, []*int16) {
	valid := *request
	valid.Topics = nil
	var places []*int16
	for i := range request.Topics {
		asked, answer := &request.Topics[i], &response.Topics[i]
		topic, code := c.offsetTopic(r, request.Version >= txnCommitTopicIDs, asked.Topic, asked.TopicID, auth.OperationRead)
		accepted := *asked
		accepted.Partitions = nil
		for j := range asked.Partitions {
			place := &answer.Partitions[j].ErrorCode
			*place = code
			if code != 0 {
				continue
			}
			if _, err := topic.Log(asked.Partitions[j].Partition); err != nil {
				*place = err.Code
				continue
			}
			accepted.Partitions = append(accepted.Partitions, asked.Partitions[j])
			places = append(places, place)
		}
		if len(accepted.Partitions) > 0 {
			accepted.Topic, accepted.TopicID = topic.Name(), topic.ID()
			valid.Topics = append(valid.Topics, accepted)
		}
	}
	return &valid, places
}
