package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/internal/delay"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta/config"
)

func TestFetchInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	put(t, b, "t", 0, "a", "b")
	put(t, b, "t", 0, strings.Repeat("c", 5000))
	for version := int16(4); version <= 18; version++ {
		for _, isolation := range []int8{0, 1} {
			got := fetchNow(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}, isolation: isolation, epoch: -1, minBytes: 1})
			if got.ErrorCode != 0 || got.SessionID != 0 || len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 2 {
				t.Fatalf("v%d: %+v", version, got)
			}
			full, empty := got.Topics[0].Partitions[0], got.Topics[0].Partitions[1]
			if full.ErrorCode != 0 || full.HighWatermark != 3 || full.LastStableOffset != 3 || version >= 5 && full.LogStartOffset != 0 || full.PreferredReadReplica != -1 {
				t.Fatalf("v%d: %+v", version, full)
			}
			values, offsets := valuesOf(t, full.RecordBatches)
			if len(values) != 3 || values[0] != "a" || len(values[2]) != 5000 || !slices.Equal(offsets, []int64{0, 1, 2}) {
				t.Fatalf("v%d: offsets %v", version, offsets)
			}
			if empty.RecordBatches == nil || len(empty.RecordBatches) != 0 || empty.HighWatermark != 0 {
				t.Fatalf("v%d: records of an empty partition must be empty and not null: %+v", version, empty)
			}
			if (full.AbortedTransactions == nil) != (isolation == 0) {
				t.Fatalf("v%d isolation %d: aborted transactions %v", version, isolation, full.AbortedTransactions)
			}
		}
	}
}

// Codes and offsets are what Apache Kafka 4.4 answers.
func TestFetchErrors(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "a", "b", "c")
	for _, tc := range []struct {
		name   string
		lowest int16
		index  int32
		offset int64
		change func(*kmsg.FetchRequestTopicPartition)
		code   *kerr.Error
		empty  bool // an empty list of aborted transactions instead of null
	}{
		{name: "beyond the end", offset: 99, code: kerr.OffsetOutOfRange},
		{name: "negative", offset: -1, code: kerr.OffsetOutOfRange},
		{name: "unknown partition", index: 7, code: kerr.UnknownTopicOrPartition, empty: true},
		{name: "future leader epoch", lowest: 9, change: func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 99 }, code: kerr.UnknownLeaderEpoch},
		{name: "future fetched epoch", lowest: 12, change: func(p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch = 5 }, code: kerr.OffsetOutOfRange},
	} {
		for version := max(tc.lowest, 4); version <= 18; version++ {
			// max_wait_ms is long: an error must not wait.
			got := fetchNow(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{tc.index: tc.offset}, epoch: -1, minBytes: 1, maxWait: 600_000, change: tc.change})
			p := got.Topics[0].Partitions[0]
			if p.ErrorCode != tc.code.Code || p.HighWatermark != -1 || p.LastStableOffset != -1 || p.LogStartOffset != -1 || p.RecordBatches == nil {
				t.Fatalf("%s v%d: %+v", tc.name, version, p)
			}
			if (p.AbortedTransactions != nil) != tc.empty {
				t.Fatalf("%s v%d: aborted transactions %v", tc.name, version, p.AbortedTransactions)
			}
		}
	}
	// Known epochs are no error.
	got := fetchNow(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 1}, epoch: -1, change: func(p *kmsg.FetchRequestTopicPartition) {
		p.CurrentLeaderEpoch, p.LastFetchedEpoch = 0, 0
	}})
	if p := got.Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Fatalf("%+v", p)
	}
}

func TestFetchOfUnknownTopics(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	for version := int16(4); version <= 18; version++ {
		request := fetchOf(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
		request.Topics[0].Topic, request.Topics[0].TopicID = "nope", [16]byte{0xee}
		want := kerr.UnknownTopicOrPartition.Code
		if version >= fetchWithTopicIDs {
			want = kerr.UnknownTopicID.Code
		}
		got := receive[*kmsg.FetchResponse](t, request, send(t, b, testConnection(), request))
		if p := got.Topics[0].Partitions[0]; p.ErrorCode != want {
			t.Fatalf("v%d: error %d, want %d", version, p.ErrorCode, want)
		}
	}
}

func TestFetchAsReplicaIsRefused(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "a")
	for _, version := range []int16{11, 17} {
		request := fetchOf(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1})
		request.ReplicaID, request.ReplicaState.ID = 9, 9
		got := receive[*kmsg.FetchResponse](t, request, send(t, b, testConnection(), request))
		if p := got.Topics[0].Partitions[0]; p.ErrorCode != kerr.NotLeaderForPartition.Code {
			t.Fatalf("v%d: %+v", version, p)
		}
	}
	b.Authorizer = deny{"CLUSTER_ACTION CLUSTER kafka-cluster": true}
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1})
	request.ReplicaID = 9
	got := receive[*kmsg.FetchResponse](t, request, send(t, b, testConnection(), request))
	if p := got.Topics[0].Partitions[0]; p.ErrorCode != kerr.TopicAuthorizationFailed.Code {
		t.Fatalf("%+v", p)
	}
	b.Authorizer = auth.AllowAll{}
}

