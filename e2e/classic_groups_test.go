//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// classicGroupAnswers walks through the classic protocol on both, by every version of
// each key.
func classicGroupAnswers(t *testing.T, brokers [2]*broker) {
	unique := fmt.Sprint(time.Now().UnixNano())
	pair := newPair(t, brokers, "classic"+unique, 2)
	start := func(t *testing.T, name string) *groupPair {
		g := &groupPair{pair: ownConns(t, pair, brokers), group: name + unique}
		g.awaitCoordinators(t)
		return g
	}
	for version := int16(0); version <= 9; version++ {
		t.Run(fmt.Sprint("by version ", version), func(t *testing.T) { walkClassic(t, start(t, fmt.Sprint("v", version)), version) })
	}
	t.Run("static", func(t *testing.T) { walkClassicStatic(t, start(t, "static")) })
	t.Run("bad", func(t *testing.T) { walkClassicBad(t, start(t, "bad")) })
	t.Run("coordinators", func(t *testing.T) { walkCoordinators(t, start(t, "coordinators")) })
}

// at is a join's change to a version, without what that version does not know.
func at(version int16, change func(side int, r *kmsg.JoinGroupRequest)) func(int, *kmsg.JoinGroupRequest) {
	return func(side int, r *kmsg.JoinGroupRequest) {
		r.Version = version
		if change != nil {
			change(side, r)
		}
	}
}

func (g *groupPair) syncAt(t *testing.T, what string, version int16, member string, generation int32, change func(side int, r *kmsg.SyncGroupRequest)) {
	t.Helper()
	g.ask(t, fmt.Sprintf("SyncGroup v%d %s", version, what), func(side int) kmsg.Request {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = version, g.group, g.id(side, member), generation, ptr("consumer"), ptr("range")
		r.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: r.MemberID, MemberAssignment: []byte("plan")}}
		if change != nil {
			change(side, r)
		}
		return r
	})
}

func (g *groupPair) describe(t *testing.T, what string) {
	t.Helper()
	for version := int16(0); version <= 6; version++ {
		g.ask(t, fmt.Sprintf("DescribeGroups v%d %s", version, what), func(int) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups = version, []string{g.group, "nobody-" + g.group}
			return r
		})
	}
	for version := int16(0); version <= 5; version++ {
		g.ask(t, fmt.Sprintf("ListGroups v%d %s", version, what), func(int) kmsg.Request {
			r := kmsg.NewPtrListGroupsRequest()
			r.Version = version
			return r
		})
	}
}

// fetches compares the group's offsets by every version, one partition that is
// committed, one that is not, one that does not exist, and all.
func (g *groupPair) fetches(t *testing.T, what string) {
	t.Helper()
	for version := int16(1); version <= 10; version++ {
		for _, all := range []bool{false, true} {
			if all && version < 2 {
				continue
			}
			g.ask(t, fmt.Sprintf("OffsetFetch v%d %s, all %v", version, what, all), func(side int) kmsg.Request {
				r := kmsg.NewPtrOffsetFetchRequest()
				r.Version, r.Group = version, g.group
				one, nobody := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroup()
				one.Group, nobody.Group = g.group, "nobody-"+g.group
				if !all {
					r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: g.topic, Partitions: []int32{0, 1, 7}}, {Topic: "nowhere", Partitions: []int32{0}}}
					one.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: g.topic, TopicID: g.ids[side], Partitions: []int32{0, 1, 7}}, {Topic: "nowhere", TopicID: [16]byte{9}, Partitions: []int32{0}}}
				}
				r.Groups = []kmsg.OffsetFetchRequestGroup{one, nobody}
				return r
			})
		}
	}
}

