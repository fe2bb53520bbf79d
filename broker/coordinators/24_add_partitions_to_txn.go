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

// AddPartitionsToTxn (key 24), v0 to v5. Kafka: KafkaApis.handleAddPartitionsToTxnRequest.
//
//   - v0–v3 come from producers: TransactionalId Write, Topic Write for each topic. A
//     partition that may not be written or does not exist fails the whole request:
//     it has its own error, the others OPERATION_NOT_ATTEMPTED.
//   - v4 and v5 come from brokers: Cluster ClusterAction; many transactions, some only
//     to be verified (KIP-890). v5 says that the caller knows TRANSACTION_ABORTABLE.
//   - v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
//   - While the last transaction is being completed the request waits a little for
//     that before it is CONCURRENT_TRANSACTIONS, see txn.
func (c *Coordinators) addPartitionsToTxnAPI() codec.API {
	return codec.API{
		Key: 24, Name: "AddPartitionsToTxn", MinVersion: 0, MaxVersion: 5, Class: codec.TwoPhase, Handle: c.addPartitionsToTxn,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrAddPartitionsToTxnRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			transactions := addTransactions(request)
			for i := range transactions {
				transactions[i].fail(refusedCode)
			}
			return addResponse(request.Version, transactions)
		}),
		Note: "v4 and v5 are for brokers",
	}
}

// addTransaction is one transaction of a request, with the code of each partition.
type addTransaction struct {
	id         string
	producerID int64
	epoch      int16
	verifyOnly bool
	partitions []TopicPartition
	codes      []int16
	bare       []string // topics that were named without a partition
}

func (x *addTransaction) fail(code int16) {
	for i := range x.codes {
		x.codes[i] = code
	}
}

// addTransactions is the request in the form of v4.
func addTransactions(request *kmsg.AddPartitionsToTxnRequest) []addTransaction {
	if request.Version < 4 {
		x := addTransaction{id: request.TransactionalID, producerID: request.ProducerID, epoch: request.ProducerEpoch}
		for i := range request.Topics {
			x.add(request.Topics[i].Topic, request.Topics[i].Partitions)
		}
		return []addTransaction{x}
	}
	all := make([]addTransaction, len(request.Transactions))
	for i := range request.Transactions {
		asked := &request.Transactions[i]
		all[i] = addTransaction{id: asked.TransactionalID, producerID: asked.ProducerID, epoch: asked.ProducerEpoch, verifyOnly: asked.VerifyOnly}
		for j := range asked.Topics {
			all[i].add(asked.Topics[j].Topic, asked.Topics[j].Partitions)
		}
	}
	return all
}

func (x *addTransaction) add(topic string, partitions []int32) {
	if len(partitions) == 0 {
		x.bare = append(x.bare, topic)
	}
	for _, p := range partitions {
		x.partitions, x.codes = append(x.partitions, TopicPartition{Topic: topic, Partition: p}), append(x.codes, 0)
	}
}

func addResponse(version int16, transactions []addTransaction) *kmsg.AddPartitionsToTxnResponse {
	response := kmsg.NewPtrAddPartitionsToTxnResponse()
	for i := range transactions {
		x := &transactions[i]
		answer := kmsg.NewAddPartitionsToTxnResponseTransaction()
		answer.TransactionalID = x.id
		for j, p := range x.partitions {
			if j == 0 || x.partitions[j-1].Topic != p.Topic {
				answer.Topics = append(answer.Topics, kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: p.Topic})
			}
			last := &answer.Topics[len(answer.Topics)-1]
			last.Partitions = append(last.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p.Partition, ErrorCode: x.codes[j]})
		}
		if !x.verifyOnly {
			for _, topic := range x.bare {
				answer.Topics = append(answer.Topics, kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: topic})
			}
		}
		response.Transactions = append(response.Transactions, answer)
	}
	if version >= 4 {
		return response
	}
	for _, t := range response.Transactions[0].Topics {
		topic := kmsg.AddPartitionsToTxnResponseTopic{Topic: t.Topic}
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.Partition, ErrorCode: p.ErrorCode})
		}
		response.Topics = append(response.Topics, topic)
	}
	response.Transactions = nil
	return response
}

func (c *Coordinators) addPartitionsToTxn(r *codec.Request) {
	request := kmsg.NewPtrAddPartitionsToTxnRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if request.Version >= 4 && !c.allowed(r, auth.OperationClusterAction, auth.ResourceCluster, auth.ClusterName) {
		response := kmsg.NewPtrAddPartitionsToTxnResponse()
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		r.Respond(response)
		return
	}
	transactions := addTransactions(request)
	all := newGather(len(transactions), func() { r.Respond(addResponse(request.Version, transactions)) })
	for i := range transactions {
		x := &transactions[i]
		if !c.checkAdd(r, request.Version, x) {
			all.part(func() {})
			continue
		}
		done := func(code int16) {
			all.part(func() { x.fail(fencedFor(request.Version >= 2, code)) })
		}
		if x.id == "" {
			done(kerr.InvalidRequest.Code)
			continue
		}
		add := txn.AddRequest{TransactionalID: x.id, ProducerID: x.producerID, ProducerEpoch: x.epoch, Partitions: x.partitions}
		if request.Version >= 4 {
			add.ClientVersion = txn.Version2
		}
		c.submitTransaction(x.id, func(m *txn.Machine, t *coord.Turn) {
			if x.verifyOnly {
				m.Verify(t, add, func(codes []int16) { all.part(func() { copy(x.codes, codes) }) })
				return
			}
			m.AddPartitions(t, add, done)
		}, done)
	}
}

// checkAdd authorises and looks the partitions up; false: they have got their codes.
func (c *Coordinators) checkAdd(r *codec.Request, version int16, x *addTransaction) bool {
	if version < 4 && !c.allowed(r, auth.OperationWrite, auth.ResourceTransactionalID, x.id) {
		x.fail(kerr.TransactionalIDAuthorizationFailed.Code)
		return false
	}
	good := true
	for i, p := range x.partitions {
		if code := c.checkAddPartition(r, version, p); code != 0 {
			x.codes[i], good = code, false
		}
	}
	if good {
		return true
	}
	for i := range x.codes {
		if x.codes[i] == 0 {
			x.codes[i] = kerr.OperationNotAttempted.Code
		}
	}
	return false
}

func (c *Coordinators) checkAddPartition(r *codec.Request, version int16, p TopicPartition) int16 {
	if version < 4 && (meta.IsInternalTopicName(p.Topic) || !c.allowed(r, auth.OperationWrite, auth.ResourceTopic, p.Topic)) {
		return kerr.TopicAuthorizationFailed.Code
	}
	topic := c.topics.Topic(p.Topic)
	if topic == nil {
		return kerr.UnknownTopicOrPartition.Code
	}
	if _, err := topic.Log(p.Partition); err == kerr.UnknownTopicOrPartition {
		return err.Code
	}
	return 0
}
