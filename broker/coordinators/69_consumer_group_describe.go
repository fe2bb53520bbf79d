package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// ConsumerGroupDescribe (key 69), v0 and v1. Kafka:
// GroupMetadataManager.consumerGroupDescribe (KIP-848).
//
//   - Group Describe for each, and Topic Describe for each topic that is assigned in
//     it: else TOPIC_AUTHORIZATION_FAILED without members.
//   - A group that does not exist, or is a classic one, is GROUP_ID_NOT_FOUND.
//   - v1: the protocol that each member speaks (KIP-1099).
func (c *Coordinators) consumerGroupDescribeAPI() codec.API {
	return codec.API{
		Key: 69, Name: "ConsumerGroupDescribe", MinVersion: 0, MaxVersion: 1, Class: codec.TwoPhase, Handle: c.consumerGroupDescribe,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrConsumerGroupDescribeRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			response := kmsg.NewPtrConsumerGroupDescribeResponse()
			for _, id := range request.Groups {
				response.Groups = append(response.Groups, *group.DescribeConsumerError(id, refusedCode))
			}
			return response
		}),
	}
}

func (c *Coordinators) consumerGroupDescribe(r *codec.Request) {
	request := kmsg.NewPtrConsumerGroupDescribeRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	session := *r.Session // read here, on the loop that owns it
	operations := request.IncludeAuthorizedOperations
	response := kmsg.NewPtrConsumerGroupDescribeResponse()
	response.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(request.Groups))
	all := newGather(len(request.Groups), func() { r.Respond(response) })
	for i, id := range request.Groups {
		done := func(described *kmsg.ConsumerGroupDescribeResponseGroup) {
			if described.ErrorCode == 0 && !c.describesTopics(&session, described) {
				described = group.DescribeConsumerError(id, kerr.TopicAuthorizationFailed.Code)
			}
			if operations && described.ErrorCode == 0 {
				described.AuthorizedOperations = auth.AuthorizedOperations(c.authorizer, session.Principal, session.RemoteHost, auth.ResourceGroup, id)
			}
			all.part(func() { response.Groups[i] = *described })
		}
		if !c.groupAllowed(r, auth.OperationDescribe, id) {
			done(group.DescribeConsumerError(id, kerr.GroupAuthorizationFailed.Code))
			continue
		}
		c.submit(id,
			func(m *group.Machine, t *coord.Turn) { m.DescribeConsumerGroup(t, id, done) },
			func(code int16) { done(group.DescribeConsumerError(id, code)) })
	}
}

// describesTopics: the client may see every topic that is assigned in the group.
func (c *Coordinators) describesTopics(s *codec.Session, described *kmsg.ConsumerGroupDescribeResponseGroup) bool {
	asked := map[string]bool{}
	for i := range described.Members {
		member := &described.Members[i]
		for _, list := range [][]kmsg.AssignmentTopicPartition{member.Assignment.TopicPartitions, member.TargetAssignment.TopicPartitions} {
			for j := range list {
				name := list[j].Topic
				if _, known := asked[name]; !known {
					asked[name] = c.authorizer.Authorize(s.Principal, s.RemoteHost, auth.OperationDescribe, auth.ResourceTopic, name)
				}
				if !asked[name] {
					return false
				}
			}
		}
	}
	return true
}
