package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
)

// ElectLeaders, key 43, v0 to v2 (KIP-183, KIP-460).
//
// One broker leads everything, so no election is ever needed: named partitions
// answer ELECTION_NOT_NEEDED, null topics (all partitions) an empty list, as
// Kafka does when every leader is the preferred one.
//
//	v0     preferred election only, no error code of the whole reply
//	v1     election type
//	v2     flexible
func (a *Admin) electLeadersAPI() codec.API {
	return codec.API{
		Key: 43, Name: "ElectLeaders", MinVersion: 0, MaxVersion: 2, Class: codec.Pool,
		Handle: a.electLeaders, Refuse: refuseElectLeaders,
		Note: "never needed on one broker",
	}
}

func refuseElectLeaders(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrElectLeadersRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := electedLeaders(request, func(string, int32) *failure { return &failure{code: kerr.TypedErrorForCode(errorCode)} })
	response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	r.Respond(response)
}

func electedLeaders(request *kmsg.ElectLeadersRequest, result func(topic string, partition int32) *failure) *kmsg.ElectLeadersResponse {
	response := request.ResponseKind().(*kmsg.ElectLeadersResponse)
	for _, topic := range request.Topics {
		answer := kmsg.NewElectLeadersResponseTopic()
		answer.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			one := kmsg.NewElectLeadersResponseTopicPartition()
			one.Partition = partition
			if problem := result(topic.Topic, partition); problem != nil {
				one.ErrorCode, one.ErrorMessage = problem.code.Code, &problem.message
			}
			answer.Partitions = append(answer.Partitions, one)
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

func (a *Admin) electLeaders(r *codec.Request) {
	request := kmsg.NewPtrElectLeadersRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	var whole *failure
	switch {
	case !a.allowedCluster(r, auth.OperationAlter):
		whole = fail(kerr.ClusterAuthorizationFailed, "Cluster authorization failed.")
	case request.ElectionType != 0 && request.ElectionType != 1:
		whole = fail(kerr.InvalidRequest, "Unknown election type %d", request.ElectionType)
	}
	image := a.Images.Load()
	response := electedLeaders(request, func(topic string, partition int32) *failure {
		if whole != nil {
			return whole
		}
		return electionResult(image, topic, partition)
	})
	if whole != nil {
		response.ErrorCode = whole.code.Code
	}
	r.Respond(response)
}

func electionResult(image *meta.Image, name string, partition int32) *failure {
	topic := image.Topic(name)
	switch {
	case topic == nil:
		return fail(kerr.UnknownTopicOrPartition, "No such topic as %s", name)
	case partition < 0 || int(partition) >= len(topic.Partitions):
		return fail(kerr.UnknownTopicOrPartition, "No such partition as %s-%d", name, partition)
	case topic.Partitions[partition].Leader < 0:
		return fail(kerr.EligibleLeadersNotAvailable, "The log of %s-%d can't be served; see the broker's log.", name, partition)
	}
	return fail(kerr.ElectionNotNeeded, "Leader election not needed for topic partition.")
}
