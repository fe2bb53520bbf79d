package group

import (
	"bytes"

	"kaas/coord"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Versions of JoinGroup from which on it behaves differently.
const (
	joinRequiresMemberID     = 4 // KIP-394: a first join is answered with an id and error 79
	joinCanSkipAssignment    = 9 // KIP-814: a returning static leader is sent the members and told not to assign
	joinCarriesAReason       = 8 // KIP-800
	unknownMemberID          = ""
	reasonLengthInLogs       = 255
	defaultReasonOfOldClient = "not provided"
)

// JoinGroup handles a join; done is called once, now or when the rebalance ends.
func (m *Machine) JoinGroup(t *coord.Turn, client Client, req *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	switch {
	case req.Group == "":
		done(JoinError(codeInvalidGroupID, req.MemberID))
		return
	case req.SessionTimeoutMillis < m.config.MinSessionTimeoutMs || req.SessionTimeoutMillis > m.config.MaxSessionTimeoutMs:
		done(JoinError(codeInvalidSessionTimeout, req.MemberID))
		return
	}
	g := m.groups[req.Group]
	if g != nil && g.consumer != nil {
		if len(g.consumer.members) > 0 {
			m.joinConsumer(t, g, client, req, done)
			return
		}
		if req.MemberID != unknownMemberID {
			done(JoinError(codeUnknownMemberID, req.MemberID))
			return
		}
		// Nobody is left of the consumer group; its offsets stay.
		m.emitTombstones(t, g, g.consumerTombstones())
	}
	if g == nil {
		if req.MemberID != unknownMemberID {
			done(JoinError(codeUnknownMemberID, req.MemberID))
			return
		}
		g = m.groupOrNew(req.Group)
		defer m.dropIfVoid(t, g)
	}
	j := &joining{m: m, g: g, client: client, req: req, done: done}
	switch {
	case !g.accepts(req, m.config.MaxSize):
		m.forget(t, g, req.MemberID)
		done(JoinError(codeGroupMaxSizeReached, unknownMemberID))
	case !g.supports(req.ProtocolType, req.Protocols):
		done(JoinError(codeInconsistentProtocol, req.MemberID))
	case req.MemberID == unknownMemberID:
		j.unknown(t)
	default:
		j.known(t)
	}
}

// joining is one JoinGroup on its way.
type joining struct {
	m      *Machine
	g      *group
	client Client
	req    *kmsg.JoinGroupRequest
	done   func(*kmsg.JoinGroupResponse)
}

// accepts keeps the group within group.max.size; members and instances that are in already may always rejoin.
func (g *group) accepts(req *kmsg.JoinGroupRequest, maxSize int32) bool {
	mem := g.members[req.MemberID]
	if req.InstanceID != nil && g.static[*req.InstanceID] != "" {
		return true
	}
	switch g.state {
	case stateEmpty:
		return true
	case statePreparingRebalance:
		return mem != nil && mem.join != nil || int64(g.waiting) < int64(maxSize)
	default:
		return mem != nil || int64(len(g.members)) < int64(maxSize)
	}
}

// forget drops a member that a full group could not take back.
func (m *Machine) forget(t *coord.Turn, g *group, memberID string) {
	if mem := g.members[memberID]; mem != nil {
		m.removeMember(t, g, mem)
		m.membersLeft(t, g, "a member did not fit into group.max.size")
	}
	if p := g.pending[memberID]; p != nil {
		m.removePending(t, g, p)
	}
}

// unknown handles a client that has no member id.
func (j *joining) unknown(t *coord.Turn) {
	prefix := j.client.ID
	if j.req.InstanceID != nil {
		prefix = *j.req.InstanceID
	}
	id := prefix + "-" + j.m.config.NewMemberSuffix()
	switch {
	case j.req.InstanceID != nil && j.g.static[*j.req.InstanceID] != "":
		j.replaceStatic(t, j.g.members[j.g.static[*j.req.InstanceID]], id)
	case j.req.InstanceID == nil && j.req.Version >= joinRequiresMemberID:
		j.handOut(t, id)
	default:
		j.add(t, id)
	}
}

// handOut gives the client an id to join with, and remembers it for a session.
func (j *joining) handOut(t *coord.Turn, id string) {
	g, m := j.g, j.m
	if len(g.pending) >= limits.GroupPendingMembers {
		j.done(JoinError(codeGroupMaxSizeReached, unknownMemberID))
		return
	}
	p := &pendingMember{id: id}
	p.session.Fire = func(t *coord.Turn) { m.removePending(t, g, p) }
	g.pending[id] = p
	t.Schedule(&p.session, t.NowMs+int64(j.req.SessionTimeoutMillis))
	j.done(JoinError(codeMemberIDRequired, id))
}

// removePending gives an id up; the group may only have been waiting for it.
func (m *Machine) removePending(t *coord.Turn, g *group, p *pendingMember) {
	t.Cancel(&p.session)
	delete(g.pending, p.id)
	m.maybeCompleteJoin(t, g)
	m.dropIfVoid(t, g)
}

// known handles a client that says which member it is.
func (j *joining) known(t *coord.Turn) {
	g := j.g
	if p := g.pending[j.req.MemberID]; p != nil && j.req.InstanceID == nil {
		t.Cancel(&p.session)
		delete(g.pending, p.id)
		j.add(t, p.id)
		return
	}
	if code := g.validate(j.req.MemberID, j.req.InstanceID); code != 0 {
		j.done(JoinError(code, j.req.MemberID))
		return
	}
	mem := g.members[j.req.MemberID]
	same := mem.matches(j.req.Protocols)
	switch {
	case g.state == statePreparingRebalance:
		j.update(t, mem, "")
	case g.state == stateCompletingRebalance && same:
		// The answer to its first join was lost: it gets the same again.
		j.answerCurrent(t, mem)
	case g.state == stateStable && same && g.leader != mem.id:
		// A follower that has restarted its join; nothing has changed for the others.
		j.answerCurrent(t, mem)
	case g.state == stateStable && g.leader == mem.id && same:
		// The leader rejoins to have the group rebalanced (it saw new partitions).
		j.update(t, mem, "the leader rejoined")
	default:
		j.update(t, mem, "a member's protocols changed")
	}
}

func (j *joining) answerCurrent(t *coord.Turn, mem *member) {
	j.m.touch(t, mem)
	j.done(j.g.joinResponse(mem, j.g.state == stateCompletingRebalance && j.g.leader == mem.id))
}

// add makes a new member and starts or continues a rebalance.
func (j *joining) add(t *coord.Turn, id string) {
	g := j.g
	if len(g.members) == 0 {
		g.protocolType = j.req.ProtocolType
	}
	mem := j.m.newMember(g, id, j.req.InstanceID, j.client)
	mem.isNew = true
	j.adopt(mem)
	mem.join = j.done
	g.add(mem)
	if g.state == statePreparingRebalance {
		g.newMember = true
	}
	j.m.touch(t, mem)
	j.m.rebalanceOrContinue(t, g, "member "+id+" joined: "+j.reason())
}

// update takes over what a member says in a new join and parks it.
func (j *joining) update(t *coord.Turn, mem *member, why string) {
	j.g.countVotes(mem, -1)
	j.adopt(mem)
	j.g.countVotes(mem, 1)
	j.g.park(mem, j.done)
	j.m.rebalanceOrContinue(t, j.g, why+" ("+mem.id+"): "+j.reason())
}

// adopt copies the timeouts and protocols of the request into the member. The
// request's bytes go back to a pool, so they are cloned.
func (j *joining) adopt(mem *member) {
	mem.client = j.client
	mem.sessionTimeoutMs, mem.rebalanceTimeoutMs = j.req.SessionTimeoutMillis, j.req.RebalanceTimeoutMillis
	if mem.rebalanceTimeoutMs < 0 { // v0 has none
		mem.rebalanceTimeoutMs = j.req.SessionTimeoutMillis
	}
	mem.protocols = make([]protocol, 0, len(j.req.Protocols))
	for i := range j.req.Protocols {
		p := &j.req.Protocols[i]
		mem.protocols = append(mem.protocols, protocol{name: p.Name, metadata: bytes.Clone(p.Metadata)})
	}
}

func (j *joining) reason() string {
	if j.req.Version < joinCarriesAReason {
		return defaultReasonOfOldClient
	}
	return givenReason(j.req.Reason)
}

// givenReason is what a client says why it joins or leaves (KIP-800), as it is logged.
func givenReason(reason *string) string {
	switch {
	case reason == nil || *reason == "":
		return defaultReasonOfOldClient
	case len(*reason) > reasonLengthInLogs:
		return (*reason)[:reasonLengthInLogs]
	}
	return *reason
}

// newMember makes a member that is not in the group yet.
func (m *Machine) newMember(g *group, id string, instanceID *string, client Client) *member {
	mem := &member{id: id, client: client, assignment: []byte{}}
	if instanceID != nil {
		mem.instanceID, mem.isStatic = *instanceID, true
	}
	mem.session.Fire = func(t *coord.Turn) { m.sessionTimer(t, g, mem) }
	return mem
}

// joinResponse tells a member of the current generation; the leader also of the
// members whom it has to assign for.
func (g *group) joinResponse(mem *member, withMembers bool) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Generation, r.LeaderID, r.MemberID = g.generation, g.leader, mem.id
	r.ProtocolType, r.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	if withMembers {
		r.Members = g.memberList()
	}
	return r
}

func (g *group) memberList() []kmsg.JoinGroupResponseMember {
	list := make([]kmsg.JoinGroupResponseMember, 0, len(g.members))
	for _, mem := range g.ordered() {
		list = append(list, kmsg.JoinGroupResponseMember{
			MemberID: mem.id, InstanceID: mem.instance(), ProtocolMetadata: mem.metadata(g.protocol),
		})
	}
	return list
}