func TestFetchAsksTheAuthorizer(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	put(t, b, "t", 0, "a")
	b.Authorizer = deny{"READ TOPIC t": true, "READ TOPIC nope": true}
	for _, version := range []int16{11, 13} {
		got := fetchNow(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}, epoch: -1})
		for _, p := range got.Topics[0].Partitions {
			if p.ErrorCode != kerr.TopicAuthorizationFailed.Code || len(p.RecordBatches) != 0 {
				t.Fatalf("v%d: %+v", version, p)
			}
		}
	}
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "nope", partitions: map[int32]int64{0: 0}, epoch: -1})
	if got := receive[*kmsg.FetchResponse](t, request, send(t, b, testConnection(), request)); got.Topics[0].Partitions[0].ErrorCode != kerr.TopicAuthorizationFailed.Code {
		t.Fatal("a topic that does not exist is told from one that may not be read")
	}
	b.Authorizer = auth.AllowAll{}
}

// The first batch of the first partition that has one comes whole; the rest of
// the answer keeps to the bounds.
func TestFetchBounds(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 3})
	big := strings.Repeat("b", 3000)
	for range 3 {
		put(t, b, "t", 1, big)
		put(t, b, "t", 2, big)
	}
	for _, tc := range []struct {
		name                   string
		maxBytes, partitionMax int32
		want                   []int // records by partition
	}{
		{"below one batch", 1, 1, []int{0, 1, 0}},
		{"partition bound of one", 1 << 20, 1, []int{0, 1, 0}},
		{"partition bound of two", 1 << 20, 7000, []int{0, 2, 2}},
		{"whole bound of three", 10_000, 7000, []int{0, 2, 1}},
		{"negative", -5, -5, []int{0, 1, 0}},
		{"all", 1 << 20, 1 << 20, []int{0, 3, 3}},
	} {
		for _, version := range []int16{4, 12} {
			got := fetchNow(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0, 1: 0, 2: 0}, epoch: -1, maxBytes: tc.maxBytes, partitionMax: tc.partitionMax})
			for i, p := range got.Topics[0].Partitions {
				if values, _ := valuesOf(t, p.RecordBatches); len(values) != tc.want[i] {
					t.Errorf("%s v%d: partition %d has %d records, want %d", tc.name, version, i, len(values), tc.want[i])
				}
			}
		}
	}
}

// A fetch of very many partitions is read off the event loop.
func TestFetchOfManyPartitions(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "a")
	for _, n := range []int{limits.FetchInlinePartitions + 1, limits.FetchPartitions, limits.FetchPartitions + 1} {
		request := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1})
		for len(request.Topics[0].Partitions) < n {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition = int32(len(request.Topics[0].Partitions))
			request.Topics[0].Partitions = append(request.Topics[0].Partitions, p)
		}
		sink := send(t, b, testConnection(), request)
		if n > limits.FetchPartitions {
			waitFor(t, sink)
			if sink.closed == nil {
				t.Fatalf("%d partitions were answered", n)
			}
			continue
		}
		got := receive[*kmsg.FetchResponse](t, request, sink).Topics[0].Partitions
		if len(got) != n || len(got[0].RecordBatches) == 0 || got[n-1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
			t.Fatalf("%d partitions: %d answers", n, len(got))
		}
	}
}

func TestFetchMaxBytesOfTheBrokerBinds(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1}, func(c *config.Broker) { c.FetchMaxBytes = 2000 })
	for range 10 {
		put(t, b, "t", 0, strings.Repeat("b", 900))
	}
	got := fetchNow(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1})
	if values, _ := valuesOf(t, got.Topics[0].Partitions[0].RecordBatches); len(values) != 2 {
		t.Fatalf("%d records", len(values))
	}
}

