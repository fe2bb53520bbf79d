//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestDeadlinesAsKafka lets sessions, rebalances, transactions, transactional ids and
// offsets run out on both brokers, with bounds that are as small as Kafka allows.
func TestDeadlinesAsKafka(t *testing.T) {
	t.Parallel()
	needJava(t)
	if os.Getenv("KAAS_E2E_LONG") == "" {
		t.Skip("offsets.retention.minutes is at least 1: a part of make nightly")
	}
	settings := []string{
		"group.consumer.assignment.interval.ms=0", "group.consumer.assignor.offload.enable=false",
		"group.min.session.timeout.ms=500", "group.max.size=2", "group.consumer.max.size=2",
		"group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=3000",
		"group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=1000",
		"offsets.retention.minutes=1", "offsets.retention.check.interval.ms=500", "offset.metadata.max.bytes=10",
		"transaction.max.timeout.ms=5000", "transaction.abort.timed.out.transaction.cleanup.interval.ms=300",
		"transactional.id.expiration.ms=15000", "transaction.remove.expired.transaction.cleanup.interval.ms=300",
	}
	brokers := [2]*broker{startBroker(t, settings...), startReference(t, settings...)}
	unique := fmt.Sprint("-", time.Now().UnixNano())
	pair := newPair(t, brokers, "deadlines"+unique, 4)
	for name, walk := range map[string]func(*testing.T, *memberPair){
		"sizes": walkSizes, "sessions": walkSessions, "syncs": walkSyncs, "consumers": walkConsumerDeadlines,
		"consumer sizes": walkConsumerSizes, "timeouts": walkTransactionTimeouts, "retention": walkRetention,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &groupPair{pair: ownConns(t, pair, brokers), group: name[:4] + name[len(name)-4:] + unique}
			g.awaitCoordinators(t)
			m := &memberPair{txnPair: &txnPair{groupPair: g, unique: unique}, brokers: brokers}
			m.awaitTransactions(t)
			walk(t, m)
		})
	}
}

func static(instance string) func(int, *kmsg.JoinGroupRequest) {
	return func(_ int, r *kmsg.JoinGroupRequest) { r.Version, r.InstanceID = 5, &instance }
}

func walkSizes(t *testing.T, m *memberPair) {
	m.ask(t, "a joins", m.joinRequest("", nil))
	m.ask(t, "a syncs", m.syncRequest("member0", 1, nil))
	b := m.send(t, "b joins", m.joinRequest("", static("i")))
	m.state(t, "PreparingRebalance", 2)
	m.ask(t, "a rejoins", m.joinRequest("member0", nil))
	m.get(t, b)
	m.ask(t, "c is too many", m.joinRequest("", nil))
	m.ask(t, "c is too many by the handshake", m.joinRequest("", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 9 }))
	m.ask(t, "c is too many by name", m.joinRequest("", static("j")))
	m.ask(t, "a syncs", m.syncRequest("member0", 2, nil))
	m.describe(t, "full")
	m.ask(t, "c is too many", m.joinRequest("", nil))
}

func walkSessions(t *testing.T, m *memberPair) {
	short := func(_ int, r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1000 }
	m.ask(t, "a joins", m.joinRequest("", short))
	m.ask(t, "a syncs", m.syncRequest("member0", 1, nil))
	m.commitAt(t, "a commits", 8, "member0", 1, nil)
	m.state(t, "Empty", 0)
	m.describe(t, "a is out")
	m.beat(t, "a beats", "member0", 1)
	m.commitAt(t, "a commits", 8, "member0", 1, nil)
	m.ask(t, "a syncs", m.syncRequest("member0", 1, nil))
	m.ask(t, "a rejoins", m.joinRequest("member0", nil))
	m.leave(t, "a leaves", "member0")
	m.fetches(t, "a is out")
	// A member that does not rejoin. Both brokers wait at the same time.
	slow := func(side int, r *kmsg.JoinGroupRequest) { r.RebalanceTimeoutMillis = 4000 }
	m.ask(t, "b joins", m.joinRequest("", slow))
	m.ask(t, "b syncs", m.syncRequest("member1", 3, nil))
	m.get(t, m.send(t, "c joins, and b does not rejoin", m.joinRequest("", slow)))
	m.describe(t, "b is out")
	m.beat(t, "b beats", "member1", 3)
	// A static member that does not rejoin stays.
	m.leave(t, "c leaves", "member2")
	m.ask(t, "s joins", m.joinRequest("", func(side int, r *kmsg.JoinGroupRequest) { static("s")(side, r); slow(side, r) }))
	m.ask(t, "s syncs", m.syncRequest("member3", 6, nil))
	m.get(t, m.send(t, "d joins, and s does not rejoin", m.joinRequest("", slow)))
	m.describe(t, "s is away")
	m.ask(t, "d syncs", m.syncRequest("member4", 7, map[string]string{"member3": "s", "member4": "d"}))
	m.describe(t, "s has a part")
}

