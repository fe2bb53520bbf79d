package group

import (
	"bytes"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// syncRequiresProtocol: from v5 on SyncGroup names protocol type and protocol
// (KIP-559), so that the broker can catch members of another generation.
const syncRequiresProtocol = 5

// SyncGroup handles a sync; done is called once, now or when the leader's
// assignment is committed.
func (m *Machine) SyncGroup(t *coord.Turn, req *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse)) {
	if code := m.checkSync(req); code != 0 {
		done(SyncError(code))
		return
	}
	g := m.groups[req.Group]
	if g.consumer != nil {
		m.syncConsumer(t, g, req, done)
		return
	}
	mem := g.members[req.MemberID]
	switch g.state {
	case statePreparingRebalance:
		done(SyncError(codeRebalanceInProgress))
	case stateCompletingRebalance:
		m.synced(t, g, mem)
		if old := mem.sync; old != nil {
			old(SyncError(codeRebalanceInProgress)) // of a connection that was given up
		}
		mem.sync = done
		if g.leader == mem.id {
			m.assign(t, g, req.GroupAssignment)
		}
	case stateStable:
		m.synced(t, g, mem)
		m.touch(t, mem)
		reply(t, done, g.syncResponse(mem), SyncError)
	default:
		done(SyncError(codeUnknownMemberID))
	}
}

func (m *Machine) checkSync(req *kmsg.SyncGroupRequest) int16 {
	if req.Version >= syncRequiresProtocol && (req.ProtocolType == nil || req.Protocol == nil) {
		return codeInconsistentProtocol
	}
	if req.Group == "" {
		return codeInvalidGroupID
	}
	g := m.groups[req.Group]
	if g == nil {
		return codeUnknownMemberID
	}
	if g.consumer != nil {
		return 0 // syncConsumer looks
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	switch {
	case req.Generation != g.generation:
		return codeIllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && *req.Protocol != g.protocol:
		return codeInconsistentProtocol
	}
	return 0
}

// synced notes that a member has asked for its assignment.
func (m *Machine) synced(t *coord.Turn, g *group, mem *member) {
	if !mem.awaitsSync {
		return
	}
	mem.awaitsSync = false
	for _, other := range g.members {
		if other.awaitsSync {
			return
		}
	}
	t.Cancel(&g.syncExpiry)
}

// assign takes the leader's plan: recorded first, then told to everyone who
// waits, after the commit.
func (m *Machine) assign(t *coord.Turn, g *group, plan []kmsg.SyncGroupRequestGroupAssignment) {
	assignments := make(map[string][]byte, len(g.members))
	for id := range g.members {
		assignments[id] = []byte{}
	}
	for i := range plan {
		if _, ok := assignments[plan[i].MemberID]; !ok {
			m.logger.Warn("assignment for an unknown member is left out", "group", g.id, "generation", g.generation, "member", plan[i].MemberID)
			continue
		}
		assignments[plan[i].MemberID] = bytes.Clone(plan[i].MemberAssignment)
	}
	g.transition(t, stateStable)
	if err := t.Emit(g.metadataRecord(assignments)); err != nil {
		m.logger.Error("the assignment cannot be recorded; raise max.message.bytes of the offsets topic or use fewer members", "group", g.id, "error", err)
		g.answerSyncs(SyncError(codeUnknownServerError))
		m.prepareRebalance(t, g, "the assignment could not be recorded")
		return
	}
	for _, mem := range g.ordered() {
		mem.assignment = assignments[mem.id]
		if mem.assignment == nil {
			mem.assignment = []byte{}
		}
		if done := mem.sync; done != nil {
			mem.sync = nil
			m.touch(t, mem)
			reply(t, done, g.syncResponse(mem), SyncError)
		}
	}
}

func (g *group) syncResponse(mem *member) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ProtocolType, r.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	r.MemberAssignment = mem.assignment
	return r
}

// reply sends a response after the commit of what it was made from, or the error
// that came instead.
func reply[R any](t *coord.Turn, done func(*R), response *R, failed func(code int16) *R) {
	t.Reply(func(err error) {
		if err != nil {
			response = failed(ErrorCode(err))
		}
		done(response)
	})
}
