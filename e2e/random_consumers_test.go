//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerMember is what a client of the consumer protocol (KIP-848) knows.
type consumerMember struct {
	ids   [2]string // "": its symbol
	epoch int32
	owned [2][]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic
}

// consumerOperations are those of the consumer protocol; most are by whom they should be.
var consumerOperations = []operation{
	{"ConsumerGroupHeartbeat", 30, func(w *randomWalk, a *actor) error { return heartbeatSomehow(w, a, own) }},
	{"ConsumerGroupHeartbeat as somebody", 10, func(w *randomWalk, a *actor) error { return heartbeatSomehow(w, a, w.someID()) }},
}

func (a *actor) consumerID(side int, which whose, other *actor) string {
	switch {
	case which == nobodys:
		return ""
	case which == bogus:
		return "bogus"
	case which == another:
		return other.symbol
	case a.consumer.ids[side] != "":
		return a.consumer.ids[side]
	}
	return a.symbol
}

// claims is what a heartbeat says that the member owns.
type claims int

const (
	unsaid claims = iota
	owns
	nothing
)

func heartbeatSomehow(w *randomWalk, a *actor, which whose) error {
	r, other := w.random, w.other()
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Version, q.Group, q.RebalanceTimeoutMillis = pick(r, int16(1), 1, 1, 0), w.group, -1
	q.MemberEpoch = a.consumer.epoch + pick(r, int32(0), 0, 0, 0, 0, 0, 0, -1, 1)
	joins := a.consumer.epoch <= 0 || w.rarely(12)
	said := pick(r, unsaid, owns, owns, owns, nothing)
	if joins {
		q.MemberEpoch, said = 0, pick(r, nothing, nothing, nothing, nothing, owns, unsaid)
	}
	if w.rarely(9) {
		q.MemberEpoch = pick(r, int32(-1), -1, -2, -3)
	}
	q.InstanceID = a.instance
	if w.rarely(12) {
		q.InstanceID = pick(r, nil, ptr("i0"), ptr("i1"))
	}
	if joins || w.rarely(4) {
		w.sayAll(q)
	}
	what := fmt.Sprintf("ConsumerGroupHeartbeat v%d as %d(%s) instance %s epoch %d timeout %d topics %v regex %s assignor %s rack %s owned %d",
		q.Version, which, other.symbol, quoted(q.InstanceID), q.MemberEpoch, q.RebalanceTimeoutMillis, q.SubscribedTopicNames, quoted(q.SubscribedTopicRegex), quoted(q.ServerAssignor), quoted(q.RackID), said)
	return w.ask(a, what, func(side int) kmsg.Request {
		q := *q
		q.MemberID = a.consumerID(side, which, other)
		if said != unsaid {
			q.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		}
		if said == owns {
			for _, t := range a.consumer.owned[side] {
				q.Topics = append(q.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
			}
		}
		return &q
	})
}

// sayAll names timeout, subscription, rack and assignor. Left out is what Kafka does not
// do at once: it looks up the topics of an expression on another thread, and a rebalance
// timeout of 0 runs out at any time. So is a vote between assignors that is even, with
// which its epoch rises by each heartbeat: in a walk all who vote want the same.
func (w *randomWalk) sayAll(q *kmsg.ConsumerGroupHeartbeatRequest) {
	r := w.random
	q.RebalanceTimeoutMillis = pick(r, int32(walkTimeoutMs), walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, -1)
	q.SubscribedTopicNames = pick(r, []string{w.topic}, []string{w.topic}, []string{w.topic}, []string{w.topic, w.topics[1].topic}, []string{"nowhere"})
	if w.alike != nil {
		q.SubscribedTopicNames = w.alike
	}
	if q.Version == 1 && w.rarely(10) {
		q.SubscribedTopicRegex = pick(r, ptr(""), ptr("("))
	}
	q.RackID = pick(r, nil, ptr("r1"))
	q.ServerAssignor = pick(r, nil, nil, nil, nil, ptr(w.assignor), ptr(w.assignor), ptr("nope"))
}

func (w *randomWalk) learnBeat(side int, a *actor, r *kmsg.ConsumerGroupHeartbeatResponse) {
	if r.ErrorCode != 0 {
		return
	}
	a.consumer.epoch = r.MemberEpoch
	if r.MemberID != nil {
		a.consumer.ids[side] = *r.MemberID
		if len(*r.MemberID) > 20 {
			w.name(side, *r.MemberID)
		}
	}
	if r.Assignment != nil {
		a.consumer.owned[side] = slices.Clone(r.Assignment.Topics)
	}
}

// offsetOperations are of groups of either protocol.
var offsetOperations = []operation{{"OffsetCommit", 8, commitSomehow}, {"OffsetFetch", 4, fetchSomehow}, {"OffsetDelete", 2, deleteOffsetsSomehow}}

func commitSomehow(w *randomWalk, a *actor) error {
	r, which, other := w.random, w.someID(), w.other()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.Generation = w.version(2, 10), w.group, w.someGeneration(a)
	q.InstanceID = w.someInstance(a, q.Version, 7)
	consumer := a.consumer.epoch > 0 && r.IntN(3) > 0
	if consumer {
		q.Generation = a.consumer.epoch + pick(r, int32(0), 0, 0, -1, 1)
	}
	simple := w.rarely(8)
	if simple {
		q.InstanceID, q.Generation = nil, -1
	}
	topic := pick(r, w.topic, w.topic, w.topic, "nowhere")
	metadata := pick(r, nil, ptr(""), ptr("m"), ptr(strings.Repeat("x", 5000)))
	offset := int64(r.IntN(100))
	var partitions []kmsg.OffsetCommitRequestTopicPartition
	for _, p := range pick(r, []int32{0}, []int32{0, 1}, []int32{9}, nil) {
		partitions = append(partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: p, Offset: offset, LeaderEpoch: int32(offset%3) - 1, Metadata: metadata})
	}
	what := fmt.Sprintf("OffsetCommit v%d as %d(%s) instance %s generation %d by hand %v %s %d partitions offset %d", q.Version, which, other.symbol, quoted(q.InstanceID), q.Generation, simple, topic, len(partitions), offset)
	return w.ask(a, what, func(side int) kmsg.Request {
		q := *q
		switch {
		case simple:
		case consumer:
			q.MemberID = a.consumerID(side, which, other)
		default:
			q.MemberID = a.classicID(side, which, other)
		}
		q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: w.topicID(side, topic), Partitions: partitions}}
		return &q
	})
}

