package group

import (
	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetFetch reads the committed offsets of one group. Topics nil asks for all
// of them. The handler has authorised and resolved the topics (name and id both
// set) and filters what is returned for all. A group that does not exist has no
// offsets, which is no error.
func (m *Machine) OffsetFetch(t *coord.Turn, req *kmsg.OffsetFetchRequestGroup, requireStable bool, done func(*kmsg.OffsetFetchResponseGroup)) {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group = req.Group
	g := m.groups[req.Group]
	if code := g.checkFetch(req.MemberID, req.MemberEpoch); code != 0 {
		r.ErrorCode = code
		done(&r)
		return
	}
	if g == nil {
		g = newGroup(req.Group) // void, and forgotten at the end of this call
	}
	if req.Topics == nil {
		for _, name := range g.offsets.topicNames() {
			topic := kmsg.OffsetFetchResponseGroupTopic{Topic: name}
			for _, partition := range g.offsets.partitions(name) {
				o, _ := g.offsets.get(name, partition)
				topic.TopicID = o.topicID
				topic.Partitions = append(topic.Partitions, g.fetchOne(name, o.topicID, partition, requireStable))
			}
			r.Topics = append(r.Topics, topic)
		}
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		topic := kmsg.OffsetFetchResponseGroupTopic{Topic: asked.Topic, TopicID: asked.TopicID}
		for _, partition := range asked.Partitions {
			topic.Partitions = append(topic.Partitions, g.fetchOne(asked.Topic, asked.TopicID, partition, requireStable))
		}
		r.Topics = append(r.Topics, topic)
	}
	reply(t, done, &r, func(code int16) *kmsg.OffsetFetchResponseGroup {
		failed := kmsg.NewOffsetFetchResponseGroup()
		failed.Group, failed.ErrorCode = req.Group, code
		return &failed
	})
}

// checkFetch: a member of a consumer group fetches in its epoch; who names no member
// always may, and members of classic groups do not say who they are (v9,
// ConsumerGroup.validateOffsetFetch).
func (g *group) checkFetch(memberID *string, epoch int32) int16 {
	if g == nil || g.consumer == nil || memberID == nil && epoch < 0 {
		return 0
	}
	if memberID == nil {
		return codeUnknownMemberID
	}
	mem := g.consumer.members[*memberID]
	switch {
	case mem == nil:
		return codeUnknownMemberID
	case epoch == mem.epoch:
		return 0
	case mem.isClassic():
		return codeIllegalGeneration
	}
	return codeStaleMemberEpoch
}

// fetchOne is one offset. One that was committed to a topic of the same name but
// another id does not count: the topic was deleted and made anew.
func (g *group) fetchOne(topic string, topicID [16]byte, partition int32, requireStable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, noOffset, noLeaderEpoch, kmsg.StringPtr("")
	if requireStable && g.offsets.hasPending(topic, partition) {
		p.ErrorCode = codeUnstableOffset
		return p
	}
	if o, ok := g.offsets.get(topic, partition); ok && sameTopic(o.topicID, topicID) {
		p.Offset, p.LeaderEpoch, p.Metadata = o.offset, o.leaderEpoch, kmsg.StringPtr(o.metadata)
	}
	return p
}

// sameTopic compares ids where both are known.
func sameTopic(a, b [16]byte) bool { return a == b || a == [16]byte{} || b == [16]byte{} }
