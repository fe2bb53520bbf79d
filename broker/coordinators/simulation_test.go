package coordinators

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/group"
	"kaas/meta"
	"kaas/txn"
)

// TestSimulation runs whole groups and transactions together: members of a classic
// and of a consumer group copy what they own of an endless topic into another, record
// by record in transactions that also commit the offsets, while requests and answers
// are lost, late and repeated, processes end and come back beside their zombies,
// commits are slow, logs fail, coordinators are loaded anew and the broker crashes.
// It holds:
//
//   - No partition is owned twice in one generation or epoch.
//   - read_committed never takes back what it showed, never shows a record of a
//     transaction that was not committed, and in the end all of those that were.
//   - No committed offset is lost or invented: what a member is told to go on from is
//     never behind what was acknowledged or told before, and in the end the offset of a
//     partition is the number of its records in the copy, each of which is there once.
//
// The machines and their logs are the real ones, the producer state of the partitions
// too; this file stands for the handlers. KAAS_SEED repeats a run; random makes many.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, seed := range simSeeds(t) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			newWorld(t, seed).run()
		})
	}
}

// A run is a function of its seed.
func TestSimulationRepeats(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("eight times as slow, and no goroutines")
	}
	first, again := newWorld(t, simWildSeed), newWorld(t, simWildSeed)
	first.run()
	again.run()
	if first.random.Uint64() != again.random.Uint64() {
		t.Error("two runs of a seed took different courses")
	}
}

func simSeeds(t *testing.T) (seeds []uint64) {
	runs := 6
	switch text := os.Getenv("KAAS_SEED"); {
	case text == "random":
		runs = 500
	case text != "":
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	case raceEnabled: // which has nothing to find: a simulation is one goroutine
		return []uint64{simWildSeed}
	}
	for first := rand.Uint64(); len(seeds) < runs-1; {
		seeds = append(seeds, first+uint64(len(seeds)))
	}
	return append(seeds, simWildSeed)
}

// simWildSeed is of a run in which everything happens.
const simWildSeed = 1

const (
	simFaultsMs     = 60_000
	simHealMs       = 60_000
	simPartitions   = 4 // of the topic that is copied
	simOutputs      = 2
	simSessionMs    = 6_000
	simTimeoutMs    = 3_000 // of transactions
	simPatienceMs   = 2_000 // of a client for an answer
	simWallMs       = 1_000_000
	simOffsetsShard = int32(0)
)

var simTopicID = [16]byte{7}

type world struct {
	coordtest.Schedule

	t      *testing.T
	seed   uint64
	random *rand.Rand
	faulty bool
	commit float64 // percent of the turns after which something is committed

	groups       *shardUnderTest[*group.Machine]
	transactions *shardUnderTest[*txn.Machine]
	outputs      []*coordtest.Partition
	incarnation  int // of the broker
	nextID       int64
	producerIDs  int64
	copiers      []*copier

	owners    map[string]string // by group/generation/partition
	told      map[string]int64  // by group/partition: no offset below may be told
	attempted map[string]int64  // by group/partition: nothing above was ever sent
	stats     map[string]int
}

// shardUnderTest is a coordinator: a log, the machine on it, and what has arrived.
type shardUnderTest[M coord.Machine] struct {
	world   *world
	log     *coordtest.Log
	steps   *coord.Steps[M]
	machine func() M
	arrived []coord.Event[M]
}

func (s *shardUnderTest[M]) load() {
	steps, err := coord.NewSteps(s.machine(), s.log, s.world.NowMs, s.world.NowMs+simWallMs)
	if err != nil {
		s.world.fail("load: %v", err)
	}
	s.steps = steps
}

// turn runs what has arrived; a log that fails is loaded again.
func (s *shardUnderTest[M]) turn() {
	w := s.world
	switch pending := s.log.Uncommitted(); {
	case !w.faulty:
		s.log.CommitSome(pending)
	case w.chance(w.commit):
		s.log.CommitSome(1 + w.random.IntN(pending+1))
	}
	events := make([]func(M, *coord.Turn), 0, len(s.arrived))
	for _, e := range s.arrived {
		events = append(events, e.Run)
	}
	s.arrived = nil
	if err := s.steps.Turn(w.NowMs, w.NowMs+simWallMs, events...); err != nil {
		w.stats["failure"]++
		s.steps.End(err)
		s.log.Fail(nil)
		s.load()
	}
}

