package main

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/invariants"
	"kaas/meta/config"
	"kaas/obs"
)

// TestProduceAndFetchAllocateNothing is the budget of the whole hot path, from
// the socket to the log and back: one batch in, the same batch out. Not
// parallel: the allocations of the whole process are counted.
func TestProduceAndFetchAllocateNothing(t *testing.T) {
	if invariants.Enabled || raceEnabled {
		t.Skip("checks of this build allocate, or its sync.Pool drops at random")
	}
	cfg, _, err := config.LoadBroker(nil, nil, []string{"listeners=PLAINTEXT://127.0.0.1:0", "http.address=", "log.dirs=" + t.TempDir(), "log.flush.interval.messages=9223372036854775807"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := start(t.Context(), cfg, obs.Discard(), new(slog.LevelVar))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", s.network.Addrs()["PLAINTEXT"].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64<<10)
	ask := func(request []byte) []byte {
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, answer[:4]); err != nil {
			t.Fatal(err)
		}
		body := answer[4 : 4+binary.BigEndian.Uint32(answer)]
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatal(err)
		}
		return body
	}
	produce, fetch, offsetAt := hotFrames("hot")
	askForTopic(t, ask, "hot")
	offset := uint64(0)
	round := func() {
		if body := ask(produce); binary.BigEndian.Uint16(body[4+4+2+3+4+4:]) != 0 || binary.BigEndian.Uint64(body[4+4+2+3+4+4+2:]) != offset {
			t.Fatalf("produce: % x", body)
		}
		binary.BigEndian.PutUint64(fetch[offsetAt:], offset)
		if body := ask(fetch); len(body) < 61 {
			t.Fatalf("fetch: % x", body)
		}
		offset++
	}
	for range 500 {
		round()
	}
	const rounds = 3000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	// Not 0: timers fire, and a collection empties sync.Pool.
	perRequest := float64(after.Mallocs-before.Mallocs) / (2 * rounds)
	t.Logf("%.4f allocations a request", perRequest)
	if perRequest > 0.1 {
		t.Error("produce and fetch must not allocate")
	}
}

// askForTopic makes the topic and waits until it is served.
func askForTopic(t *testing.T, ask func([]byte) []byte, topic string) {
	request := kmsg.NewPtrMetadataRequest()
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	request.AllowAutoTopicCreation = true
	request.SetVersion(4)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1)
	await(t, "the topic is served", func() bool {
		response := kmsg.NewPtrMetadataResponse()
		response.SetVersion(4)
		if err := response.ReadFrom(ask(frame)[4:]); err != nil {
			t.Fatal(err)
		}
		return len(response.Topics) == 1 && response.Topics[0].ErrorCode == 0 && len(response.Topics[0].Partitions) == 1
	})
}

// hotFrames returns a Produce (version 8, acks=1) of one record and a Fetch
// (version 11) of one partition, and where the offset stands in the latter.
func hotFrames(topic string) (produce, fetch []byte, offsetAt int) {
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test"))
	p := kmsg.NewPtrProduceRequest()
	p.SetVersion(8)
	p.Acks, p.TimeoutMillis = 1, 30_000
	pt, pp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	pt.Topic, pp.Records = topic, sampleBatch()
	pt.Partitions = append(pt.Partitions, pp)
	p.Topics = append(p.Topics, pt)

	f := kmsg.NewPtrFetchRequest()
	f.SetVersion(11)
	f.MaxWaitMillis, f.MinBytes, f.MaxBytes, f.SessionEpoch = 500, 1, 1<<20, -1
	ft, fp := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	const mark = 0x0102030405060708
	ft.Topic, fp.FetchOffset, fp.PartitionMaxBytes = topic, mark, 1<<10
	ft.Partitions = append(ft.Partitions, fp)
	f.Topics = append(f.Topics, ft)
	fetch = formatter.AppendRequest(nil, f, 2)
	for binary.BigEndian.Uint64(fetch[offsetAt:]) != mark {
		offsetAt++
	}
	return formatter.AppendRequest(nil, p, 1), fetch, offsetAt
}

// sampleBatch is a batch of one record of 64 bytes.
func sampleBatch() []byte {
	record := kmsg.Record{OffsetDelta: 0, Value: make([]byte, 64)}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_000,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1, Records: record.AppendTo(nil)}
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
