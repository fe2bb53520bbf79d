//go:build e2e

package e2e

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupPlan is the plan of a consumer group as a side describes it.
type groupPlan struct {
	state    string
	assignor string
	epoch    int32 // of the group
	stale    bool  // it is of an older epoch than the group
	members  map[string]plannedMember
}

type plannedMember struct {
	instance string
	topics   []string // subscribed to
	target   map[string][]int32
}

// watchPlans ends the walk when the sides have plans that differ, and fails when one of
// them is not as good as Kafka promises or kaas moves more partitions. Members that say
// their ids themselves and topics (see orderedTopics) have an order that both follow,
// so most plans are the same; ids that brokers make have none.
func (w *randomWalk) watchPlans() error {
	var plans [2]groupPlan
	for side := range sides {
		q := kmsg.NewPtrConsumerGroupDescribeRequest()
		q.Version, q.Groups = 1, []string{w.group}
		r, err := w.at(side, q)
		if err != nil {
			return fmt.Errorf("%s does not answer: %w", sides[side], err)
		}
		plans[side] = w.planOf(side, &r.(*kmsg.ConsumerGroupDescribeResponse).Groups[0])
	}
	before := w.plan
	w.plan = plans[0]
	if fmt.Sprint(plans[0]) == fmt.Sprint(plans[1]) {
		return nil
	}
	if before.state == "" && plans[0].epoch == plans[1].epoch+1 && plans[1].state != "" {
		return errEnd{"known: a group that rebalances is converted by who takes a member's place: kaas makes a plan"}
	}
	if plans[0].state != plans[1].state || !slices.Equal(slices.Sorted(maps.Keys(plans[0].members)), slices.Sorted(maps.Keys(plans[1].members))) {
		return nil // that is more than a plan: the answers will tell
	}
	for side := range sides {
		if fault := w.planFault(plans[side], side == 0); fault != "" {
			return fmt.Errorf("DIFFERENCE: plans differ, and that of %s %s:\nbefore: %v\n  kaas: %v\n Kafka: %v", sides[side], fault, before, plans[0], plans[1])
		}
	}
	if kaas, kafka := moved(before, plans[0]), moved(before, plans[1]); plans[0].homogeneous() && plans[0].assignor == "uniform" && kaas > kafka {
		return fmt.Errorf("DIFFERENCE: kaas moves %d partitions, Kafka %d:\nbefore: %v\n  kaas: %v\n Kafka: %v", kaas, kafka, before, plans[0], plans[1])
	}
	w.trace = append(w.trace, fmt.Sprintf("before: %v\n  kaas: %v\n Kafka: %v", before, plans[0], plans[1]))
	if plans[0].assignor == "uniform" && !plans[0].homogeneous() {
		return errEnd{"plans for different subscriptions differ"}
	}
	return errEnd{"plans differ"}
}

func (w *randomWalk) planOf(side int, r *kmsg.ConsumerGroupDescribeResponseGroup) groupPlan {
	p := groupPlan{state: r.State, assignor: r.AssignorName, epoch: r.Epoch, stale: r.AssignmentEpoch != r.Epoch, members: map[string]plannedMember{}}
	unnamed := 0
	for _, m := range r.Members {
		one := plannedMember{target: map[string][]int32{}}
		if m.InstanceID != nil {
			one.instance = *m.InstanceID
		}
		for _, topic := range m.SubscribedTopics {
			if slices.ContainsFunc(w.topics, func(t *pair) bool { return t.topic == topic }) {
				one.topics = append(one.topics, topic)
			}
		}
		slices.Sort(one.topics)
		for _, topic := range m.TargetAssignment.TopicPartitions {
			one.target[topic.Topic] = slices.Sorted(slices.Values(topic.Partitions))
		}
		name := w.named(side, m.MemberID)
		if name == "someone" {
			name = fmt.Sprint(name, unnamed)
			unnamed++
		}
		p.members[name] = one
	}
	return p
}

