package group

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSimulation runs whole groups against one shard: clients that join, sync,
// heartbeat, commit, fetch, leave, die and return, over a network that loses,
// delays and repeats requests and replies, while commits are slow, the broker
// crashes and the log fails. It holds:
//
//   - No committed offset is lost or invented: what was acknowledged, or shown by a
//     fetch, is never taken back; what is shown was committed by someone.
//   - No member of an old generation commits once a newer one has.
//   - One plan a generation: all assignments that members are told for a
//     generation come from the same leader's plan, and no partition has two owners.
//   - Every request is answered exactly once or lost with its coordinator.
//   - What a load makes of the log is what the live machine has.
//   - When the faults end, every group becomes stable and owns all partitions;
//     when the clients end, nothing is left in memory.
//
// KAAS_SEED repeats a run.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, seed := range simSeeds(t, 8) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, seed)
			s.run()
		})
	}
}

// simSeeds are the seeds of the runs: that of KAAS_SEED alone, or random ones and
// simWildSeed; for KAAS_SEED=random (make nightly) many.
func simSeeds(t *testing.T, runs int) []uint64 {
	text := os.Getenv("KAAS_SEED")
	switch {
	case text == "random":
		runs = 500
	case text != "":
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	case raceEnabled: // which has nothing to find: a simulation is one goroutine
		runs = 2
	case testing.Short():
		runs = min(runs, 4)
	}
	seeds := make([]uint64, 0, runs)
	for first := rand.Uint64(); len(seeds) < runs-1; {
		seeds = append(seeds, first+uint64(len(seeds)))
	}
	return append(seeds, simWildSeed)
}

// written are the records of the log.
func (s *simulation) written() (records []string) {
	err := s.log.Records(0, func(offset int64, key, value []byte) {
		records = append(records, fmt.Sprintf("%d %x %x", offset, key, value))
	})
	if err != nil {
		s.fail("%v", err)
	}
	return records
}

// simWildSeed is of a run in which everything happens. Any other may by chance be
// without one kind of trouble; that this one is not shows that the simulation still
// makes all of it.
const simWildSeed = 2

const (
	simGroups     = 3
	simClients    = 4 // of each group
	simPartitions = 6
	simFaultsMs   = 120_000
	simHealMs     = 60_000
	simSessionMs  = 6_000
	simRequestMs  = 8_000 // how long a client waits for a reply
)

type simulation struct {
	coordtest.Schedule

	t      *testing.T
	seed   uint64
	random *rand.Rand

	config  Config
	log     *coordtest.Log
	steps   *coord.Steps[*Machine]
	epoch   int // incarnation of the coordinator
	arrived []func(*Machine, *coord.Turn)
	faulty  bool
	commits float64 // percent of the turns after which something is committed

	clients []*simClient
	nextID  int64
	values  int64 // next value to commit; every commit has its own

	// attempted values; handled[v] is the order in which the machine took it in.
	attempted map[string]map[int64]bool
	handled   map[string]map[int64]int64
	handling  int64
	floor     map[string]int64 // by key: nothing handled before may ever be shown again
	newest    map[string]int32 // by key: the newest generation whose commit was acknowledged
	plans     map[string]string
	owners    map[string]string
	stats     map[string]int
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), log: coordtest.NewLog(), faulty: true, commits: 60,
		attempted: map[string]map[int64]bool{}, handled: map[string]map[int64]int64{}, floor: map[string]int64{}, newest: map[string]int32{},
		plans: map[string]string{}, owners: map[string]string{}, stats: map[string]int{},
	}
	s.config = DefaultConfig()
	s.config.InitialRebalanceDelayMs = 500
	s.config.RetentionCheckIntervalMs = 30_000
	s.config.OffsetsRetentionMs = 60_000
	s.config.NewMemberSuffix = func() string { s.nextID++; return strconv.FormatInt(s.nextID, 10) }
	s.log.Hold()
	s.start()
	for g := range simGroups {
		for c := range simClients {
			client := &simClient{sim: s, group: fmt.Sprint("group", g), name: fmt.Sprintf("c%d%d", g, c)}
			if g == 0 { // the first group is static
				client.instance = fmt.Sprint("instance", c)
			}
			s.clients = append(s.clients, client)
			s.After(s.random.Int64N(3000), client.join)
		}
	}
	return s
}

