package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/group/consumerlog"
	"kaas/meta"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestConsumerSimulation runs groups of the consumer protocol, and of both at once,
// over the network and the storage of TestSimulation, while topics grow and appear.
// It holds, beside what checkConsumer holds after every turn:
//
//   - No partition has two owners: when a member is told that it has one, whoever had
//     it before has said that it gave it up, or has left, or was thrown out.
//   - The epoch of a member never falls while it is a member, also over crashes.
//   - What a load makes of the log is what the live machine has.
//   - When the faults end, every group becomes stable and all partitions have an owner
//     who knows it; when the clients end, nothing is left in memory.
//
// KAAS_SEED repeats a run, which is a function of its seed; KAAS_SEED=random makes many.
func TestConsumerSimulation(t *testing.T) {
	t.Parallel()
	for _, seed := range simSeeds(t, 6) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			newConsumerSimulation(t, seed).run()
		})
	}
}

// A run that failed can be looked at again only when nothing but its seed decides it:
// no order of a map in the simulation, and none in the machine, whose records would
// then differ too.
func TestSimulationsRepeat(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("eight times as slow, and no goroutines")
	}
	consumer := func() *simulation {
		s := newConsumerSimulation(t, simWildSeed)
		s.run()
		return s.simulation
	}
	classic := func() *simulation {
		s := newSimulation(t, simWildSeed)
		s.run()
		return s
	}
	for name, run := range map[string]func() *simulation{"classic": classic, "consumer": consumer} {
		first := run()
		again := run()
		if a, b := first.random.Uint64(), again.random.Uint64(); a != b {
			t.Errorf("%s: two runs of a seed took different courses", name)
		}
		if !reflect.DeepEqual(first.written(), again.written()) {
			t.Errorf("%s: two runs of a seed wrote different logs", name)
		}
	}
}

// consumerText is what is durable of a consumer group.
func consumerText(c *consumerGroup) string {
	text := fmt.Sprintf(" consumer %d/%d at %d hash %d", c.epoch, c.assignmentEpoch, c.assignmentMs, c.metadataHash)
	for _, mem := range c.ordered() {
		text += fmt.Sprintf(" %s[%v %q %d/%d %d %v %v wants %v]", mem.id, mem.said.Topics, mem.regex(), mem.epoch, mem.previousEpoch, mem.state,
			mem.assigned, mem.revoking, c.targets[mem.id])
	}
	for _, regex := range slices.Sorted(maps.Keys(c.regexes)) {
		text += fmt.Sprintf(" %s=%v", regex, c.regexes[regex].topics)
	}
	return text + fmt.Sprint(c.static, len(c.owners))
}

type consumerSimulation struct {
	*simulation
	image     *meta.Image
	counts    map[string]string
	consumers []*simConsumer
	// holders are the clients that were last told to have each partition, by group/topic/partition.
	holders map[string]*simConsumer
}

const simConsumerSessionMs = 6_000

func newConsumerSimulation(t *testing.T, seed uint64) *consumerSimulation {
	s := &consumerSimulation{
		simulation: &simulation{
			t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 2)), log: coordtest.NewLog(), faulty: true, commits: 60, stats: map[string]int{},
		},
		counts: map[string]string{"t": "5", "x": "2"}, holders: map[string]*simConsumer{},
	}
	s.image = testImage(s.counts)
	s.config = DefaultConfig()
	s.config.InitialRebalanceDelayMs, s.config.RetentionCheckIntervalMs = 500, 30_000
	s.config.ConsumerSessionTimeoutMs, s.config.ConsumerAssignmentIntervalMs = simConsumerSessionMs, 300
	s.config.NewMemberSuffix = func() string { s.nextID++; return strconv.FormatInt(s.nextID, 10) }
	s.config.Image = func() *meta.Image { return s.image }
	if seed%2 == 1 {
		s.config.PlanInTurn = -1 // every plan is adopted in a turn after the one that wanted it
	}
	// In some runs a plan does not fit into one batch; changes of the protocol and of a
	// static member's owner, which have to, would fit even less.
	tight := seed%5 == 0
	if tight {
		s.log.MaxBytes = 480
	}
	s.log.Hold()
	s.start()
	for g := range 3 {
		for i := range 4 {
			c := &simConsumer{sim: s, group: fmt.Sprint("group", g), name: fmt.Sprintf("c%d%d", g, i)}
			switch {
			case tight && g != 1:
			case g == 0 && i < 2:
				c.instance = kmsg.StringPtr(c.name)
			case g == 1:
				c.regex = "t|x"
			case g == 2:
				c.mixed = true // this group is of both protocols in turn
			}
			s.consumers = append(s.consumers, c)
			s.After(s.random.Int64N(3000), c.begin)
		}
	}
	return s
}

