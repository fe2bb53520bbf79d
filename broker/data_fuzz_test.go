package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/codec/batch"
	"kaas/internal/bufpool"
)

// Whatever a body says, its handler ends the request once, with a reply that
// kmsg can read to the last byte, with none (acks=0), or by closing.
func FuzzDataHandlers(f *testing.F) {
	b := newDataBroker(f, testTopics{"t": 2})
	b.AnswerParked() // nothing waits
	put(f, b, "t", 0, "a", "b")
	for version := int16(0); version <= 13; version++ {
		for _, acks := range []int16{-1, 0, 1} {
			f.Add(int16(produceKey), version, produceOne(f, b, version, acks, "t", 1, testBatch("x", "y")).AppendTo(nil))
		}
	}
	for version := int16(4); version <= 18; version++ {
		f.Add(int16(fetchKey), version, fetchOf(f, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0, 1: 5, 7: 0}, minBytes: 1, maxWait: 1 << 30}).AppendTo(nil))
	}
	for version := int16(1); version <= 11; version++ {
		f.Add(int16(listOffsetsKey), version, listOffsetsOf(version, "t", offsetQuery{0, timestampLatest, -1}, offsetQuery{0, 5, 0}, offsetQuery{1, timestampMax, -1}).AppendTo(nil))
	}
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.Topics = append(epochs.Topics, kmsg.OffsetForLeaderEpochRequestTopic{Topic: "t", Partitions: make([]kmsg.OffsetForLeaderEpochRequestTopicPartition, 2)})
	for version := int16(2); version <= 4; version++ {
		epochs.SetVersion(version)
		f.Add(int16(offsetForLeaderEpochKey), version, epochs.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		api := b.registry.Load().Lookup(key)
		if api == nil || !api.Serves(version) || key != produceKey && key != fetchKey && key != listOffsetsKey && key != offsetForLeaderEpochKey {
			return
		}
		frame := bufpool.Get(len(body))
		copy(frame.B, body)
		sink := newReplySink()
		header := codec.Header{Key: key, Version: version, CorrelationID: 77}
		api.Handle(codec.NewRequest(api, header, frame.B, frame, &testConnection().Session, sink, time.Time{}, nil))
		waitFor(t, sink)
		if sink.closed != nil || sink.reply == nil {
			return
		}
		request := kmsg.RequestForKey(key)
		request.SetVersion(version)
		parseReply[kmsg.Response](t, request, sink.reply[4:], 77)
	})
}

// What oneBatch hands out is one batch of magic 2 that lies at the start of the
// records, whole.
func FuzzOneBatch(f *testing.F) {
	good := testBatch("x")
	f.Add(good, int16(9))
	f.Add(append(append([]byte{}, good...), good...), int16(9))
	f.Add(append(append([]byte{}, good...), 0, 0, 0), int16(9))
	f.Add(good[:20], int16(9))
	f.Add(damaged(good, batchMagicAt, 1), int16(3))
	f.Add(buildBatch(batch.Builder{Compression: batch.Zstd}, "x"), int16(6))
	f.Fuzz(func(t *testing.T, records []byte, version int16) {
		one, refused, _ := oneBatch(records, version)
		if (one == nil) != (refused != nil) {
			t.Fatalf("a batch of %d bytes and the error %v", len(one), refused)
		}
		if one == nil {
			return
		}
		view := batch.View(one)
		if len(one) > len(records) || &one[0] != &records[0] || view.SizeBytes() != len(one) || view.Magic() != 2 {
			t.Fatalf("%d of %d bytes, size %d, magic %d", len(one), len(records), view.SizeBytes(), view.Magic())
		}
		if next, _, err := batch.Next(records[len(one):]); err == nil {
			t.Fatalf("a second batch of %d bytes was passed over", len(next))
		}
	})
}