func (s *simulation) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("seed %d at %d ms: %s", s.seed, s.NowMs, fmt.Sprintf(format, args...))
}

func (s *simulation) chance(percent float64) bool { return s.random.Float64()*100 < percent }

func (s *simulation) run() {
	s.After(0, s.turn)
	s.After(0, s.trouble)
	s.RunUntil(simFaultsMs)
	s.faulty = false
	s.RunUntil(simFaultsMs + simHealMs)
	s.wantStable()
	for _, c := range s.clients {
		c.die()
	}
	s.RunUntil(s.NowMs + 4*60_000)
	if n := s.steps.Machine.Groups(); n != 0 {
		s.fail("%d groups are in memory after everybody has gone", n)
	}
	if s.steps.Parked() != 0 {
		s.fail("%d replies are still parked", s.steps.Parked())
	}
	s.wantAll("stable", "commit acknowledged", "crash", "failure", "evicted or unknown", "fetch")
}

// wantAll: the run of simWildSeed has seen all of this.
func (s *simulation) wantAll(kinds ...string) {
	for _, what := range kinds {
		if s.seed == simWildSeed && s.stats[what] == 0 {
			s.fail("the run was too tame: no %q in %v", what, s.stats)
		}
	}
}

// turn is the coordinator's owner: all that has arrived, every few ms.
func (s *simulation) turn() {
	defer s.After(1+s.random.Int64N(20), s.turn)
	events := s.arrived
	s.arrived = nil
	timerMs, armed := s.steps.NextTimer()
	if pending := s.log.Uncommitted(); !s.faulty {
		s.log.CommitSome(pending)
	} else if s.chance(s.commits) {
		s.log.CommitSome(1 + s.random.IntN(pending+1))
	}
	if err := s.steps.Turn(s.NowMs, s.NowMs+scriptWallMs, events...); err != nil {
		s.stats["failure"]++
		s.steps.End(err)
		s.log.Fail(nil)
		s.start()
	}
	if len(events) > 0 || armed && timerMs <= s.NowMs { // nothing else changes a machine
		if err := checkMachine(s.steps.Machine); err != nil {
			s.fail("%v", err)
		}
	}
	if s.chance(0.5) {
		s.compare()
	}
}

// trouble crashes the broker and fails the log now and then.
func (s *simulation) trouble() {
	if !s.faulty {
		return
	}
	s.After(2_000+s.random.Int64N(8_000), s.trouble)
	s.commits = []float64{1, 10, 60, 90}[s.random.IntN(4)] // the storage is slow, or not
	if s.chance(50) {
		s.log.Fail(errors.New("the log fails"))
		return
	}
	s.stats["crash"]++
	s.log = s.log.Crash(s.random.IntN(s.log.Uncommitted() + 1))
	s.log.Hold()
	s.arrived = nil
	s.epoch++ // what the old process still sends goes nowhere
	s.steps.End(coord.ErrNotCoordinator)
	s.start()
}

func (s *simulation) start() {
	s.epoch++
	config := s.config
	steps, err := coord.NewSteps(NewMachine(&config), s.log, s.NowMs, s.NowMs+scriptWallMs)
	if err != nil {
		s.fail("load: %v", err)
	}
	s.steps = steps
	for key := range s.handled {
		s.checkShown(key, s.current(key), "after a load")
	}
}

func (s *simulation) current(key string) int64 {
	groupID, partition, _ := strings.Cut(key, "/")
	n, _ := strconv.Atoi(partition)
	if g := s.steps.Machine.groups[groupID]; g != nil {
		if o, ok := g.offsets.get("t", int32(n)); ok {
			return o.offset
		}
	}
	return noOffset
}

