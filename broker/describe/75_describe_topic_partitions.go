package describe

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
)

// DescribeTopicPartitions (key 75), v0 (KIP-966). Kafka:
// DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse.
//
//   - Topics come sorted by name, from the cursor on; the empty list asks for all.
//   - At most min(response_partition_limit, max.request.partition.size.limit)
//     partitions, at least one; the next cursor says where to go on. It may name a
//     topic that does not exist.
//   - A cursor whose topic is not in the list, or whose partition is negative, is
//     INVALID_REQUEST for every topic.
//   - Topics that the client may not describe stand at the end with
//     TOPIC_AUTHORIZATION_FAILED, or are left out when all were asked for.
//   - The empty name is INVALID_TOPIC_EXCEPTION as any other that can't be one; Kafka
//     4.4 answers it UNKNOWN_SERVER_ERROR.
//   - Eligible leader replicas are empty lists: there is one replica.

func (h *Handlers) describeTopicPartitionsAPI() codec.API {
	return codec.API{
		Key: 75, Name: "DescribeTopicPartitions", MinVersion: 0, MaxVersion: 0, Class: codec.TwoPhase,
		Handle: h.OffLoopWhenLarge(h.describeTopicPartitions),
		Note:   "with cursor",
	}
}

func (h *Handlers) describeTopicPartitions(r *codec.Request) {
	request := kmsg.NewPtrDescribeTopicPartitionsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	image := h.Images.Load()
	names, refused := topicsFromCursor(request, image)
	if refused != nil {
		response := kmsg.NewPtrDescribeTopicPartitionsResponse()
		for i := range request.Topics {
			response.Topics = append(response.Topics, refusedTopic(request.Topics[i].Topic, refused))
		}
		r.Respond(response)
		return
	}
	r.Respond(h.describeTopics(r, request, image, names))
}

// topicsFromCursor are the names to describe: sorted, each once, from the cursor on.
func topicsFromCursor(request *kmsg.DescribeTopicPartitionsRequest, image *meta.Image) ([]string, *kerr.Error) {
	first := ""
	if request.Cursor != nil {
		first = request.Cursor.Topic
	}
	var names []string
	if len(request.Topics) == 0 {
		for _, topic := range image.Topics() {
			if topic.Name >= first {
				names = append(names, topic.Name)
			}
		}
	} else {
		for i := range request.Topics {
			if request.Topics[i].Topic >= first {
				names = append(names, request.Topics[i].Topic)
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		if request.Cursor != nil && !slices.Contains(names, first) {
			return nil, kerr.InvalidRequest
		}
	}
	if request.Cursor != nil && request.Cursor.Partition < 0 {
		return nil, kerr.InvalidRequest
	}
	return names, nil
}

func describedTopic(name string, err *kerr.Error) kmsg.DescribeTopicPartitionsResponseTopic {
	topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
	topic.Topic, topic.IsInternal = &name, meta.IsInternalTopicName(name)
	if err != nil {
		topic.ErrorCode = err.Code
	}
	return topic
}

// refusedTopic is one of which nothing is told, not even whether it is internal.
func refusedTopic(name string, err *kerr.Error) kmsg.DescribeTopicPartitionsResponseTopic {
	topic := describedTopic(name, err)
	topic.IsInternal = false
	return topic
}

func (h *Handlers) describeTopics(r *codec.Request, request *kmsg.DescribeTopicPartitionsRequest, image *meta.Image, names []string) *kmsg.DescribeTopicPartitionsResponse {
	response := kmsg.NewPtrDescribeTopicPartitionsResponse()
	remaining := max(1, min(request.ResponsePartitionLimit, h.Config.MaxRequestPartitionSizeLimit))
	var unauthorized []kmsg.DescribeTopicPartitionsResponseTopic
	for _, name := range names {
		if !h.visible(r, auth.OperationDescribe, auth.ResourceTopic, name) {
			if len(request.Topics) > 0 {
				auth.Denied(h.Authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, auth.OperationDescribe, auth.ResourceTopic, name)
				unauthorized = append(unauthorized, refusedTopic(name, kerr.TopicAuthorizationFailed))
			}
			continue
		}
		if response.NextCursor != nil {
			continue // the reply is full; only the topics that are not authorised are still named
		}
		if remaining == 0 {
			response.NextCursor = nextCursor(name, 0)
			continue
		}
		topic := image.Topic(name)
		if topic == nil {
			unknown := kerr.UnknownTopicOrPartition
			if meta.ValidateTopicName(name) != nil {
				unknown = kerr.InvalidTopicException
			}
			described := describedTopic(name, unknown)
			described.AuthorizedOperations = h.authorizedOperations(r, auth.ResourceTopic, name)
			response.Topics = append(response.Topics, described)
			continue
		}
		from := int32(0)
		if request.Cursor != nil && request.Cursor.Topic == name {
			from = min(request.Cursor.Partition, int32(len(topic.Partitions)))
		}
		to := min(int32(len(topic.Partitions)), from+remaining)
		described := describedTopic(name, nil)
		described.TopicID, described.IsInternal = topic.ID, topic.Internal
		described.AuthorizedOperations = h.authorizedOperations(r, auth.ResourceTopic, name)
		described.Partitions = describedPartitions(topic, from, to)
		response.Topics = append(response.Topics, described)
		remaining -= to - from
		if to < int32(len(topic.Partitions)) {
			response.NextCursor = nextCursor(name, to)
		}
	}
	response.Topics = append(response.Topics, unauthorized...)
	return response
}

func nextCursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	return &cursor
}

func describedPartitions(topic *meta.Topic, from, to int32) []kmsg.DescribeTopicPartitionsResponseTopicPartition {
	described := make([]kmsg.DescribeTopicPartitionsResponseTopicPartition, to-from)
	for i := range described {
		p, info := &described[i], &topic.Partitions[from+int32(i)]
		p.Default()
		p.Partition, p.LeaderID, p.LeaderEpoch = from+int32(i), info.Leader, info.LeaderEpoch
		p.EligibleLeaderReplicas, p.LastKnownELR = []int32{}, []int32{}
		if info.Leader < 0 {
			p.ErrorCode = kerr.LeaderNotAvailable.Code
			continue
		}
		p.Replicas, p.ISR = []int32{info.Leader}, []int32{info.Leader}
	}
	return described
}
