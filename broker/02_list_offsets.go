package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/logstore"
)

// ListOffsets (key 2), v1 to v11.
//
//	v2   isolation level: -1 is the last stable offset for read_committed
//	v4   leader epoch in request and answer: 74, 75 (KIP-320)
//	v6   flexible
//	v7   -3: the record with the largest timestamp (KIP-734)
//	v8   -4: the first offset of the local log (KIP-405); it is the log start
//	v9   -5: the last offset of the remote log (KIP-1005); -1, there is none
//	v10  timeout, of remote lookups only
//	v11  -6: the first offset that waits for its upload (KIP-1023); -1
//
// A special timestamp that the version does not know, and any other negative
// one, is answered 35, as Kafka. A partition that is named twice is answered 42,
// once. Lookups by time may read and decompress a batch: they run on the cold
// workers, as do very large requests, all others on the event loop.

const listOffsetsKey = 2

// Special timestamps.
const (
	timestampLatest            = -1
	timestampEarliest          = -2
	timestampMax               = -3
	timestampEarliestLocal     = -4
	timestampLatestTiered      = -5
	timestampEarliestToUpload  = -6
	listOffsetsWithMax         = 7
	listOffsetsWithLocal       = 8
	listOffsetsWithTiered      = 9
	listOffsetsWithUpload      = 11
	listOffsetsWithLeaderEpoch = 4
)

func (b *Broker) listOffsetsAPI() codec.API {
	return codec.API{Key: listOffsetsKey, Name: "ListOffsets", MinVersion: 1, MaxVersion: 11, Class: codec.TwoPhase,
		Note: "by time exact to the record; no remote tier", Handle: b.handleListOffsets}
}

// listOffsets is one request.
type listOffsets struct {
	broker     *Broker
	request    *codec.Request
	message    *kmsg.ListOffsetsRequest
	duplicates map[sessionName]int // how often a partition that is named twice is named
}

func (b *Broker) handleListOffsets(request *codec.Request) {
	message := kmsg.NewPtrListOffsetsRequest()
	if err := request.Decode(message); err != nil {
		request.Fail(err)
		return
	}
	l := &listOffsets{broker: b, request: request, message: message}
	l.whenVisible(l.run)
}

// run answers; it does not block.
func (l *listOffsets) run() {
	request := l.request
	if !l.byTime() && len(request.Body) <= limits.OffsetsInlineBytes {
		request.Respond(l.answer())
		return
	}
	if !l.broker.data.lookup(func() { request.Respond(l.answer()) }) {
		request.Respond(l.refuse(kerr.RequestTimedOut))
	}
}

// byTime says whether a lookup must look into segments.
func (l *listOffsets) byTime() bool {
	for i := range l.message.Topics {
		for j := range l.message.Topics[i].Partitions {
			if ts := l.message.Topics[i].Partitions[j].Timestamp; ts >= 0 || ts == timestampMax {
				return true
			}
		}
	}
	return false
}

func (l *listOffsets) refuse(code *kerr.Error) *kmsg.ListOffsetsResponse {
	return l.build(func(string, *kmsg.ListOffsetsRequestTopicPartition, *kmsg.ListOffsetsResponseTopicPartition) error {
		return code
	})
}

func (l *listOffsets) answer() *kmsg.ListOffsetsResponse {
	l.findDuplicates()
	allowed := make(map[string]bool, len(l.message.Topics))
	return l.build(func(topic string, asked *kmsg.ListOffsetsRequestTopicPartition, answer *kmsg.ListOffsetsResponseTopicPartition) error {
		may, known := allowed[topic]
		if !known {
			may = l.broker.allowed(l.request, auth.OperationDescribe, auth.ResourceTopic, topic)
			allowed[topic] = may
		}
		switch {
		case !may:
			return kerr.TopicAuthorizationFailed
		case l.duplicates[sessionName{topic, asked.Partition}] > 0:
			return kerr.InvalidRequest
		}
		return l.lookup(topic, asked, answer)
	})
}

// findDuplicates fills duplicates; only a request with duplicates has any.
func (l *listOffsets) findDuplicates() {
	seen := make(map[sessionName]struct{})
	for i := range l.message.Topics {
		for j := range l.message.Topics[i].Partitions {
			name := sessionName{l.message.Topics[i].Topic, l.message.Topics[i].Partitions[j].Partition}
			if _, twice := seen[name]; twice {
				if l.duplicates == nil {
					l.duplicates = make(map[sessionName]int)
				}
				l.duplicates[name] = 1
			}
			seen[name] = struct{}{}
		}
	}
}