// compare loads a second machine from the log and compares what is durable.
func (s *simulation) compare() {
	config := s.config
	again, err := coord.NewSteps(NewMachine(&config), s.log.Clone(), s.NowMs, s.NowMs+scriptWallMs)
	if err != nil {
		s.fail("load: %v", err)
	}
	if live, replayed := durable(s.steps.Machine), durable(again.Machine); !reflect.DeepEqual(live, replayed) {
		s.fail("the live machine is not what its log says\nlive     %v\nreplayed %v", live, replayed)
	}
}

func durable(m *Machine) map[string]string {
	all := map[string]string{}
	for id, g := range m.groups {
		text := ""
		for _, topic := range g.offsets.topicNames() {
			for _, partition := range g.offsets.partitions(topic) {
				o, _ := g.offsets.get(topic, partition)
				text += fmt.Sprintf(" %s/%d=%d at %d", topic, partition, o.offset, o.commitMs)
			}
		}
		if g.recorded {
			text += " recorded"
		}
		if g.consumer != nil {
			text += consumerText(g.consumer)
		}
		if text != "" {
			all[id] = text
		}
	}
	return all
}

// send carries a request to the coordinator and its reply back, perhaps. handle
// calls back with what is to be done at the client.
func (s *simulation) send(handle func(m *Machine, t *coord.Turn, reply func(atClient func()))) {
	copies := 1
	if s.faulty && s.chance(4) {
		copies = 2
	}
	for range copies {
		if s.faulty && s.chance(4) {
			continue
		}
		s.After(s.delay(), func() { s.arrive(handle) })
	}
}

// arrive puts a request into the coordinator's next turn.
func (s *simulation) arrive(handle func(m *Machine, t *coord.Turn, reply func(atClient func()))) {
	epoch := s.epoch
	answered := false
	s.arrived = append(s.arrived, func(m *Machine, t *coord.Turn) {
		handle(m, t, func(atClient func()) {
			if answered {
				s.fail("a request was answered twice")
			}
			answered = true
			if epoch == s.epoch && !(s.faulty && s.chance(4)) {
				s.After(s.delay(), atClient)
			}
		})
	})
}

func (s *simulation) delay() int64 {
	if s.faulty && s.chance(3) {
		return s.random.Int64N(5_000)
	}
	return s.random.Int64N(30)
}

// checkShown: a value that anybody sees was committed, and nothing that was
// acknowledged or seen before it in the machine's order is shown again.
func (s *simulation) checkShown(key string, value int64, where string) {
	if value == noOffset {
		if s.floor[key] > 0 && s.faulty {
			s.fail("%s: %s has no offset, but one was acknowledged", where, key)
		}
		return
	}
	if !s.attempted[key][value] {
		s.fail("%s: %s shows %d, which nobody committed", where, key, value)
	}
	if at := s.handled[key][value]; at < s.floor[key] {
		s.fail("%s: %s shows %d (handled as %d), later ones were shown or acknowledged (%d)", where, key, value, at, s.floor[key])
	}
}

func (s *simulation) wantStable() {
	for g := range simGroups {
		id := fmt.Sprint("group", g)
		owned := map[int32]string{}
		for _, c := range s.clients {
			if c.group != id || c.phase == "away" {
				continue
			}
			if c.phase != "stable" {
				s.fail("%s is %s a minute after the faults ended; the group is %s", c.name, c.phase, s.steps.Machine.groups[id].state)
			}
			for _, p := range c.assigned {
				if owned[p] != "" {
					s.fail("partition %d of %s belongs to %s and %s", p, id, owned[p], c.name)
				}
				owned[p] = c.name
			}
		}
		if len(owned) != simPartitions {
			s.fail("%s owns %v of %d partitions", id, slices.Sorted(maps.Keys(owned)), simPartitions)
		}
	}
}

// simClient is a consumer of the classic protocol.
type simClient struct {
	sim        *simulation
	group      string
	name       string
	instance   string
	member     string
	generation int32
	phase      string // joining, syncing, stable, away
	assigned   []int32
	try        int64 // number of the attempt; replies to older ones are ignored
}

