//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// memberAnswers walks through what needs several members at a time on both: offsets
// that members commit in transactions, rebalances with requests that wait, and
// subscriptions by regular expressions.
func memberAnswers(t *testing.T, brokers [2]*broker) {
	unique := fmt.Sprint("-", time.Now().UnixNano())
	pair := newPair(t, brokers, "members"+unique, 4)
	for name, walk := range map[string]func(*testing.T, *memberPair){
		"in transactions": walkMembersInTransactions, "rebalances": walkRebalances, "expressions": walkExpressions, "lists": walkLists,
	} {
		t.Run(name, func(t *testing.T) {
			g := &groupPair{pair: ownConns(t, pair, brokers), group: strings.ReplaceAll(name, " ", "-") + unique}
			g.awaitCoordinators(t)
			m := &memberPair{txnPair: &txnPair{groupPair: g, unique: unique}, brokers: brokers}
			m.awaitTransactions(t)
			walk(t, m)
		})
	}
}

// memberPair has further connections, for requests that wait.
type memberPair struct {
	*txnPair
	brokers [2]*broker
}

// waiting is a request that was sent to both on connections of its own.
type waiting struct {
	what     string
	conns    [2]net.Conn
	requests [2]kmsg.Request
}

// send sends a request that may wait for a rebalance. Both brokers have it before send
// returns: a second request on the same connection would wait, so another one that is
// handled later tells.
func (m *memberPair) send(t *testing.T, what string, build func(side int) kmsg.Request) *waiting {
	t.Helper()
	w := &waiting{what: what, conns: ownConns(t, m.pair, m.brokers).conns}
	for side := range sides {
		w.requests[side] = build(side)
		must(t, w.conns[side].SetDeadline(time.Now().Add(30*time.Second)))
		_, err := w.conns[side].Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("differential")).AppendRequest(nil, w.requests[side], 1))
		must(t, err)
	}
	return w
}

// get compares the answers to what was sent.
func (m *memberPair) get(t *testing.T, w *waiting) {
	t.Helper()
	var compared [2]string
	for side := range sides {
		compared[side] = m.text(t, side, receive(t, w.conns[side], w.requests[side]))
	}
	mustAgree(t, w.what, compared)
}

// state waits until the group is in the state on both.
func (m *memberPair) state(t *testing.T, want string, members int) {
	t.Helper()
	for side := range sides {
		eventually(t, 20*time.Second, func() error {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups = 5, []string{m.group}
			one := exchange(t, m.conns[side], r).(*kmsg.DescribeGroupsResponse).Groups[0]
			if one.State != want || len(one.Members) != members {
				return fmt.Errorf("%s: %s with %d members, want %s with %d", sides[side], one.State, len(one.Members), want, members)
			}
			return nil
		})
	}
}

func (m *memberPair) joinRequest(member string, change func(side int, r *kmsg.JoinGroupRequest)) func(side int) kmsg.Request {
	return func(side int) kmsg.Request {
		r := kmsg.NewPtrJoinGroupRequest()
		r.Version, r.Group, r.MemberID, r.ProtocolType = 3, m.group, m.id(side, member), "consumer"
		r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 30_000, 10_000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription(m.topic)}}
		if change != nil {
			change(side, r)
		}
		return r
	}
}

func (m *memberPair) syncRequest(member string, generation int32, plan map[string]string) func(side int) kmsg.Request {
	return func(side int) kmsg.Request {
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation, r.ProtocolType, r.Protocol = 5, m.group, m.id(side, member), generation, ptr("consumer"), ptr("range")
		for id, assignment := range plan {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.id(side, id), MemberAssignment: []byte(assignment)})
		}
		return r
	}
}

