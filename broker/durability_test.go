package broker

import (
	"errors"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

// syncGate holds or fails the syncs of log files.
type syncGate struct {
	mu     sync.Mutex
	opened sync.Cond // of mu
	// +checklocks:mu
	shut bool
	// +checklocks:mu
	fails error
}

func newSyncGate() *syncGate {
	g := &syncGate{}
	g.opened.L = &g.mu
	return g
}

func (g *syncGate) files() vfs.FS { return &vfs.Faulty{FS: vfs.NewMem(), Before: g.before} }

func (g *syncGate) before(op vfs.Op) error {
	if op.Kind != vfs.OpDatasync || path.Ext(op.Name) != ".log" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.shut {
		g.opened.Wait()
	}
	return g.fails
}

func (g *syncGate) set(shut bool, fails error) {
	g.mu.Lock()
	g.shut, g.fails = shut, fails
	g.mu.Unlock()
	g.opened.Broadcast()
}

// Nobody sees a record and no acks=all is answered before the commit; acks=1 is.
func TestVisibleMeansDurable(t *testing.T) {
	t.Parallel()
	gate := newSyncGate()
	b := newDataBrokerOn(t, gate.files(), testTopics{"t": 1})
	put(t, b, "t", 0, "before")
	gate.set(true, nil)
	all := produceOne(t, b, 9, -1, "t", 0, testBatch("a"))
	waiting := send(t, b, testConnection(), all)
	one := produceOne(t, b, 9, 1, "t", 0, testBatch("b"))
	if got := receive[*kmsg.ProduceResponse](t, one, send(t, b, testConnection(), one)).Topics[0].Partitions[0]; got.BaseOffset != 2 {
		t.Fatalf("%+v", got)
	}
	request := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 1}, epoch: -1, minBytes: 1, maxWait: 600_000})
	parked := send(t, b, testConnection(), request)
	if isEnded(waiting) || isEnded(parked) {
		t.Fatal("answered before the commit")
	}
	if got := listOffsetsNow(t, b, listOffsetsOf(7, "t", offsetQuery{0, timestampLatest, -1}))[0]; got.Offset != 1 {
		t.Fatalf("the end is %d before the commit", got.Offset)
	}
	gate.set(false, nil)
	if got := receive[*kmsg.ProduceResponse](t, all, waiting).Topics[0].Partitions[0]; got.BaseOffset != 1 || got.ErrorCode != 0 {
		t.Fatalf("%+v", got)
	}
	got := receive[*kmsg.FetchResponse](t, request, parked)
	if values, _ := valuesOf(t, got.Topics[0].Partitions[0].RecordBatches); strings.Join(values, "") != "a" && strings.Join(values, "") != "ab" {
		t.Fatalf("values %q", values)
	}
}

// A duplicate is acknowledged when the original is durable, not before.
func TestDuplicateWaitsForTheOriginal(t *testing.T) {
	t.Parallel()
	gate := newSyncGate()
	b := newDataBrokerOn(t, gate.files(), testTopics{"t": 1})
	gate.set(true, nil)
	records := func() []byte {
		return buildBatch(batch.Builder{HasProducer: true, ProducerID: 7}, "a")
	}
	first := produceOne(t, b, 9, -1, "t", 0, records())
	second := produceOne(t, b, 9, -1, "t", 0, records())
	original, duplicate := send(t, b, testConnection(), first), send(t, b, testConnection(), second)
	if isEnded(original) || isEnded(duplicate) {
		t.Fatal("answered before the commit")
	}
	gate.set(false, nil)
	for request, sink := range map[*kmsg.ProduceRequest]*replySink{first: original, second: duplicate} {
		if got := receive[*kmsg.ProduceResponse](t, request, sink).Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != 0 {
			t.Fatalf("%+v", got)
		}
	}
	if end := b.topic("t").partitions[0].log.LogEndOffset(); end != 1 {
		t.Fatalf("end offset %d", end)
	}
}

// The timeout ends the wait, not the append: one partition of two is late.
func TestProduceTimesOutForWhatIsLate(t *testing.T) {
	t.Parallel()
	gate := newSyncGate()
	b := newDataBrokerOn(t, gate.files(), testTopics{"t": 1})
	gate.set(true, nil)
	request := produceOne(t, b, 9, -1, "t", 0, testBatch("a"))
	request.TimeoutMillis = 0 // raised to limits.ProduceTimeoutFloor
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 5, testBatch("nowhere")
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, p)
	start := time.Now()
	got := receive[*kmsg.ProduceResponse](t, request, send(t, b, testConnection(), request)).Topics[0].Partitions
	if took := time.Since(start); took < time.Second {
		t.Fatalf("timed out after %v", took)
	}
	if got[0].ErrorCode != kerr.RequestTimedOut.Code || got[0].BaseOffset != 0 || got[1].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", got)
	}
	gate.set(false, nil)
	if base := put(t, b, "t", 0, "b"); base != 1 {
		t.Fatalf("the record that was late is gone: the next one is at %d", base)
	}
}

// A commit that fails is told to whoever waits for it, and to who fetches.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	gate := newSyncGate()
	b := newDataBrokerOn(t, gate.files(), testTopics{"t": 1})
	put(t, b, "t", 0, "before")
	request := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 1}, epoch: -1, minBytes: 1, maxWait: 600_000})
	parked := send(t, b, testConnection(), request)
	gate.set(false, errors.New("injected: the disk is gone"))
	for range 2 {
		produce := produceOne(t, b, 9, -1, "t", 0, testBatch("a"))
		got := receive[*kmsg.ProduceResponse](t, produce, send(t, b, testConnection(), produce)).Topics[0].Partitions[0]
		if got.ErrorCode != kerr.KafkaStorageError.Code || got.BaseOffset != -1 {
			t.Fatalf("%+v", got)
		}
	}
	if got := receive[*kmsg.FetchResponse](t, request, parked).Topics[0].Partitions[0]; got.ErrorCode != kerr.KafkaStorageError.Code {
		t.Fatalf("%+v", got)
	}
	gate.set(false, nil)
}