func (c *simClient) instanceID() *string {
	if c.instance == "" {
		return nil
	}
	return &c.instance
}

// attempt sends a request and repeats it when no reply comes.
func (c *simClient) attempt(again func(), handle func(m *Machine, t *coord.Turn, reply func(func()))) {
	c.try++
	try := c.try
	current := func() bool { return c.try == try && c.phase != "away" }
	c.sim.send(func(m *Machine, t *coord.Turn, reply func(func())) {
		handle(m, t, func(atClient func()) {
			reply(func() {
				if current() {
					c.try++
					atClient()
				}
			})
		})
	})
	c.sim.After(simRequestMs, func() {
		if current() {
			c.try++ // a late answer is nobody's any more
			again()
		}
	})
}

func (c *simClient) join() {
	c.phase, c.assigned = "joining", nil
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = 9
	req.Group, req.MemberID, req.InstanceID = c.group, c.member, c.instanceID()
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = simSessionMs, 4_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte(c.name)}}
	c.attempt(c.join, func(m *Machine, t *coord.Turn, reply func(func())) {
		m.JoinGroup(t, Client{ID: c.name}, req, func(r *kmsg.JoinGroupResponse) { reply(func() { c.joined(r) }) })
	})
}

func (c *simClient) joined(r *kmsg.JoinGroupResponse) {
	switch r.ErrorCode {
	case 0:
		c.member, c.generation = r.MemberID, r.Generation
		c.sync(r)
	case codeMemberIDRequired:
		c.member = r.MemberID
		c.join()
	case codeUnknownMemberID, codeFencedInstanceID:
		c.sim.stats["evicted or unknown"]++
		c.member = ""
		c.sim.After(100, c.join)
	default:
		c.sim.After(200, c.join)
	}
}

// sync; the leader deals the partitions out in the order of the members.
func (c *simClient) sync(joined *kmsg.JoinGroupResponse) {
	c.phase = "syncing"
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = 5
	req.Group, req.MemberID, req.InstanceID, req.Generation = c.group, c.member, c.instanceID(), c.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	if joined.LeaderID == c.member && !joined.SkipAssignment {
		c.sim.values++
		for i, m := range joined.Members {
			plan := fmt.Sprint("plan", c.sim.values)
			for p := i; p < simPartitions; p += len(joined.Members) {
				plan += fmt.Sprint(" ", p)
			}
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte(plan)})
		}
	}
	c.attempt(c.join, func(m *Machine, t *coord.Turn, reply func(func())) {
		m.SyncGroup(t, req, func(r *kmsg.SyncGroupResponse) { reply(func() { c.synced(r) }) })
	})
}

func (c *simClient) synced(r *kmsg.SyncGroupResponse) {
	s := c.sim
	if r.ErrorCode != 0 {
		c.rejoin(r.ErrorCode)
		return
	}
	if len(r.MemberAssignment) == 0 {
		// The plan did not know this member (it came back under another id in between).
		c.member = ""
		s.After(100, c.join)
		return
	}
	s.stats["stable"]++
	c.phase, c.assigned = "stable", nil
	words := strings.Fields(string(r.MemberAssignment))
	key := fmt.Sprintf("%s generation %d", c.group, c.generation)
	if plan := s.plans[key]; plan != "" && plan != words[0] {
		s.fail("%s: %s was told of %s, others of %s", key, c.name, words[0], plan)
	}
	s.plans[key] = words[0]
	for _, word := range words[1:] {
		p, _ := strconv.Atoi(word)
		c.assigned = append(c.assigned, int32(p))
		owner := fmt.Sprintf("%s partition %d", key, p)
		if other := s.owners[owner]; other != "" && other != c.name {
			s.fail("%s belongs to %s and %s", owner, other, c.name)
		}
		s.owners[owner] = c.name
	}
	s.After(s.random.Int64N(1000), c.live)
}

