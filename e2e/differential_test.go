//go:build e2e

package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The same bytes go to kaas and to Apache Kafka, and the answers must be the
// same: what a client sees is what Kafka does, not what somebody remembers of it.
// Only what must differ is evened out: topic ids, session ids, and where one
// broker sends a batch in part that the other leaves out.

// sides are the two brokers, in this order.
var sides = [2]string{"kaas", "Kafka"}

// pair is one connection to each broker and a topic that both have.
type pair struct {
	conns [2]net.Conn
	topic string
	ids   [2][16]byte
}

// TestAnswersAsKafka compares kaas with one Apache Kafka, which costs seconds to start.
func TestAnswersAsKafka(t *testing.T) {
	t.Parallel()
	needJava(t)
	settings := []string{"group.consumer.assignment.interval.ms=0", "group.consumer.assignor.offload.enable=false",
		"super.users=User:ANONYMOUS", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
	brokers := [2]*broker{startBroker(t, settings...), startReference(t, settings...)}
	for name, answers := range map[string]func(*testing.T, [2]*broker){
		"produce": produceAnswers, "fetch sessions": fetchAnswers, "offset lookups": lookupAnswers,
		"consumer groups": consumerGroupAnswers, "classic groups": classicGroupAnswers, "transactions": transactionAnswers,
		"configs and quotas": configAnswers, "admin": adminAnswers, "members": memberAnswers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers(t, brokers)
		})
	}
}

func newPair(t *testing.T, brokers [2]*broker, topic string, partitions int32) *pair {
	t.Helper()
	p := &pair{topic: topic}
	for side, b := range brokers {
		b.createTopic(t, topic, partitions, nil)
		conn, err := net.Dial("tcp", b.address)
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		p.conns[side] = conn
		// A new partition answers NOT_LEADER_OR_FOLLOWER until it is opened, which takes Kafka a moment.
		eventually(t, 30*time.Second, func() error {
			metadata, err := b.admin(t).Metadata(testContext(t), topic)
			if err != nil {
				return err
			}
			if p.ids[side] = [16]byte(metadata.Topics[topic].ID); p.ids[side] == [16]byte{} {
				return fmt.Errorf("%s has no id yet", topic)
			}
			offsets, err := b.admin(t).ListEndOffsets(testContext(t), topic)
			if err != nil {
				return err
			}
			return offsets.Error()
		})
	}
	return p
}

// exchange sends one request and reads its answer to the last byte.
func exchange(t *testing.T, conn net.Conn, request kmsg.Request) kmsg.Response {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("differential")).AppendRequest(nil, request, 1))
	must(t, err)
	return receive(t, conn, request)
}

// receive reads the answer to a request that was sent.
func receive(t *testing.T, conn net.Conn, request kmsg.Request) kmsg.Response {
	t.Helper()
	response, err := readAnswer(conn, request)
	must(t, err)
	return response
}

func readAnswer(conn io.Reader, request kmsg.Request) (kmsg.Response, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return nil, err
	}
	answer = answer[4:]
	if request.IsFlexible() && request.Key() != 18 { // ApiVersions never has tags in its header
		answer = answer[1:]
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(answer); err != nil {
		return nil, err
	}
	if again := response.AppendTo(nil); !bytes.Equal(again, answer) {
		return nil, fmt.Errorf("%T v%d: %x is read and encoded again as %x", response, request.GetVersion(), answer, again)
	}
	return response, nil
}

// same sends a request to both and compares the answers after even has taken out
// what must differ. It returns both answers as they came.
func (p *pair) same(t *testing.T, what string, build func(side int) kmsg.Request, even func(kmsg.Response) kmsg.Response) [2]kmsg.Response {
	t.Helper()
	var answers [2]kmsg.Response
	var compared [2]string
	for side := range sides {
		request := build(side)
		answers[side] = exchange(t, p.conns[side], request)
		again := request.ResponseKind()
		must(t, again.ReadFrom(answers[side].AppendTo(nil)))
		text, err := json.Marshal(even(again))
		must(t, err)
		compared[side] = string(text)
	}
	if compared[0] != compared[1] {
		t.Fatalf("%s:\n%s  %s\n%s %s", what, sides[0], compared[0], sides[1], compared[1])
	}
	return answers
}

