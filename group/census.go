package group

import "sync/atomic"

// Counters are what all shards have done, for metrics. Any goroutine may read them.
type Counters struct {
	Commits        atomic.Int64 // offsets that were committed, also in transactions
	Expired        atomic.Int64 // offsets whose retention was over
	Rebalances     atomic.Int64 // generations of classic groups
	Plans          atomic.Int64 // of consumer groups
	MembersDropped atomic.Int64 // for a deadline that they missed
}

// Census is what a shard holds.
type Census struct {
	Classic, Consumer               map[string]int64 // groups by state
	ClassicMembers, ConsumerMembers int64
	Offsets                         int64
}

// Count makes a census. Its cost rises with groups and members: it is made when
// somebody looks at the metrics.
func (m *Machine) Count() Census {
	c := Census{Classic: map[string]int64{}, Consumer: map[string]int64{}}
	for _, g := range m.groups {
		for _, partitions := range g.offsets.topics {
			c.Offsets += int64(len(partitions))
		}
		if g.consumer != nil {
			c.Consumer[g.consumer.state()]++
			c.ConsumerMembers += int64(len(g.consumer.members))
			continue
		}
		c.Classic[g.state.String()]++
		c.ClassicMembers += int64(len(g.members))
	}
	return c
}
