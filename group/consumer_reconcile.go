package group

import (
	"cmp"
	"errors"
	"slices"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// advance brings the group up to date and the member as far towards the plan as it
// can go: a new epoch when subscriptions, the assignor or topics have changed, a plan for it, and
// the member's next step.
func (m *Machine) advance(t *coord.Turn, g *group, mem *consumerMember, changed bool, owned []ownedTopic, allowed TopicFilter) *refusal {
	image := m.image()
	if err := m.raiseEpoch(t, g, image, changed, allowed); err != nil {
		return err
	}
	if c := g.consumer; c.epoch > c.assignmentEpoch && m.mayPlan(t, g) {
		if err := m.makePlan(t, g, image); err != nil {
			return err
		}
	}
	return m.reconcile(t, g, mem, image, owned)
}

// newConsumerEpoch is where a group begins, as in Kafka 4.4: its first subscription
// gives it the next one.
const newConsumerEpoch = 1

// raiseEpoch gives the group a new epoch when its subscriptions or its assignor have changed, or
// when the topics behind them have since the last look.
func (m *Machine) raiseEpoch(t *coord.Turn, g *group, image *meta.Image, changed bool, allowed TopicFilter) *refusal {
	c := g.consumer
	if (changed || len(c.regexes) > 0) && m.refreshRegexes(t, g, image, changed, allowed) {
		changed = true
	}
	if !changed && c.epoch > 0 && c.seen.image == image {
		return nil
	}
	hash := c.subscriptionHash(image, nil)
	c.seen.image = image
	epoch := max(c.epoch, newConsumerEpoch)
	if changed || hash != c.metadataHash {
		epoch++
	}
	if epoch == c.epoch {
		return nil
	}
	m.logger.Info("consumer group's epoch rises", "group", g.id, "epoch", epoch, "members", len(c.members), "membersChanged", changed)
	return m.emitConsumer(t, g, consumerEpochRecord(g.id, epoch, hash))
}

// emitConsumer writes records of a consumer group.
func (m *Machine) emitConsumer(t *coord.Turn, g *group, records ...coord.Record) *refusal {
	if err := t.Emit(records...); err != nil {
		m.logger.Error("a consumer group cannot be recorded; raise max.message.bytes of the offsets topic or use fewer members and topics", "group", g.id, "records", len(records), "error", err)
		return refuse(codeUnknownServerError, "the group's state does not fit into a batch of the offsets topic")
	}
	return nil
}

// mayPlan keeps group.consumer.assignment.interval.ms between two plans, so that
// 1,000 members that come together cost a few plans, not 1,000 (KIP-1263). A
// clock that was set back does not hold a group up.
func (m *Machine) mayPlan(t *coord.Turn, g *group) bool {
	sinceMs := t.WallMs - g.consumer.assignmentMs
	return !g.consumer.planning && (g.consumer.assignmentMs == 0 || sinceMs < 0 || sinceMs >= m.config.assignmentIntervalMs(g.id))
}

// makePlan assigns the partitions of all subscribed topics to the members, for the
// group's epoch. A large plan is made outside the shard, whose other groups would wait
// for it, and adopted in a later turn; the members go on by the old one until then.
func (m *Machine) makePlan(t *coord.Turn, g *group, image *meta.Image) *refusal {
	c := g.consumer
	ordered := c.ordered()
	members := make([]assignor.Member, 0, len(ordered))
	for _, mem := range ordered {
		members = append(members, assignor.Member{ID: mem.id, InstanceID: mem.instanceID(), Topics: c.topicsOf(mem, image), Current: c.targets[mem.id]})
	}
	p := &assignor.Plan{Epoch: c.epoch, Assignor: m.assignorName(c), Members: members}
	if partitions := partitionCount(image); p.Size(partitions) <= m.config.planInTurn() {
		p.Make(partitions)
		return m.adoptPlan(t, g, p)
	}
	if c.assignmentEpoch == 0 {
		// The first member is told an epoch, with nothing in it: 0 would be another join.
		if err := m.emitConsumer(t, g, consumerPlanRecord(g.id, newConsumerEpoch, 0)); err != nil {
			return err
		}
	}
	c.planning = true
	t.Offload(func() { p.Make(partitionCount(image)) }, func(t *coord.Turn) {
		if m.groups[g.id] != g || g.consumer != c {
			return // it is another group now
		}
		c.planning = false
		if p.Epoch <= c.assignmentEpoch || p.Epoch == c.epoch && !(len(p.Members) == len(c.members) && p.AllIn(func(id string) bool { return c.members[id] != nil })) {
			// The next heartbeat has a new one made. A static member that was replaced raises no
			// epoch, so that a plan without it would stay.
			return
		}
		_ = m.adoptPlan(t, g, p) // emitConsumer has logged it; the next heartbeat tries again
	})
	return nil
}

// adoptPlan records a plan. Only members whose part is new are recorded, and those not
// who have left since it was made: the group's epoch is above the plan's then.
func (m *Machine) adoptPlan(t *coord.Turn, g *group, p *assignor.Plan) *refusal {
	c := g.consumer
	var records []coord.Record
	for i := range p.Members {
		id := p.Members[i].ID
		if c.members[id] != nil && !assignor.Equal(p.Targets[i], c.targets[id]) {
			records = append(records, consumerTargetRecord(g.id, id, p.Targets[i]))
		}
	}
	m.counts.Plans.Add(1)
	m.logger.Info("consumer group has a new plan", "group", g.id, "epoch", p.Epoch, "members", len(p.Members), "changed", len(records), "assignor", p.Assignor)
	return m.emitSeries(t, g, append(records, consumerPlanRecord(g.id, p.Epoch, t.WallMs)))
}

// emitSeries writes targets, and the record of their plan last, in as many batches as
// they need. A crash in between leaves targets of two plans under the older
// plan's epoch, which is below the group's, so the next heartbeat makes a new plan.
// Whatever a member does towards them until then, it gets no partition that another
// one has.
func (m *Machine) emitSeries(t *coord.Turn, g *group, records []coord.Record) *refusal {
	if len(records) <= 1 {
		return m.emitConsumer(t, g, records...)
	}
	switch err := t.Emit(records...); {
	case err == nil:
		return nil
	case !errors.Is(err, coord.ErrTooLarge):
		return m.emitConsumer(t, g, records...) // which says it
	}
	half := len(records) / 2
	if err := m.emitSeries(t, g, records[:half]); err != nil {
		return err
	}
	return m.emitSeries(t, g, records[half:])
}

// assignorName is what most members ask for, among equals uniform, as Kafka's table
// of votes happens to have it. Where nobody asks, the broker's first.
func (m *Machine) assignorName(c *consumerGroup) string {
	votes := map[string]int{}
	if c == nil {
		return m.config.ConsumerAssignors[0] // of a group that comes to be
	}
	for _, mem := range c.members {
		if name := mem.said.Assignor; name != nil && slices.Contains(m.config.ConsumerAssignors, *name) {
			votes[*name]++
		}
	}
	best := m.config.ConsumerAssignors[0]
	for name, n := range votes {
		if n > votes[best] || n == votes[best] && name > best {
			best = name
		}
	}
	return best
}

// ownedTopic is what a member says that it has; a nil list says nothing.
type ownedTopic struct {
	id         assignor.TopicID
	partitions []int32
}

// current is where a member stands: the content of its current assignment record.
type current struct {
	epoch, previousEpoch int32
	state                memberState
	assigned, revoking   ownedPartitions
}

func (mem *consumerMember) current() current {
	return current{mem.epoch, mem.previousEpoch, mem.state, mem.assigned, mem.revoking}
}

// at is the member after a step, in an epoch. The one before the step is remembered,
// because the answer that tells of a new one may get lost; a step within an epoch forgets
// the older one, whose answer has arrived if the member takes part in it.
func (now current) at(epoch int32) current {
	now.previousEpoch, now.epoch = now.epoch, epoch
	return now
}

// reconcile takes the member's next step towards the plan and records it.
func (m *Machine) reconcile(t *coord.Turn, g *group, mem *consumerMember, image *meta.Image, owned []ownedTopic) *refusal {
	c := g.consumer
	before := mem.current()
	next := c.nextStep(mem, image, owned)
	if next.epoch == before.epoch && next.previousEpoch == before.previousEpoch && next.state == before.state &&
		sameOwned(next.assigned, before.assigned) && sameOwned(next.revoking, before.revoking) {
		return nil
	}
	if err := m.emitConsumer(t, g, consumerCurrentRecord(g.id, mem.id, &next)); err != nil {
		return err
	}
	if mem.isClassic() {
		return nil // its timer runs from when it is asked to rejoin
	}
	if next.state == memberUnrevoked {
		t.Schedule(&mem.revocation, t.NowMs+int64(max(mem.said.RebalanceTimeoutMs, 0)))
	} else {
		t.Cancel(&mem.revocation)
	}
	return nil
}

// nextStep is where the member stands next. A member gives up what the plan takes
// from it before it enters the plan's epoch, and gets what the plan gives it when
// nobody else has it any more: so no partition has two owners.
func (c *consumerGroup) nextStep(mem *consumerMember, image *meta.Image, owned []ownedTopic) current {
	now := mem.current()
	wants := func(topic assignor.TopicID) bool { return c.wants(mem, image, topic) }
	switch {
	case mem.state == memberUnrevoked && stillOwns(owned, mem.revoking):
		return now.leaveTopics(wants, owned)
	case mem.state == memberStable && mem.epoch == c.assignmentEpoch:
		return now.leaveTopics(wants, owned)
	}
	return c.towardsTarget(mem, wants, owned)
}

// stillOwns says whether the member has any of these partitions; one that does not
// say what it has is taken to have them.
func stillOwns(owned []ownedTopic, partitions ownedPartitions) bool {
	if owned == nil {
		return true
	}
	for i := range owned {
		for _, p := range owned[i].partitions {
			if _, ok := partitions[owned[i].id][p]; ok {
				return true
			}
		}
	}
	return false
}

// leaveTopics takes back at once what the member no longer subscribes to, while the
// plan for its new subscription is not there yet.
func (now current) leaveTopics(wants func(assignor.TopicID) bool, owned []ownedTopic) current {
	left := false
	for topic := range now.assigned {
		left = left || !wants(topic)
	}
	if !left {
		return now
	}
	assigned, revoking := ownedPartitions{}, ownedPartitions{}
	for topic, partitions := range now.revoking {
		revoking[topic] = partitions
	}
	for topic, partitions := range now.assigned {
		if wants(topic) {
			assigned[topic] = partitions
			continue
		}
		merged := map[int32]int32{}
		for _, set := range []map[int32]int32{revoking[topic], partitions} {
			for p, epoch := range set {
				merged[p] = epoch
			}
		}
		revoking[topic] = merged
	}
	next := now.at(now.epoch)
	next.assigned = assigned
	if stillOwns(owned, revoking) {
		next.state, next.revoking = memberUnrevoked, revoking
	}
	return next
}

// towardsTarget compares what the member has with its target.
func (c *consumerGroup) towardsTarget(mem *consumerMember, wants func(assignor.TopicID) bool, owned []ownedTopic) current {
	now := mem.current()
	target := c.targets[mem.id]
	kept, revoking := ownedPartitions{}, ownedPartitions{}
	for topic, partitions := range mem.assigned {
		wanted := wants(topic)
		for p, epoch := range partitions {
			if _, ok := slices.BinarySearch(target[topic], p); ok && wanted {
				kept.put(topic, p, epoch)
			} else {
				revoking.put(topic, p, epoch)
			}
		}
	}
	if len(revoking) > 0 && stillOwns(owned, revoking) {
		next := now.at(now.epoch)
		next.state, next.assigned, next.revoking = memberUnrevoked, kept, revoking
		return next
	}
	next := now.at(c.assignmentEpoch)
	next.state, next.assigned, next.revoking = memberStable, kept, nil
	for topic, partitions := range target {
		if !wants(topic) {
			continue
		}
		for _, p := range partitions {
			if _, has := kept[topic][p]; has {
				continue
			}
			if c.ownedByAnother(topic, p, mem.id) {
				next.state = memberUnreleased
			} else {
				kept.put(topic, p, c.assignmentEpoch)
			}
		}
	}
	return next
}

func (o ownedPartitions) put(topic assignor.TopicID, partition, epoch int32) {
	if o[topic] == nil {
		o[topic] = map[int32]int32{}
	}
	o[topic][partition] = epoch
}

// ownedTopics reads what a heartbeat says; nil stays nil.
func ownedTopics(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) []ownedTopic {
	if topics == nil {
		return nil
	}
	owned := make([]ownedTopic, 0, len(topics))
	for i := range topics {
		owned = append(owned, ownedTopic{topics[i].TopicID, topics[i].Partitions})
	}
	slices.SortFunc(owned, func(a, b ownedTopic) int {
		return cmp.Or(assignor.CompareTopics(a.id, b.id), slices.Compare(a.partitions, b.partitions))
	})
	return owned
}
