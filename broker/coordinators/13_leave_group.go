package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// LeaveGroup (key 13), v0 to v5. Kafka: GroupMetadataManager.classicGroupLeave.
//
//   - Group Read. The rest of the group rebalances at once.
//   - v0–v2 name one member and its error is the reply's; v3: a batch, and static
//     members by group.instance.id alone (KIP-345); v5: reasons (KIP-800), logged.
func (c *Coordinators) leaveGroupAPI() codec.API {
	return codec.API{
		Key: 13, Name: "LeaveGroup", MinVersion: 0, MaxVersion: 5, Class: codec.TwoPhase, Handle: c.leaveGroup,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response { return leaveGroupError(refusedCode) }),
	}
}

func (c *Coordinators) leaveGroup(r *codec.Request) {
	request := kmsg.NewPtrLeaveGroupRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(leaveGroupError(kerr.GroupAuthorizationFailed.Code))
		return
	}
	single := request.Version < 3
	members := request.Members
	if single {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: request.MemberID}}
	}
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.LeaveGroup(t, request.Group, members, func(response *kmsg.LeaveGroupResponse) {
				if single && response.ErrorCode == 0 {
					response.ErrorCode = response.Members[0].ErrorCode
				}
				r.Respond(response)
			})
		},
		func(code int16) { r.Respond(leaveGroupError(code)) })
}

func leaveGroupError(code int16) *kmsg.LeaveGroupResponse {
	response := kmsg.NewPtrLeaveGroupResponse()
	response.ErrorCode = code
	return response
}
