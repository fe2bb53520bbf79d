package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A partition that is named several times is answered once, as it is named last; the others are not touched by that.
// Recorded from Apache Kafka 4.4, in the versions 11 and for a session: partitions 0 and 1, by name and offset.
func TestFetchNamesAPartitionTwice(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 40})
	for p := range int32(40) {
		for i := range 4 {
			put(t, b, "t", p, fmt.Sprint(i))
		}
	}
	type named struct {
		index  int32
		offset int64
	}
	crowd := make([]named, 0, 60) // many are found in another way than few
	for p := range int32(30) {
		crowd = append(crowd, named{p + 2, 3})
	}
	for _, tc := range []struct {
		name string
		ask  []named
		code int16 // of partition 0
		want map[int32]int64
	}{
		{name: "later", ask: []named{{0, 0}, {0, 2}}, want: map[int32]int64{0: 2}},
		{name: "earlier", ask: []named{{0, 2}, {0, 0}}, want: map[int32]int64{0: 0}},
		{name: "with another between", ask: []named{{0, 0}, {1, 0}, {0, 2}}, want: map[int32]int64{0: 2, 1: 0}},
		{name: "three times", ask: []named{{1, 0}, {0, 0}, {1, 1}, {1, 2}}, want: map[int32]int64{0: 0, 1: 2}},
		{name: "last beyond the end", ask: []named{{0, 0}, {0, 999}}, want: map[int32]int64{0: -1}, code: kerr.OffsetOutOfRange.Code},
		{name: "first beyond the end", ask: []named{{0, 999}, {0, 0}}, want: map[int32]int64{0: 0}},
	} {
		for _, apart := range []bool{false, true} { // in one element of the topic, or each in its own
			for _, many := range []bool{false, true} {
				for version := int16(4); version <= 18; version++ {
					ask, want := tc.ask, len(tc.want)
					if many {
						ask = append(append(slices.Clone(crowd), tc.ask...), crowd...)
						want += len(crowd)
					}
					request := fetchOf(t, b, fetchSpec{version: version, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1})
					topic := request.Topics[0]
					one := topic.Partitions[0]
					topic.Partitions = nil
					request.Topics = nil
					for _, n := range ask {
						one.Partition, one.FetchOffset = n.index, n.offset
						if apart {
							topic.Partitions = nil
						}
						topic.Partitions = append(topic.Partitions, one)
						if apart {
							request.Topics = append(request.Topics, topic)
						}
					}
					if !apart {
						request.Topics = append(request.Topics, topic)
					}
					got := receive[*kmsg.FetchResponse](t, request, send(t, b, testConnection(), request))
					what := fmt.Sprintf("%s, apart %v, many %v, v%d", tc.name, apart, many, version)
					if all := partitionsOf(got); len(all) != want || countOf(got) != want {
						t.Fatalf("%s: %d partitions are answered, %d of them different, want %d", what, countOf(got), len(all), want)
					}
					for index, base := range tc.want {
						p := partitionsOf(got)[index]
						if base < 0 {
							if p.ErrorCode != tc.code {
								t.Errorf("%s: partition %d has error %d", what, index, p.ErrorCode)
							}
							continue
						}
						if _, offsets := valuesOf(t, p.RecordBatches); p.ErrorCode != 0 || len(offsets) == 0 || offsets[0] != base {
							t.Errorf("%s: partition %d has error %d and the offsets %v, want them from %d", what, index, p.ErrorCode, offsets, base)
						}
					}
				}
			}
		}
	}
}

func countOf(r *kmsg.FetchResponse) (partitions int) {
	for _, topic := range r.Topics {
		partitions += len(topic.Partitions)
	}
	return partitions
}

// The same of a topic that does not exist, and of a new session, which remembers the partition once.
func TestFetchNamesUnknownOnesTwice(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 2})
	for _, value := range []string{"a", "b", "c"} {
		put(t, b, "t", 0, value)
	}
	c := &sessionClient{t: t, b: b, version: 12}
	twice := func(r *kmsg.FetchRequest) {
		topic := &r.Topics[0]
		again := topic.Partitions[0]
		again.FetchOffset = 2
		unknown := again
		unknown.Partition = 77
		topic.Partitions = append(topic.Partitions, again, unknown, unknown)
	}
	got := c.fetch(map[int32]int64{0: 0, 1: 0}, twice)
	if countOf(got) != 3 || partitionsOf(got)[77].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Fatalf("%+v", got)
	}
	if _, offsets := valuesOf(t, partitionsOf(got)[0].RecordBatches); len(offsets) == 0 || offsets[0] != 2 {
		t.Errorf("offsets %v, want them from 2", offsets)
	}
	if sessions, partitions := cached(b); sessions != 1 || partitions != 3 {
		t.Errorf("%d sessions with %d partitions are cached, want one with 3", sessions, partitions)
	}
}

// Half a connection: a fetch that waits is answered to a peer that has ended its sending side, as by Apache Kafka.
func TestHalfClosedPeerGetsItsFetch(t *testing.T) {
	t.Parallel()
	b := newDataBroker(t, testTopics{"t": 1})
	c := dialRaw(t, serve(t, b, nil))
	request := fetchOf(t, b, fetchSpec{version: 12, topic: "t", partitions: map[int32]int64{0: 0}, epoch: -1, minBytes: 1, maxWait: 300})
	c.send(request, 7)
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := c.receive(request, 7).(*kmsg.FetchResponse); countOf(got) != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := c.frame(); err == nil {
		t.Error("another reply came")
	}
}
