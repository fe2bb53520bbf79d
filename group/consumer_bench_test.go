package group

import (
	"fmt"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bigGroup has 1,000 members over 100 topics of 100 partitions; planned once.
type bigGroup struct {
	steps *coord.Steps[*Machine]
	log   *coordtest.Log
	nowMs int64
	epoch []int32
}

const bigMembers = 1000

func newBigGroup(tb testing.TB) *bigGroup {
	counts := map[string]string{}
	for i := range 100 {
		counts[fmt.Sprintf("t%02d#%d", i, i+1)] = "100"
	}
	image := testImage(counts)
	config := DefaultConfig()
	config.Image = func() *meta.Image { return image }
	b := &bigGroup{log: coordtest.NewLog(), nowMs: 1, epoch: make([]int32, bigMembers)}
	steps, err := coord.NewSteps(NewMachine(&config), b.log, b.nowMs, b.nowMs)
	if err != nil {
		tb.Fatal(err)
	}
	b.steps = steps
	return b
}

var bigTopics = func() (names []string) {
	for i := range 100 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	return names
}()

func (b *bigGroup) beat(tb testing.TB, i int, owned bool) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", fmt.Sprintf("member-%04d", i), b.epoch[i]
	if req.MemberEpoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 30_000, bigTopics
	}
	if owned {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	err := b.steps.Turn(b.nowMs, b.nowMs, func(m *Machine, t *coord.Turn) {
		m.ConsumerHeartbeat(t, Client{ID: "c", Host: "/h"}, req, nil, func(r *kmsg.ConsumerGroupHeartbeatResponse) {
			if r.ErrorCode != 0 {
				tb.Fatalf("error %d", r.ErrorCode)
			}
			b.epoch[i] = r.MemberEpoch
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// settle: all join, and beat once a second until the group is stable.
func (b *bigGroup) settle(tb testing.TB) (rounds int) {
	for i := range bigMembers {
		b.beat(tb, i, true)
	}
	for rounds = 1; b.steps.Machine.groups["g"].consumer.state() != consumerStable; rounds++ {
		b.nowMs += 1_000
		for i := range bigMembers {
			b.beat(tb, i, true)
		}
		if rounds > 10 {
			tb.Fatal("the group does not settle")
		}
	}
	return rounds
}

// BenchmarkConsumerGroup: settle is the coordinator's whole work until 1,000 members
// have their shares of 10,000 partitions; heartbeat is one of a member in a stable
// group, which writes nothing.
func BenchmarkConsumerGroup(b *testing.B) {
	b.Run("settle", func(b *testing.B) {
		for b.Loop() {
			big := newBigGroup(b)
			rounds := big.settle(b)
			appends, bytes := big.log.Appends()
			b.ReportMetric(float64(rounds), "rounds")
			b.ReportMetric(float64(appends), "appends")
			b.ReportMetric(float64(bytes), "logbytes")
		}
	})
	b.Run("heartbeat", func(b *testing.B) {
		big := newBigGroup(b)
		big.settle(b)
		_, before := big.log.Appends()
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			big.beat(b, i%bigMembers, false)
			i++
		}
		_, after := big.log.Appends()
		b.ReportMetric(float64(after-before)/float64(i), "logbytes/op")
	})
}
