package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec/batch"
	"kaas/logstore"
)

// transactional appends one record of a transaction below the coordinator.
func transactional(t testing.TB, log *logstore.Partition, producerID int64, sequence int32, value string) {
	t.Helper()
	records := buildBatch(batch.Builder{HasProducer: true, Transactional: true, ProducerID: producerID, BaseSequence: sequence}, value)
	if _, err := log.Append(records, logstore.AppendOptions{Origin: logstore.OriginClient, LeaderEpoch: log.LeaderEpoch()}); err != nil {
		t.Fatal(err)
	}
}

func endTransaction(t testing.TB, log *logstore.Partition, producerID int64, commit bool) {
	t.Helper()
	marker := batch.EndTxnMarker(nil, producerID, 0, commit, 0, time.Now().UnixMilli())
	if _, err := log.Append(marker, logstore.AppendOptions{Origin: logstore.OriginCoordinator, LeaderEpoch: log.LeaderEpoch()}); err != nil {
		t.Fatal(err)
	}
}

func awaitCommitted(t testing.TB, log *logstore.Partition) {
	t.Helper()
	done := make(chan error, 1)
	log.WhenCommitted(&logstore.Waiter{Offset: log.LogEndOffset(), Done: func(_ *logstore.Waiter, err error) { done <- err }})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// read_committed stops at the first open transaction, is told the aborted ones,
// and wakes when the last stable offset moves, not when records are appended.
func TestReadCommitted(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	log := b.topic("t").partitions[0].log
	put(t, b, "t", 0, "plain")               // 0
	transactional(t, log, 1, 0, "aborted")   // 1
	transactional(t, log, 2, 0, "committed") // 2
	endTransaction(t, log, 1, false)         // 3
	awaitCommitted(t, log)
	spec := fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, isolation: 1, minBytes: 1}
	p := fetchNow(t, b, spec).Topics[0].Partitions[0]
	if _, offsets := valuesOf(t, p.RecordBatches); len(offsets) != 2 || p.LastStableOffset != 2 || p.HighWatermark != 4 {
		t.Fatalf("offsets %v of %+v", offsets, p)
	}
	if len(p.AbortedTransactions) != 1 || p.AbortedTransactions[0].ProducerID != 1 || p.AbortedTransactions[0].FirstOffset != 1 {
		t.Fatalf("%+v", p.AbortedTransactions)
	}
	if got := listOffsetsNow(t, b, isolated(listOffsetsOf(7, "t", offsetQuery{0, timestampLatest, -1})))[0]; got.Offset != 2 {
		t.Fatalf("%+v", got)
	}
	// read_uncommitted sees all and is told nothing.
	spec.isolation = 0
	p = fetchNow(t, b, spec).Topics[0].Partitions[0]
	if _, offsets := valuesOf(t, p.RecordBatches); len(offsets) != 4 || p.AbortedTransactions != nil {
		t.Fatalf("offsets %v", offsets)
	}

	spec.isolation, spec.maxWait, spec.partitions = 1, 600_000, map[int32]int64{0: 2}
	request := fetchOf(t, b, spec)
	parked := send(t, b, testConnection(), request)
	put(t, b, "t", 0, "behind the open transaction") // 4
	if isEnded(parked) {
		t.Fatal("an append woke a read_committed fetch that it cannot serve")
	}
	endTransaction(t, log, 2, true) // 5
	p = receive[*kmsg.FetchResponse](t, request, parked).Topics[0].Partitions[0]
	if _, offsets := valuesOf(t, p.RecordBatches); len(offsets) != 4 || offsets[0] != 2 || p.LastStableOffset != 6 {
		t.Fatalf("offsets %v of %+v", offsets, p)
	}
	if len(p.AbortedTransactions) != 1 {
		// Transaction 1 overlaps the range: its marker is at 3.
		t.Fatalf("%+v", p.AbortedTransactions)
	}
	assertNothingParked(t, b)
}

