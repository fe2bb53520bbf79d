package group

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"
)

func consumerKey(kind consumerlog.Kind, group, item string) []byte {
	return consumerlog.Key{Kind: kind, Group: group, Item: item}.Append(make([]byte, 0, 6+len(group)+len(item)))
}

func consumerTombstone(kind consumerlog.Kind, group, item string) coord.Record {
	return coord.Record{Key: consumerKey(kind, group, item)}
}

func consumerEpochRecord(group string, epoch int32, hash int64) coord.Record {
	v := consumerlog.Group{Epoch: epoch, MetadataHash: hash}
	return coord.Record{Key: consumerKey(consumerlog.KindGroup, group, ""), Value: v.Append(nil)}
}

func consumerMemberRecord(group, id string, said *consumerlog.Member) coord.Record {
	return coord.Record{Key: consumerKey(consumerlog.KindMember, group, id), Value: said.Append(nil)}
}

func consumerPlanRecord(group string, epoch int32, wallMs int64) coord.Record {
	v := consumerlog.Target{Epoch: epoch, TimestampMs: wallMs}
	return coord.Record{Key: consumerKey(consumerlog.KindTarget, group, ""), Value: v.Append(nil)}
}

func consumerTargetRecord(group, id string, target assignor.Partitions) coord.Record {
	topics := make([]consumerlog.TopicPartitions, 0, len(target))
	for _, topic := range target.Sorted() {
		topics = append(topics, consumerlog.TopicPartitions{TopicID: topic, Partitions: target[topic]})
	}
	return coord.Record{Key: consumerKey(consumerlog.KindTargetMember, group, id), Value: consumerlog.AppendTargetMember(nil, topics)}
}

func consumerCurrentRecord(group, id string, now *current) coord.Record {
	v := consumerlog.Current{
		Epoch: now.epoch, PreviousEpoch: now.previousEpoch, State: int8(now.state),
		Assigned: topicPartitions(now.assigned), Revoking: topicPartitions(now.revoking),
	}
	return coord.Record{Key: consumerKey(consumerlog.KindCurrent, group, id), Value: v.Append(nil)}
}

func consumerRegexRecord(group, regex string, topics []string, version, wallMs int64) coord.Record {
	v := consumerlog.Regex{Topics: topics, Version: version, TimestampMs: wallMs}
	return coord.Record{Key: consumerKey(consumerlog.KindRegex, group, regex), Value: v.Append(nil)}
}

func topicPartitions(o ownedPartitions) []consumerlog.TopicPartitions {
	topics := make([]consumerlog.TopicPartitions, 0, len(o))
	for _, topic := range o.sorted() {
		one := consumerlog.TopicPartitions{TopicID: topic, Partitions: slices.Sorted(maps.Keys(o[topic]))}
		one.Epochs = make([]int32, 0, len(one.Partitions))
		for _, p := range one.Partitions {
			one.Epochs = append(one.Epochs, o[topic][p])
		}
		topics = append(topics, one)
	}
	return topics
}

// ownedFrom reads a list of the log. Kafka before 4.4 has no epochs there; the
// member's own epoch is the newest at which they can have been given.
func ownedFrom(topics []consumerlog.TopicPartitions, memberEpoch int32) ownedPartitions {
	o := make(ownedPartitions, len(topics))
	for i := range topics {
		t := &topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		partitions := o[t.TopicID]
		if partitions == nil {
			partitions = make(map[int32]int32, len(t.Partitions))
			o[t.TopicID] = partitions
		}
		for j, p := range t.Partitions {
			partitions[p] = memberEpoch
			if t.Epochs != nil {
				partitions[p] = t.Epochs[j]
			}
		}
	}
	return o
}

// memberTombstones forget one member.
func memberTombstones(group, id string) []coord.Record {
	return []coord.Record{
		consumerTombstone(consumerlog.KindCurrent, group, id),
		consumerTombstone(consumerlog.KindTargetMember, group, id),
		consumerTombstone(consumerlog.KindMember, group, id),
	}
}

// consumerTombstones forget the whole group, its own record last.
func (g *group) consumerTombstones() []coord.Record {
	c := g.consumer
	var records []coord.Record
	for _, mem := range c.ordered() {
		records = append(records, memberTombstones(g.id, mem.id)...)
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		records = append(records, consumerTombstone(consumerlog.KindRegex, g.id, regex))
	}
	if c.partitionMetadata {
		records = append(records, consumerTombstone(consumerlog.KindPartitionMetadata, g.id, ""))
	}
	return append(records, consumerTombstone(consumerlog.KindTarget, g.id, ""), consumerTombstone(consumerlog.KindGroup, g.id, ""))
}

// replayConsumer applies a record of a consumer group. A value that comes first
// makes the group; tombstones of what is unknown say nothing.
func (m *Machine) replayConsumer(r *coord.Record) error {
	key, err := consumerlog.ReadKey(r.Key)
	if err != nil {
		return fmt.Errorf("group: %w", err)
	}
	if r.Value == nil {
		if g := m.groups[key.Group]; g != nil && g.consumer != nil {
			g.forgetConsumer(&key)
		}
		return nil
	}
	apply, err := decodeConsumer(&key, r.Value)
	if err != nil {
		return fmt.Errorf("group: %w", err)
	}
	g := m.groupOrNew(key.Group)
	if g.consumer == nil {
		g.consumer = newConsumerGroup()
	}
	apply(m, g)
	return nil
}

