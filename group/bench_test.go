package group

import (
	"fmt"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The machine's share of an offset commit and of a heartbeat, in turns of 100
// requests from groups of their own.
func BenchmarkOffsetCommit(b *testing.B) {
	s := benchSteps(b)
	events := make([]func(*Machine, *coord.Turn), 100)
	for i := range events {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, fmt.Sprint("group", i), -1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "topic", Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 1)}}
		events[i] = func(m *Machine, t *coord.Turn) { m.OffsetCommit(t, req, func(*kmsg.OffsetCommitResponse) {}) }
	}
	runTurns(b, s, events)
}

func BenchmarkHeartbeat(b *testing.B) {
	s := benchSteps(b)
	events := make([]func(*Machine, *coord.Turn), 100)
	for i := range events {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.ProtocolType = 3, fmt.Sprint("group", i), "consumer"
		join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 30_000, 30_000
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		req := kmsg.NewPtrHeartbeatRequest()
		joined := func(m *Machine, t *coord.Turn) {
			m.JoinGroup(t, Client{}, join, func(r *kmsg.JoinGroupResponse) {
				req.Group, req.MemberID, req.Generation = join.Group, r.MemberID, r.Generation
			})
		}
		for _, event := range []func(*Machine, *coord.Turn){joined, func(*Machine, *coord.Turn) {}} {
			if err := s.Turn(1, 1, event); err != nil {
				b.Fatal(err)
			}
		}
		events[i] = func(m *Machine, t *coord.Turn) {
			if code := m.Heartbeat(t, req); code != 0 {
				b.Fatal(code)
			}
		}
	}
	runTurns(b, s, events)
}

func benchSteps(b *testing.B) *coord.Steps[*Machine] {
	config := DefaultConfig()
	config.InitialRebalanceDelayMs = 0
	id := 0
	config.NewMemberSuffix = func() string { id++; return fmt.Sprint(id) }
	s, err := coord.NewSteps(NewMachine(&config), &forgetfulLog{Log: coordtest.NewLog()}, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func runTurns(b *testing.B, s *coord.Steps[*Machine], events []func(*Machine, *coord.Turn)) {
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Turn(2, 2, events...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(events)), "ns/request")
}
