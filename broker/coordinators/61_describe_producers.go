package coordinators

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/logstore/producer"
	"kaas/meta"
)

// DescribeProducers (key 61), v0. Kafka: KafkaApis.handleDescribeProducersRequest.
//
//   - Topic Read. What each partition knows of its producers, also idempotent ones:
//     the last batch, the coordinator of the last marker, where an open transaction
//     begins. kafka-transactions finds hanging transactions by it.
func (c *Coordinators) describeProducersAPI() codec.API {
	return codec.API{
		Key: 61, Name: "DescribeProducers", MinVersion: 0, MaxVersion: 0, Class: codec.Pool, DataPlane: true, Handle: c.describeProducers,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrDescribeProducersRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			return describedProducers(request, func(string, int32) ([]producer.Producer, *kerr.Error) { return nil, kerr.NotLeaderForPartition })
		}),
	}
}

func (c *Coordinators) describeProducers(r *codec.Request) {
	request := kmsg.NewPtrDescribeProducersRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	r.Respond(describedProducers(request, func(name string, partition int32) ([]producer.Producer, *kerr.Error) {
		if meta.ValidateTopicName(name) != nil {
			return nil, kerr.InvalidTopicException
		}
		if !c.allowed(r, auth.OperationRead, auth.ResourceTopic, name) {
			return nil, kerr.TopicAuthorizationFailed
		}
		topic := c.topics.Topic(name)
		if topic == nil {
			return nil, kerr.UnknownTopicOrPartition
		}
		log, err := topic.Log(partition)
		if err != nil {
			return nil, err
		}
		return log.Producers(), nil
	}))
}

func describedProducers(request *kmsg.DescribeProducersRequest, find func(string, int32) ([]producer.Producer, *kerr.Error)) *kmsg.DescribeProducersResponse {
	response := kmsg.NewPtrDescribeProducersResponse()
	for _, asked := range request.Topics {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = asked.Topic
		for _, index := range asked.Partitions {
			partition := kmsg.NewDescribeProducersResponseTopicPartition()
			partition.Partition = index
			producers, err := find(asked.Topic, index)
			if err != nil {
				partition.ErrorCode, partition.ErrorMessage = err.Code, &err.Description
			}
			slices.SortFunc(producers, func(a, b producer.Producer) int { return cmp.Compare(a.ID, b.ID) })
			for _, p := range producers {
				active := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				active.ProducerID, active.ProducerEpoch, active.LastSequence, active.LastTimestamp = p.ID, int32(p.Epoch), p.LastSequence, p.LastTimestampMs
				active.CoordinatorEpoch, active.CurrentTxnStartOffset = p.CoordinatorEpoch, p.TxnFirstOffset
				partition.ActiveProducers = append(partition.ActiveProducers, active)
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}
