package group

import (
	"kaas/coord"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rebalanceOrContinue starts a rebalance, or looks whether the one that runs is complete.
func (m *Machine) rebalanceOrContinue(t *coord.Turn, g *group, reason string) {
	switch g.state {
	case stateEmpty, stateStable, stateCompletingRebalance:
		m.prepareRebalance(t, g, reason)
	default:
		m.maybeCompleteJoin(t, g)
	}
}

// prepareRebalance asks all members to join again (they learn it from their
// heartbeats) and waits for them.
func (m *Machine) prepareRebalance(t *coord.Turn, g *group, reason string) {
	if g.state == stateCompletingRebalance {
		// Nobody has an assignment of this generation, and those of the last one end with it.
		for _, mem := range g.members {
			mem.assignment = []byte{}
		}
		g.answerSyncs(SyncError(codeRebalanceInProgress))
	}
	t.Cancel(&g.syncExpiry)
	initial := g.state == stateEmpty
	g.transition(t, statePreparingRebalance)
	m.logger.Info("rebalance", "group", g.id, "generation", g.generation, "members", len(g.members), "reason", reason)
	if initial {
		// The first members of a group usually come together (a deployment starts), so
		// their first assignment waits a little for the others.
		delayMs := int64(m.config.InitialRebalanceDelayMs)
		g.initialLeftMs, g.newMember = max(g.rebalanceTimeoutMs()-delayMs, 0), false
		t.Schedule(&g.rebalance, t.NowMs+delayMs)
		return
	}
	g.initialLeftMs = -1
	t.Schedule(&g.rebalance, t.NowMs+g.rebalanceTimeoutMs())
	m.maybeCompleteJoin(t, g)
}

// rebalanceTimer ends the initial delay, or extends it by as much again when
// someone came, up to the rebalance timeout; or it ends the wait for those who
// have not rejoined.
func (m *Machine) rebalanceTimer(t *coord.Turn, g *group) {
	if g.state != statePreparingRebalance {
		return
	}
	if g.newMember && g.initialLeftMs > 0 {
		g.newMember = false
		delayMs := min(int64(m.config.InitialRebalanceDelayMs), g.initialLeftMs)
		g.initialLeftMs -= delayMs
		t.Schedule(&g.rebalance, t.NowMs+delayMs)
		return
	}
	m.completeJoin(t, g)
}

// maybeCompleteJoin ends the join phase when everybody is here, except in an
// initial rebalance, which ends by its delay.
func (m *Machine) maybeCompleteJoin(t *coord.Turn, g *group) {
	if g.state == statePreparingRebalance && g.initialLeftMs < 0 && g.waiting == len(g.members) && len(g.pending) == 0 {
		m.completeJoin(t, g)
	}
}

// completeJoin ends the join phase: who has not rejoined is out (static members
// stay until their session ends), and a new generation begins.
func (m *Machine) completeJoin(t *coord.Turn, g *group) {
	t.Cancel(&g.rebalance)
	for _, mem := range g.ordered() {
		if mem.join == nil && !mem.isStatic {
			m.counts.MembersDropped.Add(1)
			m.logger.Info("member did not rejoin in time", "group", g.id, "member", mem.id)
			m.removeMember(t, g, mem)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		// Only static members that are away are left; wait for them or for the ends of
		// their sessions.
		g.initialLeftMs = -1
		t.Schedule(&g.rebalance, t.NowMs+g.rebalanceTimeoutMs())
		return
	}
	g.initialLeftMs = -1
	g.generation++
	if len(g.members) == 0 {
		m.becomeEmpty(t, g)
		return
	}
	g.protocol = g.selectProtocol()
	g.updateSubscribedTopics()
	g.transition(t, stateCompletingRebalance)
	m.counts.Rebalances.Add(1)
	m.logger.Info("generation begins", "group", g.id, "generation", g.generation, "members", len(g.members), "protocol", g.protocol)
	for _, mem := range g.ordered() {
		mem.isNew, mem.awaitsSync = false, true
		m.touch(t, mem)
		g.unpark(mem, g.joinResponse(mem, g.leader == mem.id))
	}
	t.Schedule(&g.syncExpiry, t.NowMs+g.rebalanceTimeoutMs())
}

// electLeader makes sure that the leader is a member that waits for the answer
// with the members' list.
func (g *group) electLeader() bool {
	if leader := g.members[g.leader]; leader != nil && leader.join != nil {
		return true
	}
	for _, mem := range g.ordered() {
		if mem.join != nil {
			g.leader = mem.id
			return true
		}
	}
	return false
}

// becomeEmpty records that nobody is left, from when on the retention of the
// offsets counts.
func (m *Machine) becomeEmpty(t *coord.Turn, g *group) {
	g.protocol, g.leader, g.subscribed = "", "", nil
	g.transition(t, stateEmpty)
	m.logger.Info("group is empty", "group", g.id, "generation", g.generation)
	if err := t.Emit(g.metadataRecord(nil)); err != nil {
		// A record without members is as long as its names; max.message.bytes is set
		// below that only by mistake, and nothing is lost but the time of leaving.
		m.logger.Error("an empty group cannot be recorded", "group", g.id, "error", err)
	}
	m.dropIfVoid(t, g)
}

// removeMember takes a member out and answers what it has parked, so that a
// client that is still alive joins as a new member.
func (m *Machine) removeMember(t *coord.Turn, g *group, mem *member) {
	t.Cancel(&mem.session)
	g.unpark(mem, JoinError(codeUnknownMemberID, unknownMemberID))
	mem.answerSync(SyncError(codeUnknownMemberID))
	g.remove(mem)
}

// membersLeft goes on after members were taken out.
func (m *Machine) membersLeft(t *coord.Turn, g *group, reason string) {
	switch g.state {
	case stateStable, stateCompletingRebalance:
		m.prepareRebalance(t, g, reason)
	case statePreparingRebalance:
		m.maybeCompleteJoin(t, g)
	}
}

// touch gives a member another session (a new one, that has no id yet to
// heartbeat with, a longer wait).
func (m *Machine) touch(t *coord.Turn, mem *member) {
	timeoutMs := int64(mem.sessionTimeoutMs)
	if mem.isNew {
		timeoutMs = limits.GroupNewMemberJoinMs
	}
	mem.deadlineMs = t.NowMs + timeoutMs
	if !mem.session.Active() || mem.armedMs > mem.deadlineMs {
		mem.armedMs = mem.deadlineMs
		t.Schedule(&mem.session, mem.armedMs)
	}
}

// sessionTimer gives a member up that has been silent for its session timeout.
// One whose request is parked here is not silent; the answer gives it a new
// session.
func (m *Machine) sessionTimer(t *coord.Turn, g *group, mem *member) {
	if g.members[mem.id] != mem {
		return
	}
	if t.NowMs < mem.deadlineMs {
		mem.armedMs = mem.deadlineMs
		t.Schedule(&mem.session, mem.armedMs)
		return
	}
	if !mem.isNew && (mem.join != nil || mem.sync != nil) {
		return
	}
	m.counts.MembersDropped.Add(1)
	m.logger.Info("member's session ended", "group", g.id, "member", mem.id, "sessionTimeoutMs", mem.sessionTimeoutMs)
	m.removeMember(t, g, mem)
	m.membersLeft(t, g, "session of "+mem.id+" ended")
}

// syncExpired removes members that took the generation and never asked for
// their assignment; if it is the leader, nobody would ever get one.
func (m *Machine) syncExpired(t *coord.Turn, g *group) {
	if g.state != stateCompletingRebalance && g.state != stateStable {
		return
	}
	removed := 0
	for _, mem := range g.ordered() {
		if mem.awaitsSync {
			m.counts.MembersDropped.Add(1)
			m.logger.Info("member did not sync in time", "group", g.id, "member", mem.id, "generation", g.generation)
			m.removeMember(t, g, mem)
			removed++
		}
	}
	if removed > 0 {
		m.prepareRebalance(t, g, "members did not sync in time")
	}
}

func (g *group) answerSyncs(r *kmsg.SyncGroupResponse) {
	for _, mem := range g.ordered() {
		if mem.sync != nil {
			answer := *r
			mem.answerSync(&answer)
		}
	}
}
