package group

import (
	"fmt"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A search that takes more than a turn goes on in the next ones, and the member gets
// its partitions by the heartbeat after it. Other groups are served in between.
func TestRegexOverManyTurns(t *testing.T) {
	t.Parallel()
	var topics []*meta.Topic
	for i := range 3_000 {
		topics = append(topics, &meta.Topic{Name: fmt.Sprintf("t%04d", i), ID: meta.UUID{1, byte(i >> 8), byte(i)}, Partitions: make([]meta.PartitionInfo, 1)})
	}
	image := meta.NewImage("c", 1, 1, nil, topics)
	config := DefaultConfig()
	config.ConsumerAssignmentIntervalMs = 0
	config.PlanInTurn = 10_000 // this is about the expression
	config.Image = func() *meta.Image { return image }
	steps, err := coord.NewSteps(NewMachine(&config), coordtest.NewLog(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	turn := func(events ...func(*Machine, *coord.Turn)) {
		t.Helper()
		if err := steps.Turn(1, 1, events...); err != nil {
			t.Fatal(err)
		}
	}
	epoch := int32(0)
	beat := func() (partitions int) {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", "m", epoch
		req.RebalanceTimeoutMillis, req.SubscribedTopicRegex = 30_000, kmsg.StringPtr("t[0-9]{500}|t.*[02468]")
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		turn(func(m *Machine, turn *coord.Turn) {
			m.ConsumerHeartbeat(turn, Client{}, req, func(string) bool { return true }, func(r *kmsg.ConsumerGroupHeartbeatResponse) {
				if r.ErrorCode != 0 {
					t.Fatalf("error %d", r.ErrorCode)
				}
				epoch, partitions = r.MemberEpoch, len(r.Assignment.Topics)
			})
		})
		return partitions
	}
	if n := beat(); n != 0 {
		t.Fatalf("%d topics at once: the search took one turn", n)
	}
	turns := 0
	for ; len(steps.Machine.groups["g"].consumer.seen.searches) > 0; turns++ {
		turn()
	}
	if n := beat(); n != 1_500 || turns == 0 {
		t.Errorf("%d of 1500 topics after %d more turns", n, turns)
	}
}
