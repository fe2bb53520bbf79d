package codec

// firstFlexibleProduce and firstTopicIDProduce are the versions of Produce at
// which compact encoding (KIP-482) and topic ids (KIP-516) begin.
const (
	firstFlexibleProduce = 9
	firstTopicIDProduce  = 13
)

// ProduceView reads a Produce request (v0–v13) where it lies: names, ids and
// records are views into Body, so they live as long as the request's frame.
// ParseProduce has walked the whole body, so the iterator cannot fail.
type ProduceView struct {
	Version int16
	// TransactionalID is nil when null.
	TransactionalID []byte
	Acks            int16
	TimeoutMs       int32
	// TopicCount counts the topics that have at least one partition: Kafka
	// builds its answer from partitions, so an empty topic is not in it.
	TopicCount     int
	PartitionCount int

	// body starts at the array of topics.
	body   []byte
	topics int
}

// ProducePartition is one partition's part of the request.
type ProducePartition struct {
	// Topic is set below v13, TopicID from v13 on.
	Topic   []byte
	TopicID [16]byte
	Index   int32
	// Records is nil when null. It may be written to: base offset and leader
	// epoch are patched in place.
	Records []byte
	// First marks the first partition of a topic; Siblings is then the number
	// of partitions of this topic, this one included.
	First    bool
	Siblings int
}

// ParseProduce checks the whole body and answers a view of it.
func ParseProduce(version int16, body []byte) (ProduceView, error) {
	flexible := version >= firstFlexibleProduce
	r := viewReader{body: body}
	v := ProduceView{Version: version}
	if version >= 3 {
		v.TransactionalID = r.nullableText(flexible)
	}
	v.Acks = r.int16()
	v.TimeoutMs = r.int32()
	v.topics = r.count(flexible)
	v.body = body[r.offset:]
	it := v.iterator(r)
	for it.Next() {
		v.PartitionCount++
		if it.Partition.First {
			v.TopicCount++
		}
	}
	it.reader.skipTags(flexible)
	if it.reader.bad || it.reader.remaining() != 0 {
		return ProduceView{}, ErrMalformed
	}
	return v, nil
}

// Partitions iterates over the partitions in the order of the request.
func (v *ProduceView) Partitions() ProduceIterator {
	return v.iterator(viewReader{body: v.body})
}

func (v *ProduceView) iterator(r viewReader) ProduceIterator {
	return ProduceIterator{
		reader:     r,
		flexible:   v.Version >= firstFlexibleProduce,
		topicIDs:   v.Version >= firstTopicIDProduce,
		topicsLeft: v.topics,
	}
}

// ProduceIterator walks the partitions of a ProduceView.
type ProduceIterator struct {
	// Partition is what the last Next that answered true found.
	Partition ProducePartition

	reader         viewReader
	flexible       bool
	topicIDs       bool
	inTopic        bool
	topicsLeft     int
	partitionsLeft int
}

// Next moves to the next partition; false at the end.
func (it *ProduceIterator) Next() bool {
	p := &it.Partition
	p.First = false
	for it.partitionsLeft == 0 {
		if it.inTopic {
			it.reader.skipTags(it.flexible)
			it.inTopic = false
		}
		if it.topicsLeft == 0 || it.reader.bad {
			return false
		}
		it.topicsLeft--
		it.inTopic = true
		if it.topicIDs {
			p.TopicID = it.reader.uuid()
		} else {
			p.Topic = it.reader.text(it.flexible)
		}
		it.partitionsLeft = it.reader.count(it.flexible)
		p.First, p.Siblings = true, it.partitionsLeft
	}
	it.partitionsLeft--
	p.Index = it.reader.int32()
	p.Records = it.reader.nullableBytes(it.flexible)
	it.reader.skipTags(it.flexible)
	return !it.reader.bad
}
