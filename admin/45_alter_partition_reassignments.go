package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
)

// AlterPartitionReassignments, key 45, v0 to v1 (KIP-455).
//
// On one broker the only assignment is the one in force, which succeeds and
// changes nothing; there is never one to cancel (NO_REASSIGNMENT_IN_PROGRESS).
// Bad replica lists are refused with Kafka's messages.
//
//	v1     allow_replication_factor_change, without effect: there is one copy
func (a *Admin) alterPartitionReassignmentsAPI() codec.API {
	return codec.API{
		Key: 45, Name: "AlterPartitionReassignments", MinVersion: 0, MaxVersion: 1, Class: codec.Pool,
		Handle: a.alterPartitionReassignments, Refuse: refuseAlterPartitionReassignments,
		Note: "one broker: there is nothing to move",
	}
}

func refuseAlterPartitionReassignments(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrAlterPartitionAssignmentsRequest(), func(request *kmsg.AlterPartitionAssignmentsRequest, response *kmsg.AlterPartitionAssignmentsResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) alterPartitionReassignments(r *codec.Request) {
	request := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	response.AllowReplicationFactorChange = request.AllowReplicationFactorChange
	if !a.allowedCluster(r, auth.OperationAlter) {
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		response.ErrorMessage = kmsg.StringPtr("Cluster authorization failed.")
		r.Respond(response)
		return
	}
	image := a.Images.Load()
	for i := range request.Topics {
		topic := &request.Topics[i]
		answer := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		answer.Topic = topic.Topic
		for j := range topic.Partitions {
			partition := &topic.Partitions[j]
			one := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			one.Partition = partition.Partition
			if problem := reassignmentResult(image, topic.Topic, partition); problem != nil {
				one.ErrorCode = problem.code.Code
				if problem.message != "" {
					one.ErrorMessage = &problem.message
				}
			}
			answer.Partitions = append(answer.Partitions, one)
		}
		response.Topics = append(response.Topics, answer)
	}
	r.Respond(response)
}

func reassignmentResult(image *meta.Image, name string, partition *kmsg.AlterPartitionAssignmentsRequestTopicPartition) *failure {
	topic := image.Topic(name)
	switch {
	case topic == nil:
		return fail(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", name)
	case partition.Partition < 0 || int(partition.Partition) >= len(topic.Partitions):
		return fail(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", name, partition.Partition)
	case partition.Replicas == nil:
		return &failure{code: kerr.NoReassignmentInProgress}
	}
	return checkReplicas(image, partition.Replicas, -1)
}
