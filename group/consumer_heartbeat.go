package group

import (
	"slices"
	"strings"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"
	"kaas/group/topicregex"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerOwnMemberID: from v1 on members make their ids themselves (KIP-1082).
const consumerOwnMemberID = 1

// ConsumerHeartbeat handles a heartbeat of the consumer protocol: join, leave and
// everything between. allowed filters the topics that a regular expression may
// match; it is called before ConsumerHeartbeat returns.
func (m *Machine) ConsumerHeartbeat(t *coord.Turn, client Client, req *kmsg.ConsumerGroupHeartbeatRequest, allowed TopicFilter, done func(*kmsg.ConsumerGroupHeartbeatResponse)) {
	err := m.checkConsumerHeartbeat(req)
	var response *kmsg.ConsumerGroupHeartbeatResponse
	switch {
	case err != nil:
	case req.MemberEpoch < epochJoin:
		response, err = m.consumerLeave(t, req)
	default:
		response, err = m.consumerBeat(t, client, req, allowed)
	}
	if g := m.groups[req.Group]; g != nil {
		m.dropIfVoid(t, g)
	}
	if err != nil {
		done(ConsumerHeartbeatError(err.code, err.message))
		return
	}
	reply(t, done, response, func(code int16) *kmsg.ConsumerGroupHeartbeatResponse { return ConsumerHeartbeatError(code, "") })
}

// checkConsumerHeartbeat looks at the request alone.
func (m *Machine) checkConsumerHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) *refusal {
	blank := func(s *string) bool { return s != nil && strings.TrimSpace(*s) == "" }
	joins := req.MemberEpoch == epochJoin
	switch {
	case (req.Version >= consumerOwnMemberID || !joins && req.MemberEpoch != epochStaticLeave) && blank(&req.MemberID):
		return refuse(codeInvalidRequest, "a member id is missing")
	case blank(&req.Group):
		return refuse(codeInvalidRequest, "a group id is missing")
	case blank(req.InstanceID):
		return refuse(codeInvalidRequest, "the instance id is empty")
	case blank(req.RackID):
		return refuse(codeInvalidRequest, "the rack id is empty")
	case joins && req.RebalanceTimeoutMillis == -1:
		return refuse(codeInvalidRequest, "a member that joins must name its rebalance timeout")
	case joins && (req.Topics == nil || len(req.Topics) > 0):
		return refuse(codeInvalidRequest, "a member that joins owns no partitions and must say so")
	case joins && req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return refuse(codeInvalidRequest, "a member that joins must subscribe by names or by a regular expression")
	case req.MemberEpoch == epochStaticLeave && req.InstanceID == nil:
		return refuse(codeInvalidRequest, "only a member with an instance id can leave for a while")
	case req.MemberEpoch < epochStaticLeave:
		return refuse(codeInvalidRequest, "the member epoch is below -2")
	case req.ServerAssignor != nil && !slices.Contains(m.config.ConsumerAssignors, *req.ServerAssignor):
		return refuse(codeUnsupportedAssignor, "the broker has no assignor "+*req.ServerAssignor+"; it has "+strings.Join(m.config.ConsumerAssignors, ", "))
	}
	return nil
}

// checkRegex compiles an expression that is new to the group.
func checkRegex(g *group, req *kmsg.ConsumerGroupHeartbeatRequest) *refusal {
	if req.SubscribedTopicRegex == nil || *req.SubscribedTopicRegex == "" || g.knowsRegex(*req.SubscribedTopicRegex) {
		return nil
	}
	if _, err := topicregex.Compile(*req.SubscribedTopicRegex); err != nil {
		return refuse(codeInvalidRegularExpression, "the regular expression is not one of RE2: "+err.Error())
	}
	return nil
}

// consumerBeat is a heartbeat of a member that joins or is in.
func (m *Machine) consumerBeat(t *coord.Turn, client Client, req *kmsg.ConsumerGroupHeartbeatRequest, allowed TopicFilter) (*kmsg.ConsumerGroupHeartbeatResponse, *refusal) {
	owned := ownedTopics(req.Topics)
	g, err := m.groupForConsumer(t, req)
	if err != nil {
		return nil, err
	}
	memberID := req.MemberID
	if memberID == "" {
		memberID = m.config.NewMemberSuffix()
	}
	mem, err := m.beatingMember(t, g, memberID, req, owned)
	if err != nil {
		return nil, err
	}
	if err := checkRegex(g, req); err != nil {
		return nil, err
	}
	said := mem.saidNext(client, req)
	var assignedBefore ownedPartitions
	if mem != nil {
		assignedBefore = mem.assigned
	}
	changed, err := m.recordSaid(t, g, mem, memberID, said)
	if err != nil {
		return nil, err
	}
	mem = g.consumer.members[memberID]
	m.touchConsumer(t, g, mem)
	if err := m.advance(t, g, mem, changed, owned, allowed); err != nil {
		return nil, err
	}
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	r.MemberID, r.MemberEpoch, r.HeartbeatIntervalMillis = &mem.id, mem.epoch, m.config.heartbeatIntervalMs(g.id)
	whole := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch == epochJoin || whole || !samePartitions(assignedBefore, mem.assigned) {
		r.Assignment = heartbeatAssignment(mem.assigned)
	}
	return r, nil
}