func walkSyncs(t *testing.T, m *memberPair) {
	short := func(_ int, r *kmsg.JoinGroupRequest) { r.RebalanceTimeoutMillis = 5000 }
	m.ask(t, "a joins", m.joinRequest("", short))
	m.ask(t, "a syncs", m.syncRequest("member0", 1, nil))
	b := m.send(t, "b joins", m.joinRequest("", short))
	m.state(t, "PreparingRebalance", 2)
	m.ask(t, "a rejoins", m.joinRequest("member0", short))
	m.get(t, b)
	b = m.send(t, "b syncs, and a dies", m.syncRequest("member1", 2, nil))
	m.get(t, b)
	m.describe(t, "a is out")
	m.beat(t, "a beats", "member0", 2)
	m.ask(t, "b joins", m.joinRequest("member1", short))
	m.describe(t, "b leads")
	m.ask(t, "b syncs", m.syncRequest("member1", 3, nil))
	c := m.send(t, "c joins", m.joinRequest("", short))
	m.state(t, "PreparingRebalance", 2)
	m.ask(t, "b joins", m.joinRequest("member1", short))
	m.get(t, c)
	m.ask(t, "b syncs, and c dies", m.syncRequest("member1", 4, nil))
	m.state(t, "PreparingRebalance", 1)
	m.describe(t, "c is out")
	m.beat(t, "b beats", "member1", 4)
}

func walkConsumerSizes(t *testing.T, m *memberPair) {
	m.heartbeat(t, "m1 joins", "m1", 0, m.joining)
	m.heartbeat(t, "m2 joins", "m2", 0, m.joining)
	m.heartbeat(t, "m3 is too many", "m3", 0, m.joining)
	m.heartbeat(t, "m2 joins again", "m2", 0, m.joining)
	m.join(t, "classic is too many", "", nil)
	m.join(t, "classic is too many by v3", "", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 3 })
	m.show(t, "full")
	m.heartbeat(t, "m2 leaves", "m2", -1, nil)
	named := func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) { m.joining(side, r); r.InstanceID = ptr("i") }
	m.heartbeat(t, "s1 joins", "s1", 0, named)
	m.heartbeat(t, "s1 is away", "s1", -2, func(_ int, r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ptr("i") })
	m.heartbeat(t, "s2 takes its place in a full group", "s2", 0, named)
	m.show(t, "s2")
}

func walkConsumerDeadlines(t *testing.T, m *memberPair) {
	quick := func(side int, r *kmsg.ConsumerGroupHeartbeatRequest) {
		m.joining(side, r)
		r.RebalanceTimeoutMillis = 1000
	}
	m.heartbeat(t, "m1 joins", "m1", 0, quick)
	m.heartbeat(t, "m2 joins", "m2", 0, quick)
	m.heartbeat(t, "m1 is told", "m1", 2, nil)
	for side := range sides { // m2 beats until m1, which does not give up, is out
		eventually(t, 20*time.Second, func() error {
			r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			r.Version, r.Group, r.MemberID, r.MemberEpoch = 1, m.group, "m1", 1
			if code := exchange(t, m.conns[side], r).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode; code != 25 {
				return fmt.Errorf("error %d", code)
			}
			return nil
		})
	}
	m.show(t, "m1 is out")
	m.heartbeat(t, "m2 beats", "m2", 3, m.owning())
	m.show(t, "m2 has all")
	for side := range sides {
		eventually(t, 20*time.Second, func() error {
			r := kmsg.NewPtrConsumerGroupDescribeRequest()
			r.Version, r.Groups = 1, []string{m.group}
			if state := exchange(t, m.conns[side], r).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].State; state != "Empty" {
				return fmt.Errorf("%s", state)
			}
			return nil
		})
	}
	m.show(t, "m2 is out")
	m.heartbeat(t, "m2 beats", "m2", 4, nil)
	m.join(t, "a classic member", "", func(_ int, r *kmsg.JoinGroupRequest) { r.Version = 3 })
	m.show(t, "classic")
}

