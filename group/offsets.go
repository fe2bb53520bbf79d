package group

import (
	"maps"
	"slices"
)

const (
	noExpiry      int64 = -1
	noLeaderEpoch int32 = -1
	noOffset      int64 = -1
)

// offset is one committed offset.
type offset struct {
	offset      int64
	leaderEpoch int32 // -1: not given
	metadata    string
	commitMs    int64    // wall clock of the commit
	expireMs    int64    // -1: by offsets.retention.minutes; else given by OffsetCommit v2–v4
	topicID     [16]byte // zero: committed before topic ids were recorded
	order       int64    // rises with each offset record, live and at load: of two, the later one wins
}

// offsets are the committed offsets of one group. Changed by Replay only.
type offsets struct {
	topics map[string]map[int32]offset
	// pending offsets of open transactions, by producer id. They do not count until
	// the marker is replayed.
	pending map[int64]map[string]map[int32]offset
}

func (o *offsets) void() bool { return len(o.topics) == 0 && len(o.pending) == 0 }

func (o *offsets) get(topic string, partition int32) (offset, bool) {
	value, ok := o.topics[topic][partition]
	return value, ok
}

func (o *offsets) set(topic string, partition int32, value offset) {
	if o.topics == nil {
		o.topics = map[string]map[int32]offset{}
	}
	put(o.topics, topic, partition, value)
}

func (o *offsets) remove(topic string, partition int32) {
	delete(o.topics[topic], partition)
	if len(o.topics[topic]) == 0 {
		delete(o.topics, topic)
	}
	// A tombstone also takes back what transactions still hold for the partition:
	// the topic was deleted, or the offset was deleted on purpose.
	for producerID, topics := range o.pending {
		delete(topics[topic], partition)
		if len(topics[topic]) == 0 {
			delete(topics, topic)
		}
		if len(topics) == 0 {
			delete(o.pending, producerID)
		}
	}
}

// setPending returns true when this is the producer's first pending offset here.
func (o *offsets) setPending(producerID int64, topic string, partition int32, value offset) bool {
	if o.pending == nil {
		o.pending = map[int64]map[string]map[int32]offset{}
	}
	first := o.pending[producerID] == nil
	if first {
		o.pending[producerID] = map[string]map[int32]offset{}
	}
	put(o.pending[producerID], topic, partition, value)
	return first
}

// endPending ends a producer's transaction. An offset that was committed outside
// the transaction after the pending one stays: the later record wins, as in
// OffsetMetadataManager.replayEndTransactionMarker.
func (o *offsets) endPending(producerID int64, commit bool) {
	topics := o.pending[producerID]
	delete(o.pending, producerID)
	if !commit {
		return
	}
	for topic, partitions := range topics {
		for partition, value := range partitions {
			old, ok := o.get(topic, partition)
			if ok && old.order > value.order {
				continue
			}
			o.set(topic, partition, value)
		}
	}
}

// hasPending says whether an open transaction may still change the offset.
func (o *offsets) hasPending(topic string, partition int32) bool {
	for _, topics := range o.pending {
		if _, ok := topics[topic][partition]; ok {
			return true
		}
	}
	return false
}

// pendingOnly lists the partitions of which only open transactions have an offset.
func (o *offsets) pendingOnly() []topicPartition {
	var only []topicPartition
	for _, producerID := range slices.Sorted(maps.Keys(o.pending)) {
		for _, topic := range slices.Sorted(maps.Keys(o.pending[producerID])) {
			for _, partition := range slices.Sorted(maps.Keys(o.pending[producerID][topic])) {
				if _, committed := o.get(topic, partition); !committed && !slices.Contains(only, topicPartition{topic, partition}) {
					only = append(only, topicPartition{topic, partition})
				}
			}
		}
	}
	return only
}

// pendingID is the topic's id in the newest pending offset of a partition.
func (o *offsets) pendingID(p topicPartition) [16]byte {
	var newest offset
	for _, topics := range o.pending {
		if value, ok := topics[p.topic][p.partition]; ok && value.order > newest.order {
			newest = value
		}
	}
	return newest.topicID
}

type topicPartition struct {
	topic     string
	partition int32
}

// topicNames in order; so are partitions. Replies and tombstones are made in it.
func (o *offsets) topicNames() []string { return slices.Sorted(maps.Keys(o.topics)) }

func (o *offsets) partitions(topic string) []int32 { return slices.Sorted(maps.Keys(o.topics[topic])) }

func put(topics map[string]map[int32]offset, topic string, partition int32, value offset) {
	partitions := topics[topic]
	if partitions == nil {
		partitions = map[int32]offset{}
		topics[topic] = partitions
	}
	partitions[partition] = value
}
