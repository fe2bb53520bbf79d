package group

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/group/consumerlog"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzReplay: whatever stands in the log, a load ends, and what it makes can be
// used.
func FuzzReplay(f *testing.F) {
	o := offset{offset: 5, leaderEpoch: 3, metadata: "m", commitMs: 7, expireMs: noExpiry, topicID: [16]byte{1}}
	plain := offsetRecord("g", "t", 0, &o)
	o.expireMs = 9
	expiring := offsetRecord("g", "t", 1, &o)
	g := newGroup("g")
	g.protocolType, g.protocol, g.generation = "consumer", "range", 3
	m := NewMachine(&Config{})
	instance := "i"
	for _, id := range []string{"a", "b"} {
		mem := m.newMember(g, id, &instance, Client{ID: "c", Host: "/h"})
		mem.protocols = []protocol{{"range", scriptMetadata("topics(t)")}}
		g.add(mem)
	}
	group := g.metadataRecord(map[string][]byte{"a": []byte("x")})
	for _, r := range []coord.Record{plain, expiring, group} {
		f.Add(r.Key, r.Value, false)
		f.Add(r.Key, r.Value, true)
		f.Add(r.Key, []byte(nil), false)
		f.Add(r.Key[:len(r.Key)-1], r.Value[:len(r.Value)-1], false)
	}
	f.Add([]byte{0, 3, 0, 1, 'g'}, []byte{0, 0}, false)
	f.Add([]byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, key, value []byte, transactional bool) {
		if len(key) > 1 && consumerlog.Kind(key[1]).Known() {
			return // FuzzConsumerReplay
		}
		config := DefaultConfig()
		m := NewMachine(&config)
		_ = m.Replay(&coord.Record{Key: key, Value: value, Offset: 1, InTransaction: transactional, ProducerID: 1})
		_ = m.Replay(&coord.Record{Key: key, Value: value, Offset: 2})
		_ = m.ReplayMarker(1, 0, len(value)%2 == 0)
		s, err := coord.NewSteps(m, coordtest.NewLog(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMachine(m); err != nil {
			t.Fatal(err)
		}
		for nowMs := int64(2); nowMs < 1<<40; nowMs *= 8 {
			if err := s.Turn(nowMs, nowMs, func(m *Machine, turn *coord.Turn) {
				m.ListGroups(turn, nil, nil, func([]kmsg.ListGroupsResponseGroup, error) {})
			}); err != nil {
				t.Fatal(err)
			}
			if err := checkMachine(m); err != nil {
				t.Fatal(err)
			}
		}
		s.End(coord.ErrNotCoordinator)
	})
}

// FuzzRequests reads the input as a course of requests, four bytes each, over few
// groups, members and instances, with crashes and time in between.
func FuzzRequests(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 9, 0, 50, 0, 1, 0, 0, 0, 3, 0, 0, 1, 10, 0, 0, 0})
	f.Add([]byte{0, 1, 0, 3, 0, 2, 0, 3, 9, 0, 99, 0, 0, 1, 1, 3, 1, 0, 1, 1, 2, 0, 1, 1, 5, 0, 0, 0, 10, 0, 0, 0, 0, 1, 1, 3})
	f.Add(bytes.Repeat([]byte{0, 0, 0, 0, 0, 1, 0, 2, 4, 0, 0, 0, 9, 0, 200, 0}, 8))
	f.Add([]byte{0, 0, 0, 0, 3, 0, 1, 16, 12, 0, 2, 47, 12, 0, 2, 63, 5, 0, 1, 16, 0, 0, 1, 0, 12, 0, 2, 64, 3, 0, 1, 32, 12, 0, 2, 16, 5, 0, 1, 48})
	f.Fuzz(func(t *testing.T, course []byte) {
		if len(course) > 4*500 {
			return
		}
		c := newFuzzCourse(t)
		for ; len(course) >= 4; course = course[4:] {
			c.step(course[0], course[1], course[2], course[3])
			if err := checkMachine(c.steps.Machine); err != nil {
				t.Fatal(err)
			}
		}
		c.steps.End(coord.ErrNotCoordinator)
		if c.asked != c.answered {
			t.Fatalf("%d requests, %d answers", c.asked, c.answered)
		}
	})
}

