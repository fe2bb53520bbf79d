package consumerlog

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Kind is the int16 that a record's key begins with (Kafka's CoordinatorRecordType).
type Kind int16

// The records of a consumer group.
const (
	KindGroup             Kind = 3  // ConsumerGroupMetadata: the group's epoch
	KindPartitionMetadata Kind = 4  // ConsumerGroupPartitionMetadata: written by Kafka up to 4.0; read over
	KindMember            Kind = 5  // ConsumerGroupMemberMetadata: who the member is and what it subscribes to
	KindTarget            Kind = 6  // ConsumerGroupTargetAssignmentMetadata: the epoch of the plan
	KindTargetMember      Kind = 7  // ConsumerGroupTargetAssignmentMember: the plan for one member
	KindCurrent           Kind = 8  // ConsumerGroupCurrentMemberAssignment: the member's epoch and what it owns
	KindRegex             Kind = 16 // ConsumerGroupRegularExpression: the topics that match one
)

// Key is the key of any of these records.
type Key struct {
	Kind  Kind
	Group string
	// Item is the member id, or the regular expression; "" where the group is the key.
	Item string
}

// hasItem: the key has a second field.
func (k Kind) hasItem() bool {
	return k == KindMember || k == KindTargetMember || k == KindCurrent || k == KindRegex
}

// Known says whether the kind is a consumer group's.
func (k Kind) Known() bool { return k >= KindGroup && k <= KindCurrent || k == KindRegex }

// Append encodes the key.
func (k Key) Append(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, int16(k.Kind))
	dst = kbin.AppendString(dst, k.Group)
	if k.Kind.hasItem() {
		dst = kbin.AppendString(dst, k.Item)
	}
	return dst
}

// ReadKey decodes a key of a known kind.
func ReadKey(src []byte) (Key, error) {
	r := kbin.Reader{Src: src}
	k := Key{Kind: Kind(r.Int16())}
	if !k.Kind.Known() {
		return Key{}, fmt.Errorf("consumerlog: record kind %d is not a consumer group's", k.Kind)
	}
	k.Group = r.String()
	if k.Kind.hasItem() {
		k.Item = r.String()
	}
	if err := r.Complete(); err != nil {
		return Key{}, fmt.Errorf("consumerlog: key of kind %d: %w", k.Kind, err)
	}
	return k, nil
}