// An answer has what the socket takes at once, or all that one partition or min_bytes asks for.
func TestFetchAnswerIsBounded(t *testing.T) {
	t.Parallel()
	const batchBytes, batches = 100_000, 12 // in each of three partitions
	for _, c := range []struct {
		sendBuffer, partitionMax, minBytes int32
		most                               int
	}{
		{512 << 10, 1 << 20, 1, 1 << 20},
		{100 << 10, 1 << 20, 1, 1 << 20},
		{1 << 20, 1 << 20, 1, 2 << 20},
		{512 << 10, 2 << 20, 1, 2 << 20},
		{512 << 10, 1 << 20, 2 << 20, 2 << 20},
		{-1, 1 << 20, 1, 50 << 20},
	} {
		b := newDataBroker(t, testTopics{"t": 3}, func(config *config.Broker) { config.SocketSendBufferBytes = c.sendBuffer })
		for p := range int32(3) {
			for range batches {
				put(t, b, "t", p, strings.Repeat("b", batchBytes))
			}
		}
		got := fetchNow(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0, 1: 0, 2: 0}, epoch: -1, minBytes: c.minBytes, partitionMax: c.partitionMax})
		bytes := 0
		for _, p := range got.Topics[0].Partitions {
			bytes += len(p.RecordBatches)
		}
		if least := min(c.most-3*(batchBytes+100), 3*10*batchBytes); bytes > c.most || bytes < least {
			t.Errorf("%+v: %d bytes", c, bytes)
		}
	}
}

func TestFetchInsideABatch(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	put(t, b, "t", 0, "a", "b", "c")
	put(t, b, "t", 0, "d")
	got := fetchNow(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 1}, epoch: -1})
	if _, offsets := valuesOf(t, got.Topics[0].Partitions[0].RecordBatches); !slices.Equal(offsets, []int64{0, 1, 2, 3}) {
		t.Fatalf("offsets %v", offsets)
	}
}

// --- long-poll

func TestLongPollEndsOnTimeWithEmptyRecords(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	start := time.Now()
	got := fetchNow(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1, maxWait: 120})
	if took := time.Since(start); took < 120*time.Millisecond {
		t.Fatalf("answered after %v", took)
	}
	if p := got.Topics[0].Partitions[0]; p.RecordBatches == nil || p.ErrorCode != 0 {
		t.Fatalf("%+v", p)
	}
	assertNothingParked(t, b)
}

// +checklocksignore: what is asserted is that nobody is left who could lock.
func assertNothingParked(t testing.TB, b *Broker) {
	t.Helper()
	for name, topic := range b.view.Load().topics {
		for _, p := range topic.partitions {
			if n := p.purgatory.waiting.Load(); n != 0 || p.purgatory.head != nil {
				t.Fatalf("%d fetches are still parked on %s-%d", n, name, p.index)
			}
		}
	}
	if n := b.data.fetchDeadlines.Len(); n != 0 {
		t.Fatalf("%d deadlines are left", n)
	}
}

func parkedOn(b *Broker, topic string, index int32) int32 {
	return b.topic(topic).partitions[index].purgatory.waiting.Load()
}

func TestAppendWakesWhenMinBytesAreThere(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	put(t, b, "t", 0, "old")
	c := testConnection()
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 1, 1: 0}, epoch: -1, minBytes: 1000, maxWait: 600_000})
	sink := send(t, b, c, request)
	if parkedOn(b, "t", 0) != 1 || parkedOn(b, "t", 1) != 1 {
		t.Fatal("the fetch is not parked on both partitions")
	}
	put(t, b, "t", 0, strings.Repeat("s", 100))
	put(t, b, "t", 0, strings.Repeat("s", 100))
	if isEnded(sink) {
		t.Fatal("answered below min_bytes")
	}
	// min_bytes is over all partitions together.
	put(t, b, "t", 1, strings.Repeat("l", 700))
	got := receive[*kmsg.FetchResponse](t, request, sink)
	total := 0
	for _, p := range got.Topics[0].Partitions {
		values, _ := valuesOf(t, p.RecordBatches)
		total += len(values)
	}
	if total != 3 {
		t.Fatalf("%d records", total)
	}
	assertNothingParked(t, b)
}

