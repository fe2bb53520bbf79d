package consumerlog

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SubscriptionTopics reads the topics of a ConsumerProtocolSubscription: version
// int16, topics array of strings, then what later versions add.
func SubscriptionTopics(metadata []byte) (topics []string, ok bool) {
	r := kbin.Reader{Src: metadata}
	version := r.Int16()
	count := r.ArrayLen()
	if !r.Ok() || version < 0 || count < 0 || int(count) > len(r.Src)/2 {
		return nil, false
	}
	topics = make([]string, 0, count)
	for range count {
		topics = append(topics, r.String())
	}
	return topics, r.Ok()
}

// ClassicMember reads what a ConsumerProtocolSubscription says of its member.
func ClassicMember(metadata []byte) (*Member, bool) {
	var v kmsg.ConsumerMemberMetadata
	if err := v.ReadFrom(metadata); err != nil {
		return nil, false
	}
	return &Member{Topics: SortedSet(v.Topics), RackID: v.Rack, Regex: new(string)}, true
}

// SortedSet is the list sorted and without repetition.
func SortedSet(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// NamedPartitions are partitions of a topic as the classic protocol names them.
type NamedPartitions struct {
	Name       string
	Partitions []int32
}

// AssignedTopics reads the topics of a ConsumerProtocolAssignment.
func AssignedTopics(assignment []byte) ([]NamedPartitions, bool) {
	var v kmsg.ConsumerMemberAssignment
	if err := v.ReadFrom(assignment); err != nil {
		return nil, false
	}
	topics := make([]NamedPartitions, 0, len(v.Topics))
	for i := range v.Topics {
		topics = append(topics, NamedPartitions{v.Topics[i].Topic, v.Topics[i].Partitions})
	}
	return topics, true
}

// newestProtocolVersion of ConsumerProtocolAssignment.
const newestProtocolVersion = 3

// AppendAssignment is a ConsumerProtocolAssignment in the version of a subscription.
func AppendAssignment(dst, subscription []byte, topics []NamedPartitions) []byte {
	var v kmsg.ConsumerMemberAssignment
	if len(subscription) >= 2 {
		v.Version = min(int16(subscription[0])<<8|int16(subscription[1]), newestProtocolVersion)
	}
	for _, topic := range topics {
		v.Topics = append(v.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic.Name, Partitions: topic.Partitions})
	}
	slices.SortFunc(v.Topics, func(a, b kmsg.ConsumerMemberAssignmentTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return v.AppendTo(dst)
}