func (s *consumerSimulation) run() {
	s.After(0, s.turn)
	s.After(0, s.trouble)
	s.After(20_000, func() { s.setTopics("t", "7") })
	s.After(50_000, func() { s.setTopics("u", "3") }) // nobody wants it
	s.After(70_000, func() { s.setTopics("x", "4") })
	s.RunUntil(simFaultsMs)
	s.faulty = false
	s.RunUntil(simFaultsMs + simHealMs)
	s.wantAllOwned()
	for _, c := range s.consumers {
		c.die()
	}
	s.RunUntil(s.NowMs + 4*60_000)
	if n := s.steps.Machine.Groups(); n != 0 {
		s.fail("%d groups are in memory after everybody has gone", n)
	}
	s.wantAll("crash", "failure", "thrown out", "told", "gave up", "left", "classic join", "classic sync")
}

func (s *consumerSimulation) setTopics(name, count string) {
	s.counts[name] = count
	s.image = testImage(s.counts)
}

// wantAllOwned: every group is stable, and its clients have all partitions, each once.
func (s *consumerSimulation) wantAllOwned() {
	owned := map[string]map[string]string{}
	for _, c := range s.consumers {
		if owned[c.group] == nil {
			owned[c.group] = map[string]string{}
		}
		for p := range c.owned {
			if other := owned[c.group][p]; other != "" {
				s.fail("%s: %s belongs to %s and to %s", c.group, p, other, c.name)
			}
			owned[c.group][p] = c.name
		}
	}
	for id, partitions := range owned {
		if len(partitions) != 7+4 {
			s.fail("%s owns %d partitions: %v\n%s", id, len(partitions), partitions, durable(s.steps.Machine)[id])
		}
		g := s.steps.Machine.groups[id]
		if g.consumer != nil && g.consumer.state() != consumerStable || g.consumer == nil && g.state != stateStable {
			s.fail("%s is not stable: %s", id, durable(s.steps.Machine)[id])
		}
	}
}

// simConsumer is one client. Its life is a chain of events; a new life makes the ones
// of the old that are still on their way do nothing.
type simConsumer struct {
	sim       *consumerSimulation
	group     string
	name      string
	instance  *string
	regex     string
	mixed     bool
	classic   bool
	life      int
	requests  int
	id        string
	sent      int
	epoch     int32
	owned     map[string]bool // "t/0"
	answered  bool            // the last request was
	arrivesMs int64           // when the newest request of this life arrives
	generated int
}

func (c *simConsumer) alive(life int) bool { return c.life == life }

// begin starts a new life of the client: another process, with nothing.
func (c *simConsumer) begin() {
	s := c.sim
	c.life++
	c.generated++
	c.arrivesMs = 0
	c.id, c.epoch, c.owned = fmt.Sprintf("%s-%d", c.name, c.generated), 0, map[string]bool{}
	c.classic = c.mixed && s.chance(50)
	if c.classic {
		c.id = ""
	}
	life := c.life
	s.After(5_000+s.random.Int64N(60_000), func() {
		if c.alive(life) && s.faulty {
			c.restart()
		}
	})
	c.next(life, 0)
}

// restart: the process ends, with a word or without one, and another begins.
func (c *simConsumer) restart() {
	s := c.sim
	if s.chance(60) {
		c.leave()
	}
	c.life++
	c.owned = map[string]bool{}
	s.After(s.random.Int64N(8_000), c.begin)
}

func (c *simConsumer) leave() {
	s := c.sim
	s.stats["left"]++
	id, classic, instance, groupID := c.id, c.classic, c.instance, c.group
	epoch := int32(epochLeave)
	if instance != nil && s.chance(70) {
		epoch = epochStaticLeave
	}
	c.transmit(true, func(m *Machine, t *coord.Turn, answer func(func())) {
		if classic {
			m.LeaveGroup(t, groupID, []kmsg.LeaveGroupRequestMember{{MemberID: id}}, func(*kmsg.LeaveGroupResponse) { answer(func() {}) })
			return
		}
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, groupID, id, epoch, instance
		m.ConsumerHeartbeat(t, Client{ID: "c"}, req, func(string) bool { return true }, func(*kmsg.ConsumerGroupHeartbeatResponse) { answer(func() {}) })
	})
}

// die ends the client for good, without a word.
func (c *simConsumer) die() {
	c.life++
	c.owned = map[string]bool{}
}

