package group

import "kaas/coord"

// replaceStatic gives a group.instance.id to a new owner (KIP-345): the process
// was restarted, or a second one was started with the same name. The old owner
// is fenced by its member id.
func (j *joining) replaceStatic(t *coord.Turn, old *member, id string) {
	g, m := j.g, j.m
	oldLeader, wasLeader := g.leader, g.leader == old.id
	mem := g.takeOver(t, m, old, id)
	j.adoptCounted(mem)
	m.touch(t, mem)
	m.logger.Info("static member replaced", "group", g.id, "instance", mem.instanceID, "old", old.id, "new", id)
	switch {
	case g.state == stateStable && g.selectProtocol() == g.protocol:
		j.keepAssignment(t, mem, oldLeader, wasLeader)
	case g.state == statePreparingRebalance:
		g.park(mem, j.done)
		m.maybeCompleteJoin(t, g)
	default:
		// While CompletingRebalance the leader may be assigning for the old id, and in
		// Stable another protocol has to be chosen now.
		g.park(mem, j.done)
		m.rebalanceOrContinue(t, g, "static member "+mem.instanceID+" was replaced: "+j.reason())
	}
}

// takeOver puts a member with a new id in the place of the old one, which keeps
// its rank and, if it leads, its office.
func (g *group) takeOver(t *coord.Turn, m *Machine, old *member, id string) *member {
	mem := m.newMember(g, id, &old.instanceID, old.client)
	mem.assignment, mem.protocols, mem.number = old.assignment, old.protocols, old.number
	mem.awaitsSync = old.awaitsSync
	t.Cancel(&old.session)
	g.unpark(old, JoinError(codeFencedInstanceID, old.id))
	old.answerSync(SyncError(codeFencedInstanceID))
	delete(g.members, old.id)
	g.members[id] = mem
	g.static[mem.instanceID] = id
	if g.leader == old.id {
		g.leader = id
	}
	return mem
}

func (j *joining) adoptCounted(mem *member) {
	j.g.countVotes(mem, -1)
	j.adopt(mem)
	j.g.countVotes(mem, 1)
}

// keepAssignment answers a returning static member without a rebalance. The new
// owner of the name is written to the log before it is told, so that after a
// crash the old one is fenced, not the new one.
func (j *joining) keepAssignment(t *coord.Turn, mem *member, oldLeader string, wasLeader bool) {
	g := j.g
	if err := t.Emit(g.metadataRecord(g.assignments())); err != nil {
		j.m.logger.Error("a returning static member cannot be recorded; the group rebalances", "group", g.id, "error", err)
		g.park(mem, j.done)
		j.m.prepareRebalance(t, g, "a static member could not be recorded")
		return
	}
	g.updateSubscribedTopics()
	response := g.joinResponse(mem, false)
	switch {
	case j.req.Version >= joinCanSkipAssignment && wasLeader:
		response.Members, response.SkipAssignment = g.memberList(), true
	case j.req.Version < joinCanSkipAssignment:
		// An old client that reads its own id as the leader's would assign anew; it is
		// told the leader that was.
		response.LeaderID = oldLeader
	}
	memberID, done := mem.id, j.done
	t.Reply(func(err error) {
		if err != nil {
			response = JoinError(ErrorCode(err), memberID)
		}
		done(response)
	})
}

// assignments are what the members have now, by member id.
func (g *group) assignments() map[string][]byte {
	assignments := make(map[string][]byte, len(g.members))
	for id, mem := range g.members {
		assignments[id] = mem.assignment
	}
	return assignments
}
