package group

import (
	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat keeps a member's session and tells it of a rebalance. It writes
// nothing and its answer waits for nothing.
func (m *Machine) Heartbeat(t *coord.Turn, req *kmsg.HeartbeatRequest) (code int16) {
	if req.Group == "" {
		return codeInvalidGroupID
	}
	g := m.groups[req.Group]
	if g == nil {
		return codeUnknownMemberID
	}
	if g.consumer != nil {
		return m.heartbeatConsumer(t, g, req)
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	m.touch(t, g.members[req.MemberID])
	if g.state == statePreparingRebalance {
		return codeRebalanceInProgress
	}
	// Also while CompletingRebalance: a member may heartbeat between join and sync.
	return 0
}