// decodeConsumer reads the value and returns what it does, so that a value that
// cannot be read does nothing.
func decodeConsumer(key *consumerlog.Key, value []byte) (func(*Machine, *group), error) {
	id := key.Item
	switch key.Kind {
	case consumerlog.KindGroup:
		v, err := consumerlog.ReadGroup(value)
		return func(_ *Machine, g *group) { g.consumer.epoch, g.consumer.metadataHash = v.Epoch, v.MetadataHash }, err
	case consumerlog.KindPartitionMetadata:
		return func(_ *Machine, g *group) { g.consumer.partitionMetadata = true }, nil
	case consumerlog.KindMember:
		v, err := consumerlog.ReadMember(value)
		if err == nil && v.Classic != nil && len(v.Classic.Protocols) == 0 {
			err = errors.New("a classic member without a protocol")
		}
		return func(m *Machine, g *group) { m.consumerMember(g, id).replaySaid(g.consumer, v) }, err
	case consumerlog.KindTarget:
		v, err := consumerlog.ReadTarget(value)
		return func(_ *Machine, g *group) {
			g.consumer.assignmentEpoch, g.consumer.assignmentMs = v.Epoch, v.TimestampMs
		}, err
	case consumerlog.KindTargetMember:
		topics, err := consumerlog.ReadTargetMember(value)
		return func(_ *Machine, g *group) { g.consumer.targets[id] = ownedFrom(topics, 0).plain() }, err
	case consumerlog.KindCurrent:
		v, err := consumerlog.ReadCurrent(value)
		return func(m *Machine, g *group) { m.consumerMember(g, id).replayCurrent(g.consumer, v) }, err
	default:
		v, err := consumerlog.ReadRegex(value)
		return func(_ *Machine, g *group) {
			slices.Sort(v.Topics)
			g.consumer.regexes[id] = &regexTopics{topics: v.Topics, version: v.Version}
		}, err
	}
}

// consumerMember returns the member, made now when there is none.
func (m *Machine) consumerMember(g *group, id string) *consumerMember {
	mem := g.consumer.members[id]
	if mem == nil {
		mem = &consumerMember{id: id}
		mem.said.RebalanceTimeoutMs = -1
		mem.session.Fire = func(t *coord.Turn) { m.consumerSessionTimer(t, g, mem) }
		mem.revocation.Fire = func(t *coord.Turn) {
			m.fenceLate(t, g, mem, "it did not give its partitions up, or did not rejoin, in time")
		}
		mem.sync.Fire = func(t *coord.Turn) { m.fenceLate(t, g, mem, "it did not sync in time") }
		g.consumer.members[id] = mem
	}
	return mem
}

func (mem *consumerMember) replaySaid(c *consumerGroup, said *consumerlog.Member) {
	slices.Sort(said.Topics)
	said.Topics = slices.Compact(said.Topics)
	c.count(mem.said.Topics, -1)
	c.count(said.Topics, 1)
	mem.releaseInstance(c) // it may be another one now
	mem.said = *said
	if said.InstanceID != nil {
		c.static[*said.InstanceID] = mem.id
	}
}

func (mem *consumerMember) releaseInstance(c *consumerGroup) {
	if c.static[mem.instanceID()] == mem.id {
		delete(c.static, mem.instanceID())
	}
}

func (mem *consumerMember) replayCurrent(c *consumerGroup, v *consumerlog.Current) {
	assigned, revoking := ownedFrom(v.Assigned, v.Epoch), ownedFrom(v.Revoking, v.Epoch)
	c.own(mem.id, []ownedPartitions{mem.assigned, mem.revoking}, []ownedPartitions{assigned, revoking})
	mem.epoch, mem.previousEpoch, mem.state = v.Epoch, v.PreviousEpoch, memberState(v.State)
	mem.assigned, mem.revoking = assigned, revoking
}

// forgetConsumer applies a tombstone.
func (g *group) forgetConsumer(key *consumerlog.Key) {
	c := g.consumer
	mem := c.members[key.Item]
	switch key.Kind {
	case consumerlog.KindGroup:
		g.consumer = nil
	case consumerlog.KindPartitionMetadata:
		c.partitionMetadata = false
	case consumerlog.KindMember:
		if mem != nil {
			c.own(mem.id, []ownedPartitions{mem.assigned, mem.revoking}, nil)
			mem.releaseInstance(c)
			c.count(mem.said.Topics, -1)
			delete(c.members, mem.id)
		}
	case consumerlog.KindTarget:
		c.assignmentEpoch, c.assignmentMs = 0, 0
	case consumerlog.KindTargetMember:
		delete(c.targets, key.Item)
	case consumerlog.KindCurrent:
		if mem != nil {
			c.own(mem.id, []ownedPartitions{mem.assigned, mem.revoking}, nil)
			mem.epoch, mem.previousEpoch, mem.state, mem.assigned, mem.revoking = 0, 0, memberStable, nil, nil
		}
	case consumerlog.KindRegex:
		delete(c.regexes, key.Item)
	}
}

// restoreConsumer gives a loaded consumer group its volatile half: a whole session
// for each member, and for those that are to give partitions up a whole rebalance
// timeout.
func (m *Machine) restoreConsumer(t *coord.Turn, g *group) {
	c := g.consumer
	// A compacted log may name a partition's old owner after its new one; the members'
	// newest records together do not.
	c.owners = map[assignor.TopicID]map[int32]string{}
	for _, mem := range c.ordered() {
		c.own(mem.id, nil, []ownedPartitions{mem.assigned, mem.revoking})
		m.touchConsumer(t, g, mem)
		if len(mem.revoking) > 0 {
			t.Schedule(&mem.revocation, t.NowMs+int64(max(mem.said.RebalanceTimeoutMs, 0)))
		}
	}
}
