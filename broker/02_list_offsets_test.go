package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

type offsetQuery struct {
	partition    int32
	timestamp    int64
	currentEpoch int32
}

func listOffsetsOf(version int16, topic string, queries ...offsetQuery) *kmsg.ListOffsetsRequest {
	request := kmsg.NewPtrListOffsetsRequest()
	request.SetVersion(version)
	request.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, q := range queries {
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = q.partition, q.timestamp, q.currentEpoch
		rt.Partitions = append(rt.Partitions, p)
	}
	request.Topics = append(request.Topics, rt)
	return request
}

func listOffsetsNow(t testing.TB, b *Broker, request *kmsg.ListOffsetsRequest) []kmsg.ListOffsetsResponseTopicPartition {
	t.Helper()
	return receive[*kmsg.ListOffsetsResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions
}

// The table is what Apache Kafka 4.4 answers.
func TestListOffsetsInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1, "empty": 1})
	builder := batch.Builder{}
	for _, ms := range []int64{5000, 9000, 7000} {
		builder.Append(ms, nil, []byte("x"))
	}
	records, err := builder.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "t", 0, "first") // now
	request := produceOne(t, b, 9, -1, "t", 0, records)
	receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request))
	unsupported := kerr.UnsupportedVersion.Code
	for version := int16(1); version <= 11; version++ {
		for _, tc := range []struct {
			timestamp int64
			since     int16 // version that knows it
			offset    int64
			epoch     int32
			stamped   bool
		}{
			{timestampLatest, 1, 4, 0, false},
			{timestampEarliest, 1, 0, 0, false},
			{timestampMax, 7, 0, 0, true},
			{timestampEarliestLocal, 8, 0, 0, false},
			{timestampLatestTiered, 9, -1, -1, false},
			{timestampEarliestToUpload, 11, -1, -1, false},
			{-7, 99, -1, -1, false},
			{0, 1, 0, 0, true},
			{time.Now().UnixMilli() + 1_000_000, 1, -1, -1, false},
		} {
			got := listOffsetsNow(t, b, listOffsetsOf(version, "t", offsetQuery{0, tc.timestamp, -1}))[0]
			if version < tc.since {
				if got.ErrorCode != unsupported || got.Offset != -1 || got.Timestamp != -1 {
					t.Fatalf("v%d %d: %+v, want error %d", version, tc.timestamp, got, unsupported)
				}
				continue
			}
			if got.ErrorCode != 0 || got.Offset != tc.offset || (got.Timestamp != -1) != tc.stamped {
				t.Fatalf("v%d %d: %+v, want offset %d", version, tc.timestamp, got, tc.offset)
			}
			if version >= listOffsetsWithLeaderEpoch && got.LeaderEpoch != tc.epoch {
				t.Fatalf("v%d %d: leader epoch %d, want %d", version, tc.timestamp, got.LeaderEpoch, tc.epoch)
			}
		}
	}
	for timestamp, want := range map[int64]int64{timestampLatest: 0, timestampEarliest: 0, timestampMax: -1, 0: -1} {
		if got := listOffsetsNow(t, b, listOffsetsOf(7, "empty", offsetQuery{0, timestamp, -1}))[0]; got.ErrorCode != 0 || got.Offset != want {
			t.Fatalf("empty partition, %d: %+v", timestamp, got)
		}
	}
}

func TestListOffsetsErrors(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	got := listOffsetsNow(t, b, listOffsetsOf(7, "t", offsetQuery{0, timestampLatest, -1}, offsetQuery{0, timestampEarliest, -1},
		offsetQuery{5, timestampLatest, -1}, offsetQuery{1, timestampLatest, 99}))
	if len(got) != 3 || got[0].ErrorCode != kerr.InvalidRequest.Code || got[1].ErrorCode != kerr.UnknownTopicOrPartition.Code || got[2].ErrorCode != kerr.UnknownLeaderEpoch.Code {
		t.Fatalf("%+v", got)
	}
	if got := listOffsetsNow(t, b, listOffsetsOf(7, "nope", offsetQuery{0, timestampLatest, -1})); got[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", got)
	}
	b.Authorizer = deny{"DESCRIBE TOPIC t": true}
	if got := listOffsetsNow(t, b, listOffsetsOf(7, "t", offsetQuery{0, 5, -1})); got[0].ErrorCode != kerr.TopicAuthorizationFailed.Code || got[0].Offset != -1 {
		t.Fatalf("%+v", got)
	}
}

func TestOffsetForLeaderEpochInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "a", "b")
	for version := int16(2); version <= 4; version++ {
		for _, tc := range []struct {
			partition, epoch, current int32
			wantEpoch                 int32
			wantEnd                   int64
			code                      int16
		}{
			{0, -1, -1, -1, -1, 0},
			{0, 0, -1, 0, 2, 0},
			{0, 0, 0, 0, 2, 0},
			{0, 1, -1, -1, -1, 0},
			{0, 0, 4, -1, -1, kerr.UnknownLeaderEpoch.Code},
			{3, 0, -1, -1, -1, kerr.UnknownTopicOrPartition.Code},
		} {
			request := kmsg.NewPtrOffsetForLeaderEpochRequest()
			request.SetVersion(version)
			request.ReplicaID = -1
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = "t"
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch = tc.partition, tc.epoch, tc.current
			rt.Partitions = append(rt.Partitions, p)
			request.Topics = append(request.Topics, rt)
			got := receive[*kmsg.OffsetForLeaderEpochResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]
			if got.ErrorCode != tc.code || got.LeaderEpoch != tc.wantEpoch || got.EndOffset != tc.wantEnd {
				t.Fatalf("v%d %+v: %+v", version, tc, got)
			}
		}
	}
}

// Requests that are too large for the event loop are answered by the workers, up
// to a bound.
func TestLargeOffsetRequestsLeaveTheLoop(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	queries := make([]offsetQuery, 8000)
	for i := range queries {
		queries[i] = offsetQuery{int32(i), timestampLatest, -1}
	}
	list := listOffsetsOf(7, "t", queries...)
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.SetVersion(4)
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = "t"
	topic.Partitions = make([]kmsg.OffsetForLeaderEpochRequestTopicPartition, 8000)
	epochs.Topics = append(epochs.Topics, topic)
	if got := listOffsetsNow(t, b, list); len(got) != 8000 || got[0].ErrorCode != 0 || got[7999].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%d answers", len(got))
	}
	if got := receive[*kmsg.OffsetForLeaderEpochResponse](t, epochs, send(t, b, testConnection(), epochs)); len(got.Topics[0].Partitions) != 8000 {
		t.Fatalf("%d answers", len(got.Topics[0].Partitions))
	}
	eventually(t, "the lookups are over", func() bool { return b.data.lookups.Load() == 0 }) // they answer before they are
	b.data.lookups.Store(limits.ListOffsetsLookups)
	if got := listOffsetsNow(t, b, list); got[0].ErrorCode != kerr.RequestTimedOut.Code {
		t.Fatalf("error %d", got[0].ErrorCode)
	}
	sink := send(t, b, testConnection(), epochs)
	waitFor(t, sink)
	if !errors.Is(sink.closed, errTooManyLookups) {
		t.Fatalf("closed with %v", sink.closed)
	}
}

// A client that has appended without waiting for the commit finds its records
// below the end offset that it asks for next.
func TestListOffsetsCoversWhatWasAppendedBefore(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := testConnection()
	for i := range int64(200) {
		request := produceOne(t, b, 9, 1, "t", 0, testBatch("v"))
		send(t, b, c, request)
		query := listOffsetsOf(4, "t", offsetQuery{partition: 0, timestamp: timestampLatest, currentEpoch: -1})
		if got := listOffsetsNow(t, b, query)[0].Offset; got != i+1 {
			t.Fatalf("the end offset after %d appends is %d", i+1, got)
		}
	}
}