func heartbeatAssignment(o ownedPartitions) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	a := &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
	plain := o.plain()
	for _, topic := range plain.Sorted() {
		a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: topic, Partitions: plain[topic]})
	}
	return a
}

// groupForConsumer finds the group for a member that speaks the consumer protocol.
// Who joins makes one, or turns a classic group into one.
func (m *Machine) groupForConsumer(t *coord.Turn, req *kmsg.ConsumerGroupHeartbeatRequest) (*group, *refusal) {
	id, joins := req.Group, req.MemberEpoch == epochJoin
	g := m.groups[id]
	switch {
	case g == nil && !joins:
		return nil, refuse(codeGroupIDNotFound, "group "+id+" does not exist")
	case g != nil && g.consumer == nil && !joins:
		return nil, refuse(codeGroupIDNotFound, "group "+id+" is no consumer group")
	case g != nil && g.full(m.config.ConsumerMaxSize, req.MemberID, req.InstanceID):
		return nil, refuse(codeGroupMaxSizeReached, "the group has as many members as group.consumer.max.size allows")
	case g != nil && g.consumer != nil:
		return g, nil
	}
	var records []coord.Record
	convert := g != nil && g.state != stateEmpty
	if convert {
		var err *refusal
		if records, err = m.upgradeRecords(g); err != nil {
			return nil, err
		}
	}
	if err := checkRegex(g, req); err != nil { // nothing is refused once the group is another one
		return nil, err
	}
	switch {
	case convert:
		return g, m.upgrade(t, g, records)
	case g == nil:
		return m.groupOrNew(id), nil
	default: // ids that nobody has come back with are forgotten with it, as in Kafka
		return g, m.leaveClassic(t, g)
	}
}

// full: the group takes no further member of the consumer protocol. Who is in already,
// and who comes to take the place of a static member, does not make it larger.
func (g *group) full(maxSize int32, memberID string, instanceID *string) bool {
	members, in := len(g.members), g.members[memberID] != nil || instanceID != nil && g.static[*instanceID] != ""
	if c := g.consumer; c != nil {
		members, in = len(c.members), c.members[memberID] != nil || instanceID != nil && c.static[*instanceID] != ""
	}
	return int64(members) >= int64(maxSize) && !in
}

// beatingMember finds who beats and checks its epoch; nil: it is new.
func (m *Machine) beatingMember(t *coord.Turn, g *group, memberID string, req *kmsg.ConsumerGroupHeartbeatRequest, owned []ownedTopic) (*consumerMember, *refusal) {
	joins := req.MemberEpoch == epochJoin
	c := g.consumer
	if c == nil {
		return nil, nil
	}
	mem := c.members[memberID]
	if req.InstanceID != nil {
		holder := c.members[c.static[*req.InstanceID]]
		switch {
		case holder == nil && !joins:
			return nil, refuse(codeUnknownMemberID, "instance "+*req.InstanceID+" is not in the group")
		case holder == nil:
			// A member that is in already, and says its instance id only now.
		case holder.id == memberID && !joins:
			mem = holder
		case !joins:
			return nil, refuse(codeFencedInstanceID, "instance "+*req.InstanceID+" belongs to member "+holder.id)
		case holder.epoch != epochStaticLeave && !holder.isClassic():
			return nil, refuse(codeUnreleasedInstanceID, "instance "+*req.InstanceID+" is still in use by member "+holder.id)
		default:
			if err := checkRegex(g, req); err != nil {
				return nil, err
			}
			if err := m.replaceConsumer(t, g, holder, memberID); err != nil {
				return nil, err
			}
			return g.consumer.members[memberID], nil
		}
	}
	if mem == nil {
		if !joins {
			return nil, refuse(codeUnknownMemberID, "member "+memberID+" is not in the group")
		}
		return nil, nil
	}
	return mem, checkMemberEpoch(mem, req.MemberEpoch, owned)
}