// crash keeps what is committed and some of the rest.
func (s *shardUnderTest[M]) crash() {
	s.log = s.log.Crash(s.world.random.IntN(s.log.Uncommitted() + 1))
	s.log.Hold()
	s.arrived = nil
	s.steps.End(coord.ErrNotCoordinator)
	s.load()
}

// reload is a shard that moves away and comes back: its requests are refused.
func (s *shardUnderTest[M]) reload() {
	arrived := s.arrived
	s.arrived = nil
	for _, e := range arrived {
		e.Refused(coord.ErrLoading)
	}
	s.steps.End(coord.ErrNotCoordinator)
	s.log.Fail(nil)
	s.load()
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 3)), faulty: true, commit: 60, producerIDs: 100,
		owners: map[string]string{}, told: map[string]int64{}, attempted: map[string]int64{}, stats: map[string]int{},
	}
	for range simOutputs {
		w.outputs = append(w.outputs, coordtest.NewPartition())
	}
	image := meta.NewImage("c", 1, 1, nil, []*meta.Topic{{Name: "in", ID: simTopicID, Partitions: make([]meta.PartitionInfo, simPartitions)}})
	groups := group.DefaultConfig()
	groups.InitialRebalanceDelayMs, groups.ConsumerSessionTimeoutMs, groups.ConsumerAssignmentIntervalMs = 300, simSessionMs, 200
	groups.Image = func() *meta.Image { return image }
	if seed%2 == 1 {
		groups.PlanInTurn = -1 // plans are adopted in a later turn
	}
	groups.NewMemberSuffix = func() string { w.nextID++; return strconv.FormatInt(w.nextID, 10) }
	w.groups = &shardUnderTest[*group.Machine]{world: w, log: coordtest.NewLog(), machine: func() *group.Machine { return group.NewMachine(&groups) }}
	transactions := txn.DefaultConfig()
	transactions.AbortTimedOutIntervalMs, transactions.WriteMarkers = 300, w.writeMarkers
	w.transactions = &shardUnderTest[*txn.Machine]{world: w, log: coordtest.NewLog(), machine: func() *txn.Machine { return txn.NewMachine(&transactions, 1) }}
	w.groups.log.Hold()
	w.transactions.log.Hold()
	w.groups.load()
	w.transactions.load()
	for i := range 6 {
		c := &copier{world: w, name: fmt.Sprint("c", i), group: []string{"classic", "consumer"}[i%2], version: int16(i/2%2) * txn.Version2}
		w.copiers = append(w.copiers, c)
		w.After(w.random.Int64N(2_000), c.begin)
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %d ms: %s", w.seed, w.NowMs, fmt.Sprintf(format, args...))
}

func (w *world) chance(percent float64) bool { return w.random.Float64()*100 < percent }

func (w *world) run() {
	w.After(0, w.turn)
	w.After(0, w.trouble)
	w.RunUntil(simFaultsMs)
	w.faulty = false
	w.RunUntil(simFaultsMs + simHealMs/2)
	before := w.copied()
	w.RunUntil(simFaultsMs + simHealMs)
	for key, n := range w.copied() {
		if n <= before[key] {
			w.fail("%s: nobody copies any more, %d records are there", key, n)
		}
	}
	for _, c := range w.copiers {
		c.life++ // all end without a word; open transactions time out
	}
	w.RunUntil(w.NowMs + 10*simTimeoutMs)
	w.check()
	for _, what := range []string{"crash", "failure", "reload", "zombie", "aborted", "committed", "refused", "owns"} {
		if w.seed == simWildSeed && w.stats[what] == 0 {
			w.fail("the run was too tame: no %q in %v", what, w.stats)
		}
	}
}

