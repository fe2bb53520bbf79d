package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/codec/batch"
	"kaas/internal/bufpool"
	"kaas/internal/vfs"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/netio"
)

// Produce and Fetch against a log store in memory. Requests are encoded and
// replies decoded by kmsg; the network is a sink.

// lateListener is what cmd does: the store is opened before the broker exists.
type lateListener struct{ broker atomic.Pointer[Broker] }

func (l *lateListener) Advanced(p *logstore.Partition) {
	if b := l.broker.Load(); b != nil {
		b.Advanced(p)
	}
}

func (l *lateListener) Failed(p *logstore.Partition, err error) {
	if b := l.broker.Load(); b != nil {
		b.Failed(p, err)
	}
}

type testTopics map[string]int32 // partitions by name

// newDataBroker serves the topics from memory, in dev mode.
func newDataBroker(t testing.TB, topics testTopics, changes ...func(*config.Broker)) *Broker {
	t.Helper()
	return newDataBrokerOn(t, nil, topics, changes...)
}

// newDataBrokerOn is newDataBroker on a file system in memory; nil: the plain one.
func newDataBrokerOn(t testing.TB, files vfs.FS, topics testTopics, changes ...func(*config.Broker)) *Broker {
	t.Helper()
	cfg := *config.DefaultBroker()
	cfg.NodeID, cfg.Dev = 1, true
	cfg.Listeners = []config.Listener{{Name: "PLAINTEXT", AdvertisedHost: "broker.example", AdvertisedPort: 9092}}
	for _, change := range changes {
		change(&cfg)
	}
	listener := &lateListener{}
	logger := slog.New(slog.DiscardHandler)
	store, err := logstore.Open(t.Context(), logstore.Options{Dirs: []string{t.TempDir()}, Logger: logger, FS: files, InMemory: true, Listener: listener, BrokerID: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Store: store, Images: &meta.Images{}, Config: &cfg, Logger: logger, Pool: goPool{}})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := codec.NewRegistry(b.APIs()...)
	if err != nil {
		t.Fatal(err)
	}
	b.SetRegistry(registry)
	listener.broker.Store(b)
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for name, partitions := range topics {
		if err := b.TopicCreator.EnsureTopic(t.Context(), name, partitions, nil); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func testConnection() *connection {
	c := &connection{Session: *testSession()}
	c.Context = c
	return c
}

// File implements fetchSink.
func (s *replySink) File(r netio.FileRange) {
	b := make([]byte, r.Len)
	if r.Mem != nil {
		copy(b, r.Mem)
	} else if _, err := syscall.Pread(r.FD, b, r.Offset); err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.reply = append(s.reply, b...)
	s.mu.Unlock()
	if r.Pin != nil {
		r.Pin.Release()
	}
}

func (releasingSink) File(r netio.FileRange) {
	if r.Pin != nil {
		r.Pin.Release()
	}
}

// send hands a request to its handler; the reply comes to the sink.
func send(t testing.TB, b *Broker, c *connection, request kmsg.Request) *replySink {
	return sendAs(t, b, c, "test", request)
}

func sendAs(t testing.TB, b *Broker, c *connection, clientID string, request kmsg.Request) *replySink {
	t.Helper()
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, 1234)[4:]
	frame := bufpool.Get(len(wire))
	copy(frame.B, wire)
	header, body, err := codec.ParseHeader(frame.B)
	if err != nil {
		t.Fatal(err)
	}
	sink := newReplySink()
	api := b.registry.Load().Lookup(header.Key)
	api.Handle(codec.NewRequest(api, header, body, frame, &c.Session, sink, time.Time{}, nil))
	return sink
}

// receive waits for the reply of send and decodes it.
func receive[T kmsg.Response](t testing.TB, request kmsg.Request, sink *replySink) T {
	t.Helper()
	waitFor(t, sink)
	if sink.closed != nil || sink.reply == nil {
		t.Fatalf("%s v%d: no reply: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), sink.closed)
	}
	return parseReply[T](t, request, sink.reply[4:], 1234)
}

func waitFor(t testing.TB, sink *replySink) {
	t.Helper()
	select {
	case <-sink.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("no reply in 20 s")
	}
}

func isEnded(sink *replySink) bool {
	select {
	case <-sink.ended:
		return true
	default:
		return false
	}
}

// testBatch is one batch with these values.
func testBatch(values ...string) []byte {
	return buildBatch(batch.Builder{}, values...)
}

func buildBatch(builder batch.Builder, values ...string) []byte {
	for _, value := range values {
		builder.Append(time.Now().UnixMilli(), nil, []byte(value))
	}
	b, err := builder.Build(nil)
	if err != nil {
		panic(err)
	}
	return b
}

func topicIDOf(t testing.TB, b *Broker, name string) [16]byte {
	t.Helper()
	topic := b.topic(name)
	if topic == nil {
		t.Fatalf("topic %s is not served", name)
	}
	return topic.id
}

// produceOne is a Produce of records to one partition.
func produceOne(t testing.TB, b *Broker, version, acks int16, topic string, partition int32, records []byte) *kmsg.ProduceRequest {
	t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks, request.TimeoutMillis = acks, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	if version >= produceWithTopicIDs {
		if state := b.topic(topic); state != nil {
			rt.TopicID = state.id
		} else {
			rt.TopicID = [16]byte{0xee}
		}
	}
	rt.Partitions = append(rt.Partitions, p)
	request.Topics = append(request.Topics, rt)
	return request
}

// put appends values in one batch with acks=-1 and returns the base offset.
func put(t testing.TB, b *Broker, topic string, partition int32, values ...string) int64 {
	t.Helper()
	request := produceOne(t, b, 9, -1, topic, partition, testBatch(values...))
	answer := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions[0]
	if answer.ErrorCode != 0 {
		t.Fatalf("produce: error %d", answer.ErrorCode)
	}
	return answer.BaseOffset
}

type fetchSpec struct {
	version      int16
	maxWait      int32
	minBytes     int32
	maxBytes     int32
	partitionMax int32
	isolation    int8
	session      int32
	epoch        int32 // -1: none
	topic        string
	partitions   map[int32]int64 // offsets by index
	change       func(*kmsg.FetchRequestTopicPartition)
}

// fetchOf builds a request; zero bounds are 1 MiB and 50 MiB, as clients send.
func fetchOf(t testing.TB, b *Broker, s fetchSpec) *kmsg.FetchRequest {
	t.Helper()
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(s.version)
	request.ReplicaID = -1
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.IsolationLevel = s.maxWait, s.minBytes, s.maxBytes, s.isolation
	request.SessionID, request.SessionEpoch = s.session, s.epoch
	if s.maxBytes == 0 {
		request.MaxBytes = 50 << 20
	}
	if s.partitionMax == 0 {
		s.partitionMax = 1 << 20
	}
	if len(s.partitions) == 0 {
		return request
	}
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = s.topic
	if s.version >= fetchWithTopicIDs {
		topic.TopicID = topicIDOf(t, b, s.topic)
	}
	for index := int32(0); int(index) < 1000 && len(topic.Partitions) < len(s.partitions); index++ {
		offset, asked := s.partitions[index]
		if !asked {
			continue
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = index, offset, s.partitionMax
		p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset = -1, -1, -1
		if s.change != nil {
			s.change(&p)
		}
		topic.Partitions = append(topic.Partitions, p)
	}
	request.Topics = append(request.Topics, topic)
	return request
}

func fetchNow(t testing.TB, b *Broker, s fetchSpec) *kmsg.FetchResponse {
	t.Helper()
	request := fetchOf(t, b, s)
	return receive[*kmsg.FetchResponse](t, request, send(t, b, testConnection(), request))
}

// valuesOf decodes uncompressed records into values and their offsets.
func valuesOf(t testing.TB, records []byte) (values []string, offsets []int64) {
	t.Helper()
	for len(records) > 0 {
		view, rest, err := batch.Next(records)
		if err != nil {
			t.Fatal(err)
		}
		if !view.VerifyCRC() {
			t.Fatal("a batch came with a wrong CRC")
		}
		records = rest
		it, err := view.Records(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			values = append(values, string(it.Record().Value))
			offsets = append(offsets, it.Record().Offset)
		}
		it.Close()
	}
	return values, offsets
}

// testRequest is a request outside of its handler.
func testRequest(t testing.TB, b *Broker, request kmsg.Request, sink codec.Sink) *codec.Request {
	t.Helper()
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1234)[4:]
	frame := bufpool.Get(len(wire))
	copy(frame.B, wire)
	header, body, err := codec.ParseHeader(frame.B)
	if err != nil {
		t.Fatal(err)
	}
	return codec.NewRequest(b.registry.Load().Lookup(header.Key), header, body, frame, &testConnection().Session, sink, time.Time{}, nil)
}

func produceViewOf(t testing.TB, request *kmsg.ProduceRequest) codec.ProduceView {
	t.Helper()
	view, err := codec.ParseProduce(request.Version, request.AppendTo(nil))
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// repeated sends the same request again and again and waits for each reply,
// without allocating anything itself.
func repeated(t testing.TB, b *Broker, request kmsg.Request) func() {
	t.Helper()
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1234)[4:]
	api := b.registry.Load().Lookup(request.Key())
	c := testConnection()
	sink := waitingSink{done: make(chan struct{}, 1)}
	var asSink codec.Sink = sink
	return func() {
		frame := bufpool.Get(len(wire))
		copy(frame.B, wire)
		header, body, err := codec.ParseHeader(frame.B)
		if err != nil {
			panic(err)
		}
		api.Handle(codec.NewRequest(api, header, body, frame, &c.Session, asSink, time.Time{}, nil))
		<-sink.done
	}
}

// newTailFetch is a function that sends a fetch at the end of a partition, which
// parks; the reply comes to the sink. It allocates nothing.
func newTailFetch(t testing.TB, b *Broker, c *connection, sink codec.Sink, topic string, partition int32) func() {
	t.Helper()
	log := b.topic(topic).partitions[partition].log
	request := fetchOf(t, b, fetchSpec{version: 12, topic: topic, partitions: map[int32]int64{partition: 0x0102030405060708}, epoch: -1, minBytes: 1, maxWait: 600_000})
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1234)[4:]
	at := bytes.Index(wire, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	api := b.registry.Load().Lookup(fetchKey)
	return func() {
		frame := bufpool.Get(len(wire))
		copy(frame.B, wire)
		binary.BigEndian.PutUint64(frame.B[at:], uint64(log.HighWatermark()))
		header, body, err := codec.ParseHeader(frame.B)
		if err != nil {
			panic(err)
		}
		api.Handle(codec.NewRequest(api, header, body, frame, &c.Session, sink, time.Time{}, nil))
	}
}

// skipUnderRace is for allocation budgets; see raceEnabled.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("the race detector makes sync.Pool allocate")
	}
}
