package group

import (
	"slices"
	"strings"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"
	"kaas/meta"
)

// Values of group.consumer.migration.policy.
const (
	migrateBoth = "bidirectional"
	migrateUp   = "upgrade"
	migrateDown = "downgrade"
	// migrateNever also keeps members of the classic protocol out of consumer groups.
	migrateNever = "disabled"
)

func (m *Machine) migrates(direction string) bool {
	policy := strings.ToLower(m.config.ConsumerMigrationPolicy)
	return policy == migrateBoth || policy == direction
}

// leaveClassic makes an empty classic group one of no type; its offsets stay.
func (m *Machine) leaveClassic(t *coord.Turn, g *group) *refusal {
	if g.recorded {
		if err := m.emitConsumer(t, g, groupTombstone(g.id)); err != nil {
			return err
		}
	}
	g.resetClassic(t)
	return nil
}

// resetClassic forgets the volatile half of a classic group whose members are
// answered and whose record is gone.
func (g *group) resetClassic(t *coord.Turn) {
	t.Cancel(&g.rebalance)
	t.Cancel(&g.syncExpiry)
	for _, mem := range g.members {
		t.Cancel(&mem.session)
	}
	for _, p := range g.pending {
		t.Cancel(&p.session)
	}
	fresh := newGroup(g.id)
	g.state, g.previousState, g.stateSinceMs = fresh.state, fresh.previousState, fresh.stateSinceMs
	g.protocolType, g.protocol, g.generation, g.leader = "", "", 0, ""
	g.members, g.static, g.pending, g.votes, g.subscribed = fresh.members, fresh.static, fresh.pending, fresh.votes, nil
	g.waiting, g.initialLeftMs, g.newMember = 0, fresh.initialLeftMs, false
}

// upgrade turns a classic group with members into a consumer group, while they go on
// with the classic protocol (ConsumerGroup.fromClassicGroup). Its generation becomes
// the epoch and what the members have becomes the plan, so nothing moves yet.
func (m *Machine) upgrade(t *coord.Turn, g *group, records []coord.Record) *refusal {
	if err := m.emitConsumer(t, g, records...); err != nil {
		return err
	}
	m.logger.Info("classic group becomes a consumer group", "group", g.id, "epoch", g.generation, "members", len(g.members))
	for _, mem := range g.ordered() {
		g.unpark(mem, JoinError(codeRebalanceInProgress, mem.id))
		mem.answerSync(SyncError(codeRebalanceInProgress))
	}
	g.resetClassic(t)
	for _, mem := range g.consumer.ordered() {
		m.touchConsumer(t, g, mem)
	}
	return nil
}

// upgradeRecords are those of the consumer group that a classic group becomes.
func (m *Machine) upgradeRecords(g *group) ([]coord.Record, *refusal) {
	if !m.migrates(migrateUp) || g.protocolType != consumerProtocolType {
		return nil, refuse(codeGroupIDNotFound, "group "+g.id+" is a classic group and cannot become a consumer group")
	}
	unreadable := refuse(codeGroupIDNotFound, "group "+g.id+" is a classic group whose subscriptions or assignments cannot be read")
	image := m.image()
	records := []coord.Record{groupTombstone(g.id)}
	taken := map[assignor.TopicID]map[int32]bool{}
	var later []coord.Record
	subscribed := newConsumerGroup()
	for _, mem := range g.ordered() {
		said, ok := consumerlog.ClassicMember(mem.metadata(g.protocolOf(mem)))
		if !ok {
			return nil, unreadable
		}
		said.InstanceID, said.ClientID, said.ClientHost, said.RebalanceTimeoutMs = mem.instance(), mem.client.ID, mem.client.Host, mem.rebalanceTimeoutMs
		said.Classic = &consumerlog.Classic{SessionTimeoutMs: mem.sessionTimeoutMs}
		for _, p := range mem.protocols {
			said.Classic.Protocols = append(said.Classic.Protocols, consumerlog.Protocol{Name: p.name, Metadata: p.metadata})
		}
		assigned, ok := classicAssignment(mem.assignment, image, taken, g.generation)
		if !ok {
			return nil, unreadable
		}
		subscribed.count(said.Topics, 1)
		at := current{epoch: g.generation, previousEpoch: g.generation, state: memberStable, assigned: assigned}
		records = append(records, consumerMemberRecord(g.id, mem.id, said))
		later = append(later, consumerTargetRecord(g.id, mem.id, assigned.plain()), consumerCurrentRecord(g.id, mem.id, &at))
	}
	var hash int64 // that of no plan, unless the leader has made one
	if g.state == stateStable {
		hash = subscribed.subscriptionHash(image, nil)
	}
	records = append(records, consumerEpochRecord(g.id, g.generation, hash))
	records = append(records, later...)
	return append(records, consumerPlanRecord(g.id, g.generation, 0)), nil
}

