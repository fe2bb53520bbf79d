package group

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members of the classic protocol in a consumer group: the coordinator plans for
// them too. JoinGroup is their heartbeat that says what they own, and its generation
// is their member epoch; SyncGroup fetches what they have.

// joinConsumer handles JoinGroup for a consumer group with members.
func (m *Machine) joinConsumer(t *coord.Turn, g *group, client Client, req *kmsg.JoinGroupRequest, done func(*kmsg.JoinGroupResponse)) {
	response, code := m.classicBeat(t, g, client, req)
	if g := m.groups[req.Group]; g != nil {
		m.dropIfVoid(t, g)
	}
	if code != 0 {
		memberID := "" // as in Kafka, which has no group to look it up in
		if response != nil {
			memberID = response.MemberID
		}
		done(JoinError(code, memberID))
		return
	}
	reply(t, done, response, func(code int16) *kmsg.JoinGroupResponse { return JoinError(code, req.MemberID) })
}

func (m *Machine) classicBeat(t *coord.Turn, g *group, client Client, req *kmsg.JoinGroupRequest) (*kmsg.JoinGroupResponse, int16) {
	c := g.consumer
	r := kmsg.NewPtrJoinGroupResponse()
	r.MemberID = req.MemberID
	if req.MemberID == unknownMemberID {
		r.MemberID = client.ID + "-" + m.config.NewMemberSuffix()
	}
	switch {
	case strings.EqualFold(m.config.ConsumerMigrationPolicy, migrateNever):
		return nil, codeInconsistentProtocol
	case g.full(m.config.ConsumerMaxSize, req.MemberID, req.InstanceID):
		return nil, codeGroupMaxSizeReached
	case !c.supports(req):
		return nil, codeInconsistentProtocol
	case req.MemberID == unknownMemberID && req.InstanceID == nil && req.Version >= joinRequiresMemberID:
		return r, codeMemberIDRequired
	}
	mem, code := c.joining(req)
	if code != 0 {
		return nil, code
	}
	said, ok := consumerlog.ClassicMember(req.Protocols[0].Metadata)
	if !ok {
		return nil, codeInconsistentProtocol
	}
	owned, _ := classicOwned(req.Protocols[0].Metadata, m.image())
	last := mem != nil && req.InstanceID != nil && !mem.isClassic() && c.classic() == len(c.members)-1 &&
		m.migrates(migrateDown) && int64(len(c.members)) <= int64(m.config.MaxSize)
	if mem != nil && mem.id != r.MemberID {
		if err := m.replaceConsumer(t, g, mem, r.MemberID); err != nil {
			return nil, err.code
		}
		mem = c.members[r.MemberID]
	}
	if mem != nil { // what a consumer said and this one does not say stays, but for its expression
		said.Assignor, said.RackID = mem.said.Assignor, cmp.Or(said.RackID, mem.said.RackID)
	}
	said.InstanceID, said.ClientID, said.ClientHost = req.InstanceID, client.ID, client.Host
	said.RebalanceTimeoutMs = req.RebalanceTimeoutMillis
	if said.RebalanceTimeoutMs < 0 {
		said.RebalanceTimeoutMs = req.SessionTimeoutMillis
	}
	said.Classic = &consumerlog.Classic{SessionTimeoutMs: req.SessionTimeoutMillis}
	for i := range req.Protocols {
		said.Classic.Protocols = append(said.Classic.Protocols, consumerlog.Protocol{Name: req.Protocols[i].Name, Metadata: bytes.Clone(req.Protocols[i].Metadata)})
	}
	changed, err := m.recordSaid(t, g, mem, r.MemberID, said)
	if err != nil {
		return nil, err.code
	}
	mem = g.consumer.members[r.MemberID]
	if last {
		r.Generation, err = m.replaceLast(t, g, mem, changed, owned)
	} else if err = m.advance(t, g, mem, changed, owned, nil); err == nil {
		r.Generation = mem.epoch
		t.Cancel(&mem.revocation)
		m.touchConsumer(t, g, mem)
		t.Schedule(&mem.sync, t.NowMs+int64(mem.said.RebalanceTimeoutMs))
	}
	if err != nil {
		return nil, err.code
	}
	r.ProtocolType, r.Protocol = kmsg.StringPtr(consumerProtocolType), kmsg.StringPtr(said.Classic.Protocols[0].Name)
	return r, 0
}