// build makes the answer in the order of the request; fill sets one partition.
func (l *listOffsets) build(fill func(string, *kmsg.ListOffsetsRequestTopicPartition, *kmsg.ListOffsetsResponseTopicPartition) error) *kmsg.ListOffsetsResponse {
	response := kmsg.NewPtrListOffsetsResponse()
	told := make(map[sessionName]bool, len(l.duplicates))
	for i := range l.message.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = l.message.Topics[i].Topic
		for j := range l.message.Topics[i].Partitions {
			asked := &l.message.Topics[i].Partitions[j]
			name := sessionName{topic.Topic, asked.Partition}
			if l.duplicates[name] > 0 {
				if told[name] {
					continue
				}
				told[name] = true
			}
			answer := kmsg.NewListOffsetsResponseTopicPartition()
			answer.Partition = asked.Partition
			answer.Timestamp, answer.Offset, answer.LeaderEpoch = -1, -1, -1
			if err := fill(topic.Topic, asked, &answer); err != nil {
				answer.Timestamp, answer.Offset, answer.LeaderEpoch = -1, -1, -1
				answer.ErrorCode = l.errorCode(topic.Topic, asked.Partition, err)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}

func (l *listOffsets) errorCode(topic string, partition int32, err error) int16 {
	code := kafkaError(err)
	l.broker.storageFault("offset lookup failed", topic, partition, code, err)
	return code.Code
}

func (l *listOffsets) lookup(topic string, asked *kmsg.ListOffsetsRequestTopicPartition, answer *kmsg.ListOffsetsResponseTopicPartition) error {
	version := l.message.Version
	if !knownTimestamp(asked.Timestamp, version) {
		return kerr.UnsupportedVersion
	}
	state, unknown := l.broker.partition(topic, asked.Partition)
	if unknown != nil {
		return unknown
	}
	log := state.log
	if version >= listOffsetsWithLeaderEpoch {
		if err := checkLeaderEpoch(log, asked.CurrentLeaderEpoch); err != nil {
			return err
		}
	}
	isolation := l.isolation()
	switch asked.Timestamp {
	case timestampLatest:
		answer.Offset, answer.LeaderEpoch = visibleEnd(log, isolation), log.LeaderEpoch()
	case timestampEarliest, timestampEarliestLocal:
		answer.Offset = log.LogStartOffset()
		answer.LeaderEpoch = log.LeaderEpoch()
		if epoch, found := epochOfOffset(log, answer.Offset); found {
			answer.LeaderEpoch = epoch
		}
	case timestampLatestTiered, timestampEarliestToUpload:
		// Nothing is in a remote tier: offset and epoch stay -1.
	default:
		return lookupByTime(log, asked.Timestamp, isolation, answer)
	}
	return nil
}

func lookupByTime(log *logstore.Partition, timestampMs int64, isolation logstore.Isolation, answer *kmsg.ListOffsetsResponseTopicPartition) error {
	var at logstore.TimestampOffset
	var found bool
	var err error
	if timestampMs == timestampMax {
		at, found, err = log.MaxTimestamp(context.Background(), isolation)
	} else {
		at, found, err = log.OffsetForTimestamp(context.Background(), timestampMs, isolation)
	}
	if err != nil || !found {
		return err
	}
	answer.Offset, answer.Timestamp, answer.LeaderEpoch = at.Offset, at.TimestampMs, at.LeaderEpoch
	return nil
}

// isolation of the request: a replica, and Kafka's debugging consumer (-2), see
// the log to its end.
func (l *listOffsets) isolation() logstore.Isolation {
	switch {
	case l.message.ReplicaID != -1:
		return logstore.ReadLogEnd
	case l.message.IsolationLevel == 1:
		return logstore.ReadCommitted
	}
	return logstore.ReadUncommitted
}

func visibleEnd(log *logstore.Partition, isolation logstore.Isolation) int64 {
	switch isolation {
	case logstore.ReadLogEnd:
		return log.LogEndOffset()
	case logstore.ReadCommitted:
		return log.LastStableOffset()
	}
	return log.HighWatermark()
}

func knownTimestamp(timestamp int64, version int16) bool {
	switch timestamp {
	case timestampLatest, timestampEarliest:
		return true
	case timestampMax:
		return version >= listOffsetsWithMax
	case timestampEarliestLocal:
		return version >= listOffsetsWithLocal
	case timestampLatestTiered:
		return version >= listOffsetsWithTiered
	case timestampEarliestToUpload:
		return version >= listOffsetsWithUpload
	}
	return timestamp >= 0
}

// epochOfOffset finds the leader epoch under which the offset was written. The
// end of an epoch is the start of the next one, and epochs are few.
func epochOfOffset(log *logstore.Partition, offset int64) (int32, bool) {
	for epoch := log.LeaderEpoch(); epoch >= 0; {
		// The largest epoch below this one ends where this one begins.
		previous, end := log.EndOffsetForEpoch(epoch - 1)
		if previous < 0 || end <= offset {
			return epoch, true
		}
		epoch = previous
	}
	return 0, false
}