type fuzzCourse struct {
	t               *testing.T
	config          Config
	log             *coordtest.Log
	steps           *coord.Steps[*Machine]
	nowMs           int64
	ids             int
	asked, answered int
}

func newFuzzCourse(t *testing.T) *fuzzCourse {
	c := &fuzzCourse{t: t, log: coordtest.NewLog(), config: DefaultConfig()}
	c.config.InitialRebalanceDelayMs, c.config.MaxSize = 100, 3
	c.config.OffsetsRetentionMs, c.config.RetentionCheckIntervalMs = 20_000, 5_000
	c.config.ConsumerAssignmentIntervalMs, c.config.ConsumerMaxSize = 50, 3
	image := testImage(map[string]string{"t": "3", "u": "1", "v": "2"})
	c.config.Image = func() *meta.Image { return image }
	c.config.NewMemberSuffix = func() string { c.ids++; return fmt.Sprint(c.ids) }
	c.load()
	return c
}

func (c *fuzzCourse) load() {
	config := c.config
	steps, err := coord.NewSteps(NewMachine(&config), c.log, c.nowMs, c.nowMs)
	if err != nil {
		c.t.Fatal(err)
	}
	c.steps = steps
}

func (c *fuzzCourse) turn(event func(*Machine, *coord.Turn)) {
	c.asked++
	if err := c.steps.Turn(c.nowMs, c.nowMs, event); err != nil {
		c.t.Fatal(err)
	}
}

func (c *fuzzCourse) answer() { c.answered++ }

// step: what, which group, which member, and flags.
func (c *fuzzCourse) step(what, who, member, flags byte) {
	group := fmt.Sprint("g", who%2)
	memberID := fmt.Sprint("c-", member)
	if member == 0 {
		memberID = ""
	}
	var instance *string
	if flags&3 == 3 {
		instance = kmsg.StringPtr(fmt.Sprint("i", who%4/2))
		if member != 0 {
			memberID = *instance + memberID[1:]
		}
	}
	generation := int32(flags >> 4)
	switch what % 16 {
	case 0, 1, 2:
		c.join(group, memberID, instance, flags)
	case 3, 4:
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, memberID, instance, generation
		req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: memberID, MemberAssignment: []byte{flags}}}
		c.turn(func(m *Machine, t *coord.Turn) { m.SyncGroup(t, req, func(*kmsg.SyncGroupResponse) { c.answer() }) })
	case 5:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, memberID, instance, generation
		c.turn(func(m *Machine, t *coord.Turn) { m.Heartbeat(t, req); c.answer() })
	case 6:
		members := []kmsg.LeaveGroupRequestMember{{MemberID: memberID, InstanceID: instance}}
		c.turn(func(m *Machine, t *coord.Turn) {
			m.LeaveGroup(t, group, members, func(*kmsg.LeaveGroupResponse) { c.answer() })
		})
	case 7:
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 8, group, memberID, instance, generation-1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: fmt.Sprint("t", flags&1), Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 2)}}
		c.turn(func(m *Machine, t *coord.Turn) {
			m.OffsetCommit(t, req, func(*kmsg.OffsetCommitResponse) { c.answer() })
		})
	case 8:
		c.turn(func(m *Machine, t *coord.Turn) { m.DeleteGroup(t, group, func(int16) { c.answer() }) })
	case 9, 10: // time
		end, turns := c.nowMs+int64(member)*int64(flags), 0
		for atMs, ok := c.steps.NextTimer(); ok && atMs <= end; atMs, ok = c.steps.NextTimer() {
			if turns++; turns > 1_000 {
				c.t.Fatalf("timers fire for ever: at %d the next is due at %d", c.nowMs, atMs)
			}
			c.nowMs = max(c.nowMs, atMs)
			c.turn(func(*Machine, *coord.Turn) { c.answer() })
		}
		c.nowMs = end
	case 12, 13, 14:
		c.beat(group, memberID, instance, generation-2, flags)
	case 15:
		c.turn(func(m *Machine, t *coord.Turn) {
			m.DescribeConsumerGroup(t, group, func(*kmsg.ConsumerGroupDescribeResponseGroup) { c.answer() })
		})
	case 11:
		c.log = c.log.Crash(0)
		c.steps.End(coord.ErrNotCoordinator)
		c.load()
	}
}

