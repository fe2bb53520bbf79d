package group

import (
	"kaas/coord"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroup forgets a group without members, with all its offsets.
func (m *Machine) DeleteGroup(t *coord.Turn, id string, done func(code int16)) {
	g := m.groups[id]
	switch {
	case g == nil:
		done(codeGroupIDNotFound)
		return
	case g.occupied():
		done(codeNonEmptyGroup)
		return
	}
	var tombstones []coord.Record
	for _, topic := range g.offsets.topicNames() {
		for _, partition := range g.offsets.partitions(topic) {
			tombstones = append(tombstones, offsetTombstone(id, topic, partition))
		}
	}
	for _, p := range g.offsets.pendingOnly() {
		tombstones = append(tombstones, offsetTombstone(id, p.topic, p.partition))
	}
	if g.recorded {
		tombstones = append(tombstones, groupTombstone(id))
	}
	if g.consumer != nil {
		tombstones = append(tombstones, g.consumerTombstones()...)
	}
	m.emitTombstones(t, g, tombstones)
	for _, p := range g.pending { // ids that nobody has come back with die with the group, as in Kafka
		t.Cancel(&p.session)
	}
	clear(g.pending)
	m.dropIfVoid(t, g)
	t.Reply(func(err error) { done(ErrorCode(err)) })
}

// occupied: somebody is in the group, or on the way.
func (g *group) occupied() bool {
	return g.state != stateEmpty || g.consumer != nil && len(g.consumer.members) > 0
}

// emitTombstones writes tombstones in batches of bounded size.
func (m *Machine) emitTombstones(t *coord.Turn, g *group, tombstones []coord.Record) {
	for len(tombstones) > 0 {
		n := min(len(tombstones), limits.GroupTombstonesPerBatch)
		if err := t.Emit(tombstones[:n]...); err != nil {
			// Names are at most 32 KiB, so only a tiny max.message.bytes gets here. What was
			// not written stays; the next sweep tries again.
			m.logger.Error("tombstones do not fit into max.message.bytes of the offsets topic", "group", g.id, "error", err)
			return
		}
		tombstones = tombstones[n:]
	}
}

// OffsetDelete deletes single offsets of a group. A group of consumers keeps
// those of the topics that it subscribes to; any other group must be empty. The
// handler has authorised the topics; every topic of the request exists.
func (m *Machine) OffsetDelete(t *coord.Turn, req *kmsg.OffsetDeleteRequest, done func(*kmsg.OffsetDeleteResponse)) {
	r := kmsg.NewPtrOffsetDeleteResponse()
	g := m.groups[req.Group]
	switch {
	case g == nil:
		r.ErrorCode = codeGroupIDNotFound
	case g.occupied() && g.consumer == nil && g.protocolType != consumerProtocolType:
		r.ErrorCode = codeNonEmptyGroup
	}
	if r.ErrorCode != 0 {
		done(r)
		return
	}
	var tombstones []coord.Record
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.OffsetDeleteResponseTopic{Topic: asked.Topic}
		subscribed := g.subscribesTo(asked.Topic)
		for j := range asked.Partitions {
			p := kmsg.OffsetDeleteResponseTopicPartition{Partition: asked.Partitions[j].Partition}
			if subscribed {
				p.ErrorCode = codeGroupSubscribed
			} else if _, ok := g.offsets.get(asked.Topic, p.Partition); ok || g.offsets.hasPending(asked.Topic, p.Partition) {
				tombstones = append(tombstones, offsetTombstone(req.Group, asked.Topic, p.Partition))
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	m.emitTombstones(t, g, tombstones)
	m.dropIfVoid(t, g)
	reply(t, done, r, func(code int16) *kmsg.OffsetDeleteResponse {
		failed := kmsg.NewPtrOffsetDeleteResponse()
		failed.ErrorCode = code
		return failed
	})
}
