package coordinators

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// ConsumerGroupHeartbeat (key 68), v0 and v1. Kafka:
// GroupMetadataManager.consumerGroupHeartbeat (KIP-848).
//
//   - Group Read, and Topic Describe for each subscribed name. A regular expression
//     matches only topics that the client may describe.
//   - Member epoch 0 joins, -1 leaves, -2 leaves for a while (static members). A
//     member that joins a classic group of consumers turns it into a consumer group
//     (group.consumer.migration.policy).
//   - What is null has not changed. The assignment is in the answer when the member
//     joins, says everything anew, or has another one.
//   - v1: members make their ids themselves (KIP-1082), and may subscribe by a regular
//     expression of RE2's syntax; INVALID_REGULAR_EXPRESSION else.
//   - The answer leaves when what it tells is on stable storage.
func (c *Coordinators) consumerGroupHeartbeatAPI() codec.API {
	return codec.API{
		Key: 68, Name: "ConsumerGroupHeartbeat", MinVersion: 0, MaxVersion: 1, Class: codec.TwoPhase, Handle: c.consumerGroupHeartbeat,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response { return group.ConsumerHeartbeatError(refusedCode, "") }),
		Note:   "consumer protocol of KIP-848; assignors uniform and range",
	}
}

func (c *Coordinators) consumerGroupHeartbeat(r *codec.Request) {
	request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(group.ConsumerHeartbeatError(kerr.GroupAuthorizationFailed.Code, ""))
		return
	}
	var hidden []string
	for _, name := range request.SubscribedTopicNames {
		if !c.allowed(r, auth.OperationDescribe, auth.ResourceTopic, name) {
			hidden = append(hidden, name)
		}
	}
	if len(hidden) > 0 {
		r.Respond(group.ConsumerHeartbeatError(kerr.TopicAuthorizationFailed.Code, "not authorised to describe "+strings.Join(hidden, ", ")))
		return
	}
	client, session := groupClient(r), *r.Session // read here, on the loop that owns it
	visible := func(topic string) bool {
		return c.authorizer.Authorize(session.Principal, session.RemoteHost, auth.OperationDescribe, auth.ResourceTopic, topic)
	}
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.ConsumerHeartbeat(t, client, request, visible, func(response *kmsg.ConsumerGroupHeartbeatResponse) { r.Respond(response) })
		},
		func(code int16) { r.Respond(group.ConsumerHeartbeatError(code, "")) })
}
