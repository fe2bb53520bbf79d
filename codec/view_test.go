package codec

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceRequest(version int16) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.SetVersion(version)
	request.Acks = -1
	request.TimeoutMillis = 1500
	if version >= 3 {
		request.TransactionID = kmsg.StringPtr("txn")
	}
	for t := range 3 {
		topic := kmsg.NewProduceRequestTopic()
		if version >= 13 {
			topic.TopicID = [16]byte{1, byte(t)}
		} else {
			topic.Topic = fmt.Sprintf("topic-%d", t)
		}
		for p := range t { // the first topic has no partition
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Partition = int32(p)
			if p > 0 {
				partition.Records = bytes.Repeat([]byte{byte(t)}, 200*p)
			}
			topic.Partitions = append(topic.Partitions, partition)
		}
		request.Topics = append(request.Topics, topic)
	}
	return request
}

func TestProduceViewReadsWhatKmsgWrites(t *testing.T) {
	t.Parallel()
	for version := int16(0); version <= 13; version++ {
		request := produceRequest(version)
		view, err := ParseProduce(version, request.AppendTo(nil))
		if err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		if view.Acks != -1 || view.TimeoutMs != 1500 || view.TopicCount != 2 || view.PartitionCount != 3 {
			t.Fatalf("v%d: %+v", version, view)
		}
		if version >= 3 && string(view.TransactionalID) != "txn" {
			t.Fatalf("v%d: transactional id %q", version, view.TransactionalID)
		}
		it := view.Partitions()
		for _, topic := range request.Topics {
			for i, want := range topic.Partitions {
				if !it.Next() {
					t.Fatalf("v%d: iterator ended early", version)
				}
				got := it.Partition
				if string(got.Topic) != topic.Topic || got.TopicID != topic.TopicID || got.Index != want.Partition ||
					!bytes.Equal(got.Records, want.Records) || (got.Records == nil) != (want.Records == nil) {
					t.Fatalf("v%d: got %+v, want %+v of %s", version, got, want, topic.Topic)
				}
				if got.First != (i == 0) || got.First && got.Siblings != len(topic.Partitions) {
					t.Fatalf("v%d: first %v siblings %d at %d", version, got.First, got.Siblings, i)
				}
			}
		}
		if it.Next() {
			t.Fatalf("v%d: iterator goes on", version)
		}
	}
}

func fetchRequest(version int16) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.SetVersion(version)
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.IsolationLevel = 500, 7, 1<<20, 1
	request.SessionID, request.SessionEpoch = 77, 3
	request.ReplicaID = -1
	if version >= 15 {
		request.ReplicaState.ID, request.ReplicaState.Epoch = 5, 6
		request.ClusterID = kmsg.StringPtr("cluster")
	}
	for t := range 3 {
		topic, forgotten := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestForgottenTopic()
		if version >= 13 {
			topic.TopicID = [16]byte{2, byte(t)}
			forgotten.TopicID = [16]byte{3, byte(t)}
		} else {
			topic.Topic = fmt.Sprintf("topic-%d", t)
			forgotten.Topic = fmt.Sprintf("gone-%d", t)
		}
		for p := range t {
			partition := kmsg.NewFetchRequestTopicPartition()
			partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = int32(p), int64(p)*100, 1<<10
			partition.CurrentLeaderEpoch, partition.LastFetchedEpoch, partition.LogStartOffset = 4, 3, -1
			if version >= 12 {
				partition.ReplicaDirectoryID = [16]byte{9}
			}
			if version >= 18 {
				partition.HighWatermark = 1234
			}
			topic.Partitions = append(topic.Partitions, partition)
			forgotten.Partitions = append(forgotten.Partitions, int32(p))
		}
		request.Topics = append(request.Topics, topic)
		request.ForgottenTopics = append(request.ForgottenTopics, forgotten)
	}
	request.Rack = "rack"
	return request
}

func TestFetchViewReadsWhatKmsgWrites(t *testing.T) {
	t.Parallel()
	for version := int16(4); version <= 18; version++ {
		request := fetchRequest(version)
		view, err := ParseFetch(version, request.AppendTo(nil))
		if err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		checkFetchHeader(t, version, &view)
		it := view.Partitions()
		for _, topic := range request.Topics {
			for _, want := range topic.Partitions {
				if !it.Next() {
					t.Fatalf("v%d: iterator ended early", version)
				}
				checkFetchPartition(t, version, it.Partition, topic, want)
			}
		}
		if it.Next() {
			t.Fatalf("v%d: iterator goes on", version)
		}
		gone := view.Forgotten()
		for _, topic := range request.ForgottenTopics {
			for _, index := range topic.Partitions {
				if version < 7 {
					continue
				}
				if !gone.Next() || gone.Index != index || string(gone.Topic) != topic.Topic || gone.TopicID != topic.TopicID {
					t.Fatalf("v%d: forgotten %s %d, want %s %d", version, gone.Topic, gone.Index, topic.Topic, index)
				}
			}
		}
		if gone.Next() {
			t.Fatalf("v%d: forgotten goes on", version)
		}
	}
}

