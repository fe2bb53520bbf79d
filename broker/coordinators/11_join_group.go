package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// JoinGroup (key 11), v0 to v9. Kafka: GroupMetadataManager.classicGroupJoin.
//
//   - Group Read. The reply comes when the group's rebalance is complete, so the
//     request may wait for the rebalance timeout.
//   - v1: a rebalance timeout of its own; v4: a first join is answered with a member
//     id and MEMBER_ID_REQUIRED (KIP-394); v5: group.instance.id, static members
//     (KIP-345); v7: protocol type in the reply; v8: reason (KIP-800), logged; v9: a
//     returning static leader is told not to assign (KIP-814).
func (c *Coordinators) joinGroupAPI() codec.API {
	return codec.API{
		Key: 11, Name: "JoinGroup", MinVersion: 0, MaxVersion: 9, Class: codec.TwoPhase, Handle: c.joinGroup,
		EstimateBytes: estimateJoin,
		Refuse:        refuseWith(func(*codec.Request) kmsg.Response { return group.JoinError(refusedCode, "") }),
		Note:          "static members, reasons",
	}
}

// estimateJoin is closer than the default: a parked join lives for minutes, so
// thousands of them must not use up what is meant for requests that come and go. The
// body is a frame, a copy of it in the member, and an array whose elements are 40
// bytes in memory and at least 3 on the wire.
func estimateJoin(_ codec.Header, bodyBytes int) int { return 1024 + 16*bodyBytes }

func (c *Coordinators) joinGroup(r *codec.Request) {
	request := kmsg.NewPtrJoinGroupRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(group.JoinError(kerr.GroupAuthorizationFailed.Code, ""))
		return
	}
	client := groupClient(r)
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.JoinGroup(t, client, request, func(response *kmsg.JoinGroupResponse) { r.Respond(response) })
		},
		func(code int16) { r.Respond(group.JoinError(code, request.MemberID)) })
}