func (w *world) turn() {
	defer w.After(1+w.random.Int64N(20), w.turn)
	w.groups.turn()
	w.transactions.turn()
	for i, p := range w.outputs {
		if !w.faulty || w.chance(w.commit) {
			if err := p.Commit(); err != nil {
				w.fail("output %d: %v", i, err)
			}
		}
	}
}

func (w *world) trouble() {
	if !w.faulty {
		return
	}
	w.After(500+w.random.Int64N(4_000), w.trouble)
	w.commit = []float64{5, 30, 60, 90}[w.random.IntN(4)] // the storage is slow, or not
	switch w.random.IntN(5) {
	case 0:
		w.groups.log.Fail(errors.New("the log fails"))
	case 1:
		w.transactions.log.Fail(errors.New("the log fails"))
	case 2:
		w.stats["reload"]++
		w.groups.reload()
	case 3:
		w.stats["reload"]++
		w.transactions.reload()
	default: // the whole broker
		w.stats["crash"]++
		w.incarnation++
		for _, p := range w.outputs {
			p.Crash(w.random.IntN(p.Uncommitted() + 1))
		}
		w.groups.crash()
		w.transactions.crash()
	}
}

// inside runs f a little later, unless the broker has crashed.
func (w *world) inside(f func()) {
	incarnation := w.incarnation
	w.After(w.random.Int64N(5), func() {
		if incarnation == w.incarnation {
			f()
		}
	})
}

func (w *world) onGroups(run func(*group.Machine, *coord.Turn), failed func(code int16)) {
	w.groups.arrived = append(w.groups.arrived, coord.Event[*group.Machine]{Run: run, Refused: func(err error) { failed(group.ErrorCode(err)) }})
}

func (w *world) onTransactions(run func(*txn.Machine, *coord.Turn), failed func(code int16)) {
	w.transactions.arrived = append(w.transactions.arrived, coord.Event[*txn.Machine]{Run: run, Refused: func(err error) { failed(txn.ErrorCode(err)) }})
}

// writeMarkers is Coordinators.writeMarkers.
func (w *world) writeMarkers(m txn.Markers) {
	results := make([]txn.MarkerResult, len(m.Partitions))
	left, incarnation := len(results), w.incarnation
	done := func(i int, result txn.MarkerResult) {
		if incarnation != w.incarnation {
			return
		}
		results[i] = result
		if left--; left == 0 {
			w.inside(func() {
				w.onTransactions(func(machine *txn.Machine, t *coord.Turn) { machine.MarkersWritten(t, m, results) }, func(int16) {})
			})
		}
	}
	for i, p := range m.Partitions {
		switch {
		case w.faulty && w.chance(10):
			done(i, txn.MarkerAgain)
		case p.Topic == meta.ConsumerOffsetsTopic:
			w.onGroups(func(machine *group.Machine, t *coord.Turn) {
				machine.EndTransaction(t, m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch, m.Commit, m.Raised, func(err error) {
					if err == nil || errors.Is(err, coord.ErrProducerFenced) {
						done(i, txn.MarkerDone)
					} else {
						done(i, txn.MarkerAgain)
					}
				})
			}, func(int16) { done(i, txn.MarkerAgain) })
		default:
			mark := coordtest.Marker{ProducerID: m.ProducerID, Epoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit, Raised: m.Raised}
			if !w.outputs[p.Partition].Mark(mark, func() { done(i, txn.MarkerDone) }) {
				done(i, txn.MarkerDone) // somebody newer has ended it
			}
		}
	}
}

// enlist is Coordinators.Enlist for one partition.
func (w *world) enlist(c *request, p TopicPartition, done func(code int16)) {
	add := txn.AddRequest{TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch, Partitions: []TopicPartition{p}, ClientVersion: txn.Version2}
	w.onTransactions(func(m *txn.Machine, t *coord.Turn) {
		if c.version >= txn.Version2 {
			m.AddPartitions(t, add, done)
			return
		}
		m.Verify(t, add, func(codes []int16) { done(codes[0]) })
	}, done)
}

