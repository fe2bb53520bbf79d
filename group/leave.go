package group

import (
	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup takes members out. Handlers give v0–v2, which name one member, as a
// list of one.
func (m *Machine) LeaveGroup(t *coord.Turn, groupID string, members []kmsg.LeaveGroupRequestMember, done func(*kmsg.LeaveGroupResponse)) {
	r := kmsg.NewPtrLeaveGroupResponse()
	if groupID == "" {
		r.ErrorCode = codeInvalidGroupID
		done(r)
		return
	}
	g := m.groups[groupID]
	if g != nil && g.consumer != nil {
		m.leaveConsumer(t, g, members, r)
		m.dropIfVoid(t, g)
		reply(t, done, r, leaveFailed)
		return
	}
	left := false
	reason := defaultReasonOfOldClient
	for i := range members {
		one := &members[i]
		code := codeUnknownMemberID
		if g != nil {
			code = m.leave(t, g, one, &left)
		}
		if code == 0 {
			reason = givenReason(one.Reason)
		}
		r.Members = append(r.Members, kmsg.LeaveGroupResponseMember{MemberID: one.MemberID, InstanceID: one.InstanceID, ErrorCode: code})
	}
	if left {
		m.membersLeft(t, g, "members left: "+reason)
	} else if g != nil {
		m.maybeCompleteJoin(t, g) // which may have waited for an id that was given back
	}
	if g != nil {
		m.dropIfVoid(t, g)
	}
	reply(t, done, r, leaveFailed)
}

func leaveFailed(code int16) *kmsg.LeaveGroupResponse {
	failed := kmsg.NewPtrLeaveGroupResponse()
	failed.ErrorCode = code
	return failed
}

// leave takes one member out, or one id that was handed out and not used; *left
// becomes true for a member.
func (m *Machine) leave(t *coord.Turn, g *group, one *kmsg.LeaveGroupRequestMember, left *bool) int16 {
	memberID := one.MemberID
	if memberID == unknownMemberID && one.InstanceID != nil {
		// An administrator knows the instance only (KIP-345).
		memberID = g.static[*one.InstanceID]
		if memberID == "" {
			return codeUnknownMemberID
		}
	} else if p := g.pending[memberID]; p != nil {
		m.logger.Info("member id is given back", "group", g.id, "member", p.id, "reason", givenReason(one.Reason))
		t.Cancel(&p.session)
		delete(g.pending, p.id)
		return 0
	} else if code := g.validate(memberID, one.InstanceID); code != 0 {
		return code
	}
	mem := g.members[memberID]
	m.logger.Info("member leaves", "group", g.id, "member", mem.id, "instance", mem.instanceID, "reason", givenReason(one.Reason))
	m.removeMember(t, g, mem)
	*left = true
	return 0
}
