package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/logstore"
)

// OffsetForLeaderEpoch (key 23), v2 to v4: where an epoch ends in this log.
//
//	v3  replica id; -1 and -2 are consumers
//	v4  flexible
//
// For the partition's current epoch that is the log end, for an older one the
// start of the next epoch, for one that never was here the next lower one. A
// future epoch is answered -1, -1 without an error. The epoch that the client
// believes to be current is fenced as in Fetch: 74, 75. Unlike Kafka a consumer
// is told no end above the high watermark: what lies between is not committed,
// and a crash may take it back.

const offsetForLeaderEpochKey = 23

func (b *Broker) offsetForLeaderEpochAPI() codec.API {
	return codec.API{Key: offsetForLeaderEpochKey, Name: "OffsetForLeaderEpoch", MinVersion: 2, MaxVersion: 4, Class: codec.TwoPhase,
		Handle: b.handleOffsetForLeaderEpoch}
}

func (b *Broker) handleOffsetForLeaderEpoch(request *codec.Request) {
	message := kmsg.NewPtrOffsetForLeaderEpochRequest()
	if err := request.Decode(message); err != nil {
		request.Fail(err)
		return
	}
	if len(request.Body) <= limits.OffsetsInlineBytes {
		request.Respond(b.offsetsForLeaderEpochs(request, message))
		return
	}
	if !b.data.lookup(func() { request.Respond(b.offsetsForLeaderEpochs(request, message)) }) {
		request.Fail(errTooManyLookups)
	}
}

func (b *Broker) offsetsForLeaderEpochs(request *codec.Request, message *kmsg.OffsetForLeaderEpochRequest) *kmsg.OffsetForLeaderEpochResponse {
	session := request.Session
	// A replica has ClusterAction, a consumer Describe on each topic; Kafka asks
	// for the first and falls back to the second.
	all := b.Authorizer.Authorize(session.Principal, session.RemoteHost, auth.OperationClusterAction, auth.ResourceCluster, auth.ClusterName)
	response := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for i := range message.Topics {
		asked := &message.Topics[i]
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = asked.Topic
		may := all || b.allowed(request, auth.OperationDescribe, auth.ResourceTopic, asked.Topic)
		for j := range asked.Partitions {
			topic.Partitions = append(topic.Partitions, b.offsetForLeaderEpoch(asked.Topic, &asked.Partitions[j], message.ReplicaID, may))
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}

func (b *Broker) offsetForLeaderEpoch(topic string, asked *kmsg.OffsetForLeaderEpochRequestTopicPartition, replicaID int32, may bool) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	answer.Partition, answer.LeaderEpoch, answer.EndOffset = asked.Partition, -1, -1
	if !may {
		answer.ErrorCode = kerr.TopicAuthorizationFailed.Code
		return answer
	}
	state, unknown := b.partition(topic, asked.Partition)
	if unknown != nil {
		answer.ErrorCode = unknown.Code
		return answer
	}
	if err := checkLeaderEpoch(state.log, asked.CurrentLeaderEpoch); err != nil {
		answer.ErrorCode = errorCode(err)
		return answer
	}
	answer.LeaderEpoch, answer.EndOffset = endOffsetForEpoch(state.log, asked.LeaderEpoch)
	if replicaID < 0 && answer.EndOffset > state.log.HighWatermark() {
		answer.EndOffset = state.log.HighWatermark()
	}
	return answer
}

// endOffsetForEpoch is the largest epoch at or below the given one with its end;
// -1, -1 for an epoch of the future, or before the first (Kafka:
// LeaderEpochFileCache.endOffsetFor).
func endOffsetForEpoch(log *logstore.Partition, epoch int32) (found int32, end int64) {
	switch current := log.LeaderEpoch(); {
	case epoch < 0 || epoch > current:
		return -1, -1
	case epoch == current:
		return epoch, log.LogEndOffset() // also of a log that nobody has written to
	}
	return log.EndOffsetForEpoch(epoch)
}
