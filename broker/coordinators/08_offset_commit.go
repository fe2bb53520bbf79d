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

// OffsetCommit (key 8), v2 to v10. Kafka: KafkaApis.handleOffsetCommitRequest,
// GroupMetadataManager, OffsetMetadataManager.commitOffset.
//
//   - Group Read for the group, Topic Read for each topic; an unknown topic or
//     partition is refused by itself (3; from v10, by topic id, 100) and the rest
//     goes on.
//   - v2–v4 carry a retention time for the offsets; from v5 the broker's counts.
//   - v6: leader epochs; v7: group.instance.id; v9: codes of KIP-848 for unknown
//     groups and stale members; v10: topic ids.
//   - The reply leaves when the offsets are on stable storage. All offsets of a
//     request stand in one batch; what does not fit is INVALID_COMMIT_OFFSET_SIZE.
func (c *Coordinators) offsetCommitAPI() codec.API {
	return codec.API{
		Key: 8, Name: "OffsetCommit", MinVersion: 2, MaxVersion: 10, Class: codec.TwoPhase, Handle: c.offsetCommit,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrOffsetCommitRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			return group.CommitResponse(request, refusedCode)
		}),
		Note: "fencing by generation, member and instance; topic ids",
	}
}

func (c *Coordinators) offsetCommit(r *codec.Request) {
	request := kmsg.NewPtrOffsetCommitRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(group.CommitResponse(request, kerr.GroupAuthorizationFailed.Code))
		return
	}
	request.Topics = slices.DeleteFunc(request.Topics, func(t kmsg.OffsetCommitRequestTopic) bool {
		return len(t.Partitions) == 0 && leftOut(c.offsetTopic(r, request.Version >= 10, t.Topic, t.TopicID, auth.OperationRead))
	})
	response := group.CommitResponse(request, 0)
	valid, places := c.committable(r, request, response)
	if len(valid.Topics) == 0 {
		r.Respond(response)
		return
	}
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.OffsetCommit(t, valid, func(done *kmsg.OffsetCommitResponse) {
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
		func(code int16) {
			for _, place := range places {
				*place = code
			}
			r.Respond(response)
		})
}

// committable picks the partitions that exist and may be committed, with topic
// name and id both set, and the places in the response for their codes, in order;
// the other partitions get theirs here.
func (c *Coordinators) committable(r *codec.Request, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse) (*kmsg.OffsetCommitRequest, []*int16) {
	valid := *request
	valid.Topics = nil
	var places []*int16
	for i := range request.Topics {
		asked, answer := &request.Topics[i], &response.Topics[i]
		topic, code := c.offsetTopic(r, request.Version >= 10, asked.Topic, asked.TopicID, auth.OperationRead)
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

// leftOut says that a topic of which the request names no partition is not answered:
// KafkaApis puts it into no answer unless the topic itself is refused.
func leftOut(_ Topic, code int16) bool { return code == 0 }

// offsetTopic resolves a topic of an offsets request, by name or by id, and
// authorises it. An id whose topic may not be seen is as unknown as any other.
func (c *Coordinators) offsetTopic(r *codec.Request, byID bool, name string, id meta.UUID, operation auth.Operation) (Topic, int16) {
	if byID {
		topic := c.topics.TopicByID(id)
		switch {
		case topic == nil:
			return nil, kerr.UnknownTopicID.Code
		case !c.allowed(r, operation, auth.ResourceTopic, topic.Name()):
			return nil, kerr.TopicAuthorizationFailed.Code
		}
		return topic, 0
	}
	if !c.allowed(r, operation, auth.ResourceTopic, name) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	topic := c.topics.Topic(name)
	if topic == nil {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return topic, 0
}