func isolated(request *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsRequest {
	request.IsolationLevel = 1
	return request
}

// A log with the epochs 0 (offsets 0, 1), 2 (offset 2) and 5 (offset 3).
func epochLog(t *testing.T) *Broker {
	b := newDataBroker(t, testTopics{"t": 1})
	log := b.topic("t").partitions[0].log
	for _, epoch := range []int32{0, 0, 2, 5} {
		if _, err := log.Append(testBatch("x"), logstore.AppendOptions{LeaderEpoch: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	awaitCommitted(t, log)
	return b
}

func TestLeaderEpochsInFetch(t *testing.T) {
	t.Parallel()
	b := epochLog(t)
	for _, tc := range []struct {
		name             string
		offset           int64
		current, fetched int32
		code             *kerr.Error
		divergingEpoch   int32
		divergingEnd     int64
		records          int
	}{
		{"current", 0, 5, -1, nil, -1, -1, 4},
		{"older than the leader's", 0, 4, -1, kerr.FencedLeaderEpoch, -1, -1, 0},
		{"newer than the leader's", 0, 6, -1, kerr.UnknownLeaderEpoch, -1, -1, 0},
		{"fetched in order", 2, 5, 0, nil, -1, -1, 2},
		{"fetched in order, later", 3, -1, 2, nil, -1, -1, 1},
		{"epoch that ended before", 3, -1, 0, nil, 0, 2, 0},
		{"epoch that never was here", 3, -1, 3, nil, 2, 3, 0},
		{"fetched epoch of the future", 3, -1, 9, kerr.OffsetOutOfRange, -1, -1, 0},
	} {
		for version := int16(12); version <= 18; version++ {
			got := fetchNow(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: tc.offset}, epoch: -1, minBytes: 1, maxWait: 600_000,
				change: func(p *kmsg.FetchRequestTopicPartition) {
					p.CurrentLeaderEpoch, p.LastFetchedEpoch = tc.current, tc.fetched
				}})
			p := got.Topics[0].Partitions[0]
			values, _ := valuesOf(t, p.RecordBatches)
			code := int16(0)
			if tc.code != nil {
				code = tc.code.Code
			}
			if p.ErrorCode != code || p.DivergingEpoch.Epoch != tc.divergingEpoch || p.DivergingEpoch.EndOffset != tc.divergingEnd || len(values) != tc.records {
				t.Fatalf("%s v%d: %+v with %d records", tc.name, version, p, len(values))
			}
			redirected := version >= fetchWithCurrentLeader && tc.code == kerr.FencedLeaderEpoch
			if (p.CurrentLeader.LeaderID == 1 && p.CurrentLeader.LeaderEpoch == 5) != redirected || (len(got.Brokers) == 1) != redirected {
				t.Fatalf("%s v%d: current leader %+v, brokers %+v", tc.name, version, p.CurrentLeader, got.Brokers)
			}
			if redirected && (got.Brokers[0].Host != "broker.example" || got.Brokers[0].Port != 9092) {
				t.Fatalf("%+v", got.Brokers)
			}
		}
	}
}

func TestLeaderEpochsInOffsetLookups(t *testing.T) {
	t.Parallel()
	b := epochLog(t)
	for epoch, want := range map[int32][2]int64{-1: {-1, -1}, 0: {0, 2}, 1: {0, 2}, 2: {2, 3}, 4: {2, 3}, 5: {5, 4}, 6: {-1, -1}} {
		request := kmsg.NewPtrOffsetForLeaderEpochRequest()
		request.SetVersion(4)
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = "t"
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.LeaderEpoch, p.CurrentLeaderEpoch = epoch, -1
		topic.Partitions = append(topic.Partitions, p)
		request.Topics = append(request.Topics, topic)
		got := receive[*kmsg.OffsetForLeaderEpochResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]
		if got.ErrorCode != 0 || int64(got.LeaderEpoch) != want[0] || got.EndOffset != want[1] {
			t.Errorf("epoch %d: %+v, want %v", epoch, got, want)
		}
	}
	for timestamp, want := range map[int64]int32{timestampEarliest: 0, timestampLatest: 5} {
		if got := listOffsetsNow(t, b, listOffsetsOf(7, "t", offsetQuery{0, timestamp, 5}))[0]; got.LeaderEpoch != want {
			t.Errorf("timestamp %d: %+v, want epoch %d", timestamp, got, want)
		}
	}
	if got := listOffsetsNow(t, b, listOffsetsOf(7, "t", offsetQuery{0, timestampLatest, 4}))[0]; got.ErrorCode != kerr.FencedLeaderEpoch.Code {
		t.Errorf("%+v", got)
	}
	// What is left of epoch 0 is gone: the earliest offset belongs to epoch 2.
	log := b.topic("t").partitions[0].log
	if _, err := log.DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	if got := listOffsetsNow(t, b, listOffsetsOf(7, "t", offsetQuery{0, timestampEarliest, -1}))[0]; got.Offset != 2 || got.LeaderEpoch != 2 {
		t.Errorf("%+v", got)
	}
	p := fetchNow(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 1}, epoch: -1, minBytes: 1, maxWait: 600_000}).Topics[0].Partitions[0]
	if p.ErrorCode != kerr.OffsetOutOfRange.Code {
		t.Errorf("%+v", p)
	}
}

// A log that was closed under a request is NOT_LEADER_OR_FOLLOWER, with who leads
// and where (KIP-951), in every version that has the fields.
func TestClosedLogNamesTheLeader(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "x")
	if err := b.Store.Delete("t", 0); err != nil {
		t.Fatal(err)
	}
	for version := int16(3); version <= 13; version++ {
		request := produceOne(t, b, version, -1, "t", 0, testBatch("a"))
		got := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request))
		p := got.Topics[0].Partitions[0]
		named := version >= produceWithLeader
		if p.ErrorCode != kerr.NotLeaderForPartition.Code || (p.CurrentLeader.LeaderID == 1) != named || (len(got.Brokers) == 1) != named {
			t.Fatalf("produce v%d: %+v, brokers %+v", version, p, got.Brokers)
		}
	}
	for version := int16(4); version <= 18; version++ {
		got := fetchNow(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
		p := got.Topics[0].Partitions[0]
		named := version >= fetchWithCurrentLeader
		if p.ErrorCode != kerr.NotLeaderForPartition.Code || (p.CurrentLeader.LeaderID == 1) != named || (len(got.Brokers) == 1) != named {
			t.Fatalf("fetch v%d: %+v, brokers %+v", version, p, got.Brokers)
		}
	}
}
