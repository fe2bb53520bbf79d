package codec

import "math"

// firstFlexibleFetch and firstTopicIDFetch are the versions of Fetch at which
// compact encoding (KIP-482) and topic ids (KIP-516) begin.
const (
	firstFlexibleFetch = 12
	firstTopicIDFetch  = 13
	lastReplicaIDFetch = 14
)

// FetchView reads a Fetch request (v4–v18) where it lies: names and ids are
// views into Body, so they live as long as the request's frame. ParseFetch has
// walked the whole body, so the iterators cannot fail.
type FetchView struct {
	Version int16
	// ReplicaID is -1 for a consumer. From v15 on it is a tagged field.
	ReplicaID    int32
	ReplicaEpoch int64
	MaxWaitMs    int32
	MinBytes     int32
	// MaxBytes bounds the records of the whole answer.
	MaxBytes       int32
	IsolationLevel int8
	// SessionID and SessionEpoch (KIP-227) are 0 and -1 below v7.
	SessionID    int32
	SessionEpoch int32
	Rack         []byte
	// TopicCount counts the topics that have at least one partition.
	TopicCount     int
	PartitionCount int
	ForgottenCount int

	// body starts at the first element of the array of topics, forgotten at
	// the first element of the array of forgotten topics.
	body, forgotten []byte
	topics          int
	forgottenTopics int
}

// FetchPartition is one partition's part of the request.
type FetchPartition struct {
	// Topic is set below v13, TopicID from v13 on.
	Topic   []byte
	TopicID [16]byte
	Index   int32
	// CurrentLeaderEpoch and LastFetchedEpoch are -1 when not sent.
	CurrentLeaderEpoch int32
	FetchOffset        int64
	LastFetchedEpoch   int32
	LogStartOffset     int64
	MaxBytes           int32
	// HighWatermark is what the client knows (v18, tagged); the largest int64
	// when not sent.
	HighWatermark int64
}

// ParseFetch checks the whole body and answers a view of it.
func ParseFetch(version int16, body []byte) (FetchView, error) {
	flexible := version >= firstFlexibleFetch
	r := viewReader{body: body}
	v := FetchView{Version: version, ReplicaID: -1, ReplicaEpoch: -1, SessionEpoch: -1}
	if version <= lastReplicaIDFetch {
		v.ReplicaID = r.int32()
	}
	v.MaxWaitMs = r.int32()
	v.MinBytes = r.int32()
	v.MaxBytes = math.MaxInt32
	if version >= 3 {
		v.MaxBytes = r.int32()
	}
	if version >= 4 {
		v.IsolationLevel = r.int8()
	}
	if version >= 7 {
		v.SessionID = r.int32()
		v.SessionEpoch = r.int32()
	}
	v.topics = r.count(flexible)
	v.body = body[r.offset:]
	it := v.iterator(r)
	previousTopics := -1
	for it.Next() {
		v.PartitionCount++
		if it.topicsLeft != previousTopics {
			previousTopics = it.topicsLeft
			v.TopicCount++
		}
	}
	r = it.reader
	if version >= 7 {
		v.parseForgotten(&r, flexible)
	}
	if version >= 11 {
		v.Rack = r.text(flexible)
	}
	if flexible {
		v.parseTags(&r)
	}
	if r.bad || r.remaining() != 0 {
		return FetchView{}, ErrMalformed
	}
	return v, nil
}

func (v *FetchView) parseForgotten(r *viewReader, flexible bool) {
	v.forgottenTopics = r.count(flexible)
	v.forgotten = r.body[r.offset:]
	it := v.forgottenIterator(*r)
	for it.Next() {
		v.ForgottenCount++
	}
	*r = it.reader
}