func (g *groupPair) commitAt(t *testing.T, what string, version int16, member string, generation int32, change func(r *kmsg.OffsetCommitRequest)) {
	t.Helper()
	g.ask(t, fmt.Sprintf("OffsetCommit v%d %s", version, what), func(side int) kmsg.Request {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.MemberID, r.Generation = version, g.group, g.id(side, member), generation
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: g.topic, TopicID: g.ids[side]}, {Topic: "nowhere", TopicID: [16]byte{9}, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 3, LeaderEpoch: -1}}}}
		for _, partition := range []int32{0, 5} {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: partition, Offset: 3, LeaderEpoch: 0})
		}
		if change != nil {
			change(r)
		}
		return r
	})
}

func walkClassic(t *testing.T, g *groupPair, version int16) {
	asked := g.join(t, "joins", "", at(version, nil))
	if asked[0].(*kmsg.JoinGroupResponse).ErrorCode == 79 { // MEMBER_ID_REQUIRED
		// Kafka shows the group when some record of its shard is written, at a time of its own.
		g.join(t, "joins with its id", "member0", at(version, nil))
	}
	beat := func(what, member string, generation int32) {
		g.ask(t, what, func(side int) kmsg.Request {
			r := kmsg.NewPtrHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.Generation = min(version, 4), g.group, g.id(side, member), generation
			return r
		})
	}
	g.describe(t, "joined")
	beat("beat before the sync", "member0", 1)
	g.commitAt(t, "before the sync", max(2, version), "member0", 1, nil)
	for v := int16(0); v <= 5; v++ {
		g.syncAt(t, "in a generation to come", v, "member0", 2, nil)
		g.syncAt(t, "nobody", v, "nobody", 1, nil)
		if v == 5 {
			g.syncAt(t, "another protocol", v, "member0", 1, func(_ int, r *kmsg.SyncGroupRequest) { r.Protocol = ptr("sticky") })
			g.syncAt(t, "another type", v, "member0", 1, func(_ int, r *kmsg.SyncGroupRequest) { r.ProtocolType = ptr("connect") })
		}
	}
	for v := int16(0); v <= 5; v++ {
		g.syncAt(t, "good", v, "member0", 1, nil)
	}
	for _, generation := range []int32{1, 0, 2, -1} {
		beat(fmt.Sprint("beat in ", generation), "member0", generation)
	}
	beat("beat of nobody", "nobody", 1)
	g.describe(t, "stable")
	g.commitAt(t, "good", max(2, version), "member0", 1, nil)
	g.commitAt(t, "in an old generation", max(2, version), "member0", 0, nil)
	g.commitAt(t, "of nobody", max(2, version), "nobody", 1, nil)
	g.commitAt(t, "by hand while members live", max(2, version), "", -1, nil)
	g.fetches(t, "committed")
	g.join(t, "the leader joins again", "member0", at(version, nil))
	g.syncAt(t, "an empty plan", min(version, 5), "member0", 2, func(_ int, r *kmsg.SyncGroupRequest) { r.GroupAssignment = nil })
	g.describe(t, "anew")
	deletes := func(what string) {
		for v := int16(0); v <= 3; v++ {
			g.ask(t, fmt.Sprintf("DeleteGroups v%d %s", v, what), func(int) kmsg.Request {
				return &kmsg.DeleteGroupsRequest{Version: v, Groups: []string{g.group, "nobody-" + g.group, ""}}
			})
		}
		g.ask(t, "OffsetDelete "+what, func(int) kmsg.Request {
			return &kmsg.OffsetDeleteRequest{Group: g.group, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: g.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 1}, {Partition: 9}}}, {Topic: "nowhere", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}}
		})
	}
	deletes("live")
	leave := func(what string, members ...string) {
		g.ask(t, what, func(side int) kmsg.Request {
			r := kmsg.NewPtrLeaveGroupRequest()
			r.Version, r.Group, r.MemberID = min(version, 5), g.group, g.id(side, members[0])
			for _, m := range members {
				r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: g.id(side, m)})
			}
			return r
		})
	}
	leave("nobody leaves", "nobody")
	leave("it leaves", "member0", "nobody", "member0")
	g.describe(t, "empty")
	beat("beat behind the leave", "member0", 2)
	g.commitAt(t, "behind the leave", max(2, version), "member0", 2, nil)
	g.commitAt(t, "by hand", max(2, version), "", -1, nil)
	g.ask(t, "OffsetDelete empty", func(int) kmsg.Request {
		return &kmsg.OffsetDeleteRequest{Group: g.group, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: g.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}, {Partition: 9}}}}}
	})
	g.fetches(t, "empty")
	deletes("empty")
	g.describe(t, "deleted")
	g.fetches(t, "deleted")
}