func TestMixedWithARefusedPartitionStillWaits(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0, 5: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
	sink := send(t, b, testConnection(), request)
	if isEnded(sink) {
		t.Fatal("a partition that does not exist ended the wait of the other")
	}
	put(t, b, "t", 0, "x")
	got := receive[*kmsg.FetchResponse](t, request, sink)
	if len(got.Topics[0].Partitions[0].RecordBatches) == 0 || got.Topics[0].Partitions[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", got)
	}
}

func TestDeletionAnswersParkedFetches(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1 << 20, maxWait: 600_000})
	sink := send(t, b, testConnection(), request)
	if err := b.DropTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	got := receive[*kmsg.FetchResponse](t, request, sink)
	if p := got.Topics[0].Partitions[0]; p.ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", p)
	}
}

func TestClosedConnectionDropsItsFetches(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := testConnection()
	spec := fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1, maxWait: 600_000}
	first, second := send(t, b, c, fetchOf(t, b, spec)), send(t, b, c, fetchOf(t, b, spec))
	other := testConnection()
	request := fetchOf(t, b, spec)
	stays := send(t, b, other, request)
	c.fetches.close()
	for _, sink := range []*replySink{first, second, send(t, b, c, fetchOf(t, b, spec))} {
		waitFor(t, sink)
		if sink.reply != nil {
			t.Fatal("a closed connection was answered")
		}
	}
	if parkedOn(b, "t", 0) != 1 || isEnded(stays) {
		t.Fatal("the fetch of the other connection is gone")
	}
	put(t, b, "t", 0, "x")
	receive[*kmsg.FetchResponse](t, request, stays)
	assertNothingParked(t, b)
}

func TestShutdownAnswersParkedFetches(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	request := fetchOf(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
	parked := send(t, b, testConnection(), request)
	b.AnswerParked()
	receive[*kmsg.FetchResponse](t, request, parked)
	late := send(t, b, testConnection(), request)
	receive[*kmsg.FetchResponse](t, request, late)
	assertNothingParked(t, b)
}

func TestMaxWaitOfZeroOrBelowDoesNotPark(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	for _, wait := range []int32{0, -1} {
		fetchNow(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1 << 20, maxWait: wait})
	}
	// min_bytes of 0 is always there.
	fetchNow(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 0, maxWait: 600_000})
}

func TestUnknownIsolationLevel(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	got := fetchNow(t, b, fetchSpec{version: 11, topic: "t", partitions: map[int32]int64{0: 0}, epoch: 0, isolation: 7, maxWait: 600_000, minBytes: 1})
	if p := got.Topics[0].Partitions[0]; got.ErrorCode != kerr.UnknownServerError.Code || p.ErrorCode != kerr.UnknownServerError.Code || got.SessionID != 0 {
		t.Fatalf("%+v", got)
	}
}

// Records that are not in memory are read by the cold workers: the handler
// returns before, and the loop goes on. A parked fetch takes the same way.
func TestColdRecordsLeaveTheLoop(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	put(t, b, "t", 0, strings.Repeat("c", 5000))
	asked := make(chan struct{}, 10)
	b.data.resident = func(*logstore.Slice) bool {
		asked <- struct{}{}
		return false
	}
	var busy sync.WaitGroup
	hold := make(chan struct{})
	for range limits.FetchColdWorkers {
		busy.Add(1)
		b.data.cold.Push(&delay.Job{Run: func() { busy.Done(); <-hold }})
	}
	busy.Wait()
	request := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
	sink := send(t, b, testConnection(), request)
	<-asked
	if isEnded(sink) {
		t.Fatal("the loop read what was not in memory")
	}
	close(hold)
	got := receive[*kmsg.FetchResponse](t, request, sink)
	if values, _ := valuesOf(t, got.Topics[0].Partitions[0].RecordBatches); len(values) != 1 {
		t.Fatalf("%d records", len(values))
	}
	tail := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 1, 1: 0}, epoch: -1, minBytes: 1, maxWait: 600_000})
	parked := send(t, b, testConnection(), tail)
	put(t, b, "t", 1, "x")
	got = receive[*kmsg.FetchResponse](t, tail, parked)
	if values, _ := valuesOf(t, got.Topics[0].Partitions[1].RecordBatches); len(values) != 1 {
		t.Fatalf("%d records", len(values))
	}
	assertNothingParked(t, b)
}

func TestMalformedFetchClosesTheConnection(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	request := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0}, epoch: 0})
	wire := kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)[4:]
	for n := len(wire) - 1; n > 12; n-- {
		if _, err := exchange(t, b, &testConnection().Session, wire[:n]); err == nil {
			t.Fatalf("%d of %d bytes were answered", n, len(wire))
		}
	}
}