// next sends the next request of this life after a while.
func (c *simConsumer) next(life int, ms int64) {
	c.requests++
	request := c.requests
	if c.sim.faulty && c.sim.chance(1) {
		ms += 2 * simConsumerSessionMs // it hangs
	}
	c.sim.After(ms, func() {
		if c.alive(life) && request == c.requests {
			c.request(life)
		}
	})
}

// request sends what is due, and sends it again when no answer comes.
func (c *simConsumer) request(life int) {
	if c.classic {
		c.classicRequest(life)
	} else {
		c.beat(life)
	}
	c.next(life, 1_500)
}

// transmit carries a request over the client's connection, and the answer to the
// client while it still awaits that one. As TCP and a client make it: the requests of
// one process arrive in the order in which they were sent, though not all of them, and
// nothing but the client itself repeats one. A client that tries again awaits the
// answer to the last try only. It may try again at once when what it sends says all
// anew (repeats), so that the answer says all, too.
func (c *simConsumer) transmit(repeats bool, handle func(m *Machine, t *coord.Turn, answer func(atClient func()))) {
	s := c.sim
	tries := 1
	if repeats && s.faulty && s.chance(4) {
		tries = 2
	}
	c.answered = false
	life := c.life
	for range tries {
		c.sent++
		sent := c.sent
		if s.faulty && s.chance(4) {
			continue
		}
		c.arrivesMs = max(c.arrivesMs, s.NowMs+s.delay())
		s.After(c.arrivesMs-s.NowMs, func() {
			s.arrive(func(m *Machine, t *coord.Turn, reply func(func())) {
				handle(m, t, func(atClient func()) {
					reply(func() {
						if c.alive(life) && sent == c.sent {
							atClient()
						}
					})
				})
			})
		})
	}
}

func (c *simConsumer) beat(life int) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, c.group, c.id, c.epoch, c.instance
	if c.epoch == epochJoin {
		c.owned = map[string]bool{}
	}
	whole := c.epoch == epochJoin || !c.answered
	if whole { // whoever may have missed something says all anew, and is told all
		req.RebalanceTimeoutMillis = 4_000
		if c.regex != "" {
			req.SubscribedTopicRegex = &c.regex
		} else {
			req.SubscribedTopicNames = []string{"t", "x"}
		}
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, p := range slices.Sorted(maps.Keys(c.owned)) {
		topic, partition := splitPartition(p)
		_, id := topicAndID(topic)
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: []int32{partition}})
	}
	c.transmit(whole, func(m *Machine, t *coord.Turn, answer func(func())) {
		m.ConsumerHeartbeat(t, Client{ID: "c"}, req, func(string) bool { return true }, func(r *kmsg.ConsumerGroupHeartbeatResponse) {
			answer(func() { c.answer(life, r) })
		})
	})
}

// answer is what a client does with a heartbeat's answer.
func (c *simConsumer) answer(life int, r *kmsg.ConsumerGroupHeartbeatResponse) {
	s := c.sim
	switch r.ErrorCode {
	case 0:
	case codeFencedMemberEpoch, codeUnknownMemberID, codeFencedInstanceID, codeGroupIDNotFound:
		s.stats["thrown out"]++
		c.owned, c.epoch = map[string]bool{}, 0
		if r.ErrorCode == codeFencedInstanceID {
			c.begin()
			return
		}
		c.next(life, 100+s.random.Int64N(500))
		return
	default:
		c.next(life, 200+s.random.Int64N(500))
		return
	}
	if r.MemberEpoch < c.epoch {
		s.fail("%s: epoch %d after %d", c.id, r.MemberEpoch, c.epoch)
	}
	c.epoch, c.answered = r.MemberEpoch, true
	wait := 500 + s.random.Int64N(1_000)
	if r.Assignment != nil {
		told := map[string]bool{}
		for _, topic := range r.Assignment.Topics {
			for _, p := range topic.Partitions {
				told[fmt.Sprintf("%c/%d", topic.TopicID[0], p)] = true
			}
		}
		if c.adopt(told) {
			wait = s.random.Int64N(300) // it says at once that it has given something up
		}
	}
	c.next(life, wait)
}

// adopt takes over what the client was told to have; true: it gave something up.
func (c *simConsumer) adopt(told map[string]bool) (gave bool) {
	s := c.sim
	s.stats["told"]++
	for p := range c.owned {
		if !told[p] {
			gave = true
			s.stats["gave up"]++
		}
	}
	c.owned = told
	for p := range told {
		key := c.group + "/" + p
		if before := s.holders[key]; before != nil && before != c && before.owned[p] && before.isMember() && c.isMember() {
			s.fail("%s: %s is told to have %s, which %s has\n%s", c.group, c.id, p, before.id, durable(s.steps.Machine)[c.group])
		}
		s.holders[key] = c
	}
	return gave
}

