package broker

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec/batch"
	"kaas/meta"
)

func TestProduceInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	next := int64(0)
	for version := int16(3); version <= 13; version++ {
		for _, acks := range []int16{-1, 1} {
			request := produceOne(t, b, version, acks, "t", 0, testBatch("a", "b"))
			response := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request))
			answer := response.Topics[0].Partitions[0]
			if answer.ErrorCode != 0 || answer.BaseOffset != next || answer.LogAppendTime != -1 {
				t.Fatalf("v%d acks=%d: %+v, want base offset %d", version, acks, answer, next)
			}
			if version >= produceWithLogStart && answer.LogStartOffset != 0 {
				t.Fatalf("v%d: log start offset %d", version, answer.LogStartOffset)
			}
			if version >= produceWithTopicIDs && response.Topics[0].TopicID != topicIDOf(t, b, "t") || version < produceWithTopicIDs && response.Topics[0].Topic != "t" {
				t.Fatalf("v%d: answer for topic %q %x", version, response.Topics[0].Topic, response.Topics[0].TopicID)
			}
			next += 2
		}
	}
}

func TestProduceBelowV3IsRefusedInItsOwnShape(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	for version := int16(0); version <= 2; version++ {
		request := produceOne(t, b, version, 1, "t", 0, testBatch("a"))
		answer := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]
		if answer.ErrorCode != kerr.UnsupportedVersion.Code {
			t.Fatalf("v%d: error %d", version, answer.ErrorCode)
		}
		silent := produceOne(t, b, version, 0, "t", 0, testBatch("a"))
		sink := send(t, b, testConnection(), silent)
		waitFor(t, sink)
		if !errors.Is(sink.closed, errAppendUnanswered) {
			t.Fatalf("v%d acks=0: closed with %v", version, sink.closed)
		}
	}
}

func damaged(b []byte, at int, value byte) []byte {
	b = slices.Clone(b)
	b[at] = value
	return b
}

// The error codes are those of Apache Kafka 4.4, asked by sending it the same
// requests; a null instead of records is never answered there.
func TestProduceErrors(t *testing.T) {
	t.Parallel()
	good := testBatch("x")
	tooShort := slices.Clone(good)
	binary.BigEndian.PutUint32(tooShort[8:], 5)
	for _, tc := range []struct {
		name      string
		records   []byte
		topic     string
		partition int32
		acks      int16
		client    string
		lowest    int16 // version
		highest   int16
		code      *kerr.Error
		message   string
	}{
		{name: "null", records: nil, code: kerr.InvalidRecord},
		{name: "empty", records: []byte{}, code: kerr.InvalidRecord},
		{name: "two batches", records: append(slices.Clone(good), good...), code: kerr.InvalidRecord},
		{name: "cut off", records: good[:len(good)-3], code: kerr.InvalidRecord},
		{name: "ten bytes", records: good[:10], code: kerr.InvalidRecord},
		{name: "magic 0", records: damaged(good, batchMagicAt, 0), code: kerr.InvalidRecord},
		{name: "magic 1", records: damaged(good, batchMagicAt, 1), code: kerr.InvalidRecord},
		{name: "magic 3", records: damaged(good, batchMagicAt, 3), code: kerr.CorruptMessage, message: "Invalid magic found in record: 3"},
		{name: "size 5", records: tooShort, code: kerr.CorruptMessage, message: "Record size 5 is less than the minimum record overhead (14)"},
		{name: "flipped byte", records: damaged(good, len(good)-2, good[len(good)-2]^1), code: kerr.CorruptMessage},
		{name: "acks 2", records: good, acks: 2, code: kerr.InvalidRequiredAcks},
		{name: "acks -2", records: good, acks: -2, code: kerr.InvalidRequiredAcks},
		{name: "unknown partition", records: good, partition: 9, code: kerr.UnknownTopicOrPartition},
		{name: "negative partition", records: good, partition: -1, code: kerr.UnknownTopicOrPartition},
		{name: "unknown topic", topic: "nope", records: good, highest: 12, code: kerr.UnknownTopicOrPartition},
		{name: "unknown topic id", topic: "nope", records: good, lowest: 13, code: kerr.UnknownTopicID},
		{name: "too large", records: testBatch(strings.Repeat("x", 1_100_000)), code: kerr.MessageTooLarge},
		{name: "transactional without id", records: buildBatch(batch.Builder{Transactional: true, HasProducer: true, ProducerID: 5}, "x"), code: kerr.TransactionalIDAuthorizationFailed},
		{name: "control batch", records: buildBatch(batch.Builder{Control: true, HasProducer: true, ProducerID: 5}, "x"), code: kerr.InvalidRecord},
		{name: "zstd below v7", records: buildBatch(batch.Builder{Compression: batch.Zstd}, "x"), highest: 6, code: kerr.UnsupportedCompressionType},
		{name: "internal topic", topic: meta.ConsumerOffsetsTopic, records: good, code: kerr.InvalidTopicException},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newDataBroker(t, testTopics{"t": 1, meta.ConsumerOffsetsTopic: 1})
			if tc.topic == "" {
				tc.topic = "t"
			}
			if tc.acks == 0 {
				tc.acks = -1
			}
			if tc.highest == 0 {
				tc.highest = 13
			}
			for version := max(3, tc.lowest); version <= tc.highest; version++ {
				request := produceOne(t, b, version, tc.acks, tc.topic, tc.partition, slices.Clone(tc.records))
				answer := receive[*kmsg.ProduceResponse](t, request, sendAs(t, b, testConnection(), "test", request)).Topics[0].Partitions[0]
				if answer.ErrorCode != tc.code.Code || answer.BaseOffset != -1 {
					t.Fatalf("v%d: %+v, want error %d", version, answer, tc.code.Code)
				}
				if version >= produceWithRecordErrors && tc.message != "" && (answer.ErrorMessage == nil || *answer.ErrorMessage != tc.message) {
					t.Fatalf("v%d: message %v, want %q", version, answer.ErrorMessage, tc.message)
				}
			}
			if end := b.topic("t").partitions[0].log.LogEndOffset(); end != 0 {
				t.Fatalf("%d records were appended", end)
			}
		})
	}
}