// live is what a stable member does, about once a second.
func (c *simClient) live() {
	if c.phase != "stable" {
		return
	}
	s := c.sim
	switch {
	case s.faulty && s.chance(4):
		c.leave()
		return
	case s.faulty && s.chance(4):
		c.die()
		s.After(s.random.Int64N(15_000), c.join)
		return
	}
	if len(c.assigned) > 0 && s.chance(60) {
		c.commit(c.assigned[s.random.IntN(len(c.assigned))])
	}
	if s.chance(30) {
		c.fetch(s.random.Int32N(simPartitions))
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = c.group, c.member, c.instanceID(), c.generation
	c.attempt(c.live, func(m *Machine, t *coord.Turn, reply func(func())) {
		code := m.Heartbeat(t, req)
		reply(func() {
			if c.phase != "stable" {
				return
			}
			if code == 0 {
				s.After(500+s.random.Int64N(1000), c.live)
				return
			}
			c.rejoin(code)
		})
	})
}

func (c *simClient) rejoin(code int16) {
	if code == codeUnknownMemberID || code == codeFencedInstanceID {
		c.sim.stats["evicted or unknown"]++
		c.member = ""
	}
	c.phase = "joining"
	c.sim.After(100, c.join)
}

// die: no word to anyone. A dynamic member comes back as another one, and so does
// a static one, under its name.
func (c *simClient) die() {
	c.phase, c.member, c.assigned = "away", "", nil
	c.try++
}

func (c *simClient) leave() {
	group, members := c.group, []kmsg.LeaveGroupRequestMember{{MemberID: c.member, InstanceID: c.instanceID()}}
	c.sim.send(func(m *Machine, t *coord.Turn, reply func(func())) {
		m.LeaveGroup(t, group, members, func(*kmsg.LeaveGroupResponse) { reply(func() {}) })
	})
	c.die()
	c.sim.After(c.sim.random.Int64N(10_000), c.join)
}

func (c *simClient) commit(partition int32) {
	s := c.sim
	s.values++
	key, value := fmt.Sprintf("%s/%d", c.group, partition), s.values
	if s.attempted[key] == nil {
		s.attempted[key], s.handled[key] = map[int64]bool{}, map[int64]int64{}
	}
	s.attempted[key][value] = true
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 9, c.group, c.member, c.instanceID(), c.generation
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, value
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	s.send(func(m *Machine, t *coord.Turn, reply func(func())) {
		before := s.current(key)
		m.OffsetCommit(t, req, func(r *kmsg.OffsetCommitResponse) {
			if r.Topics[0].Partitions[0].ErrorCode == 0 {
				s.stats["commit acknowledged"]++
				s.floor[key] = max(s.floor[key], s.handled[key][value])
				s.newest[key] = max(s.newest[key], req.Generation)
			}
			reply(func() {})
		})
		if after := s.current(key); after == value {
			if req.Generation < s.newest[key] {
				s.fail("%s: a commit of generation %d is taken after one of %d was acknowledged", key, req.Generation, s.newest[key])
			}
			// A repeated request takes its place anew.
			s.handling++
			s.handled[key][value] = s.handling
		} else if after != before {
			s.fail("a commit of %d to %s made %d of %d", value, key, after, before)
		}
	})
}

func (c *simClient) fetch(partition int32) {
	s := c.sim
	key := fmt.Sprintf("%s/%d", c.group, partition)
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = c.group
	req.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{partition}}}
	s.send(func(m *Machine, t *coord.Turn, reply func(func())) {
		seen := s.current(key)
		m.OffsetFetch(t, &req, false, func(r *kmsg.OffsetFetchResponseGroup) {
			reply(func() {})
			if r.ErrorCode != 0 {
				return
			}
			s.stats["fetch"]++
			value := r.Topics[0].Partitions[0].Offset
			if value != seen {
				s.fail("a fetch of %s answers %d, the machine had %d", key, value, seen)
			}
			if value == noOffset {
				return
			}
			if !s.attempted[key][value] {
				s.fail("a fetch of %s answers %d, which nobody committed", key, value)
			}
			// It was shown: from now on nothing older may be.
			s.floor[key] = max(s.floor[key], s.handled[key][value])
		})
	})
}