// replaceLast makes the group a classic one after a member of it has taken the place
// of the last one of the consumer protocol. Nobody moves when the plan is the newest
// and all have entered it; else they rebalance. The generation is the member's.
func (m *Machine) replaceLast(t *coord.Turn, g *group, mem *consumerMember, changed bool, owned []ownedTopic) (int32, *refusal) {
	c, image := g.consumer, m.image()
	if changed || c.epoch > c.assignmentEpoch || c.subscriptionHash(image, nil) != c.metadataHash {
		return mem.epoch, m.downgrade(t, g, nil, "the last member of the consumer protocol was replaced before the group had a plan")
	}
	if err := m.reconcile(t, g, mem, image, owned); err != nil {
		return -1, err
	}
	reason, generation := "", mem.epoch
	if c.state() != consumerStable {
		reason = "the last member of the consumer protocol was replaced before all had what the plan gives them"
	}
	return generation, m.downgrade(t, g, nil, reason)
}

// joining finds who joins, or whose place is taken by who has no member id; nil: nobody.
func (c *consumerGroup) joining(req *kmsg.JoinGroupRequest) (*consumerMember, int16) {
	if req.InstanceID == nil {
		return c.members[req.MemberID], 0
	}
	holder := c.members[c.static[*req.InstanceID]]
	switch {
	case req.MemberID == unknownMemberID:
	case holder == nil:
		return nil, codeUnknownMemberID
	case holder.id != req.MemberID:
		return nil, codeFencedInstanceID
	}
	return holder, 0
}

// supports: the client is a consumer and has an assignor in common with the group's
// other classic members.
func (c *consumerGroup) supports(req *kmsg.JoinGroupRequest) bool {
	if req.ProtocolType != consumerProtocolType || len(req.Protocols) == 0 {
		return false
	}
	classic, votes := 0, map[string]int{}
	for _, mem := range c.members {
		if mem.isClassic() {
			classic++
			for _, p := range mem.said.Classic.Protocols {
				votes[p.Name]++
			}
		}
	}
	return slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return votes[p.Name] == classic })
}

// classicOwned reads what a subscription says that the member has; never nil.
func classicOwned(metadata []byte, image *meta.Image) (owned []ownedTopic, ok bool) {
	owned = []ownedTopic{}
	var v kmsg.ConsumerMemberMetadata
	if err := v.ReadFrom(metadata); err != nil {
		return owned, false
	}
	for _, o := range v.OwnedPartitions {
		if topic := image.Topic(o.Topic); topic != nil {
			owned = append(owned, ownedTopic{assignor.TopicID(topic.ID), o.Partitions})
		}
	}
	return owned, true
}

// validateConsumer checks who asks by the classic protocol.
func (c *consumerGroup) validateConsumer(memberID string, instanceID *string, generation int32) (*consumerMember, int16) {
	mem := c.members[memberID]
	if instanceID != nil {
		holder := c.members[c.static[*instanceID]]
		if holder != nil && holder.id != memberID {
			return nil, codeFencedInstanceID
		}
		mem = holder
	}
	switch {
	case mem == nil, !mem.isClassic():
		return nil, codeUnknownMemberID
	case generation != mem.epoch:
		return nil, codeIllegalGeneration
	}
	return mem, 0
}