// mustAgree compares two answers.
func mustAgree(t *testing.T, what string, compared [2]string) {
	t.Helper()
	if compared[0] == compared[1] {
		return
	}
	from := 0
	for from < min(len(compared[0]), len(compared[1])) && compared[0][from] == compared[1][from] {
		from++
	}
	from = max(0, from-80)
	t.Errorf("%s:\n%s  …%s\n%s …%s", what, sides[0], compared[0][from:], sides[1], compared[1][from:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// rawBatch is a batch of magic 2 with these values; change may alter its header
// before the CRC is taken.
func rawBatch(timestampMs int64, change func(b []byte), values ...string) []byte {
	var records []byte
	for i, value := range values {
		record := binary.AppendVarint([]byte{0, 0}, int64(i)) // attributes, timestamp delta, offset delta
		record = binary.AppendVarint(record, -1)              // key
		record = append(binary.AppendVarint(record, int64(len(value))), value...)
		record = append(record, 0) // headers
		records = append(binary.AppendVarint(records, int64(len(record))), record...)
	}
	b := make([]byte, 61, 61+len(records))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(len(values)-1))
	binary.BigEndian.PutUint64(b[27:], uint64(timestampMs))
	binary.BigEndian.PutUint64(b[35:], uint64(timestampMs))
	copy(b[43:], bytes.Repeat([]byte{0xff}, 14)) // no producer
	binary.BigEndian.PutUint32(b[57:], uint32(len(values)))
	b = append(b, records...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	if change != nil {
		change(b)
	}
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

func (p *pair) produce(side int, version, acks int16, partition int32, records []byte) kmsg.Request {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks, request.TimeoutMillis = acks, 10_000
	topic, asked := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, topic.TopicID = p.topic, p.ids[side]
	asked.Partition, asked.Records = partition, records
	topic.Partitions = append(topic.Partitions, asked)
	request.Topics = append(request.Topics, topic)
	return request
}

func evenProduce(r kmsg.Response) kmsg.Response {
	response := r.(*kmsg.ProduceResponse)
	for i := range response.Topics {
		response.Topics[i].TopicID = [16]byte{}
	}
	return response
}

func produceAnswers(t *testing.T, brokers [2]*broker) {
	now := time.Now().UnixMilli()
	good := rawBatch(now, nil, "a", "b")
	at := func(offset int, value ...byte) []byte {
		b := slices.Clone(good)
		copy(b[offset:], value)
		return b
	}
	producer := func(id int64, epoch int16, sequence int32) []byte {
		return rawBatch(now, func(b []byte) {
			binary.BigEndian.PutUint64(b[43:], uint64(id))
			binary.BigEndian.PutUint16(b[51:], uint16(epoch))
			binary.BigEndian.PutUint32(b[53:], uint32(sequence))
		}, "x")
	}
	for version := int16(3); version <= 13; version++ {
		p := newPair(t, brokers, fmt.Sprintf("produce-%d", version), 2)
		for _, tc := range []struct {
			name      string
			records   []byte
			acks      int16
			partition int32
		}{
			{name: "good", records: good},
			{name: "acks=1", records: good, acks: 1},
			{name: "acks=2", records: good, acks: 2},
			{name: "unknown partition", records: good, partition: 9},
			{name: "empty", records: []byte{}},
			{name: "two batches", records: append(slices.Clone(good), good...)},
			{name: "a few bytes behind", records: append(slices.Clone(good), 0, 0, 0)},
			{name: "cut off", records: good[:len(good)-3]},
			{name: "ten bytes", records: good[:10]},
			{name: "magic 0", records: at(16, 0)},
			{name: "magic 1", records: at(16, 1)},
			{name: "magic 3", records: at(16, 3)},
			{name: "size 5", records: at(8, 0, 0, 0, 5)},
			{name: "wrong CRC", records: at(17, 1, 2, 3, 4)},
			{name: "too large", records: rawBatch(now, nil, string(make([]byte, 1_100_000)))},
			{name: "control batch", records: rawBatch(now, func(b []byte) { b[22] |= 0x20 }, "x")},
			{name: "transactional without id", records: rawBatch(now, func(b []byte) { b[22] |= 0x10 }, "x")},
			{name: "first of a producer", records: producer(7, 3, 0)},
			{name: "gap", records: producer(7, 3, 5)},
			{name: "duplicate", records: producer(7, 3, 0)},
			{name: "next", records: producer(7, 3, 1)},
			{name: "old epoch", records: producer(7, 2, 0)},
			{name: "new epoch, not at 0", records: producer(7, 4, 3)},
			{name: "new epoch", records: producer(7, 4, 0)},
			{name: "unknown producer begins anywhere", records: producer(8, 0, 40)},
			{name: "good again", records: good},
		} {
			if tc.acks == 0 {
				tc.acks = -1
			}
			p.same(t, fmt.Sprintf("v%d %s", version, tc.name), func(side int) kmsg.Request {
				return p.produce(side, version, tc.acks, tc.partition, slices.Clone(tc.records))
			}, evenProduce)
		}
	}
}

// fetchModel is what a client knows of its session, which is the same on both sides.
type fetchModel struct {
	epoch int32
	ids   [2]int32
}

func evenFetch(r kmsg.Response) kmsg.Response {
	response := r.(*kmsg.FetchResponse)
	response.SessionID = min(response.SessionID, 1)
	for i := range response.Topics {
		topic := &response.Topics[i]
		topic.TopicID = [16]byte{}
		slices.SortFunc(topic.Partitions, func(a, b kmsg.FetchResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		for j := range topic.Partitions {
			topic.Partitions[j].RecordBatches = wholeBatches(topic.Partitions[j].RecordBatches)
		}
	}
	return response
}

// wholeBatches cuts off a batch that came in part.
func wholeBatches(records []byte) []byte {
	end := 0
	for len(records)-end >= 12 {
		size := 12 + int(binary.BigEndian.Uint32(records[end+8:]))
		if end+size > len(records) {
			break
		}
		end += size
	}
	return records[:end]
}

// Random sessions: full, incremental, forgotten partitions, wrong epochs and ids,
// offsets in and out of range, both isolation levels, small and large bounds.
func fetchAnswers(t *testing.T, brokers [2]*broker) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	fetches := 0
	for round, version := range []int16{4, 6, 7, 9, 11, 12, 13, 15, 16, 17, 18} {
		p := newPair(t, brokers, fmt.Sprintf("fetch-%d", round), 4)
		ends := make([]int64, 4)
		var model fetchModel
		for step := range 40 {
			if random.IntN(3) == 0 {
				partition := random.IntN(4)
				values := make([]string, 1+random.IntN(3))
				for i := range values {
					values[i] = fmt.Sprint(step, i)
				}
				records := rawBatch(time.Now().UnixMilli(), nil, values...)
				p.same(t, "append", func(side int) kmsg.Request { return p.produce(side, 9, -1, int32(partition), slices.Clone(records)) }, evenProduce)
				ends[partition] += int64(len(values))
				continue
			}
			p.fetch(t, random, version, &model, ends)
			fetches++
		}
	}
	t.Logf("%d fetches", fetches)
}

func (p *pair) fetch(t *testing.T, random *rand.Rand, version int16, model *fetchModel, ends []int64) {
	t.Helper()
	request := kmsg.NewFetchRequest()
	request.SetVersion(version)
	request.ReplicaID, request.MaxWaitMillis, request.MinBytes, request.MaxBytes = -1, 5, 1, 50<<20
	request.IsolationLevel = int8(random.IntN(2))
	if random.IntN(4) == 0 {
		request.MaxBytes = 1
	}
	ids := model.ids
	request.SessionEpoch = model.epoch
	switch random.IntN(20) {
	case 0, 1:
		request.SessionEpoch = 0
	case 2:
		request.SessionEpoch = -1
	case 3:
		request.SessionEpoch += 1 + int32(random.IntN(3))
	case 4:
		ids[0], ids[1] = ids[0]^1, ids[1]^1
	}
	topic, forgotten := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestForgottenTopic()
	topic.Topic, forgotten.Topic = p.topic, p.topic
	for index := range int32(6) { // 4 and 5 do not exist
		switch {
		case random.IntN(2) == 0 && (index < 4 || random.IntN(5) == 0):
			asked := kmsg.NewFetchRequestTopicPartition()
			asked.Partition, asked.PartitionMaxBytes, asked.LogStartOffset = index, 1<<20, -1
			end := int64(0)
			if index < 4 {
				end = ends[index]
			}
			asked.FetchOffset = []int64{0, end, end, end, end - 1, end + 5, -1}[random.IntN(7)]
			asked.CurrentLeaderEpoch = []int32{-1, -1, 0, 0, 9}[random.IntN(5)]
			asked.LastFetchedEpoch = []int32{-1, -1, -1, 0, 7}[random.IntN(5)]
			topic.Partitions = append(topic.Partitions, asked)
		case random.IntN(5) == 0:
			forgotten.Partitions = append(forgotten.Partitions, index)
		}
	}
	if len(topic.Partitions) > 0 {
		request.Topics = append(request.Topics, topic)
	}
	if len(forgotten.Partitions) > 0 {
		request.ForgottenTopics = append(request.ForgottenTopics, forgotten)
	}
	answers := p.same(t, fmt.Sprintf("v%d %+v", version, request), func(side int) kmsg.Request {
		request := request
		request.SessionID = ids[side]
		request.Topics, request.ForgottenTopics = slices.Clone(request.Topics), slices.Clone(request.ForgottenTopics)
		for i := range request.Topics {
			request.Topics[i].TopicID = p.ids[side]
		}
		for i := range request.ForgottenTopics {
			request.ForgottenTopics[i].TopicID = p.ids[side]
		}
		return &request
	}, evenFetch)
	if answers[0].(*kmsg.FetchResponse).ErrorCode != 0 {
		return
	}
	for side := range sides {
		model.ids[side] = answers[side].(*kmsg.FetchResponse).SessionID
	}
	model.epoch = request.SessionEpoch + 1
	if model.ids[0] == 0 {
		model.epoch = 0
	}
}

func lookupAnswers(t *testing.T, brokers [2]*broker) {
	p := newPair(t, brokers, "lookups", 2)
	now := time.Now().UnixMilli()
	for i := range int64(5) {
		records := rawBatch(now+1000*i, nil, "a", "b")
		p.same(t, "append", func(side int) kmsg.Request { return p.produce(side, 9, -1, 0, slices.Clone(records)) }, evenProduce)
	}
	asIs := func(r kmsg.Response) kmsg.Response { return r }
	for version := int16(1); version <= 11; version++ {
		for _, timestamp := range []int64{-1, -2, -3, -4, -5, -6, -7, 0, now, now + 1, now + 1500, now + 4000, now + 4001} {
			for partition := range int32(3) { // 1 is empty, 2 does not exist
				for _, epoch := range []int32{-1, 0, 9} {
					request := kmsg.NewListOffsetsRequest()
					request.SetVersion(version)
					request.ReplicaID = -1
					topic, asked := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
					topic.Topic = p.topic
					asked.Partition, asked.Timestamp, asked.CurrentLeaderEpoch = partition, timestamp, epoch
					topic.Partitions = append(topic.Partitions, asked)
					request.Topics = append(request.Topics, topic)
					p.same(t, fmt.Sprintf("ListOffsets v%d %+v", version, asked), func(int) kmsg.Request { return &request }, asIs)
				}
			}
		}
	}
	for version := int16(2); version <= 4; version++ {
		for _, epoch := range []int32{-1, 0, 1, 5} {
			for partition := range int32(3) {
				for _, current := range []int32{-1, 0, 9} {
					request := kmsg.NewOffsetForLeaderEpochRequest()
					request.SetVersion(version)
					request.ReplicaID = -1
					topic, asked := kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
					topic.Topic = p.topic
					asked.Partition, asked.LeaderEpoch, asked.CurrentLeaderEpoch = partition, epoch, current
					topic.Partitions = append(topic.Partitions, asked)
					request.Topics = append(request.Topics, topic)
					p.same(t, fmt.Sprintf("OffsetForLeaderEpoch v%d %+v", version, asked), func(int) kmsg.Request { return &request }, asIs)
				}
			}
		}
	}
}