// walkTransactionTimeouts: what a producer is told whose transaction was aborted, and
// what is known of a transactional id that has expired.
func walkTransactionTimeouts(t *testing.T, m *memberPair) {
	for _, timeoutMs := range []int32{5000, 5001} {
		for version := int16(0); version <= 5; version++ {
			m.init(t, fmt.Sprint("a timeout of ", timeoutMs), version, stamp{fmt.Sprint("bound-", timeoutMs, version, m.unique), -1, -1}, timeoutMs)
		}
	}
	for _, version := range []int16{1, 4, 5} {
		id := fmt.Sprint("slow-", version, m.unique)
		m.init(t, "first", version, stamp{id, -1, -1}, 2500)
		s := stamp{id, int64(len(m.producers[0]) - 1), 0}
		produce := int16(11)
		if version < 5 {
			m.addPartitions(t, "good", min(version, 3), false, s, map[string][]int32{m.topic: {int32(version % 4)}})
			m.addOffsets(t, "good", version, s, m.group)
		} else {
			produce = 12
		}
		m.writeTo(t, "good", produce, s, int32(version%4), 0)
		m.offsets(t, "good", version, s, nil)
		for side := range sides {
			eventually(t, 20*time.Second, func() error {
				a := exchange(t, m.conns[side], &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{id}}).(*kmsg.DescribeTransactionsResponse)
				if state := a.TransactionStates[0].State; state != "CompleteAbort" {
					return fmt.Errorf("%s: %s", sides[side], state)
				}
				return nil
			})
		}
		m.look(t, "timed out", id)
		m.writeTo(t, "too late", produce, s, int32(version%4), 1)
		m.writeTo(t, "too late elsewhere", produce, s, int32((version+1)%4), 1)
		if version < 5 {
			m.addPartitions(t, "too late", min(version, 3), false, s, map[string][]int32{m.topic: {0}})
		}
		m.addOffsets(t, "too late", min(version, 4), s, m.group)
		m.offsets(t, "too late", version, s, nil)
		m.end(t, "commits too late", version, s, true)
		m.end(t, "aborts too late", version, s, false)
		m.init(t, "with the old epoch", version, s, 2500)
		m.init(t, "anew", version, stamp{id, -1, -1}, 2500)
		m.look(t, "anew", id)
		next := stamp{id, s.producer, 2}
		for side := range sides {
			eventually(t, 30*time.Second, func() error {
				a := exchange(t, m.conns[side], &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{id}}).(*kmsg.DescribeTransactionsResponse)
				if code := a.TransactionStates[0].ErrorCode; code != 105 {
					return fmt.Errorf("%s: %d", sides[side], code)
				}
				return nil
			})
		}
		m.writeTo(t, "expired", produce, next, int32(version%4), 0)
		m.end(t, "expired", version, next, true)
		m.init(t, "with the epoch of the expired", version, next, 2500)
		m.look(t, "expired", id)
	}
}

func (m *memberPair) writeTo(t *testing.T, what string, version int16, s stamp, partition, sequence int32) {
	t.Helper()
	x := *m.txnPair
	m.ask(t, fmt.Sprintf("Produce v%d %s to %d", version, what, partition), func(side int) kmsg.Request {
		r := x.produce(side, version, -1, partition, transactionalBatch(x.producerID(side, s.producer), s.epoch, sequence)).(*kmsg.ProduceRequest)
		r.TransactionID = &s.id
		return r
	})
}

// walkRetention: offsets.retention.minutes is 1.
func walkRetention(t *testing.T, m *memberPair) {
	groups := map[string]string{}
	for _, kind := range []string{"by-hand", "left", "consumers", "subscribed", "own"} {
		groups[kind] = kind + m.unique
	}
	in := func(kind string) *memberPair {
		g := *m.groupPair
		g.group, g.names = groups[kind], [2]map[string]string{}
		x := *m.txnPair
		x.groupPair = &g
		return &memberPair{txnPair: &x, brokers: m.brokers}
	}
	in("by-hand").commit(t, "by hand", 9, "", -1, 0)
	own := in("own")
	own.ask(t, "with a time of its own", func(side int) kmsg.Request {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.RetentionTimeMillis, r.Generation = 3, own.group, 2000, -1
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: m.topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 0, Offset: 7}}}}
		return r
	})
	left := in("left")
	left.ask(t, "joins", left.joinRequest("", nil))
	left.ask(t, "syncs", left.syncRequest("member0", 1, nil))
	left.commitAt(t, "commits", 8, "member0", 1, nil)
	left.leave(t, "leaves", "member0")
	consumers := in("consumers")
	consumers.heartbeat(t, "joins", "m", 0, consumers.joining)
	consumers.commit(t, "commits", 9, "m", 2, 0)
	consumers.heartbeat(t, "leaves", "m", -1, nil)
	living := in("subscribed")
	living.ask(t, "joins", living.joinRequest("", func(_ int, r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 300_000 }))
	living.ask(t, "syncs", living.syncRequest("member0", 1, nil))
	living.commitAt(t, "commits", 8, "member0", 1, nil)
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		g := in(kind)
		g.fetches(t, kind+" before")
		g.show(t, kind+" before")
	}
	for side := range sides {
		for kind, group := range groups {
			if kind == "subscribed" {
				continue
			}
			eventually(t, 100*time.Second, func() error {
				r := kmsg.NewPtrDescribeGroupsRequest()
				r.Version, r.Groups = 6, []string{group}
				c := kmsg.NewPtrConsumerGroupDescribeRequest()
				c.Groups = r.Groups
				classic := exchange(t, m.conns[side], r).(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode
				consumer := exchange(t, m.conns[side], c).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode
				if classic != 69 || consumer != 69 {
					return fmt.Errorf("%s on %s: %d, %d", kind, sides[side], classic, consumer)
				}
				return nil
			})
			t.Logf("%s expired on %s", kind, sides[side])
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		g := in(kind)
		g.fetches(t, kind+" after")
		g.show(t, kind+" after")
	}
}