// isMember: the coordinator knows the client in the epoch in which it believes to be, or
// in the next. One that was thrown out and has not heard of it cannot commit any more.
func (c *simConsumer) isMember() bool {
	g := c.sim.steps.Machine.groups[c.group]
	if g == nil || g.consumer == nil {
		return false
	}
	mem := g.consumer.members[c.id]
	return mem != nil && c.epoch > 0 && (mem.epoch == c.epoch || mem.previousEpoch == c.epoch)
}

// classicRequest: a client of the classic protocol joins, syncs or beats; those that
// are told to lead divide what there is.
func (c *simConsumer) classicRequest(life int) {
	if c.epoch > 0 {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = c.group, c.id, c.epoch
		c.transmit(true, func(m *Machine, t *coord.Turn, answer func(func())) {
			code := m.Heartbeat(t, req)
			answer(func() { c.classicAnswer(life, code) })
		})
		return
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 5, c.group, c.id, consumerProtocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = simConsumerSessionMs, 4_000
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version, metadata.Topics = 1, []string{"t", "x"}
	for _, p := range slices.Sorted(maps.Keys(c.owned)) {
		topic, partition := splitPartition(p)
		metadata.OwnedPartitions = append(metadata.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: []int32{partition}})
	}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p", Metadata: metadata.AppendTo(nil)}}
	c.transmit(true, func(m *Machine, t *coord.Turn, answer func(func())) {
		m.JoinGroup(t, Client{ID: c.name}, req, func(r *kmsg.JoinGroupResponse) {
			answer(func() { c.joined(life, r) })
		})
	})
}

func (c *simConsumer) joined(life int, r *kmsg.JoinGroupResponse) {
	s := c.sim
	if r.ErrorCode == codeMemberIDRequired {
		c.id = r.MemberID
		c.next(life, 0)
		return
	}
	if r.ErrorCode != 0 {
		c.classicAnswer(life, r.ErrorCode)
		return
	}
	s.stats["classic join"]++
	c.id = r.MemberID
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, c.group, c.id, r.Generation
	for i := range r.Members {
		plan := kmsg.ConsumerMemberAssignment{Version: 1}
		for _, topic := range s.image.Topics() {
			for p := range topic.Partitions {
				if topic.Name != "u" && p%len(r.Members) == i {
					plan.Topics = append(plan.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic.Name, Partitions: []int32{int32(p)}})
				}
			}
		}
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: r.Members[i].MemberID, MemberAssignment: plan.AppendTo(nil)})
	}
	if len(r.Members) > 0 {
		c.owned = map[string]bool{} // an eager client gives all up before it rejoins
	}
	c.transmit(true, func(m *Machine, t *coord.Turn, answer func(func())) {
		m.SyncGroup(t, req, func(sr *kmsg.SyncGroupResponse) {
			answer(func() { c.synced(life, r.Generation, sr) })
		})
	})
}

func (c *simConsumer) synced(life int, generation int32, r *kmsg.SyncGroupResponse) {
	s := c.sim
	if r.ErrorCode != 0 {
		c.classicAnswer(life, r.ErrorCode)
		return
	}
	s.stats["classic sync"]++
	topics, _ := consumerlog.AssignedTopics(r.MemberAssignment)
	told := map[string]bool{}
	for _, topic := range topics {
		for _, p := range topic.Partitions {
			told[fmt.Sprintf("%s/%d", topic.Name, p)] = true
		}
	}
	c.epoch = generation
	if g := s.steps.Machine.groups[c.group]; g != nil && g.consumer != nil && c.isMember() {
		if c.adopt(told) {
			c.epoch = 0 // it rejoins to say so
			c.next(life, 0)
			return
		}
	}
	c.owned = told
	c.next(life, 500+s.random.Int64N(1_000))
}

// classicAnswer is what a client does with a code.
func (c *simConsumer) classicAnswer(life int, code int16) {
	s := c.sim
	switch code {
	case 0:
		c.next(life, 500+s.random.Int64N(1_000))
		return
	case codeRebalanceInProgress:
		if g := s.steps.Machine.groups[c.group]; g == nil || g.consumer == nil {
			c.owned = map[string]bool{}
		}
		c.epoch = 0
	case codeUnknownMemberID, codeFencedInstanceID, codeIllegalGeneration, codeInconsistentProtocol:
		c.owned, c.epoch = map[string]bool{}, 0
		if code != codeIllegalGeneration {
			c.id = ""
		}
	}
	c.next(life, 100+s.random.Int64N(500))
}
