package rig

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Members are members of classic consumer groups, each with a connection of
// its own, that do nothing but stay in their groups.
type Members struct {
	all []*member
}

type member struct {
	caller     *Caller
	group, id  string
	generation int32
}

// The errors of the group protocol that a member goes on from.
const (
	illegalGeneration   = 22
	rebalanceInProgress = 27
	memberIDRequired    = 79
)

const (
	joinGroupVersion = 5
	syncGroupVersion = 3
	heartbeatVersion = 3
)

// Join makes so many groups with so many members each, all at once, and
// returns how long it took until every member had its assignment. Connecting
// is not counted.
func Join(address string, groups, each int) (m *Members, took time.Duration, err error) {
	m = &Members{}
	open := opener{address: address}
	for g := range groups {
		for range each {
			conn, err := open.dial()
			if err != nil {
				return nil, 0, errors.Join(fmt.Errorf("members: %w", err), m.Close())
			}
			m.all = append(m.all, &member{caller: &Caller{conn: conn, answer: make([]byte, 4096)}, group: fmt.Sprintf("group-%d", g)})
		}
	}
	begin := time.Now()
	var settled, last atomic.Int64 // members that hold an assignment now; when that last changed
	err = m.each(func(one *member) error {
		for deadline := begin.Add(2 * Patience); time.Now().Before(deadline); {
			if err := one.join(); err != nil {
				return err
			}
			last.Store(int64(time.Since(begin)))
			settled.Add(1)
			// A group that is joined in several rounds says so to whoever heartbeats.
			stable := true
			for stable && settled.Load() < int64(len(m.all)) && time.Now().Before(deadline) {
				time.Sleep(time.Second)
				code, err := one.beat()
				if err != nil {
					return err
				}
				stable = code == 0
			}
			if stable && settled.Load() == int64(len(m.all)) {
				return nil
			}
			settled.Add(-1)
		}
		return fmt.Errorf("group %s is not stable after %v", one.group, 2*Patience)
	})
	return m, time.Duration(last.Load()), err
}

func (m *Members) each(do func(*member) error) error {
	failures := make([]error, len(m.all))
	var wg sync.WaitGroup
	for i, one := range m.all {
		wg.Go(func() { failures[i] = do(one) })
	}
	wg.Wait()
	for i, err := range failures {
		if err != nil {
			return fmt.Errorf("member %d of %d: %w", i, len(m.all), err)
		}
	}
	return nil
}

// Close ends the connections; the groups are left to their session timeouts.
func (m *Members) Close() error {
	var failures []error
	for _, one := range m.all {
		failures = append(failures, one.caller.Close())
	}
	return errors.Join(failures...)
}

// join goes through JoinGroup and SyncGroup until there is an assignment.
func (one *member) join() error {
	for {
		request := kmsg.NewPtrJoinGroupRequest()
		request.SetVersion(joinGroupVersion)
		request.Group, request.MemberID, request.ProtocolType = one.group, one.id, "consumer"
		request.SessionTimeoutMillis, request.RebalanceTimeoutMillis = 45_000, 60_000
		subscription := kmsg.NewConsumerMemberMetadata()
		subscription.Topics = []string{"bench"}
		request.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
		answer, err := one.caller.Ask(request, Patience)
		if err != nil {
			return err
		}
		joined := answer.(*kmsg.JoinGroupResponse)
		switch joined.ErrorCode {
		case 0:
		case memberIDRequired:
			one.id = joined.MemberID
			continue
		case rebalanceInProgress:
			continue
		default:
			return fmt.Errorf("JoinGroup: error %d", joined.ErrorCode)
		}
		one.id, one.generation = joined.MemberID, joined.Generation
		code, err := one.sync(joined)
		switch {
		case err != nil:
			return err
		case code == 0:
			return nil
		case code != rebalanceInProgress && code != illegalGeneration:
			return fmt.Errorf("SyncGroup: error %d", code)
		}
	}
}

// sync hands out the assignments if this member leads.
func (one *member) sync(joined *kmsg.JoinGroupResponse) (int16, error) {
	request := kmsg.NewPtrSyncGroupRequest()
	request.SetVersion(syncGroupVersion)
	request.Group, request.MemberID, request.Generation = one.group, one.id, one.generation
	for i, other := range joined.Members {
		plan := kmsg.NewConsumerMemberAssignment()
		plan.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "bench", Partitions: []int32{int32(i)}}}
		request.GroupAssignment = append(request.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: other.MemberID, MemberAssignment: plan.AppendTo(nil)})
	}
	answer, err := one.caller.Ask(request, Patience)
	if err != nil {
		return 0, err
	}
	return answer.(*kmsg.SyncGroupResponse).ErrorCode, nil
}

func (one *member) beat() (int16, error) {
	request := kmsg.NewPtrHeartbeatRequest()
	request.SetVersion(heartbeatVersion)
	request.Group, request.MemberID, request.Generation = one.group, one.id, one.generation
	answer, err := one.caller.Ask(request, 0)
	if err != nil {
		return 0, err
	}
	code := answer.(*kmsg.HeartbeatResponse).ErrorCode
	if code != 0 && code != rebalanceInProgress && code != illegalGeneration {
		return code, fmt.Errorf("Heartbeat: error %d", code)
	}
	return code, nil
}

// Beat lets every member heartbeat at an interval for a time, evenly spread,
// and returns how many heartbeats were answered.
func (m *Members) Beat(every, length time.Duration) (int, error) {
	begin := time.Now()
	counts := make([]int, len(m.all))
	index := map[*member]int{}
	for i, one := range m.all {
		index[one] = i
	}
	err := m.each(func(one *member) error {
		i := index[one]
		for at := every * time.Duration(i) / time.Duration(len(m.all)); at < length; at += every {
			time.Sleep(time.Until(begin.Add(at)))
			code, err := one.beat()
			if err == nil && code != 0 {
				err = fmt.Errorf("Heartbeat: error %d in a stable group", code)
			}
			if err != nil {
				return err
			}
			counts[i]++
		}
		return nil
	})
	time.Sleep(time.Until(begin.Add(length)))
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}

// CommitFrame is an OffsetCommit of one partition by a client that is no
// member of its group, and CommitAnswer checks what comes back.
func CommitFrame(group, topic string, offset int64) []byte {
	request := kmsg.NewPtrOffsetCommitRequest()
	request.SetVersion(7)
	request.Group, request.Generation = group, -1
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	request.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{partition}}}
	return Encode(request)
}

// CommitAnswer checks the answer of a CommitFrame.
func CommitAnswer(topic string) func([]byte) error {
	// correlation id, throttle time, number of topics, topic, number of partitions, partition
	return errorAt("an offset commit", 4+4+4+2+len(topic)+4+4)
}
