package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
	"kaas/meta/config"
)

// DeleteRecords, key 21, v0 to v2 (KIP-107).
//
// The log start offset moves to the offset given, -1 is the high watermark.
// Beyond the high watermark: OFFSET_OUT_OF_RANGE. Below the start: nothing
// changes. A topic without "delete" in its cleanup.policy: POLICY_VIOLATION.
// Segments that are covered are removed, the active one after a roll.
//
//	v2     flexible
//
// Checks: Kafka's KafkaApis.handleDeleteRecordsRequest and
// ReplicaManager.deleteRecords.
func (a *Admin) deleteRecordsAPI() codec.API {
	return codec.API{
		Key: 21, Name: "DeleteRecords", MinVersion: 0, MaxVersion: 2, Class: codec.Pool,
		Handle: a.deleteRecords, Refuse: refuseDeleteRecords,
		Note: "moves the log start offset",
	}
}

func refuseDeleteRecords(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrDeleteRecordsRequest(), func(request *kmsg.DeleteRecordsRequest, response *kmsg.DeleteRecordsResponse) {
		response.ThrottleMillis = throttleMs
		eachDeletion(request, response, func(string, *kmsg.DeleteRecordsRequestTopicPartition) (int64, *failure) {
			return -1, &failure{code: kerr.TypedErrorForCode(errorCode)}
		})
	})
}

// eachDeletion fills in the response, one answer per partition: of several for
// one partition the last counts, as in Kafka's map.
func eachDeletion(request *kmsg.DeleteRecordsRequest, response *kmsg.DeleteRecordsResponse, do func(topic string, partition *kmsg.DeleteRecordsRequestTopicPartition) (int64, *failure)) {
	for i := range request.Topics {
		topic := &request.Topics[i]
		last := make(map[int32]int, len(topic.Partitions))
		for j := range topic.Partitions {
			last[topic.Partitions[j].Partition] = j
		}
		answer := kmsg.NewDeleteRecordsResponseTopic()
		answer.Topic = topic.Topic
		for j := range topic.Partitions {
			partition := &topic.Partitions[j]
			if last[partition.Partition] != j {
				continue
			}
			result := kmsg.NewDeleteRecordsResponseTopicPartition()
			result.Partition = partition.Partition
			lowWatermark, problem := do(topic.Topic, partition)
			result.LowWatermark = lowWatermark
			if problem != nil {
				result.ErrorCode = problem.code.Code
			}
			answer.Partitions = append(answer.Partitions, result)
		}
		response.Topics = append(response.Topics, answer)
	}
}

func (a *Admin) deleteRecords(r *codec.Request) {
	request := kmsg.NewPtrDeleteRecordsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DeleteRecordsResponse)
	eachDeletion(request, response, func(topic string, partition *kmsg.DeleteRecordsRequestTopicPartition) (int64, *failure) {
		return a.deleteBefore(r, topic, partition)
	})
	r.Respond(response)
}

func (a *Admin) deleteBefore(r *codec.Request, name string, request *kmsg.DeleteRecordsRequestTopicPartition) (int64, *failure) {
	if !a.allowed(r, auth.OperationDelete, auth.ResourceTopic, name) {
		return -1, &failure{code: kerr.TopicAuthorizationFailed}
	}
	image := a.Images.Load()
	topic := image.Topic(name)
	if topic == nil || request.Partition < 0 || int(request.Partition) >= len(topic.Partitions) {
		return -1, &failure{code: kerr.UnknownTopicOrPartition}
	}
	log := a.Logs.Get(name, request.Partition)
	if log == nil || topic.Partitions[request.Partition].Leader != image.NodeID || meta.UUID(log.TopicID()) != topic.ID {
		return -1, &failure{code: kerr.NotLeaderForPartition}
	}
	inForce, err := config.ParseTopic(a.Config, topic.Config)
	if err != nil {
		return -1, a.asFailure(err)
	}
	if !inForce.CleanupDelete {
		return -1, &failure{code: kerr.PolicyViolation}
	}
	before := request.Offset
	highWatermark := log.HighWatermark()
	if before == -1 {
		before = highWatermark
	}
	if before < 0 || before > highWatermark {
		return -1, &failure{code: kerr.OffsetOutOfRange}
	}
	lowWatermark, err := log.DeleteRecords(before)
	if err != nil {
		return -1, a.asFailure(err)
	}
	return lowWatermark, nil
}
