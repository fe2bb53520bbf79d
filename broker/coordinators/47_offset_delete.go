package coordinators

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// OffsetDelete (key 47), v0. Kafka: OffsetMetadataManager.deleteOffsets.
//
//   - Group Delete for the group, Topic Read for each topic. Offsets of a topic that
//     the group subscribes to are GROUP_SUBSCRIBED_TO_TOPIC; a group with members that
//     are no consumers is NON_EMPTY_GROUP. An offset that is not there is deleted.
func (c *Coordinators) offsetDeleteAPI() codec.API {
	return codec.API{
		Key: 47, Name: "OffsetDelete", MinVersion: 0, MaxVersion: 0, Class: codec.TwoPhase, Handle: c.offsetDelete,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response { return offsetDeleteError(refusedCode) }),
	}
}

func (c *Coordinators) offsetDelete(r *codec.Request) {
	request := kmsg.NewPtrOffsetDeleteRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationDelete, request.Group) {
		r.Respond(offsetDeleteError(kerr.GroupAuthorizationFailed.Code))
		return
	}
	request.Topics = slices.DeleteFunc(request.Topics, func(t kmsg.OffsetDeleteRequestTopic) bool {
		return len(t.Partitions) == 0 && leftOut(c.offsetTopic(r, false, t.Topic, [16]byte{}, auth.OperationRead))
	})
	response := kmsg.NewPtrOffsetDeleteResponse()
	response.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(request.Topics))
	valid := *request
	valid.Topics = nil
	var places []*int16
	for i := range request.Topics {
		asked, answer := &request.Topics[i], &response.Topics[i]
		answer.Topic = asked.Topic
		answer.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(asked.Partitions))
		topic, code := c.offsetTopic(r, false, asked.Topic, [16]byte{}, auth.OperationRead)
		accepted := kmsg.OffsetDeleteRequestTopic{Topic: asked.Topic}
		for j := range asked.Partitions {
			place := &answer.Partitions[j].ErrorCode
			answer.Partitions[j].Partition, *place = asked.Partitions[j].Partition, code
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
			valid.Topics = append(valid.Topics, accepted)
		}
	}
	if request.Group == "" {
		r.Respond(offsetDeleteError(kerr.InvalidGroupID.Code))
		return
	}
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.OffsetDelete(t, &valid, func(done *kmsg.OffsetDeleteResponse) {
				if done.ErrorCode != 0 {
					r.Respond(offsetDeleteError(done.ErrorCode))
					return
				}
				next := 0
				for i := range done.Topics {
					for j := range done.Topics[i].Partitions {
						*places[next] = done.Topics[i].Partitions[j].ErrorCode
						next++
					}
				}
				r.Respond(response)
			})
		},
		func(code int16) { r.Respond(offsetDeleteError(code)) })
}

func offsetDeleteError(code int16) *kmsg.OffsetDeleteResponse {
	response := kmsg.NewPtrOffsetDeleteResponse()
	response.ErrorCode = code
	return response
}
