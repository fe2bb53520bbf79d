package group

import (
	"fmt"
	"runtime"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// forgetfulLog keeps nothing, so that the heap shows the machine alone.
type forgetfulLog struct {
	*coordtest.Log
	endOffset int64
}

func (l *forgetfulLog) Append([]byte) (int64, error)         { l.endOffset++; return l.endOffset, nil }
func (l *forgetfulLog) WhenCommitted(_ int64, f func(error)) { f(nil) }

// 10,000 groups that are joined, used and abandoned: memory returns. Not parallel:
// it measures the heap.
func TestAbandonedGroupsReturnTheirMemory(t *testing.T) {
	config := DefaultConfig()
	config.InitialRebalanceDelayMs, config.OffsetsRetentionMs, config.RetentionCheckIntervalMs = 0, 60_000, 10_000
	image := testImage(map[string]string{"t": "3", "u": "2", "v": "1"})
	config.Image = func() *meta.Image { return image }
	id := 0
	config.NewMemberSuffix = func() string { id++; return fmt.Sprint(id) }
	steps, err := coord.NewSteps(NewMachine(&config), &forgetfulLog{Log: coordtest.NewLog()}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	nowMs := int64(0)
	turn := func(events ...func(*Machine, *coord.Turn)) {
		if err := steps.Turn(nowMs, nowMs, events...); err != nil {
			t.Fatal(err)
		}
	}
	round := func() {
		for i := range 10_000 {
			turn(abandon(fmt.Sprint("group", i), i))
		}
		for n := 0; ; n++ {
			atMs, ok := steps.NextTimer()
			if !ok || steps.Machine.Groups() == 0 {
				break
			}
			if n > 1_000_000 {
				t.Fatalf("%d groups are left", steps.Machine.Groups())
			}
			nowMs = max(nowMs, atMs)
			turn()
		}
	}
	before := heapBytes()
	for range 2 {
		round()
	}
	if grown := heapBytes() - before; grown > 256<<10 {
		t.Errorf("the heap has grown by %d bytes after 20,000 abandoned groups", grown)
	}
	if steps.Parked() != 0 {
		t.Errorf("%d replies are parked", steps.Parked())
	}
}

// abandon leaves a group behind in one of six ways.
func abandon(name string, i int) func(*Machine, *coord.Turn) {
	return func(m *Machine, t *coord.Turn) {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.ProtocolType = 3, name, "consumer"
		join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 10_000, 10_000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: append(scriptMetadata("topics(t)"), make([]byte, 500)...)}}
		commit := kmsg.NewPtrOffsetCommitRequest()
		commit.Version, commit.Group, commit.Generation = 8, name, -1
		commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 5)}}
		switch i % 6 {
		case 0: // an id that nobody came back with
			join.Version = 5
			m.JoinGroup(t, Client{ID: "c"}, join, func(*kmsg.JoinGroupResponse) {})
		case 1: // offsets only
			m.OffsetCommit(t, commit, func(*kmsg.OffsetCommitResponse) {})
		case 2: // offsets, and a member that dies before its generation
			m.OffsetCommit(t, commit, func(*kmsg.OffsetCommitResponse) {})
			m.JoinGroup(t, Client{ID: "c"}, join, func(*kmsg.JoinGroupResponse) {})
		case 3: // a leader that dies before it syncs
			m.JoinGroup(t, Client{ID: "c"}, join, func(*kmsg.JoinGroupResponse) {})
		case 4: // a member of the consumer protocol that is never heard of again
			m.ConsumerHeartbeat(t, Client{ID: "c"}, firstBeat(name, "t", "u"), all, func(*kmsg.ConsumerGroupHeartbeatResponse) {})
		case 5: // as 3, and one that turns the group into a consumer group; offsets
			m.JoinGroup(t, Client{ID: "c"}, join, func(*kmsg.JoinGroupResponse) {})
			m.ConsumerHeartbeat(t, Client{ID: "c"}, firstBeat(name, "t"), all, func(*kmsg.ConsumerGroupHeartbeatResponse) {})
			commit.Version, commit.MemberID, commit.Generation = 9, "m", 2
			m.OffsetCommit(t, commit, func(*kmsg.OffsetCommitResponse) {})
		}
	}
}

func all(string) bool { return true }

func firstBeat(group string, topics ...string) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.RebalanceTimeoutMillis = 1, group, "m", 10_000
	r.SubscribedTopicNames, r.SubscribedTopicRegex, r.Topics = topics, kmsg.StringPtr("v.*"), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return r
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