// checkMemberEpoch: a member is in its epoch, or in the one before when the answer
// that told it of the new one got lost and it has nothing that it should not have.
func checkMemberEpoch(mem *consumerMember, epoch int32, owned []ownedTopic) *refusal {
	if epoch == mem.epoch || epoch == epochJoin {
		return nil // who joins says that it owns nothing
	}
	if epoch < mem.epoch && epoch == mem.previousEpoch && owned != nil {
		within := true
		for i := range owned {
			for _, p := range owned[i].partitions {
				if _, ok := mem.assigned[owned[i].id][p]; !ok {
					within = false
				}
			}
		}
		if within {
			return nil
		}
	}
	return refuse(codeFencedMemberEpoch, "the member epoch is not the one that the coordinator knows; the member must give up its partitions and join again")
}

// replaceConsumer gives an instance id, with what its owner had, to a new member id.
// It starts at epoch 0, so the plan's epoch is new to it.
func (m *Machine) replaceConsumer(t *coord.Turn, g *group, old *consumerMember, id string) *refusal {
	m.logger.Info("static consumer replaced", "group", g.id, "instance", old.instanceID(), "old", old.id, "new", id)
	said, at, target := old.said, old.current(), g.consumer.targets[old.id]
	at.epoch, at.previousEpoch = 0, 0
	m.cancelConsumer(t, old)
	var records []coord.Record
	if old.id != id {
		records = memberTombstones(g.id, old.id)
	}
	return m.emitConsumer(t, g, append(records,
		consumerMemberRecord(g.id, id, &said), consumerTargetRecord(g.id, id, target), consumerCurrentRecord(g.id, id, &at))...)
}

