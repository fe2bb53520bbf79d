package group

import (
	"fmt"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Keys of __consumer_offsets begin with an int16 that says what the record is
// (Kafka's CoordinatorRecordType of the group coordinator).
const (
	keyOffsetCommitOld = 0 // the same layout, from before Kafka 0.9
	keyOffsetCommit    = 1
	keyGroupMetadata   = 2
	// 3–17 belong to the newer group types (KIP-848, share and streams groups).
)

// Versions of the values that Kafka 4.4 writes, and so do we.
const (
	offsetCommitValue           = 4 // with topic id
	offsetCommitValueWithExpiry = 1 // the only one that has an expire timestamp (OffsetCommit v2–v4)
	groupMetadataValue          = 3
)

func offsetKey(group, topic string, partition int32) []byte {
	key := kmsg.OffsetCommitKey{Version: keyOffsetCommit, Group: group, Topic: topic, Partition: partition}
	return key.AppendTo(make([]byte, 0, 2+2+len(group)+2+len(topic)+4))
}

func groupKey(group string) []byte {
	key := kmsg.GroupMetadataKey{Version: keyGroupMetadata, Group: group}
	return key.AppendTo(make([]byte, 0, 2+2+len(group)))
}

func offsetRecord(group, topic string, partition int32, o *offset) coord.Record {
	value := kmsg.OffsetCommitValue{
		Version: offsetCommitValue, Offset: o.offset, LeaderEpoch: o.leaderEpoch, Metadata: o.metadata,
		CommitTimestamp: o.commitMs, ExpireTimestamp: o.expireMs, TopicID: o.topicID,
	}
	if o.expireMs != noExpiry {
		value.Version = offsetCommitValueWithExpiry
	}
	return coord.Record{Key: offsetKey(group, topic, partition), Value: value.AppendTo(make([]byte, 0, 64+len(o.metadata)))}
}

func offsetTombstone(group, topic string, partition int32) coord.Record {
	return coord.Record{Key: offsetKey(group, topic, partition)}
}

func groupTombstone(group string) coord.Record { return coord.Record{Key: groupKey(group)} }

// metadataRecord is the group as it stands, with these assignments by member id.
func (g *group) metadataRecord(assignments map[string][]byte) coord.Record {
	value := kmsg.GroupMetadataValue{
		Version: groupMetadataValue, ProtocolType: g.protocolType, Generation: g.generation,
		CurrentStateTimestamp: g.stateSinceMs,
	}
	if g.protocol != "" {
		value.Protocol = kmsg.StringPtr(g.protocol)
	}
	if g.leader != "" {
		value.Leader = kmsg.StringPtr(g.leader)
	}
	for _, mem := range g.ordered() {
		value.Members = append(value.Members, kmsg.GroupMetadataValueMember{
			MemberID: mem.id, InstanceID: mem.instance(), ClientID: mem.client.ID, ClientHost: mem.client.Host,
			RebalanceTimeoutMillis: mem.rebalanceTimeoutMs, SessionTimeoutMillis: mem.sessionTimeoutMs,
			Subscription: mem.metadata(g.protocol), Assignment: assignments[mem.id],
		})
	}
	return coord.Record{Key: groupKey(g.id), Value: value.AppendTo(nil)}
}

// decodeOffset reads an OffsetCommitValue of any version.
func decodeOffset(value []byte) (offset, error) {
	if err := knownVersion(value, offsetCommitValue); err != nil {
		return offset{}, err
	}
	v := kmsg.NewOffsetCommitValue()
	if err := v.ReadFrom(value); err != nil {
		return offset{}, fmt.Errorf("group: offset commit value: %w", err)
	}
	o := offset{
		offset: v.Offset, leaderEpoch: noLeaderEpoch, metadata: v.Metadata, commitMs: v.CommitTimestamp,
		expireMs: noExpiry, topicID: v.TopicID,
	}
	if v.Version >= 3 {
		o.leaderEpoch = v.LeaderEpoch
	}
	if v.Version == offsetCommitValueWithExpiry {
		o.expireMs = v.ExpireTimestamp
	}
	return o, nil
}

// decodeGroup reads a GroupMetadataValue of any version.
func decodeGroup(value []byte) (*kmsg.GroupMetadataValue, error) {
	if err := knownVersion(value, 4); err != nil {
		return nil, err
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("group: group metadata value: %w", err)
	}
	return &v, nil
}

func knownVersion(value []byte, highest int16) error {
	r := kbin.Reader{Src: value}
	if version := r.Int16(); !r.Ok() || version < 0 || version > highest {
		return fmt.Errorf("group: value version %d, known are 0 to %d", version, highest)
	}
	return nil
}