func walkClassicStatic(t *testing.T, g *groupPair) {
	static := func(instance string, change func(int, *kmsg.JoinGroupRequest)) func(int, *kmsg.JoinGroupRequest) {
		return func(side int, r *kmsg.JoinGroupRequest) {
			r.InstanceID = &instance
			if change != nil {
				change(side, r)
			}
		}
	}
	sync := func(what, member string, generation int32, instance string) {
		g.syncAt(t, what, 5, member, generation, func(_ int, r *kmsg.SyncGroupRequest) { r.InstanceID = &instance })
	}
	beat := func(what, member string, generation int32, instance *string) {
		g.ask(t, what, func(side int) kmsg.Request {
			r := kmsg.NewPtrHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 4, g.group, g.id(side, member), generation, instance
			return r
		})
	}
	g.join(t, "joins", "", static("i", nil))
	sync("good", "member0", 1, "i")
	g.join(t, "comes back", "", static("i", nil))
	sync("the old one", "member0", 1, "i")
	sync("the new one", "member1", 1, "i")
	g.join(t, "comes back by version 6", "", static("i", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 6 }))
	g.describe(t, "back")
	g.join(t, "fenced", "member0", static("i", nil))
	g.join(t, "another instance's id", "member2", static("other", nil))
	g.join(t, "a made up id", "made-up", static("i", nil))
	g.join(t, "a made up id without instance", "made-up", nil)
	g.join(t, "another type", "", static("i", func(_ int, r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }))
	g.join(t, "nothing in common", "", static("i", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" }))
	beat("beat of the fenced", "member0", 1, ptr("i"))
	beat("beat of another instance", "member2", 1, ptr("x"))
	beat("beat without instance", "member2", 1, nil)
	beat("beat", "member2", 1, ptr("i"))
	g.commitAt(t, "of the fenced", 8, "member0", 1, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("i") })
	g.commitAt(t, "of an unknown instance", 8, "member2", 1, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("x") })
	g.commitAt(t, "good", 8, "member2", 1, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("i") })
	g.join(t, "comes back with another subscription", "", static("i", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = []byte("changed") }))
	g.describe(t, "changed")
	g.ask(t, "LeaveGroup by instance", func(side int) kmsg.Request {
		return &kmsg.LeaveGroupRequest{Version: 5, Group: g.group, Members: []kmsg.LeaveGroupRequestMember{
			{MemberID: g.id(side, "member0"), InstanceID: ptr("i")}, {InstanceID: ptr("i")}, {InstanceID: ptr("i")}, {InstanceID: ptr("z")}}}
	})
	g.describe(t, "left")
}