// walkMembersInTransactions: TxnOffsetCommit with generations and epochs (KIP-447).
func walkMembersInTransactions(t *testing.T, m *memberPair) {
	id := "member-txn" + m.unique
	m.init(t, "first", 4, stamp{id, -1, -1}, 60_000)
	s := stamp{id, 0, 0}
	as := func(member string, generation int32, instance *string) {
		t.Helper()
		for version := int16(0); version <= 6; version++ {
			m.ask(t, fmt.Sprintf("TxnOffsetCommit v%d %q in %d, instance %v", version, member, generation, instance), func(side int) kmsg.Request {
				r := &kmsg.TxnOffsetCommitRequest{Version: version, TransactionalID: s.id, Group: m.group, ProducerID: m.producerID(side, s.producer), ProducerEpoch: s.epoch}
				r.MemberID, r.Generation, r.InstanceID = m.id(side, member), generation, instance
				topic := kmsg.TxnOffsetCommitRequestTopic{Topic: m.topic, TopicID: m.ids[side]}
				topic.Partitions = []kmsg.TxnOffsetCommitRequestTopicPartition{{Partition: 0, Offset: 3, LeaderEpoch: -1, Metadata: ptr("m")}}
				r.Topics = append(r.Topics, topic)
				return r
			})
		}
	}
	all := func(member string) {
		t.Helper()
		for _, generation := range []int32{-1, 0, 1, 2, 3, 5, 6} {
			as(member, generation, nil)
			as(member, generation, ptr("i"))
			as("nobody", generation, nil)
			as("", generation, nil)
			as("", generation, ptr("i"))
		}
	}
	m.addOffsets(t, "good", 3, s, m.group)
	all("nobody")
	m.ask(t, "joins", m.joinRequest("", nil))
	all("member0")
	m.ask(t, "syncs", m.syncRequest("member0", 1, map[string]string{"member0": ""}))
	all("member0")
	m.fetch(t, "pending", nil, -1)
	m.random = true // plans follow the order of the members' ids
	m.heartbeat(t, "m1 joins: a consumer group", "m1", 0, m.joining)
	all("member0")
	all("m1")
	m.leave(t, "the classic member leaves", "member0")
	m.heartbeat(t, "m1 leaves", "m1", -1, nil)
	m.random = false
	m.heartbeat(t, "m2 joins", "m2", 0, m.joining)
	all("m2")
	m.show(t, "a consumer group")
	m.end(t, "good", 3, s, true)
	m.settle(t, id)
	m.look(t, "ended", id)
	m.heartbeat(t, "m2 leaves", "m2", -1, nil)
	m.addOffsets(t, "again", 3, s, m.group)
	all("m2")
	m.end(t, "aborts", 3, s, false)
	m.settle(t, id)
	m.look(t, "aborted", id)
}

// walkRebalances: two and three members of the classic protocol.
func walkRebalances(t *testing.T, m *memberPair) {
	m.ask(t, "a joins", m.joinRequest("", nil))
	m.ask(t, "a syncs", m.syncRequest("member0", 1, map[string]string{"member0": "all"}))
	b := m.send(t, "b joins", m.joinRequest("", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = subscription("other") }))
	m.state(t, "PreparingRebalance", 2)
	m.describe(t, "b has joined")
	m.beat(t, "a is told", "member0", 1)
	m.commitAt(t, "a commits while it is told", 8, "member0", 1, nil)
	m.ask(t, "a syncs in the old generation", m.syncRequest("member0", 1, nil))
	m.ask(t, "a rejoins", m.joinRequest("member0", nil))
	m.get(t, b)
	m.describe(t, "nobody has synced")
	m.commitAt(t, "a commits before the plan", 8, "member0", 2, nil)
	m.commitAt(t, "a commits in the old generation", 8, "member0", 1, nil)
	waits := m.send(t, "b syncs", m.syncRequest("member1", 2, map[string]string{"member0": "stolen", "member1": "stolen"}))
	m.beat(t, "b beats while it waits", "member1", 2)
	m.ask(t, "a syncs", m.syncRequest("member0", 2, map[string]string{"member0": "a", "member1": "b", "nobody": "x"}))
	m.get(t, waits)
	m.describe(t, "stable")
	m.ask(t, "b syncs again", m.syncRequest("member1", 2, nil))
	m.ask(t, "b, who follows, joins again with the same", m.joinRequest("member1", func(_ int, r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = subscription("other") }))
	m.describe(t, "still stable")
	twice := m.send(t, "b joins with another subscription", m.joinRequest("member1", nil))
	m.state(t, "PreparingRebalance", 2)
	m.ask(t, "OffsetDelete of what is subscribed", func(int) kmsg.Request {
		return &kmsg.OffsetDeleteRequest{Group: m.group, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: m.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}}
	})
	m.leave(t, "the leader leaves", "member0")
	m.get(t, twice)
	m.describe(t, "b leads")
	c := m.send(t, "c joins", m.joinRequest("", nil))
	m.state(t, "PreparingRebalance", 2)
	m.beat(t, "b is told", "member1", 3)
	m.ask(t, "DeleteGroups", func(int) kmsg.Request { return &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{m.group}} })
	m.leave(t, "b leaves", "member1", "member1")
	m.get(t, c)
	m.describe(t, "c leads")
	m.ask(t, "d is handed an id", m.joinRequest("", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 9 }))
	m.describe(t, "d has an id")
	m.leave(t, "d gives its id back", "member3")
	m.leave(t, "c leaves", "member2")
	m.describe(t, "empty")
}