// heartbeatConsumer tells a classic member to rejoin when there is a newer plan, when it
// has to give something up, or when what it waits for is free.
func (m *Machine) heartbeatConsumer(t *coord.Turn, g *group, req *kmsg.HeartbeatRequest) int16 {
	c := g.consumer
	mem, code := c.validateConsumer(req.MemberID, req.InstanceID, req.Generation)
	if code != 0 {
		return code
	}
	m.touchConsumer(t, g, mem)
	if c.behind(mem) || mem.state == memberUnrevoked || mem.state == memberUnreleased && !c.waits(mem) {
		m.expectJoin(t, mem)
		return codeRebalanceInProgress
	}
	return 0
}

// behind: there is a newer plan than the member's, or nobody speaks the consumer
// protocol, whose heartbeats make plans.
func (c *consumerGroup) behind(mem *consumerMember) bool {
	return mem.epoch < c.assignmentEpoch || mem.epoch < c.epoch && c.classic() == len(c.members)
}

// waits: something of the member's target still belongs to another.
func (c *consumerGroup) waits(mem *consumerMember) bool {
	for topic, partitions := range c.targets[mem.id] {
		for _, p := range partitions {
			if c.ownedByAnother(topic, p, mem.id) {
				return true
			}
		}
	}
	return false
}

// expectJoin gives a classic member that was told to rejoin its rebalance timeout.
func (m *Machine) expectJoin(t *coord.Turn, mem *consumerMember) {
	if !mem.revocation.Active() {
		t.Schedule(&mem.revocation, t.NowMs+int64(mem.said.RebalanceTimeoutMs))
	}
}

// syncConsumer answers a classic member with what it has.
func (m *Machine) syncConsumer(t *coord.Turn, g *group, req *kmsg.SyncGroupRequest, done func(*kmsg.SyncGroupResponse)) {
	c := g.consumer
	mem, code := c.validateConsumer(req.MemberID, req.InstanceID, req.Generation)
	if code == 0 {
		name := mem.said.Classic.Protocols[0].Name
		switch {
		case req.ProtocolType != nil && *req.ProtocolType != consumerProtocolType, req.Protocol != nil && *req.Protocol != name:
			code = codeInconsistentProtocol
		case c.behind(mem) && mem.state != memberUnrevoked:
			m.expectJoin(t, mem)
			code = codeRebalanceInProgress
		}
	}
	if code != 0 {
		done(SyncError(code))
		return
	}
	t.Cancel(&mem.sync)
	m.touchConsumer(t, g, mem)
	r := kmsg.NewPtrSyncGroupResponse()
	r.ProtocolType, r.Protocol, r.MemberAssignment = req.ProtocolType, req.Protocol, consumerAssignment(mem, m.image())
	reply(t, done, r, SyncError)
}

// leaveConsumer takes members out of a consumer group by LeaveGroup: those of the
// classic protocol, and whom an administrator names.
func (m *Machine) leaveConsumer(t *coord.Turn, g *group, members []kmsg.LeaveGroupRequestMember, r *kmsg.LeaveGroupResponse) {
	c := g.consumer
	var out []*consumerMember
	for i := range members {
		one := &members[i]
		mem := c.members[one.MemberID]
		var code int16
		if one.InstanceID != nil {
			holder := c.members[c.static[*one.InstanceID]]
			if holder != nil && one.MemberID != unknownMemberID && holder.id != one.MemberID {
				code = codeFencedInstanceID
			}
			mem = holder
		}
		if code == 0 && mem == nil {
			code = codeUnknownMemberID
		}
		if code == 0 && !slices.Contains(out, mem) { // who is named twice leaves twice, as in Kafka
			m.logger.Info("member leaves a consumer group", "group", g.id, "member", mem.id, "instance", mem.instanceID(), "reason", givenReason(one.Reason))
			out = append(out, mem)
		}
		r.Members = append(r.Members, kmsg.LeaveGroupResponseMember{MemberID: one.MemberID, InstanceID: one.InstanceID, ErrorCode: code})
	}
	if len(out) == 0 {
		return
	}
	if err := m.fence(t, g, out...); err != nil {
		for i := range r.Members {
			if r.Members[i].ErrorCode == 0 {
				r.Members[i].ErrorCode = err.code
			}
		}
	}
}
