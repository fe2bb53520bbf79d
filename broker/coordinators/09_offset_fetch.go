package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// OffsetFetch (key 9), v1 to v10. Kafka: KafkaApis.handleOffsetFetchRequest,
// OffsetMetadataManager.fetchOffsets.
//
//   - Group Describe for the group, Topic Describe for each topic. A topic without
//     an offset answers offset -1 and no error, also when the topic is unknown.
//   - v2: null topics ask for all offsets, and an error for the whole group has its
//     own field; v5: leader epochs; v7: require_stable, UNSTABLE_OFFSET_COMMIT while a
//     transaction holds the offset; v8: many groups; v9: member id and epoch (of the
//     consumer protocol; a classic group ignores them); v10: topic ids.
//   - Metadata is never null.
//   - The reply leaves when every offset in it is on stable storage.
func (c *Coordinators) offsetFetchAPI() codec.API {
	return codec.API{
		Key: 9, Name: "OffsetFetch", MinVersion: 1, MaxVersion: 10, Class: codec.TwoPhase, Handle: c.offsetFetch,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrOffsetFetchRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			groups := fetchGroups(request)
			answers := make([]kmsg.OffsetFetchResponseGroup, len(groups))
			for i := range groups {
				answers[i] = *fetchError(&groups[i], refusedCode)
			}
			return offsetFetchResponse(request.Version, answers)
		}),
		Note: "batches of groups, require_stable, topic ids",
	}
}

func (c *Coordinators) offsetFetch(r *codec.Request) {
	request := kmsg.NewPtrOffsetFetchRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	groups := fetchGroups(request)
	answers := make([]kmsg.OffsetFetchResponseGroup, len(groups))
	all := newGather(len(groups), func() { r.Respond(offsetFetchResponse(request.Version, answers)) })
	for i := range groups {
		c.fetchOffsets(r, &groups[i], request.Version, request.RequireStable, func(answer *kmsg.OffsetFetchResponseGroup) {
			all.part(func() { answers[i] = *answer })
		})
	}
}

// fetchGroups is the request in the form of v8: v1 to v7 ask for one group.
func fetchGroups(request *kmsg.OffsetFetchRequest) []kmsg.OffsetFetchRequestGroup {
	if request.Version >= 8 {
		return request.Groups
	}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = request.Group
	if request.Topics != nil {
		one.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for i := range request.Topics {
		one.Topics = append(one.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: request.Topics[i].Topic, Partitions: request.Topics[i].Partitions})
	}
	return []kmsg.OffsetFetchRequestGroup{one}
}

// offsetFetchResponse puts the groups into the form of the version.
func offsetFetchResponse(version int16, groups []kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	response := kmsg.NewPtrOffsetFetchResponse()
	if version >= 8 {
		response.Groups = groups
		return response
	}
	one := &groups[0]
	response.ErrorCode = one.ErrorCode
	for i := range one.Topics {
		topic := kmsg.OffsetFetchResponseTopic{Topic: one.Topics[i].Topic}
		for _, p := range one.Topics[i].Partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetFetchResponseTopicPartition{
				Partition: p.Partition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, ErrorCode: p.ErrorCode,
			})
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}

// fetchOffsets answers for one group; done is called once.
func (c *Coordinators) fetchOffsets(r *codec.Request, asked *kmsg.OffsetFetchRequestGroup, version int16, requireStable bool, done func(*kmsg.OffsetFetchResponseGroup)) {
	if !c.groupAllowed(r, auth.OperationDescribe, asked.Group) {
		done(c.fetchFailed(asked, version, kerr.GroupAuthorizationFailed.Code))
		return
	}
	if asked.Topics == nil {
		session := *r.Session // read here, on the loop that owns it
		c.submit(asked.Group,
			func(m *group.Machine, t *coord.Turn) {
				m.OffsetFetch(t, asked, requireStable, func(answer *kmsg.OffsetFetchResponseGroup) {
					c.hideTopics(&session, version, answer)
					done(answer)
				})
			},
			func(code int16) { done(c.fetchFailed(asked, version, code)) })
		return
	}
	valid := *asked
	valid.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	answers := make([]kmsg.OffsetFetchResponseGroupTopic, len(asked.Topics))
	var places []int
	for i := range asked.Topics {
		topic := asked.Topics[i]
		state, code := c.offsetTopic(r, version >= 10, topic.Topic, topic.TopicID, auth.OperationDescribe)
		if code == kerr.UnknownTopicOrPartition.Code {
			code = 0 // by name, an unknown topic has no offsets; that is all
		}
		if code != 0 {
			answers[i] = fetchTopicError(&topic, code)
			continue
		}
		if state != nil {
			topic.Topic, topic.TopicID = state.Name(), state.ID()
		}
		valid.Topics, places = append(valid.Topics, topic), append(places, i)
	}
	c.submit(asked.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.OffsetFetch(t, &valid, requireStable, func(answer *kmsg.OffsetFetchResponseGroup) {
				for i := range answer.Topics {
					answers[places[i]] = answer.Topics[i]
				}
				if answer.ErrorCode != 0 {
					answer = c.fetchFailed(asked, version, answer.ErrorCode)
				} else {
					answer.Topics = answers
				}
				done(answer)
			})
		},
		func(code int16) { done(c.fetchFailed(asked, version, code)) })
}

// hideTopics leaves out of a listing of all offsets what the client may not see
// and, where topics go by id, those that have none any more.
func (c *Coordinators) hideTopics(s *codec.Session, version int16, answer *kmsg.OffsetFetchResponseGroup) {
	seen := answer.Topics[:0]
	for _, topic := range answer.Topics {
		if !c.authorizer.Authorize(s.Principal, s.RemoteHost, auth.OperationDescribe, auth.ResourceTopic, topic.Topic) {
			continue
		}
		if version >= 10 {
			state := c.topics.Topic(topic.Topic)
			if state == nil {
				continue
			}
			topic.TopicID = state.ID()
		}
		seen = append(seen, topic)
	}
	answer.Topics = seen
}

// fetchFailed answers a whole group with an error. Before v2 there is no field for it.
func (c *Coordinators) fetchFailed(asked *kmsg.OffsetFetchRequestGroup, version int16, code int16) *kmsg.OffsetFetchResponseGroup {
	failed := fetchError(asked, code)
	if version >= 2 {
		failed.Topics = nil
	}
	return failed
}

// fetchError has the code for the group and for every partition asked for.
func fetchError(asked *kmsg.OffsetFetchRequestGroup, code int16) *kmsg.OffsetFetchResponseGroup {
	failed := kmsg.NewOffsetFetchResponseGroup()
	failed.Group, failed.ErrorCode = asked.Group, code
	for i := range asked.Topics {
		failed.Topics = append(failed.Topics, fetchTopicError(&asked.Topics[i], code))
	}
	return &failed
}

func fetchTopicError(asked *kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	topic := kmsg.OffsetFetchResponseGroupTopic{Topic: asked.Topic, TopicID: asked.TopicID}
	for _, partition := range asked.Partitions {
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, -1, -1, kmsg.StringPtr(""), code
		topic.Partitions = append(topic.Partitions, p)
	}
	return topic
}