func TestFetchDoesNotAllocate(t *testing.T) {
	skipUnderRace(t)
	b := newDataBroker(t, testTopics{"t": 2, "tail": 2, "wide": 40})
	wide := make(map[int32]int64)
	for i := range int32(40) {
		put(t, b, "wide", i, strings.Repeat("w", 1500+3000*int((i+1)%2)))
		wide[i] = 0
	}
	for range 4 {
		put(t, b, "t", 0, strings.Repeat("x", 3000))
		put(t, b, "t", 1, "y")
	}
	c := testConnection()
	session := receive[*kmsg.FetchResponse](t, fetchOf(t, b, fetchSpec{version: 12}), send(t, b, c, fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}})))
	if session.SessionID == 0 {
		t.Fatal("no session")
	}
	specs := map[string]fetchSpec{
		"v4":       {version: 4, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}},
		"v17":      {version: 17, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}, epoch: -1, isolation: 1},
		"one page": {version: 12, topic: "t", partitions: map[int32]int64{0: 0, 1: 0}, epoch: -1, partitionMax: 100},
		"wide":     {version: 12, topic: "wide", partitions: wide, epoch: -1},
		"timeout":  {version: 12, topic: "t", partitions: map[int32]int64{0: 4, 1: 4}, epoch: -1, minBytes: 1, maxWait: 1},
	}
	for name, spec := range specs {
		once := repeated(t, b, fetchOf(t, b, spec))
		for range 50 {
			once()
		}
		if allocations := testing.AllocsPerRun(200, once); allocations > 0 {
			t.Errorf("%s: %v allocations a request", name, allocations)
		}
	}
}

// A parked fetch, the append that wakes it and its answer allocate nothing.
func TestParkAndWakeDoNotAllocate(t *testing.T) {
	skipUnderRace(t)
	b := newDataBroker(t, testTopics{"t": 1, "tail": 2})
	produce := repeated(t, b, produceOne(t, b, 12, 1, "tail", 1, testBatch("x")))
	produce()
	c := testConnection()
	sink := waitingSink{done: make(chan struct{}, 1)}
	fetch := newTailFetch(t, b, c, sink, "tail", 1)
	once := func() {
		fetch()
		produce()
		<-sink.done
	}
	for range 100 {
		once()
	}
	if allocations := testing.AllocsPerRun(500, once); allocations > 0 {
		t.Errorf("%v allocations for a parked fetch and its append", allocations)
	}
	assertNothingParked(t, b)
}

func BenchmarkFetch(b *testing.B) {
	for _, partitions := range []int32{1, 100} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			broker := newDataBroker(b, testTopics{"t": partitions})
			spec := fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{}, epoch: -1}
			for i := range partitions {
				put(b, broker, "t", i, strings.Repeat("x", 10_000))
				spec.partitions[i] = 0
			}
			once := repeated(b, broker, fetchOf(b, broker, spec))
			b.ReportAllocs()
			for b.Loop() {
				once()
			}
		})
	}
}

// A session of 1,000 partitions without news, answered at once.
func BenchmarkIdleSession(b *testing.B) {
	broker := newDataBroker(b, testTopics{"t": 1000})
	offsets := make(map[int32]int64)
	for i := range int32(1000) {
		offsets[i] = 0
	}
	c := testConnection()
	full := fetchOf(b, broker, fetchSpec{version: 12, topic: "t", partitions: offsets})
	id := receive[*kmsg.FetchResponse](b, full, send(b, broker, c, full)).SessionID
	s := broker.data.sessions.use(id)
	once := repeated(b, broker, fetchOf(b, broker, fetchSpec{version: 12, session: id, epoch: 1}))
	b.ReportAllocs()
	for b.Loop() {
		s.mu.Lock()
		s.epoch = 1
		s.mu.Unlock()
		once()
	}
}

// One append wakes 1,000 parked fetches.
func BenchmarkWake(b *testing.B) {
	broker := newDataBroker(b, testTopics{"t": 1})
	c := testConnection()
	sink := waitingSink{done: make(chan struct{}, 1000)}
	produce := repeated(b, broker, produceOne(b, broker, 12, 1, "t", 0, testBatch("x")))
	fetch := newTailFetch(b, broker, c, sink, "t", 0)
	b.ReportAllocs()
	for b.Loop() {
		for range 1000 {
			fetch()
		}
		produce()
		for range 1000 {
			<-sink.done
		}
	}
}