// produce is what a Produce of one record does.
func (w *world) produce(c *request, output int32, r coordtest.Record, done func(code int16)) {
	p := w.outputs[output]
	code := func(err error) int16 {
		switch {
		case err == nil:
			return 0
		case errors.Is(err, coordtest.ErrFenced):
			return kerr.InvalidProducerEpoch.Code
		default:
			return kerr.InvalidTxnState.Code
		}
	}
	err := p.Append(r, 0, func() { done(0) })
	if !errors.Is(err, coordtest.ErrUnverified) {
		if err != nil {
			done(code(err))
		}
		return
	}
	guard := p.BeginVerification(r, c.version >= txn.Version2)
	w.enlist(c, TopicPartition{Topic: "out", Partition: output}, func(enlisted int16) {
		w.inside(func() {
			if enlisted == 0 {
				err := p.Append(r, guard, func() { done(0) })
				enlisted = code(err)
				if err == nil {
					return
				}
			}
			done(enlisted)
		})
	})
}

// commitOffset is txnOffsetCommit.
func (w *world) commitOffset(c *request, commit *kmsg.TxnOffsetCommitRequest, done func(code int16)) {
	answer := func(r *kmsg.TxnOffsetCommitResponse) { done(r.Topics[0].Partitions[0].ErrorCode) }
	w.onGroups(func(m *group.Machine, t *coord.Turn) {
		needed, err := m.NeedsVerification(t, c.producerID, c.epoch)
		if err != nil {
			done(kerr.InvalidProducerEpoch.Code)
			return
		}
		if needed == nil {
			m.TxnOffsetCommit(t, commit, nil, answer)
			return
		}
		w.enlist(c, TopicPartition{Topic: meta.ConsumerOffsetsTopic, Partition: simOffsetsShard}, func(code int16) {
			w.inside(func() {
				w.onGroups(func(m *group.Machine, t *coord.Turn) {
					if code != 0 {
						m.ReleaseVerification(needed)
						done(code)
						return
					}
					m.TxnOffsetCommit(t, commit, needed, answer)
				}, done)
			})
		})
	}, done)
}

// copied counts the records of each partition that read_committed shows, all at most once.
func (w *world) copied() map[string]int64 {
	counts, seen := map[string]int64{}, map[string]bool{}
	for _, p := range w.outputs {
		for _, value := range p.Visible() {
			if seen[value] {
				w.fail("%s is in the copy twice", value)
			}
			seen[value] = true
			key, _, _ := cutValue(value)
			counts[key]++
		}
	}
	for _, name := range []string{"classic", "consumer"} {
		for p := range simPartitions {
			key := fmt.Sprintf("%s/%d", name, p)
			for o := range counts[key] {
				if !seen[fmt.Sprintf("%s@%d", key, o)] {
					w.fail("%s has %d records in the copy, and not number %d", key, counts[key], o)
				}
			}
			if _, ok := counts[key]; !ok {
				counts[key] = 0
			}
		}
	}
	return counts
}

func (w *world) check() {
	for i, p := range w.outputs {
		if p.Open() {
			w.fail("output %d: a transaction is open for ever", i)
		}
	}
	for key, n := range w.copied() {
		name, partition := key[:len(key)-2], int32(key[len(key)-1]-'0')
		fetch := kmsg.NewOffsetFetchRequestGroup()
		fetch.Group = name
		fetch.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "in", TopicID: simTopicID, Partitions: []int32{partition}}}
		committed, answered := int64(-1), false
		w.onGroups(func(m *group.Machine, t *coord.Turn) {
			m.OffsetFetch(t, &fetch, true, func(r *kmsg.OffsetFetchResponseGroup) {
				if answered = r.ErrorCode == 0 && r.Topics[0].Partitions[0].ErrorCode == 0; answered {
					committed = r.Topics[0].Partitions[0].Offset
				}
			})
		}, func(int16) {})
		w.RunUntil(w.NowMs + 100)
		if !answered || committed != n {
			w.fail("%s: %d records are in the copy, %d are committed (answered %v)", key, n, committed, answered)
		}
	}
}