func TestProduceToInternalTopicAsAdminClient(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{meta.ConsumerOffsetsTopic: 1})
	request := produceOne(t, b, 9, -1, meta.ConsumerOffsetsTopic, 0, testBatch("x"))
	answer := receive[*kmsg.ProduceResponse](t, request, sendAs(t, b, testConnection(), adminClientID, request)).Topics[0].Partitions[0]
	if answer.ErrorCode != 0 {
		t.Fatalf("error %d", answer.ErrorCode)
	}
}

// Bytes behind the batch that cannot be another one are ignored and not stored.
func TestProduceIgnoresAFewTrailingBytes(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	request := produceOne(t, b, 9, -1, "t", 0, append(testBatch("x"), 0, 0, 0))
	if answer := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]; answer.ErrorCode != 0 {
		t.Fatalf("error %d", answer.ErrorCode)
	}
	put(t, b, "t", 0, "y")
	got := fetchNow(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0}})
	if values, _ := valuesOf(t, got.Topics[0].Partitions[0].RecordBatches); strings.Join(values, "") != "xy" {
		t.Fatalf("values %q", values)
	}
}

func TestProduceWithoutAcks(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	sink := send(t, b, testConnection(), produceOne(t, b, 9, 0, "t", 0, testBatch("x")))
	waitFor(t, sink)
	if sink.reply != nil || sink.closed != nil {
		t.Fatalf("reply %x, closed %v", sink.reply, sink.closed)
	}
	if end := b.topic("t").partitions[0].log.LogEndOffset(); end != 1 {
		t.Fatalf("end offset %d", end)
	}
	sink = send(t, b, testConnection(), produceOne(t, b, 9, 0, "nope", 0, testBatch("x")))
	waitFor(t, sink)
	if !errors.Is(sink.closed, errAppendUnanswered) || !errors.Is(sink.closed, kerr.UnknownTopicOrPartition) {
		t.Fatalf("closed with %v", sink.closed)
	}
}

func TestProduceToManyPartitionsAnswersEach(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 3, "u": 1})
	for version := int16(3); version <= 13; version++ {
		request := produceOne(t, b, version, -1, "t", 0, testBatch("x"))
		for index, records := range map[int32][]byte{1: testBatch("y"), 7: testBatch("z")} {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = index, records
			request.Topics[0].Partitions = append(request.Topics[0].Partitions, p)
		}
		empty := kmsg.NewProduceRequestTopic()
		empty.Topic = "without partitions"
		request.Topics = append(request.Topics, empty, produceOne(t, b, version, -1, "u", 0, testBatch("w")).Topics[0])
		response := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request))
		if len(response.Topics) != 2 || len(response.Topics[0].Partitions) != 3 || len(response.Topics[1].Partitions) != 1 {
			t.Fatalf("v%d: %+v", version, response.Topics)
		}
		for _, p := range response.Topics[0].Partitions {
			if want := map[int32]int16{7: kerr.UnknownTopicOrPartition.Code}[p.Partition]; p.ErrorCode != want {
				t.Fatalf("v%d: partition %d: error %d, want %d", version, p.Partition, p.ErrorCode, want)
			}
		}
	}
	if end := b.topic("t").partitions[1].log.HighWatermark(); end != 11 {
		t.Fatalf("end offset of t-1 is %d", end)
	}
}