func (c *fuzzCourse) beat(group, memberID string, instance *string, epoch int32, flags byte) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = int16(flags>>2&1), group, memberID, instance, epoch
	if epoch == epochJoin || flags&1 == 0 {
		req.RebalanceTimeoutMillis = 5_000
		req.SubscribedTopicNames = []string{"t", "u"}[:flags>>1&1+1]
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if flags&8 != 0 {
		req.SubscribedTopicRegex = kmsg.StringPtr("u|v")
	}
	if epoch > epochJoin {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: [16]byte{'t'}, Partitions: []int32{0, 1, 2}[:flags&3]}}
	}
	c.turn(func(m *Machine, t *coord.Turn) {
		m.ConsumerHeartbeat(t, Client{ID: "c"}, req, func(string) bool { return true }, func(*kmsg.ConsumerGroupHeartbeatResponse) { c.answer() })
	})
}

// FuzzConsumerReplay loads any records of a consumer group, sound or not, and then
// lets members of both protocols in.
func FuzzConsumerReplay(f *testing.F) {
	for _, file := range []string{"testdata/kafka-4.4-members.log", "testdata/kafka-4.4-upgrade.log"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for len(data) > 0 {
			view, rest, err := batch.Next(data)
			if err != nil {
				f.Fatal(err)
			}
			records, err := view.Records(1 << 20)
			if err != nil {
				f.Fatal(err)
			}
			var keys, values [][]byte
			for records.Next() && len(keys) < 3 {
				keys, values = append(keys, bytes.Clone(records.Record().Key)), append(values, bytes.Clone(records.Record().Value))
			}
			records.Close()
			if len(keys) == 3 {
				f.Add(keys[0], values[0], keys[1], values[1], keys[2], values[2])
			}
			data = rest
		}
	}
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3 []byte) {
		c := newFuzzCourse(t)
		config := c.config
		m := NewMachine(&config)
		for i, r := range []coord.Record{{Key: k1, Value: v1}, {Key: k2, Value: v2}, {Key: k3, Value: v3}} {
			r.Offset = int64(i)
			_ = m.Replay(&r)
		}
		steps, err := coord.NewSteps(m, c.log, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.steps = steps
		for _, id := range m.sortedIDs() {
			g := m.groups[id]
			if g == nil || g.consumer == nil {
				continue
			}
			for _, mem := range g.consumer.ordered() {
				c.useMember(id, mem.id, mem.epoch)
			}
			c.useMember(id, "new", 0)
			c.nowMs += 1 << 33
			c.turn(func(*Machine, *coord.Turn) { c.answer() })
		}
		c.steps.End(coord.ErrNotCoordinator)
		if c.asked != c.answered {
			t.Fatalf("%d requests, %d answers", c.asked, c.answered)
		}
	})
}

// useMember asks what a member of either protocol asks.
func (c *fuzzCourse) useMember(group, id string, epoch int32) {
	c.beat(group, id, nil, epoch, 3)
	c.join(group, id, nil, 4|2)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, id, epoch
	c.turn(func(m *Machine, t *coord.Turn) { m.SyncGroup(t, sync, func(*kmsg.SyncGroupResponse) { c.answer() }) })
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group, heartbeat.MemberID, heartbeat.Generation = group, id, epoch
	c.turn(func(m *Machine, t *coord.Turn) { m.Heartbeat(t, heartbeat); c.answer() })
	c.turn(func(m *Machine, t *coord.Turn) {
		m.DescribeConsumerGroup(t, group, func(*kmsg.ConsumerGroupDescribeResponseGroup) { c.answer() })
	})
	c.beat(group, id, nil, epochLeave, 3)
}