func (w *randomWalk) topicID(side int, topic string) [16]byte {
	for _, one := range w.topics {
		if one.topic == topic {
			return one.ids[side]
		}
	}
	return [16]byte{9}
}

func fetchSomehow(w *randomWalk, a *actor) error {
	r, which, other := w.random, w.someID(), w.other()
	version, epoch := w.version(1, 10), a.consumer.epoch+pick(w.random, int32(0), 0, -1, 1)
	all, stable, member := w.rarely(3) && version >= 2, w.rarely(2), w.rarely(3)
	classic := r.IntN(2) == 0
	what := fmt.Sprintf("OffsetFetch v%d all %v stable %v member %v as %d(%s) epoch %d", version, all, stable, member, which, other.symbol, epoch)
	return w.ask(a, what, func(side int) kmsg.Request {
		q := kmsg.NewPtrOffsetFetchRequest()
		q.Version, q.Group, q.RequireStable = version, w.group, stable
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = w.group
		if member {
			one.MemberID, one.MemberEpoch = ptr(a.consumerID(side, which, other)), epoch
			if classic {
				one.MemberID = ptr(a.classicID(side, which, other))
			}
		}
		if !all {
			q.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: w.topic, Partitions: []int32{0, 1, 2}}}
			one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: w.topic, TopicID: w.ids[side], Partitions: []int32{0, 1, 2}}}
		}
		q.Groups = append(q.Groups, one)
		return q
	})
}

func deleteOffsetsSomehow(w *randomWalk, a *actor) error {
	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = w.group
	topic := kmsg.OffsetDeleteRequestTopic{Topic: pick(w.random, w.topic, w.topic, "nowhere")}
	for _, p := range pick(w.random, []int32{0}, []int32{0, 1}, []int32{7}, nil) {
		topic.Partitions = append(topic.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	q.Topics = []kmsg.OffsetDeleteRequestTopic{topic}
	return w.ask(a, fmt.Sprintf("OffsetDelete %s, %d partitions", topic.Topic, len(topic.Partitions)), func(int) kmsg.Request { return q })
}
