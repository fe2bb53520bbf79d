package broker

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/quota"
)

// The answer to a Produce is encoded by hand into one pooled buffer.

// Bytes of the parts of an answer, rounded up.
const (
	produceReplyBytes          = 64
	produceReplyTopicBytes     = 24
	produceReplyPartitionBytes = 64
)

// errAppendUnanswered closes the connection of an acks=0 producer: closing is
// the only way to tell it (Kafka: KafkaApis.handleProduceRequest).
var errAppendUnanswered = errors.New("produce with acks=0 failed")

// reply tells the sink and ends the request. Once for each operation, by whoever
// set replied; results of partitions whose commit is pending are not touched by
// others any more.
func (o *produceOperation) reply() {
	redirected := o.settleCommits()
	if o.acks == 0 {
		o.replyNothing()
	} else {
		o.encode(redirected)
	}
	request := o.request
	o.request = nil
	request.Finish()
}

// settleCommits turns failed commits into errors.
func (o *produceOperation) settleCommits() (redirected bool) {
	for i := range o.partitions {
		p := &o.partitions[i]
		if p.commit.Load() == commitArrived && p.commitError != nil {
			p.baseOffset, p.logAppendTimeMs, p.logStartOffset = -1, -1, -1
			p.appendFailed(o.broker, p.commitError)
		}
		redirected = redirected || p.code == kerr.NotLeaderForPartition.Code
	}
	return redirected
}

func (o *produceOperation) replyNothing() {
	for i := range o.partitions {
		if p := &o.partitions[i]; p.code != 0 {
			o.request.Sink.CloseConn(fmt.Errorf("%w: partition %d of %q: %w", errAppendUnanswered, p.index, o.topicOf(p), kerr.ErrorForCode(p.code)))
			return
		}
	}
	o.throttle()
	o.request.Sink.Drop()
}

// throttle charges the whole request, as Kafka does.
func (o *produceOperation) throttle() (throttleMs int32) {
	return connectionOf(o.request).quota.ChargeBytes(quota.Produce, len(o.request.Frame().B))
}

func (o *produceOperation) topicOf(p *producePartition) string {
	if p.state != nil {
		return p.state.topicName
	}
	if o.version >= produceWithTopicIDs {
		return p.topicID.String()
	}
	return string(p.topicName)
}

func (o *produceOperation) encode(redirected bool) {
	flexible := o.version >= produceFlexible
	buf := o.request.NewReply(o.replySize())
	b := appendLength(buf.B, o.topics, flexible)
	for i := range o.partitions {
		p := &o.partitions[i]
		if p.first {
			if i > 0 && flexible {
				b = append(b, 0) // tags of the topic before
			}
			if o.version >= produceWithTopicIDs {
				b = append(b, p.topicID[:]...)
			} else {
				b = appendText(b, p.topicName, flexible)
			}
			b = appendLength(b, p.siblings, flexible)
		}
		b = o.encodePartition(b, p, flexible)
	}
	if o.topics > 0 && flexible {
		b = append(b, 0)
	}
	if throttleMs := o.throttle(); o.version >= produceWithThrottle {
		b = binary.BigEndian.AppendUint32(b, uint32(throttleMs))
	}
	switch {
	case redirected && o.version >= produceWithLeader:
		b = o.broker.appendNodeEndpoints(b, o.request.Session)
	case flexible:
		b = append(b, 0)
	}
	buf.B = b
	o.request.Replied(len(b))
	o.request.Sink.Bytes(buf)
	o.request.Sink.Done()
}

func (o *produceOperation) replySize() int {
	size := produceReplyBytes + produceReplyPartitionBytes*len(o.partitions)
	for i := range o.partitions {
		if p := &o.partitions[i]; p.first {
			size += produceReplyTopicBytes + len(p.topicName)
		}
	}
	return size
}

func (o *produceOperation) encodePartition(b []byte, p *producePartition, flexible bool) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.index))
	b = binary.BigEndian.AppendUint16(b, uint16(p.code))
	b = binary.BigEndian.AppendUint64(b, uint64(p.baseOffset))
	if o.version >= produceWithLogAppend {
		b = binary.BigEndian.AppendUint64(b, uint64(p.logAppendTimeMs))
	}
	if o.version >= produceWithLogStart {
		b = binary.BigEndian.AppendUint64(b, uint64(p.logStartOffset))
	}
	if o.version >= produceWithRecordErrors {
		b = appendLength(b, len(p.records), flexible)
		for i := range p.records {
			b = binary.BigEndian.AppendUint32(b, uint32(p.records[i].BatchIndex))
			b = appendNullableText(b, p.records[i].Message, flexible)
			if flexible {
				b = append(b, 0)
			}
		}
		b = appendNullableText(b, p.message, flexible)
	}
	if !flexible {
		return b
	}
	if o.version >= produceWithLeader && p.state != nil && p.code == kerr.NotLeaderForPartition.Code {
		b = append(b, 1)
		return appendCurrentLeader(b, 0, o.broker.Config.NodeID, p.state.leaderEpoch())
	}
	return append(b, 0)
}

// appendNullableText writes the empty text as null.
func appendNullableText(b []byte, text string, flexible bool) []byte {
	switch {
	case text != "":
		return appendText(b, text, flexible)
	case flexible:
		return append(b, 0)
	}
	return append(b, 0xff, 0xff)
}