// saidNext is what the coordinator knows of the member after this heartbeat: what is
// null in it has not changed. mem is nil for a new one.
func (mem *consumerMember) saidNext(client Client, req *kmsg.ConsumerGroupHeartbeatRequest) *consumerlog.Member {
	said := consumerlog.Member{RebalanceTimeoutMs: -1, Regex: new(string)}
	if mem != nil {
		said = mem.said
	}
	said.ClientID, said.ClientHost, said.Classic = client.ID, client.Host, nil
	if req.InstanceID != nil {
		said.InstanceID = clone(req.InstanceID)
	}
	if req.RackID != nil {
		said.RackID = clone(req.RackID)
	}
	if req.RebalanceTimeoutMillis != -1 {
		said.RebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	if req.ServerAssignor != nil {
		said.Assignor = clone(req.ServerAssignor)
	}
	if req.SubscribedTopicNames != nil {
		said.Topics = consumerlog.SortedSet(req.SubscribedTopicNames)
	}
	if req.SubscribedTopicRegex != nil {
		said.Regex = clone(req.SubscribedTopicRegex)
	}
	return &said
}

func clone(s *string) *string { return kmsg.StringPtr(strings.Clone(*s)) }

// recordSaid records what is new about the member, or the member; changed says
// whether it subscribes to something else now, or its vote gives the group another
// assignor, which asks for a new plan.
func (m *Machine) recordSaid(t *coord.Turn, g *group, mem *consumerMember, id string, said *consumerlog.Member) (changed bool, err *refusal) {
	if mem != nil && mem.said.Equal(said) {
		return false, nil
	}
	before := consumerlog.Member{Regex: new(string)} // a new one that subscribes to nothing changes nothing
	if mem != nil {
		before = mem.said
	}
	changed = !slices.Equal(before.Topics, said.Topics) || orEmpty(before.Regex) != orEmpty(said.Regex)
	if mem == nil {
		m.logger.Info("member joins a consumer group", "group", g.id, "member", id, "classic", said.Classic != nil)
	}
	votes, assignor := orEmpty(before.Assignor) != orEmpty(said.Assignor), ""
	if votes {
		assignor = m.assignorName(g.consumer)
	}
	if err := m.emitConsumer(t, g, consumerMemberRecord(g.id, id, said)); err != nil {
		return false, err
	}
	return changed || votes && assignor != m.assignorName(g.consumer), nil
}

// touchConsumer gives a member another session.
func (m *Machine) touchConsumer(t *coord.Turn, g *group, mem *consumerMember) {
	timeoutMs := m.config.sessionTimeoutMs(g.id)
	if mem.isClassic() {
		timeoutMs = mem.said.Classic.SessionTimeoutMs
	}
	mem.deadlineMs = t.NowMs + int64(timeoutMs)
	if !mem.session.Active() || mem.armedMs > mem.deadlineMs {
		mem.armedMs = mem.deadlineMs
		t.Schedule(&mem.session, mem.armedMs)
	}
}

func (m *Machine) consumerSessionTimer(t *coord.Turn, g *group, mem *consumerMember) {
	if t.NowMs < mem.deadlineMs && g.consumer != nil && g.consumer.members[mem.id] == mem {
		mem.armedMs = mem.deadlineMs
		t.Schedule(&mem.session, mem.armedMs)
		return
	}
	m.fenceLate(t, g, mem, "its session ended")
}

func (m *Machine) cancelConsumer(t *coord.Turn, mem *consumerMember) {
	t.Cancel(&mem.session)
	t.Cancel(&mem.revocation)
	t.Cancel(&mem.sync)
}

// fenceLate takes a member out that has missed a deadline.
func (m *Machine) fenceLate(t *coord.Turn, g *group, mem *consumerMember, reason string) {
	if g.consumer == nil || g.consumer.members[mem.id] != mem {
		return // it has left since
	}
	m.counts.MembersDropped.Add(1)
	m.logger.Info("consumer is taken out of its group", "group", g.id, "member", mem.id, "reason", reason)
	if err := m.fence(t, g, mem); err != nil {
		// It did not fit into a batch, which nobody can help here; it is tried again.
		mem.armedMs = t.NowMs + int64(m.config.sessionTimeoutMs(g.id))
		mem.deadlineMs = mem.armedMs
		t.Schedule(&mem.session, mem.armedMs)
	}
	m.dropIfVoid(t, g)
}

// fence takes members out, which gives the group a new epoch, or, when those who are
// left all speak the classic protocol, makes it a classic group.
func (m *Machine) fence(t *coord.Turn, g *group, out ...*consumerMember) *refusal {
	c := g.consumer
	if m.mayDowngrade(g, out) {
		return m.downgrade(t, g, out, "the group's last member of the consumer protocol has gone")
	}
	var records []coord.Record
	for _, mem := range out {
		records = append(records, memberTombstones(g.id, mem.id)...)
	}
	records = append(records, consumerEpochRecord(g.id, c.epoch+1, c.subscriptionHash(m.image(), out)))
	if len(out) == len(c.members) {
		records = append(records, consumerPlanRecord(g.id, c.epoch+1, t.WallMs)) // there is nobody to plan for
	}
	if err := m.emitConsumer(t, g, records...); err != nil {
		return err
	}
	for _, mem := range out {
		m.cancelConsumer(t, mem)
	}
	c.seen.image = nil // the expressions' topics may be others now
	m.refreshRegexes(t, g, m.image(), true, nil)
	return nil
}

// consumerLeave handles the epochs -1 and -2.
func (m *Machine) consumerLeave(t *coord.Turn, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, *refusal) {
	g := m.groups[req.Group]
	if g == nil || g.consumer == nil {
		return nil, refuse(codeGroupIDNotFound, "group "+req.Group+" is no consumer group")
	}
	c := g.consumer
	mem := c.members[req.MemberID]
	if req.InstanceID != nil {
		holder := c.members[c.static[*req.InstanceID]]
		if holder != nil && holder.id != req.MemberID {
			return nil, refuse(codeFencedInstanceID, "instance "+*req.InstanceID+" belongs to member "+holder.id)
		}
		mem = holder
	}
	if mem == nil {
		return nil, refuse(codeUnknownMemberID, "member "+req.MemberID+" is not in the group")
	}
	m.logger.Info("consumer leaves", "group", g.id, "member", mem.id, "instance", mem.instanceID(), "epoch", req.MemberEpoch)
	var err *refusal
	if req.MemberEpoch == epochStaticLeave {
		// It keeps its partitions until its session ends, for the one who takes its place.
		away := mem.current()
		away.epoch, away.revoking = epochStaticLeave, nil
		err = m.emitConsumer(t, g, consumerCurrentRecord(g.id, mem.id, &away))
		t.Cancel(&mem.revocation)
	} else {
		err = m.fence(t, g, mem)
	}
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	r.MemberID, r.MemberEpoch = &req.MemberID, req.MemberEpoch
	return r, err
}

// consumerCommit says whether a member of a consumer group may commit
// (ConsumerGroup.validateOffsetCommit). A member that was given a new epoch and does
// not know it yet may commit what it has had since the epoch that it names (KIP-1251).
func (c *consumerGroup) consumerCommit(memberID string, epoch int32, mayBeOld bool, owns func(func(topic assignor.TopicID, partition int32) bool) bool) int16 {
	if epoch < 0 && len(c.members) == 0 {
		return 0
	}
	mem := c.members[memberID]
	switch {
	case mem == nil:
		return codeUnknownMemberID
	case !mem.isClassic() && !mayBeOld:
		return codeUnsupportedVersion
	case epoch == mem.epoch:
		return 0
	}
	stale := codeStaleMemberEpoch
	if mem.isClassic() {
		stale = codeIllegalGeneration
	}
	had := func(topic assignor.TopicID, partition int32) bool {
		since, ok := mem.assigned[topic][partition]
		if !ok {
			since, ok = mem.revoking[topic][partition]
		}
		return ok && epoch >= since
	}
	if epoch < mem.epoch && owns(had) {
		return 0
	}
	return stale
}