// protocolOf is whose metadata says what the member subscribes to; before the first
// rebalance of a group has ended, the member's first.
func (g *group) protocolOf(mem *member) string {
	if g.protocol != "" || len(mem.protocols) == 0 {
		return g.protocol
	}
	return mem.protocols[0].name
}

// classicAssignment reads a ConsumerProtocolAssignment. Topics that do not exist, and
// partitions that another member has, are left out.
func classicAssignment(assignment []byte, image *meta.Image, taken map[assignor.TopicID]map[int32]bool, epoch int32) (ownedPartitions, bool) {
	owned := ownedPartitions{}
	if len(assignment) == 0 {
		return owned, true
	}
	topics, ok := consumerlog.AssignedTopics(assignment)
	if !ok {
		return nil, false
	}
	for _, topic := range topics {
		known := image.Topic(topic.Name)
		if known == nil {
			continue
		}
		id := assignor.TopicID(known.ID)
		if taken[id] == nil {
			taken[id] = map[int32]bool{}
		}
		for _, p := range topic.Partitions {
			if !taken[id][p] && p >= 0 && int(p) < len(known.Partitions) {
				taken[id][p] = true
				owned.put(id, p, epoch)
			}
		}
	}
	return owned, true
}

// mayDowngrade: without the members that go there are others, who all speak the
// classic protocol.
func (m *Machine) mayDowngrade(g *group, out []*consumerMember) bool {
	c := g.consumer
	stay, classic := len(c.members)-len(out), c.classic()
	for _, mem := range out {
		if mem.isClassic() {
			classic--
		}
	}
	return stay > 0 && classic == stay && m.migrates(migrateDown) && int64(stay) <= int64(m.config.MaxSize)
}

// downgrade makes a consumer group, without some of its members, a classic group
// again (ClassicGroup.fromConsumerGroup). The members keep what they have. With a
// reason they rebalance.
func (m *Machine) downgrade(t *coord.Turn, g *group, out []*consumerMember, reason string) *refusal {
	c := g.consumer
	for _, mem := range c.members {
		m.cancelConsumer(t, mem)
	}
	image := m.image()
	g.resetClassic(t)
	g.generation, g.protocolType, g.state, g.stateSinceMs = c.epoch, consumerProtocolType, stateStable, t.WallMs
	for _, from := range c.ordered() {
		if slices.Contains(out, from) {
			continue
		}
		mem := m.newMember(g, from.id, from.said.InstanceID, Client{ID: from.said.ClientID, Host: from.said.ClientHost})
		mem.sessionTimeoutMs, mem.rebalanceTimeoutMs = from.said.Classic.SessionTimeoutMs, from.said.RebalanceTimeoutMs
		for _, p := range from.said.Classic.Protocols {
			mem.protocols = append(mem.protocols, protocol{name: p.Name, metadata: p.Metadata})
		}
		mem.assignment = consumerAssignment(from, image)
		g.add(mem)
	}
	g.protocol = g.selectProtocol()
	g.updateSubscribedTopics()
	records := append(g.consumerTombstones(), g.metadataRecord(g.assignments()))
	if err := m.emitConsumer(t, g, records...); err != nil {
		g.resetClassic(t)
		for _, mem := range c.ordered() {
			m.touchConsumer(t, g, mem)
		}
		return err
	}
	m.logger.Info("consumer group becomes a classic group", "group", g.id, "generation", g.generation, "members", len(g.members))
	for _, mem := range g.ordered() {
		m.touch(t, mem)
	}
	if reason != "" {
		m.prepareRebalance(t, g, reason)
	}
	return nil
}

// consumerAssignment is what a classic member of a consumer group has, as its own
// protocol puts it.
func consumerAssignment(mem *consumerMember, image *meta.Image) []byte {
	var topics []consumerlog.NamedPartitions
	for id, partitions := range mem.assigned.plain() {
		if topic := image.TopicByID(meta.UUID(id)); topic != nil {
			topics = append(topics, consumerlog.NamedPartitions{Name: topic.Name, Partitions: partitions})
		}
	}
	return consumerlog.AppendAssignment(nil, mem.said.Classic.Protocols[0].Metadata, topics)
}