func walkClassicBad(t *testing.T, g *groupPair) {
	for version := int16(0); version <= 9; version++ {
		g.join(t, fmt.Sprint("session of 5 ms by version ", version), "", at(version, func(_ int, r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 5 }))
		g.join(t, fmt.Sprint("session of a day by version ", version), "", at(version, func(_ int, r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 86_400_000 }))
		g.join(t, fmt.Sprint("no protocols by version ", version), "", at(version, func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols = nil }))
		g.join(t, fmt.Sprint("no type by version ", version), "", at(version, func(_ int, r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }))
		g.join(t, fmt.Sprint("no group by version ", version), "", at(version, func(_ int, r *kmsg.JoinGroupRequest) { r.Group = "" }))
		g.join(t, fmt.Sprint("an unknown member by version ", version), "nobody", at(version, nil))
	}
	g = &groupPair{pair: g.pair, group: g.group + "-offsets"} // a refused join leaves a group behind in Kafka
	for version := int16(2); version <= 10; version++ {
		g.commitAt(t, "a generation of no group", version, "m", 5, nil)
		g.commitAt(t, "a member without generation", version, "m", -1, nil)
		g.commitAt(t, "no group", version, "", -1, func(r *kmsg.OffsetCommitRequest) { r.Group = "" })
		g.commitAt(t, "no topics", version, "", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics = nil })
		g.commitAt(t, "metadata of 4,097 bytes", version, "", -1, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("m", 4097)) })
		g.commitAt(t, "metadata of 4,096 letters in 8,192 bytes", version, "", -1, func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("é", 4096))
		})
		g.commitAt(t, "an instance without a member", version, "", -1, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("i") })
	}
	for version := int16(0); version <= 5; version++ {
		g.ask(t, "LeaveGroup of none", func(int) kmsg.Request { return &kmsg.LeaveGroupRequest{Version: version, Group: g.group} })
		g.ask(t, "LeaveGroup without group", func(int) kmsg.Request {
			return &kmsg.LeaveGroupRequest{Version: version, Members: []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}, MemberID: "m"}
		})
		g.syncAt(t, "of no group", version, "m", 1, func(_ int, r *kmsg.SyncGroupRequest) { r.Group = "" })
		g.syncAt(t, "of a group that is not", version, "m", 1, nil)
		g.ask(t, "ListGroups by states", func(int) kmsg.Request {
			return &kmsg.ListGroupsRequest{Version: version, StatesFilter: []string{"stable", "NoState"}, TypesFilter: []string{"CLASSIC", "NoType"}}
		})
	}
	g.ask(t, "DescribeGroups of none", func(int) kmsg.Request { return &kmsg.DescribeGroupsRequest{Version: 6} })
	g.ask(t, "DescribeGroups without name", func(int) kmsg.Request { return &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{""}} })
	g.ask(t, "DeleteGroups of none", func(int) kmsg.Request { return &kmsg.DeleteGroupsRequest{Version: 2} })
	g.ask(t, "OffsetFetch of none", func(int) kmsg.Request { return &kmsg.OffsetFetchRequest{Version: 8} })
	g.ask(t, "OffsetDelete of no group", func(int) kmsg.Request { return &kmsg.OffsetDeleteRequest{Group: "nobody-" + g.group} })
	g.ask(t, "OffsetDelete without name", func(int) kmsg.Request { return &kmsg.OffsetDeleteRequest{} })
	for _, topic := range []string{g.topic, "nowhere"} {
		g.ask(t, "OffsetDelete without name of "+topic, func(int) kmsg.Request {
			return &kmsg.OffsetDeleteRequest{Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}}
		})
	}
	g.describe(t, "at the end")
}

func walkCoordinators(t *testing.T, g *groupPair) {
	for side := range sides { // the topic of the transactions is made at the first use
		eventually(t, 30*time.Second, func() error {
			r := kmsg.NewPtrFindCoordinatorRequest()
			r.Version, r.CoordinatorType, r.CoordinatorKeys = 4, 1, []string{"any"}
			if code := exchange(t, g.conns[side], r).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode; code != 0 {
				return fmt.Errorf("error %d", code)
			}
			return nil
		})
	}
	for version := int16(0); version <= 6; version++ {
		for kind := int8(-1); kind <= 3; kind++ {
			for _, keys := range [][]string{{g.group}, {""}, {"a", "b", ""}, nil} {
				g.ask(t, fmt.Sprintf("FindCoordinator v%d type %d %q", version, kind, keys), func(int) kmsg.Request {
					r := kmsg.NewPtrFindCoordinatorRequest()
					r.Version, r.CoordinatorType, r.CoordinatorKeys = version, kind, keys
					if len(keys) > 0 {
						r.CoordinatorKey = keys[0]
					}
					return r
				})
			}
		}
	}
}
