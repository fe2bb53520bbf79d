package group

import (
	"maps"
	"slices"
	"strings"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs that a member sends instead of its own (KIP-848).
const (
	epochJoin        = 0
	epochLeave       = -1
	epochStaticLeave = -2 // the member will be back under the same group.instance.id
)

// memberState is how far a member is on its way to its target (Kafka's MemberState).
// The numbers stand in the log.
type memberState int8

const (
	memberStable     memberState = 0
	memberUnrevoked  memberState = 1 // it must give partitions up first
	memberUnreleased memberState = 2 // it waits for partitions that others give up
)

// States of a consumer group, as ListGroups and ConsumerGroupDescribe name them.
const (
	consumerEmpty       = "Empty"
	consumerAssigning   = "Assigning"   // the plan is older than the group
	consumerReconciling = "Reconciling" // not every member is where the plan wants it
	consumerStable      = "Stable"
)

// consumerGroup is what a group of the consumer protocol (KIP-848) has beside its
// offsets. Everything but the last fields is durable: changed by Replay only.
type consumerGroup struct {
	epoch           int32 // rises with each change of members, subscriptions or topics
	metadataHash    int64 // of the subscribed topics, see subscriptionHash
	assignmentEpoch int32 // the epoch that the plan was made for
	assignmentMs    int64 // wall clock of the plan; 0: none, or not known
	members         map[string]*consumerMember
	static          map[string]string // member id by group.instance.id
	names           map[string]int    // members that subscribe to each topic by name
	targets         map[string]assignor.Partitions
	// owners says whose a partition is: of the member that has it assigned, or that
	// has not yet given it back. A partition is given to a member only when nobody
	// stands here.
	owners  map[assignor.TopicID]map[int32]string
	regexes map[string]*regexTopics
	// partitionMetadata: the log has a record of Kafka 4.0's, which we only remove.
	partitionMetadata bool

	// Volatile: what the hash and the regular expressions were last compared with, and
	// whether a plan is being made outside the shard.
	seen     seenTopics
	planning bool
}

// regexTopics are the topics that a regular expression matched.
type regexTopics struct {
	topics  []string // sorted
	version int64
}

// consumerMember is one member. The records' fields are durable, timers are not.
type consumerMember struct {
	id   string
	said consumerlog.Member // its newest member record; Topics are sorted

	epoch         int32
	previousEpoch int32
	state         memberState
	assigned      ownedPartitions
	revoking      ownedPartitions

	// deadlineMs is when the session ends; the timer may be armed earlier, as for
	// classic members.
	deadlineMs int64
	armedMs    int64
	session    coord.Timer
	// revocation runs while a member must give partitions up, and for classic members
	// while they are asked to join again.
	revocation coord.Timer
	// sync runs from a classic member's join answer until it asks for its assignment.
	sync coord.Timer
}

// ownedPartitions are partitions of topics with the epochs at which they were given.
type ownedPartitions map[assignor.TopicID]map[int32]int32

func newConsumerGroup() *consumerGroup {
	return &consumerGroup{
		members: map[string]*consumerMember{}, static: map[string]string{}, names: map[string]int{}, targets: map[string]assignor.Partitions{},
		owners: map[assignor.TopicID]map[int32]string{}, regexes: map[string]*regexTopics{},
	}
}

// state is computed when asked for: it is shown, never decided upon.
func (c *consumerGroup) state() string {
	switch {
	case len(c.members) == 0:
		return consumerEmpty
	case c.epoch > c.assignmentEpoch:
		return consumerAssigning
	}
	for _, mem := range c.members {
		if mem.state != memberStable || mem.epoch != c.assignmentEpoch {
			return consumerReconciling
		}
	}
	return consumerStable
}

// ordered lists the members by id.
func (c *consumerGroup) ordered() []*consumerMember {
	members := make([]*consumerMember, 0, len(c.members))
	for _, mem := range c.members {
		members = append(members, mem)
	}
	slices.SortFunc(members, func(a, b *consumerMember) int { return strings.Compare(a.id, b.id) })
	return members
}

// isClassic: the member speaks the classic protocol.
func (mem *consumerMember) isClassic() bool { return mem.said.Classic != nil }

func (mem *consumerMember) instanceID() string { return orEmpty(mem.said.InstanceID) }

func (mem *consumerMember) regex() string { return orEmpty(mem.said.Regex) }

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// classic counts the members that speak the classic protocol.
func (c *consumerGroup) classic() (n int) {
	for _, mem := range c.members {
		if mem.isClassic() {
			n++
		}
	}
	return n
}

// subscribesTo says whether a member wants the topic, by name or by expression.
func (c *consumerGroup) subscribesTo(topic string) bool {
	if c.names[topic] > 0 {
		return true
	}
	for _, r := range c.regexes {
		if _, ok := slices.BinarySearch(r.topics, topic); ok {
			return true
		}
	}
	return false
}

// owned by somebody, and not by that member.
func (c *consumerGroup) ownedByAnother(topic assignor.TopicID, partition int32, memberID string) bool {
	owner, ok := c.owners[topic][partition]
	return ok && owner != memberID
}

// count adds delta to the members that subscribe to each of the topics.
func (c *consumerGroup) count(topics []string, delta int) {
	for _, name := range topics {
		if c.names[name] += delta; c.names[name] == 0 {
			delete(c.names, name)
		}
	}
}

// own moves a member's partitions in owners from what it had to what it has.
func (c *consumerGroup) own(memberID string, had, has []ownedPartitions) {
	for _, set := range had {
		for topic, partitions := range set {
			for p := range partitions {
				if c.owners[topic][p] == memberID {
					delete(c.owners[topic], p)
				}
			}
			if len(c.owners[topic]) == 0 {
				delete(c.owners, topic)
			}
		}
	}
	for _, set := range has {
		for topic, partitions := range set {
			if c.owners[topic] == nil {
				c.owners[topic] = make(map[int32]string, len(partitions))
			}
			for p := range partitions {
				c.owners[topic][p] = memberID
			}
		}
	}
}

// samePartitions compares without the epochs.
func samePartitions(a, b ownedPartitions) bool {
	return maps.EqualFunc(a, b, func(x, y map[int32]int32) bool {
		return maps.EqualFunc(x, y, func(int32, int32) bool { return true })
	})
}

func sameOwned(a, b ownedPartitions) bool {
	return maps.EqualFunc(a, b, func(x, y map[int32]int32) bool { return maps.Equal(x, y) })
}

// holds is what the member has, with what it is to give up.
func (mem *consumerMember) holds() ownedPartitions {
	all := ownedPartitions{}
	for _, set := range []ownedPartitions{mem.assigned, mem.revoking} {
		for topic, partitions := range set {
			for p, epoch := range partitions {
				all.put(topic, p, epoch)
			}
		}
	}
	return all
}

// sorted topics of the set.
func (o ownedPartitions) sorted() []assignor.TopicID {
	return slices.SortedFunc(maps.Keys(o), assignor.CompareTopics)
}

// plain is the set without epochs.
func (o ownedPartitions) plain() assignor.Partitions {
	p := make(assignor.Partitions, len(o))
	for topic, partitions := range o {
		p[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return p
}

// refusal is an error of the consumer protocol; nil means none.
type refusal struct {
	code    int16
	message string
}

func refuse(code int16, message string) *refusal { return &refusal{code, message} }

// ConsumerHeartbeatError is an answer that only has an error.
func ConsumerHeartbeatError(code int16, message string) *kmsg.ConsumerGroupHeartbeatResponse {
	r := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	r.ErrorCode = code
	if message != "" {
		r.ErrorMessage = &message
	}
	return r
}