func checkFetchHeader(t *testing.T, version int16, view *FetchView) {
	t.Helper()
	if view.MaxWaitMs != 500 || view.MinBytes != 7 || view.MaxBytes != 1<<20 || view.IsolationLevel != 1 ||
		view.PartitionCount != 3 || view.TopicCount != 2 {
		t.Fatalf("v%d: %+v", version, view)
	}
	wantID, wantEpoch := int32(0), int32(-1)
	if version >= 7 {
		wantID, wantEpoch = 77, 3
	}
	if view.SessionID != wantID || view.SessionEpoch != wantEpoch {
		t.Fatalf("v%d: session %d epoch %d", version, view.SessionID, view.SessionEpoch)
	}
	wantReplica := int32(-1)
	if version >= 15 {
		wantReplica = 5
	}
	if view.ReplicaID != wantReplica || version >= 15 && view.ReplicaEpoch != 6 {
		t.Fatalf("v%d: replica %d epoch %d", version, view.ReplicaID, view.ReplicaEpoch)
	}
	if version >= 11 && string(view.Rack) != "rack" {
		t.Fatalf("v%d: rack %q", version, view.Rack)
	}
}

func checkFetchPartition(t *testing.T, version int16, got FetchPartition, topic kmsg.FetchRequestTopic, want kmsg.FetchRequestTopicPartition) {
	t.Helper()
	epoch, last, highWatermark := int32(-1), int32(-1), int64(math.MaxInt64)
	if version >= 9 {
		epoch = 4
	}
	if version >= 12 {
		last = 3
	}
	if version >= 18 {
		highWatermark = 1234
	}
	if string(got.Topic) != topic.Topic || got.TopicID != topic.TopicID || got.Index != want.Partition ||
		got.FetchOffset != want.FetchOffset || got.MaxBytes != want.PartitionMaxBytes ||
		got.CurrentLeaderEpoch != epoch || got.LastFetchedEpoch != last || got.HighWatermark != highWatermark {
		t.Fatalf("v%d: got %+v, want %+v of %s", version, got, want, topic.Topic)
	}
}

// Every prefix of a request and every request with a byte too many is refused,
// and none panics.
func TestViewsRefuseCutAndOverlongBodies(t *testing.T) {
	t.Parallel()
	for version := int16(3); version <= 13; version++ {
		body := produceRequest(version).AppendTo(nil)
		for n := range body {
			if _, err := ParseProduce(version, body[:n:n]); err == nil {
				t.Fatalf("produce v%d: %d of %d bytes accepted", version, n, len(body))
			}
		}
		if _, err := ParseProduce(version, append(body, 0)); err == nil {
			t.Fatalf("produce v%d: a byte left over accepted", version)
		}
	}
	for version := int16(4); version <= 18; version++ {
		body := fetchRequest(version).AppendTo(nil)
		for n := range body {
			if _, err := ParseFetch(version, body[:n:n]); err == nil {
				t.Fatalf("fetch v%d: %d of %d bytes accepted", version, n, len(body))
			}
		}
		if _, err := ParseFetch(version, append(body, 0)); err == nil {
			t.Fatalf("fetch v%d: a byte left over accepted", version)
		}
	}
}

func TestViewsRefuseHugeCounts(t *testing.T) {
	t.Parallel()
	bodies := map[string][]byte{
		"2^31-1 topics":      {0xff, 0xff, 0xff, 0xff, 0, 0, 0x75, 0x30, 0x7f, 0xff, 0xff, 0xff, 0, 0},
		"null topics":        {0xff, 0xff, 0xff, 0xff, 0, 0, 0x75, 0x30, 0xff, 0xff, 0xff, 0xff},
		"-2 topics":          {0xff, 0xff, 0xff, 0xff, 0, 0, 0x75, 0x30, 0xff, 0xff, 0xff, 0xfe},
		"-2 bytes of a text": {0xff, 0xfe, 0xff, 0xff, 0, 0, 0x75, 0x30, 0, 0, 0, 0},
	}
	for name, body := range bodies {
		if _, err := ParseProduce(3, body); err == nil {
			t.Errorf("%s accepted", name)
		}
	}
	// A compact count of 2^32-1 and a varint of six bytes.
	for name, count := range map[string][]byte{"2^32-1": {0xff, 0xff, 0xff, 0xff, 0x0f}, "six bytes": {0x81, 0x80, 0x80, 0x80, 0x80, 0}} {
		body := append([]byte{0, 0xff, 0xff, 0, 0, 0x75, 0x30}, count...)
		if _, err := ParseProduce(9, append(body, 0, 0, 0)); err == nil {
			t.Errorf("compact count %s accepted", name)
		}
	}
}

func TestViewsDoNotAllocate(t *testing.T) {
	produce := produceRequest(12).AppendTo(nil)
	fetch := fetchRequest(17).AppendTo(nil)
	total := 0
	allocations := testing.AllocsPerRun(100, func() {
		p, err := ParseProduce(12, produce)
		if err != nil {
			panic(err)
		}
		for it := p.Partitions(); it.Next(); {
			total += len(it.Partition.Records)
		}
		f, err := ParseFetch(17, fetch)
		if err != nil {
			panic(err)
		}
		for it := f.Partitions(); it.Next(); {
			total += int(it.Partition.Index)
		}
		for it := f.Forgotten(); it.Next(); {
			total += int(it.Index)
		}
	})
	if allocations != 0 {
		t.Fatalf("%v allocations per parse", allocations)
	}
}