func TestProduceAsksTheAuthorizer(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1, "u": 1})
	b.Authorizer = deny{"WRITE TOPIC t": true, "WRITE TOPIC nope": true, "WRITE TRANSACTIONAL_ID txn": true}
	for topic, want := range map[string]int16{
		"t": kerr.TopicAuthorizationFailed.Code, "u": 0,
		"nope": kerr.TopicAuthorizationFailed.Code, // no leak of what exists
		"else": kerr.UnknownTopicOrPartition.Code,
	} {
		request := produceOne(t, b, 9, 1, topic, 0, testBatch("x"))
		if answer := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]; answer.ErrorCode != want {
			t.Errorf("%s: error %d, want %d", topic, answer.ErrorCode, want)
		}
	}
	request := produceOne(t, b, 9, 1, "u", 0, buildBatch(batch.Builder{Transactional: true, HasProducer: true, ProducerID: 5}, "x"))
	request.TransactionID = kmsg.StringPtr("txn")
	if answer := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]; answer.ErrorCode != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("transactional id: error %d", answer.ErrorCode)
	}
	b.Authorizer = auth.AllowAll{}
}

func TestMalformedProduceClosesTheConnection(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	request := produceOne(t, b, 9, -1, "t", 0, testBatch("x"))
	wire := kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)[4:]
	for _, broken := range [][]byte{wire[:len(wire)-1], append(slices.Clone(wire), 0)} {
		if _, err := exchange(t, b, &testConnection().Session, broken); err == nil {
			t.Fatal("answered")
		}
	}
	if end := b.topic("t").partitions[0].log.LogEndOffset(); end != 0 {
		t.Fatalf("%d records of a malformed request were appended", end)
	}
}

// A produce that waits for its commit is answered by the timer, once, and its
// operation is recycled when the commit comes.
func TestProduceTimeoutAgainstCommit(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	for range 200 {
		request := produceOne(t, b, 9, -1, "t", 0, nil)
		sink := newReplySink()
		o := newProduceOperation()
		o.broker, o.version, o.acks, o.topics = b, 9, -1, 1
		o.request = testRequest(t, b, request, sink)
		view := produceViewOf(t, request)
		o.fill(&view)
		p := &o.partitions[0]
		p.state, p.baseOffset = b.topic("t").partitions[0], 7
		p.commit.Store(commitPending)
		o.pending.Store(2) // the handler's share and the waiter's
		o.timed = true
		b.data.produceDeadlines.Add(&o.deadline, 0)
		committed := make(chan struct{})
		go func() {
			produceCommitted(&p.waiter, nil)
			close(committed)
		}()
		o.release()
		answer := receive[*kmsg.ProduceResponse](t, request, sink).Topics[0].Partitions[0]
		if answer.BaseOffset != 7 || answer.ErrorCode != 0 && answer.ErrorCode != kerr.RequestTimedOut.Code {
			t.Fatalf("%+v", answer)
		}
		<-committed
	}
}

func TestProduceDoesNotAllocate(t *testing.T) {
	skipUnderRace(t)
	b := newDataBroker(t, testTopics{"t": 2})
	for name, acks := range map[string]int16{"acks=1": 1, "acks=-1": -1, "acks=0": 0} {
		request := produceOne(t, b, 12, acks, "t", 0, testBatch("x"))
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = 1, testBatch("y")
		request.Topics[0].Partitions = append(request.Topics[0].Partitions, p)
		once := repeated(t, b, request)
		for range 100 {
			once()
		}
		if allocations := testing.AllocsPerRun(500, once); allocations > 0 {
			t.Errorf("%s: %v allocations a request", name, allocations)
		}
	}
}

// waitingSink is a sink for one request at a time; done is received from after
// each.
type waitingSink struct {
	releasingSink
	done chan struct{}
}

func (s waitingSink) Done()           { s.done <- struct{}{} }
func (s waitingSink) Drop()           { s.done <- struct{}{} }
func (s waitingSink) CloseConn(error) { panic("the connection was closed") }

func BenchmarkProduce(b *testing.B) {
	broker := newDataBroker(b, testTopics{"t": 1})
	once := repeated(b, broker, produceOne(b, broker, 12, 1, "t", 0, testBatch(strings.Repeat("x", 1000))))
	b.ReportAllocs()
	start := time.Now()
	for b.Loop() {
		once()
	}
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "requests/s")
}
