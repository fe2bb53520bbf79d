package broker

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
)

// view is what this broker serves at one moment. Immutable once stored in
// Broker.view; the observer builds the next one from it and replaces it whole.
//
// A reader that loaded an older view may still hold a partitionState of a topic
// that has gone. That is harmless: the partition's log is closed and answers
// logstore.ErrClosed, and removed is set before the new view is stored, so
// whoever parks on a partition checks it after parking (see partitionState).
type view struct {
	topics map[string]*topicState
	byID   map[meta.UUID]*topicState
	// partitions is the number of partitions of all topics.
	partitions int
}

var emptyView = &view{topics: map[string]*topicState{}, byID: map[meta.UUID]*topicState{}}

// topicState is one topic of a view. Immutable; a change of configuration or a
// new partition makes a new one with the same partitionStates.
type topicState struct {
	name     string
	id       meta.UUID
	internal bool
	config   config.Topic
	// overrides are the settings of the topic itself, by their dotted names.
	overrides map[string]string
	// partitions[i] is partition i; nil when it can't be served (its log directory
	// failed), which the accessors answer with KAFKA_STORAGE_ERROR.
	partitions []*partitionState
}

// partitionState is one served partition, the same object from the moment that
// it appears in a view until its topic is removed. log.Context points back to it.
type partitionState struct {
	// What a produce touches comes first and lies in one cache line.
	log       *logstore.Partition
	topicName string
	// removed is set once, by the observer, before it publishes a view without this
	// partition and before it runs the partitionRemoved hooks. Whoever parks a
	// request here looks at it after parking: either the hook finds the parked
	// request, or the parker sees removed.
	removed atomic.Bool
	index   int32
	// purgatory holds the parked fetches (purgatory.go).
	purgatory partitionPurgatory

	// config is the topic's configuration, replaced by the observer before the view
	// that goes with it.
	config  atomic.Pointer[config.Topic]
	topicID meta.UUID

	_ [48]byte // a multiple of 64
}

// topic finds a served topic by name, or nil. Lock-free.
func (b *Broker) topic(name string) *topicState { return b.view.Load().topics[name] }

// topicBytes is topic for a name that is a view into a request; it does not allocate.
func (b *Broker) topicBytes(name []byte) *topicState { return b.view.Load().topics[string(name)] }

// topicByID finds a served topic by id, or nil. Lock-free.
func (b *Broker) topicByID(id meta.UUID) *topicState { return b.view.Load().byID[id] }

// partition finds a served partition. Errors: UNKNOWN_TOPIC_OR_PARTITION.
func (b *Broker) partition(topic string, index int32) (*partitionState, *kerr.Error) {
	return b.topic(topic).partition(index)
}

// partitionBytes is partition for a name that is a view into a request; it does not allocate.
func (b *Broker) partitionBytes(topic []byte, index int32) (*partitionState, *kerr.Error) {
	return b.topicBytes(topic).partition(index)
}

// partitionByID finds a served partition by topic id. Errors: UNKNOWN_TOPIC_ID
// for the topic, UNKNOWN_TOPIC_OR_PARTITION for the index.
func (b *Broker) partitionByID(id meta.UUID, index int32) (*partitionState, *kerr.Error) {
	t := b.topicByID(id)
	if t == nil {
		return nil, kerr.UnknownTopicID
	}
	return t.partition(index)
}

// partition of a topic, which may be nil: an unknown topic.
func (t *topicState) partition(index int32) (*partitionState, *kerr.Error) {
	if t == nil || index < 0 || int(index) >= len(t.partitions) {
		return nil, kerr.UnknownTopicOrPartition
	}
	p := t.partitions[index]
	if p == nil {
		return nil, kerr.KafkaStorageError
	}
	return p, nil
}

// stateOf finds the broker's state of a partition of the log store, or nil before
// the observer has attached it.
func stateOf(p *logstore.Partition) *partitionState {
	state, _ := p.Context.(*partitionState)
	return state
}