// parseTags reads the tags of the request: 0 is the cluster id, which Kafka's
// broker does not look at, 1 the replica's id and epoch (KIP-903).
func (v *FetchView) parseTags(r *viewReader) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		number, value := r.tag()
		if number != 1 || v.Version <= lastReplicaIDFetch {
			continue
		}
		state := viewReader{body: value}
		v.ReplicaID = state.int32()
		v.ReplicaEpoch = state.int64()
		state.skipTags(true)
		if state.bad || state.remaining() != 0 {
			r.bad = true
		}
	}
}

// Partitions iterates over the partitions in the order of the request.
func (v *FetchView) Partitions() FetchIterator {
	return v.iterator(viewReader{body: v.body})
}

// Forgotten iterates over the partitions that leave the session.
func (v *FetchView) Forgotten() ForgottenIterator {
	return v.forgottenIterator(viewReader{body: v.forgotten})
}

func (v *FetchView) iterator(r viewReader) FetchIterator {
	return FetchIterator{reader: r, version: v.Version, topicsLeft: v.topics}
}

func (v *FetchView) forgottenIterator(r viewReader) ForgottenIterator {
	return ForgottenIterator{reader: r, version: v.Version, topicsLeft: v.forgottenTopics}
}

// FetchIterator walks the partitions of a FetchView.
type FetchIterator struct {
	// Partition is what the last Next that answered true found.
	Partition FetchPartition

	reader         viewReader
	version        int16
	inTopic        bool
	topicsLeft     int
	partitionsLeft int
}

// Next moves to the next partition; false at the end.
func (it *FetchIterator) Next() bool {
	flexible := it.version >= firstFlexibleFetch
	p := &it.Partition
	for it.partitionsLeft == 0 {
		if it.inTopic {
			it.reader.skipTags(flexible)
			it.inTopic = false
		}
		if it.topicsLeft == 0 || it.reader.bad {
			return false
		}
		it.topicsLeft--
		it.inTopic = true
		if it.version >= firstTopicIDFetch {
			p.TopicID = it.reader.uuid()
		} else {
			p.Topic = it.reader.text(flexible)
		}
		it.partitionsLeft = it.reader.count(flexible)
	}
	it.partitionsLeft--
	it.read(p, flexible)
	return !it.reader.bad
}

func (it *FetchIterator) read(p *FetchPartition, flexible bool) {
	r := &it.reader
	p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
	p.HighWatermark = math.MaxInt64
	p.Index = r.int32()
	if it.version >= 9 {
		p.CurrentLeaderEpoch = r.int32()
	}
	p.FetchOffset = r.int64()
	if it.version >= 12 {
		p.LastFetchedEpoch = r.int32()
	}
	if it.version >= 5 {
		p.LogStartOffset = r.int64()
	}
	p.MaxBytes = r.int32()
	if !flexible {
		return
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		number, value := r.tag()
		if number != 1 || it.version < 18 {
			continue // 0 is the directory id of a replica
		}
		tag := viewReader{body: value}
		p.HighWatermark = tag.int64()
		if tag.bad || tag.remaining() != 0 {
			r.bad = true
		}
	}
}

// ForgottenIterator walks the forgotten partitions of a FetchView.
type ForgottenIterator struct {
	// Topic is set below v13, TopicID from v13 on.
	Topic   []byte
	TopicID [16]byte
	Index   int32

	reader         viewReader
	version        int16
	inTopic        bool
	topicsLeft     int
	partitionsLeft int
}

// Next moves to the next partition; false at the end.
func (it *ForgottenIterator) Next() bool {
	flexible := it.version >= firstFlexibleFetch
	for it.partitionsLeft == 0 {
		if it.inTopic {
			it.reader.skipTags(flexible)
			it.inTopic = false
		}
		if it.topicsLeft == 0 || it.reader.bad {
			return false
		}
		it.topicsLeft--
		it.inTopic = true
		if it.version >= firstTopicIDFetch {
			it.TopicID = it.reader.uuid()
		} else {
			it.Topic = it.reader.text(flexible)
		}
		it.partitionsLeft = it.reader.count(flexible)
	}
	it.partitionsLeft--
	it.Index = it.reader.int32()
	return !it.reader.bad
}