// walkExpressions: Kafka looks the topics up on another thread, so both are asked until they know.
func walkExpressions(t *testing.T, m *memberPair) {
	by := func(regex string, names ...string) func(int, *kmsg.ConsumerGroupHeartbeatRequest) {
		return func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
			m.joining(side, r)
			r.SubscribedTopicNames, r.SubscribedTopicRegex = names, &regex
		}
	}
	for _, bad := range []string{"a(", "*", "[", "a{1001}", "(?=a)", `\1`, "a**", "(?<n>a)", "(?i)A", `\pL+`, "a++", ""} {
		var codes [2]int16
		for side := range sides {
			r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			r.Version, r.Group, r.MemberID = 1, m.group+"-bad-"+bad, "m"
			by(bad)(side, r)
			codes[side] = exchange(t, m.conns[side], r).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
		}
		if codes[0] != codes[1] {
			t.Errorf("regex %q: kaas %d, Kafka %d", bad, codes[0], codes[1])
		}
	}
	for side := range sides {
		epoch := int32(0)
		eventually(t, 30*time.Second, func() error {
			r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.MemberEpoch = 1, m.group, "m", epoch
			if epoch == 0 {
				by("members-[0-9]*")(side, r)
			}
			a := exchange(t, m.conns[side], r).(*kmsg.ConsumerGroupHeartbeatResponse)
			epoch = a.MemberEpoch
			if a.ErrorCode != 0 || a.Assignment == nil || len(a.Assignment.Topics) == 0 {
				return fmt.Errorf("%s: %+v", sides[side], a)
			}
			return nil
		})
	}
	m.ask(t, "OffsetDelete of what an expression matches", func(int) kmsg.Request {
		return &kmsg.OffsetDeleteRequest{Group: m.group, Topics: []kmsg.OffsetDeleteRequestTopic{{Topic: m.topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}}
	})
	m.ask(t, "ConsumerGroupDescribe", func(int) kmsg.Request {
		r := kmsg.NewPtrConsumerGroupDescribeRequest()
		r.Version, r.Groups = 1, []string{m.group}
		return r
	})
}

// walkLists: filters and groups that exist in several forms.
func walkLists(t *testing.T, m *memberPair) {
	list := func(what string) {
		for _, states := range [][]string{nil, {}, {""}, {"Empty"}, {"EMPTY", "dead"}, {"stable"}, {"Assigning", "Reconciling"}, {"PreparingRebalance"}, {"NotReady"}} {
			for _, types := range [][]string{nil, {""}, {"classic"}, {"Consumer"}, {"share", "streams"}, {"nothing"}} {
				m.ask(t, fmt.Sprintf("%s: ListGroups %q %q", what, states, types), func(int) kmsg.Request {
					return &kmsg.ListGroupsRequest{Version: 5, StatesFilter: states, TypesFilter: types}
				})
			}
		}
		m.ask(t, what+": ConsumerGroupDescribe", func(int) kmsg.Request {
			r := kmsg.NewPtrConsumerGroupDescribeRequest()
			r.Version, r.Groups, r.IncludeAuthorizedOperations = 1, []string{m.group, "", m.group, "nobody"}, true
			return r
		})
		m.ask(t, what+": DescribeGroups", func(int) kmsg.Request {
			r := kmsg.NewPtrDescribeGroupsRequest()
			r.Version, r.Groups, r.IncludeAuthorizedOperations = 6, []string{m.group, "", m.group, "nobody"}, true
			return r
		})
	}
	list("nothing")
	m.commit(t, "by hand", 9, "", -1, 0)
	list("offsets only")
	m.heartbeat(t, "m1 joins", "m1", 0, m.joining)
	list("consumer")
	m.heartbeat(t, "m2 joins", "m2", 0, m.joining)
	list("reconciling")
	m.heartbeat(t, "m1 leaves", "m1", -1, nil)
	m.heartbeat(t, "m2 leaves", "m2", -1, nil)
	list("empty consumer")
	m.fetch(t, "a member of nothing", ptr(""), -1)
	m.fetch(t, "a member of nothing", ptr(""), 0)
	m.fetch(t, "a member of nothing", ptr("m1"), 3)
	m.ask(t, "a joins", m.joinRequest("", func(_ int, r *kmsg.JoinGroupRequest) {
		r.ProtocolType, r.Protocols[0].Metadata = "connect", []byte("x")
	}))
	list("connect")
	m.ask(t, "a syncs", m.syncRequest("member0", 1, nil))
	list("connect, stable")
	m.heartbeat(t, "m1 joins a group that is none of consumers", "m1", 0, m.joining)
	m.leave(t, "a leaves", "member0")
	m.heartbeat(t, "m1 joins", "m1", 0, m.joining)
	list("consumer again")
}
