package group

import (
	"kaas/coord"
	"kaas/internal/limits"
)

// sweeps are walks over all groups that write tombstones, in turns of bounded
// size. The ids are taken when a walk begins; groups that are made later are the
// next walk's business.
type sweeps struct {
	timer coord.Timer
	queue []sweep
}

type sweep struct {
	ids   []string
	visit func(t *coord.Turn, g *group) (tombstones int)
}

func (m *Machine) begin(t *coord.Turn, visit func(t *coord.Turn, g *group) int) {
	if len(m.groups) == 0 {
		return
	}
	m.sweeps.queue = append(m.sweeps.queue, sweep{ids: m.sortedIDs(), visit: visit})
	if !m.sweeps.timer.Active() {
		m.sweep(t)
	}
}

// sweep goes on with the oldest walk and comes back in the next turn for the rest.
func (m *Machine) sweep(t *coord.Turn) {
	groups, tombstones := limits.GroupSweepGroups, limits.GroupSweepRecords
	for len(m.sweeps.queue) > 0 {
		s := &m.sweeps.queue[0]
		for len(s.ids) > 0 {
			// A walk that is too far behind ends now, so that the queue stays short.
			if (groups <= 0 || tombstones <= 0) && len(m.sweeps.queue) <= limits.GroupSweeps {
				t.Schedule(&m.sweeps.timer, t.NowMs)
				return
			}
			g := m.groups[s.ids[0]]
			s.ids = s.ids[1:]
			if g == nil {
				continue
			}
			groups--
			tombstones -= s.visit(t, g)
			m.dropIfVoid(t, g)
		}
		m.sweeps.queue = m.sweeps.queue[1:]
	}
	m.sweeps.queue = nil
}

// checkRetention begins the walk for expired offsets, every
// offsets.retention.check.interval.ms.
func (m *Machine) checkRetention(t *coord.Turn) {
	t.Schedule(&m.retention, t.NowMs+m.config.RetentionCheckIntervalMs)
	m.transactions.expire(t.NowMs)
	m.begin(t, m.expire)
}

// expire writes tombstones for what the retention has reached (KIP-211), and for
// an empty group of which no offset is left.
func (m *Machine) expire(t *coord.Turn, g *group) int {
	var tombstones []coord.Record
	left := 0
	for _, topic := range g.offsets.topicNames() {
		for _, partition := range g.offsets.partitions(topic) {
			if o, _ := g.offsets.get(topic, partition); m.expired(t, g, topic, partition, &o) {
				tombstones = append(tombstones, offsetTombstone(g.id, topic, partition))
			} else {
				left++
			}
		}
	}
	m.counts.Expired.Add(int64(len(tombstones)))
	if left == 0 && len(g.offsets.pending) == 0 && g.recorded && g.consumer == nil && g.state == stateEmpty && len(g.pending) == 0 {
		tombstones = append(tombstones, groupTombstone(g.id))
	}
	if len(tombstones) > 0 {
		m.logger.Info("offsets expired", "group", g.id, "tombstones", len(tombstones))
	}
	if left == 0 && len(g.offsets.pending) == 0 && g.consumer != nil && !g.occupied() {
		tombstones = append(tombstones, g.consumerTombstones()...)
	}
	m.emitTombstones(t, g, tombstones)
	return len(tombstones)
}

func (m *Machine) expired(t *coord.Turn, g *group, topic string, partition int32, o *offset) bool {
	sinceMs := o.commitMs
	switch {
	case g.offsets.hasPending(topic, partition):
		return false
	case g.consumer != nil:
		// A consumer group says no time at which it became empty: each from its commit.
		if g.consumer.subscribesTo(topic) {
			return false
		}
	case g.protocolType == "":
		// Offsets of consumers that assign by hand: each from its commit.
	case g.state == stateEmpty:
		// From when the last member left, if that is known.
		if g.stateSinceMs >= 0 {
			sinceMs = g.stateSinceMs
		}
	case g.state == stateStable && g.protocolType == consumerProtocolType && g.subscribed != nil && !g.subscribesTo(topic):
		// A living group no longer reads this topic.
	default:
		return false
	}
	if o.expireMs != noExpiry {
		return t.WallMs >= o.expireMs
	}
	return t.WallMs-sinceMs >= m.config.OffsetsRetentionMs
}

// TopicsDeleted removes the offsets of topics that are gone, ids by name. When a
// topic of the same name exists by now, its offsets have another id and stay.
func (m *Machine) TopicsDeleted(t *coord.Turn, topics map[string][16]byte) {
	m.begin(t, func(t *coord.Turn, g *group) int {
		var tombstones []coord.Record
		for _, topic := range g.offsets.topicNames() {
			id, deleted := topics[topic]
			if !deleted {
				continue
			}
			for _, partition := range g.offsets.partitions(topic) {
				if o, _ := g.offsets.get(topic, partition); sameTopic(o.topicID, id) {
					tombstones = append(tombstones, offsetTombstone(g.id, topic, partition))
				}
			}
		}
		// What an open transaction has for such a topic must not count when it commits.
		for _, p := range g.offsets.pendingOnly() {
			if id, deleted := topics[p.topic]; deleted && sameTopic(g.offsets.pendingID(p), id) {
				tombstones = append(tombstones, offsetTombstone(g.id, p.topic, p.partition))
			}
		}
		m.emitTombstones(t, g, tombstones)
		return len(tombstones)
	})
}

// TopicsReplaced removes the offsets of topics that were deleted and made anew
// while nobody told this shard, for instance during a crash: currentID returns
// the id that the name has now, zero when there is none. An absent topic says
// nothing, since the broker may not have seen it yet; its offsets wait for their
// retention.
func (m *Machine) TopicsReplaced(t *coord.Turn, currentID func(topic string) [16]byte) {
	m.begin(t, func(t *coord.Turn, g *group) int {
		var tombstones []coord.Record
		for _, topic := range g.offsets.topicNames() {
			id := currentID(topic)
			for _, partition := range g.offsets.partitions(topic) {
				if o, _ := g.offsets.get(topic, partition); !sameTopic(o.topicID, id) {
					tombstones = append(tombstones, offsetTombstone(g.id, topic, partition))
				}
			}
		}
		m.emitTombstones(t, g, tombstones)
		return len(tombstones)
	})
}