func (p groupPlan) homogeneous() bool {
	var first []string
	for _, m := range p.members {
		first = m.topics
	}
	for _, m := range p.members {
		if !slices.Equal(m.topics, first) {
			return false
		}
	}
	return true
}

// planFault says what is wrong with a plan: partitions have one owner each, who
// subscribes to their topic, and the owners have equally many, as far as that goes.
func (w *randomWalk) planFault(p groupPlan, kaas bool) string {
	if p.stale {
		return ""
	}
	for i, topic := range w.topics {
		subscribers, owned := 0, []int32{}
		least, most := 1000, 0
		for _, m := range p.members {
			if !slices.Contains(m.topics, topic.topic) {
				if len(m.target[topic.topic]) > 0 {
					return "gives partitions to who does not want them"
				}
				continue
			}
			subscribers++
			part := m.target[topic.topic]
			owned = append(owned, part...)
			least, most = min(least, len(part)), max(most, len(part))
			if p.assignor == "range" && len(part) > 0 && int(part[len(part)-1]-part[0]) != len(part)-1 {
				return "has a range with holes"
			}
		}
		slices.Sort(owned)
		if subscribers > 0 && !slices.Equal(owned, walkPartitions[i]) {
			return fmt.Sprintf("does not give each partition of %s to one member", topic.topic)
		}
		if p.assignor == "range" && most > least+1 {
			return "has ranges of different lengths"
		}
	}
	if p.assignor == "uniform" && (kaas || p.homogeneous()) { // else Kafka is content with less
		return p.uneven()
	}
	return ""
}

// uneven: the move of a partition would make the members more equal.
func (p groupPlan) uneven() string {
	for from, m := range p.members {
		for to, n := range p.members {
			for topic := range m.target {
				if slices.Contains(n.topics, topic) && m.count() > n.count()+1 {
					return fmt.Sprintf("gives %s more than %s", from, to)
				}
			}
		}
	}
	return ""
}

func (m plannedMember) count() (n int) {
	for _, partitions := range m.target {
		n += len(partitions)
	}
	return n
}

// moved counts the partitions that members who stay, and want them, lose.
func moved(before, after groupPlan) (n int) {
	for id, m := range before.members {
		now, stays := after.members[id]
		for topic, partitions := range m.target {
			for _, p := range partitions {
				if stays && slices.Contains(now.topics, topic) && !slices.Contains(now.target[topic], p) {
					n++
				}
			}
		}
	}
	return n
}

// walkPartitions are those of the topics of a walk.
var walkPartitions = [][]int32{{0, 1, 2, 3}, {0, 1}}

// orderedTopics makes topics until two come in the same order on both sides: kaas plans
// them by the bytes of their ids, Kafka in the order of a table of their hashes.
func orderedTopics(t *testing.T, brokers [2]*broker, unique string) []*pair {
	t.Helper()
	first := newPair(t, brokers, "walk"+unique, int32(len(walkPartitions[0])))
	bucket := func(id [16]byte) uint32 {
		xor := binary.BigEndian.Uint64(id[:]) ^ binary.BigEndian.Uint64(id[8:])
		hash := uint32(xor>>32) ^ uint32(xor)
		return (hash ^ hash>>16) & 15 // the table has 16 places
	}
	for n := 0; ; n++ {
		second := newPair(t, brokers, fmt.Sprint("walk", unique, "-", n), int32(len(walkPartitions[1])))
		if slices.Compare(first.ids[0][:], second.ids[0][:]) < 0 && bucket(first.ids[1]) < bucket(second.ids[1]) {
			return []*pair{first, second}
		}
		if n%8 == 7 { // the first may be the last there can be
			first = newPair(t, brokers, fmt.Sprint("walk", unique, "-", n, "-first"), int32(len(walkPartitions[0])))
		}
	}
}
