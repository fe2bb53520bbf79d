package group

import (
	"kaas/coord"
	"kaas/group/assignor"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// typeConsumer is the group type in ListGroups v5.
const typeConsumer = "consumer"

// Member types in ConsumerGroupDescribe v1.
const (
	memberTypeClassic  = 0
	memberTypeConsumer = 1
)

// DescribeConsumerGroup shows one group of the consumer protocol. Authorised
// operations, and topics that may not be seen, are left to the handler.
func (m *Machine) DescribeConsumerGroup(t *coord.Turn, id string, done func(*kmsg.ConsumerGroupDescribeResponseGroup)) {
	if id == "" {
		done(DescribeConsumerError(id, codeInvalidGroupID))
		return
	}
	g := m.groups[id]
	if g == nil || g.consumer == nil {
		message := "Group " + id + " not found."
		if g != nil {
			message = "Group " + id + " is not a consumer group."
		}
		failed := DescribeConsumerError(id, codeGroupIDNotFound)
		failed.ErrorMessage = &message
		done(failed)
		return
	}
	c, image := g.consumer, m.image()
	r := kmsg.NewConsumerGroupDescribeResponseGroup()
	r.Group, r.State, r.Epoch, r.AssignmentEpoch = id, c.state(), c.epoch, c.assignmentEpoch
	r.AssignorName = m.assignorName(c)
	for _, mem := range c.ordered() {
		r.Members = append(r.Members, c.describe(mem, image))
	}
	reply(t, done, &r, func(code int16) *kmsg.ConsumerGroupDescribeResponseGroup { return DescribeConsumerError(id, code) })
}

// DescribeConsumerError is a group that cannot be shown.
func DescribeConsumerError(id string, code int16) *kmsg.ConsumerGroupDescribeResponseGroup {
	r := kmsg.NewConsumerGroupDescribeResponseGroup()
	r.Group, r.ErrorCode = id, code
	return &r
}

func (c *consumerGroup) describe(mem *consumerMember, image *meta.Image) kmsg.ConsumerGroupDescribeResponseGroupMember {
	r := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	said := &mem.said
	r.MemberID, r.InstanceID, r.RackID, r.MemberEpoch = mem.id, said.InstanceID, said.RackID, mem.epoch
	r.ClientID, r.ClientHost, r.SubscribedTopics, r.SubscribedTopicRegex = said.ClientID, said.ClientHost, said.Topics, said.Regex
	// What a member has not given back yet is still its own.
	r.Assignment, r.TargetAssignment = describeAssignment(mem.holds().plain(), image), describeAssignment(c.targets[mem.id], image)
	r.MemberType = memberTypeConsumer
	if mem.isClassic() {
		r.MemberType = memberTypeClassic
	}
	return r
}

// describeAssignment leaves out topics that are gone: there is no name to show.
func describeAssignment(p assignor.Partitions, image *meta.Image) kmsg.Assignment {
	var a kmsg.Assignment
	for _, id := range p.Sorted() {
		if topic := image.TopicByID(meta.UUID(id)); topic != nil {
			a.TopicPartitions = append(a.TopicPartitions, kmsg.AssignmentTopicPartition{TopicID: id, Topic: topic.Name, Partitions: p[id]})
		}
	}
	return a
}