func (c *fuzzCourse) join(group, memberID string, instance *string, flags byte) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(3 + flags&4*6/4) // 3 or 9
	req.Group, req.MemberID, req.InstanceID = group, memberID, instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 5_000, "consumer"
	for i, name := range []string{"x", "y", "x"} {
		if flags>>3&(1<<i) == 0 {
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: fuzzMetadata(flags)})
		}
	}
	c.turn(func(m *Machine, t *coord.Turn) {
		m.JoinGroup(t, Client{ID: "c"}, req, func(*kmsg.JoinGroupResponse) { c.answer() })
	})
}

// fuzzMetadata is a subscription, or something that is none.
func fuzzMetadata(flags byte) []byte {
	if flags&2 == 0 {
		return scriptMetadata("topics(t)")
	}
	return []byte{flags & 1}
}

// checkMachine holds what must be true of the volatile half between two turns.
func checkMachine(m *Machine) error {
	for id, g := range m.groups {
		if g.consumer != nil {
			if err := checkConsumer(g); err != nil {
				return err
			}
		}
		waiting, static := 0, 0
		votes := map[string]int{}
		for memberID, mem := range g.members {
			if mem.id != memberID {
				return fmt.Errorf("group %s: member %s stands under %s", id, mem.id, memberID)
			}
			if mem.join != nil {
				waiting++
			}
			if mem.isStatic {
				static++
			}
			seen := map[string]bool{}
			for _, p := range mem.protocols {
				if !seen[p.name] {
					votes[p.name]++
				}
				seen[p.name] = true
			}
			if mem.join != nil && mem.sync != nil {
				return fmt.Errorf("group %s: member %s waits for join and sync", id, memberID)
			}
			if mem.join == nil && mem.sync == nil && !mem.session.Active() {
				return fmt.Errorf("group %s: member %s has no session and no request", id, memberID)
			}
			if mem.assignment == nil {
				return fmt.Errorf("group %s: member %s has a null assignment", id, memberID)
			}
		}
		switch {
		case waiting != g.waiting:
			return fmt.Errorf("group %s: %d wait, counted %d", id, waiting, g.waiting)
		case static < len(g.static):
			return fmt.Errorf("group %s: %d static members, %d names", id, static, len(g.static))
		case fmt.Sprint(votes) != fmt.Sprint(g.votes):
			return fmt.Errorf("group %s: votes %v, counted %v", id, votes, g.votes)
		case waiting > 0 && g.state != statePreparingRebalance:
			return fmt.Errorf("group %s: joins wait in %s", id, g.state)
		case g.state == statePreparingRebalance && !g.rebalance.Active():
			return fmt.Errorf("group %s: prepares a rebalance without a deadline", id)
		case g.state == stateCompletingRebalance && !g.syncExpiry.Active():
			return fmt.Errorf("group %s: completes a rebalance without a deadline", id)
		case (g.state == stateEmpty) != (len(g.members) == 0) && g.state != statePreparingRebalance:
			return fmt.Errorf("group %s: %d members in %s", id, len(g.members), g.state)
		case len(g.members) > 0 && g.members[g.leader] == nil:
			return fmt.Errorf("group %s: the leader %q is no member", id, g.leader)
		case g.state == stateDead:
			return fmt.Errorf("group %s is dead and in memory", id)
		}
		for instance, memberID := range g.static {
			if mem := g.members[memberID]; mem == nil || mem.instanceID != instance {
				return fmt.Errorf("group %s: instance %s belongs to %s, which is no such member", id, instance, memberID)
			}
		}
		for _, mem := range g.members {
			if mem.sync != nil && g.state != stateCompletingRebalance {
				return fmt.Errorf("group %s: a sync waits in %s", id, g.state)
			}
		}
	}
	return nil
}
