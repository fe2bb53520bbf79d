package group

import (
	"bytes"
	"slices"

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
	case g.full(m.config.ConsumerMaxSize, req.MemberID, req.InstanceID):
		return nil, codeGroupMaxSizeReached
	case !c.supports(req):
		return nil, codeInconsistentProtocol
	case req.MemberID == unknownMemberID && req.InstanceID == nil && req.Version >= joinRequiresMemberID:
		return r, codeMemberIDRequired
	}
	said, ok := consumerlog.ClassicMember(req.Protocols[0].Metadata)
	if !ok {
		return nil, codeInconsistentProtocol
	}
	owned, _ := classicOwned(req.Protocols[0].Metadata, m.image())
	mem, replaced, code := m.classicMember(t, g, r.MemberID, req)
	if code != 0 {
		return nil, code
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
	if err == nil {
		mem = g.consumer.members[r.MemberID]
		err = m.advance(t, g, mem, changed, owned, nil)
	}
	if err != nil {
		return nil, err.code
	}
	r.Generation = mem.epoch
	r.ProtocolType, r.Protocol = kmsg.StringPtr(consumerProtocolType), kmsg.StringPtr(said.Classic.Protocols[0].Name)
	return r, m.classicJoined(t, g, mem, replaced)
}

// classicJoined arms what follows a classic member's join; one that has taken the
// place of the last member of the consumer protocol makes the group a classic one.
func (m *Machine) classicJoined(t *coord.Turn, g *group, mem *consumerMember, replaced bool) int16 {
	t.Cancel(&mem.revocation)
	if c := g.consumer; replaced && c.allClassic() && m.migrates(migrateDown) && int64(len(c.members)) <= int64(m.config.MaxSize) {
		if err := m.downgrade(t, g, nil); err != nil {
			return err.code
		}
		return 0
	}
	m.touchConsumer(t, g, mem)
	t.Schedule(&mem.sync, t.NowMs+int64(mem.said.RebalanceTimeoutMs))
	return 0
}

// classicMember finds who joins; nil: it is new. replaced: it took the place of
// another member id.
func (m *Machine) classicMember(t *coord.Turn, g *group, memberID string, req *kmsg.JoinGroupRequest) (mem *consumerMember, replaced bool, code int16) {
	c := g.consumer
	if req.InstanceID == nil {
		return c.members[memberID], false, 0
	}
	holder := c.members[c.static[*req.InstanceID]]
	switch {
	case holder == nil && req.MemberID != unknownMemberID:
		return nil, false, codeUnknownMemberID
	case holder == nil:
		return nil, false, 0
	case req.MemberID == unknownMemberID:
		if err := m.replaceConsumer(t, g, holder, memberID); err != nil {
			return nil, false, err.code
		}
		return g.consumer.members[memberID], true, 0
	case holder.id != memberID:
		return nil, false, codeFencedInstanceID
	}
	return holder, false, 0
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

// heartbeatConsumer tells a classic member to rejoin when its epoch is old, when it
// has to give something up, or when what it waits for is free.
func (m *Machine) heartbeatConsumer(t *coord.Turn, g *group, req *kmsg.HeartbeatRequest) int16 {
	c := g.consumer
	mem, code := c.validateConsumer(req.MemberID, req.InstanceID, req.Generation)
	if code != 0 {
		return code
	}
	m.touchConsumer(t, g, mem)
	if mem.epoch < c.epoch || mem.state == memberUnrevoked || mem.state == memberUnreleased && !c.waits(mem) {
		m.expectJoin(t, mem)
		return codeRebalanceInProgress
	}
	return 0
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
		case c.epoch > mem.epoch && mem.state != memberUnrevoked:
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
		if code == 0 && (mem == nil || slices.Contains(out, mem)) {
			code = codeUnknownMemberID
		}
		if code == 0 {
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
