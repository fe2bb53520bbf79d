package txn

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"kaas/coord"
	"kaas/coord/coordtest"

	"github.com/twmb/franz-go/pkg/kerr"
)

var (
	simulationSeed  = flag.Uint64("seed", 0, "seed of the first simulation; 0: fixed ones")
	simulationCount = flag.Int("simulations", 60, "simulations to run")
)

// TestSimulation runs whole transactions, of producers of both versions, against one
// coordinator shard and three partitions with the real producer state, while requests
// and answers are lost, repeated and late, producers give up and come back beside
// their zombies, logs commit late, markers fail, the coordinator is loaded anew and the
// whole broker crashes. Checked: read_committed never shows a record of a transaction
// that was not committed, in the end shows every acknowledged record of every
// transaction whose commit was acknowledged, once, and all or nothing of the others;
// what it has shown it shows for ever; replayed state equals live state.
func TestSimulation(t *testing.T) {
	t.Parallel()
	first := *simulationSeed
	if first == 0 {
		first = 1
	}
	count := uint64(*simulationCount)
	if raceEnabled { // which has nothing to find: a simulation is one goroutine
		count = min(count, 10)
	}
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for w.tick = range 3_000 {
				w.step()
			}
			w.settle()
			w.check()
		})
	}
}

// partition is a data partition.
type partition struct {
	topic TopicPartition
	*coordtest.Partition
}

type world struct {
	t          *testing.T
	random     *rand.Rand
	tick       int
	nowMs      int64
	log        *coordtest.Log
	steps      *coord.Steps[*Machine]
	partitions []*partition
	mail       []func()
	clients    []*client
	freshID    int64
	values     int
	broker     int // incarnation
	quiet      bool
	outcomes   []*outcome
}

// outcome is one transaction as its producer saw it.
type outcome struct {
	acked        []string // values that are in the log for certain
	sent         []string // all values, acknowledged or not
	commitSent   bool
	acknowledged bool // the commit was
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1)), log: coordtest.NewLog(), freshID: 100}
	for i := range int32(3) {
		w.partitions = append(w.partitions, &partition{TopicPartition{"t", i}, coordtest.NewPartition()})
	}
	for i := range 4 {
		w.clients = append(w.clients, &client{world: w, id: fmt.Sprint("id", i%3), version: int16(i%2) * Version2})
	}
	w.load()
	return w
}

func (w *world) chance(percent float64) bool { return w.random.Float64()*100 < percent }

func (w *world) load() {
	config := DefaultConfig()
	config.AbortTimedOutIntervalMs, config.ExpirationMs, config.RemoveExpiredIntervalMs = 200, 1<<40, 5_000
	config.WriteMarkers = w.writeMarkers
	steps, err := coord.NewSteps(NewMachine(&config, 1), w.log, w.nowMs, w.nowMs)
	if err != nil {
		w.t.Fatal(err)
	}
	w.steps = steps
}

// later runs f once, in no order with others.
func (w *world) later(f func()) { w.mail = append(w.mail, f) }

// network delivers f, unless it is lost, and perhaps twice.
func (w *world) network(f func()) {
	if !w.quiet && w.chance(4) {
		return
	}
	w.later(f)
	if !w.quiet && w.chance(6) {
		w.later(f)
	}
}

func (w *world) turn(events ...func(*Machine, *coord.Turn)) {
	if err := w.steps.Turn(w.nowMs, w.nowMs, events...); err != nil {
		w.reload()
	}
}

func (w *world) reload() {
	w.steps.End(coord.ErrLogFailed)
	w.log = w.log.Crash(w.random.IntN(w.log.Uncommitted() + 1))
	w.load()
}

func (w *world) step() {
	w.nowMs += w.random.Int64N(4)
	if len(w.mail) > 0 {
		i := w.random.IntN(len(w.mail))
		f := w.mail[i]
		w.mail = slices.Delete(w.mail, i, i+1)
		f()
	}
	if !w.quiet {
		w.misfortune()
	}
	switch {
	case w.quiet || w.chance(60):
		w.log.Commit()
	default:
		w.log.Hold()
	}
	w.turn()
	for _, p := range w.partitions {
		if w.quiet || w.chance(40) {
			if err := p.Commit(); err != nil {
				w.t.Fatalf("partition %d: %v", p.topic.Partition, err)
			}
		}
	}
	for _, c := range w.clients {
		c.step()
	}
}

func (w *world) misfortune() {
	switch {
	case w.chance(0.4):
		w.compare()
		w.reload()
	case w.chance(0.2): // the whole broker
		w.broker++
		w.mail = nil
		for _, p := range w.partitions {
			p.Crash(w.random.IntN(p.Uncommitted() + 1))
		}
		w.reload()
	case w.chance(0.3):
		w.nowMs += 500 // somebody sleeps
	}
}

// compare loads a second machine from the log and compares what is durable.
func (w *world) compare() {
	config := DefaultConfig()
	config.WriteMarkers = func(Markers) {}
	other, err := coord.NewSteps(NewMachine(&config, 1), w.log.Clone(), w.nowMs, w.nowMs)
	if err != nil {
		w.t.Fatal(err)
	}
	live, loaded := w.steps.Machine, other.Machine
	if len(live.transactions) != len(loaded.transactions) || len(live.ongoing) != len(loaded.ongoing) {
		w.t.Fatalf("%d ids live, %d loaded", len(live.transactions), len(loaded.transactions))
	}
	for id, x := range live.transactions {
		if !reflect.DeepEqual(x.metadata, loaded.transactions[id].metadata) {
			w.t.Fatalf("%s: live %+v, loaded %+v", id, x.metadata, loaded.transactions[id].metadata)
		}
	}
}

func (w *world) writeMarkers(m Markers) {
	results := make([]MarkerResult, len(m.Partitions))
	left := len(results)
	broker := w.broker
	report := func() {
		if left--; left == 0 {
			w.later(func() {
				w.turn(func(machine *Machine, t *coord.Turn) { machine.MarkersWritten(t, m, results) })
			})
		}
	}
	for i, topic := range m.Partitions {
		// A marker of version 2 may come as late as it likes, also after the next
		// transaction has begun. Those of version 0 can't be told from the next ones: like
		// the broker, the simulation writes them before it does anything else.
		send := func(f func()) { f() }
		if m.Raised {
			send = w.later
		}
		send(func() {
			if broker != w.broker {
				return
			}
			if !w.quiet && w.chance(15) {
				results[i] = MarkerAgain
				report()
				return
			}
			if !w.partitions[topic.Partition].Mark(coordtest.Marker{ProducerID: m.ProducerID, Epoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit, Raised: m.Raised}, report) {
				report()
			}
		})
	}
}

// append is what Produce does: append, or verify and append with the guard.
func (w *world) append(p *partition, c request, done func(code int16)) {
	broker := w.broker
	switch code := p.tryAppend(c, 0, done); {
	case code == codeUnverified:
		guard := p.BeginVerification(c.record(), c.version >= Version2)
		add := AddRequest{TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch, Partitions: []TopicPartition{p.topic}, ClientVersion: c.version}
		verified := func(code int16) {
			if broker != w.broker {
				return
			}
			if code == 0 {
				code = p.tryAppend(c, guard, done)
			}
			if code != 0 {
				done(code)
			}
		}
		w.turn(func(m *Machine, t *coord.Turn) {
			if c.version >= Version2 {
				m.AddPartitions(t, add, verified)
				return
			}
			m.Verify(t, add, func(codes []int16) { verified(codes[0]) })
		})
	case code != 0:
		done(code)
	}
}

const codeUnverified = -1_000

// tryAppend calls done itself, later, when it returns 0.
func (p *partition) tryAppend(c request, guard uint64, done func(code int16)) int16 {
	switch err := p.Append(c.record(), guard, func() { done(0) }); err {
	case nil:
		return 0
	case coordtest.ErrUnverified:
		return codeUnverified
	case coordtest.ErrGuard:
		return kerr.InvalidTxnState.Code
	default:
		return kerr.InvalidProducerEpoch.Code
	}
}

// settle lets everything that is under way come to its end.
func (w *world) settle() {
	w.quiet = true
	w.log.Commit()
	for range 400 {
		w.nowMs += 1_000
		for range 10 {
			w.step()
		}
	}
	w.compare()
	if len(w.steps.Machine.ongoing) > 0 {
		w.t.Fatalf("%d transactions are open after their time", len(w.steps.Machine.ongoing))
	}
	for _, x := range w.steps.Machine.transactions {
		if x.state.prepared() || len(x.waiting) > 0 {
			w.t.Fatalf("%v: markers %v are not written, %d requests wait", x, x.outstanding, len(x.waiting))
		}
	}
}

func (w *world) check() {
	seen := map[string]int{}
	for _, p := range w.partitions {
		if p.Open() {
			w.t.Fatalf("partition %d: a transaction is open for ever", p.topic.Partition)
		}
		for _, value := range p.Visible() {
			seen[value]++
		}
	}
	committed := 0
	for _, o := range w.outcomes {
		visible := 0
		for _, value := range o.sent {
			if visible += min(seen[value], 1); seen[value] > 1 {
				w.t.Errorf("%s is shown %d times", value, seen[value])
			}
		}
		acked := 0
		for _, value := range o.acked {
			acked += seen[value]
		}
		switch {
		case o.acknowledged && acked != len(o.acked):
			w.t.Errorf("%d of %d records of a committed transaction are shown: %v", acked, len(o.acked), o.acked)
		case !o.commitSent && visible > 0:
			w.t.Errorf("a transaction whose commit was never asked for is shown: %v", o.sent)
		case visible > 0 && acked != len(o.acked):
			w.t.Errorf("%d of %d acknowledged records of a transaction are shown: %v", acked, len(o.acked), o.acked)
		}
		if o.acknowledged {
			committed++
		}
	}
	if committed < 3 {
		w.t.Errorf("only %d of %d transactions were committed: the simulation tests nothing", committed, len(w.outcomes))
	}
}

// request is one produce of a client.
type request struct {
	id         string
	version    int16
	producerID int64
	epoch      int16
	sequence   int32
	value      string
}

func (r *request) record() coordtest.Record {
	return coordtest.Record{ProducerID: r.producerID, Epoch: r.epoch, Sequence: r.sequence, Value: r.value}
}

type phase uint8

const (
	starting phase = iota
	writing
	ending
)

// client is a producer: one request at a time, asked again when no answer comes.
type client struct {
	world      *world
	id         string
	version    int16
	phase      phase
	producerID int64
	epoch      int16
	sequences  [3]int32
	current    *outcome
	left       int // records to write

	// call is the request under way: an answer to an older one is ignored.
	call     int
	send     func()
	deadline int
	tries    int
}

func (c *client) step() {
	w := c.world
	if c.send != nil {
		if w.tick < c.deadline && !w.quiet {
			return
		}
		if c.tries++; c.tries > 4 || w.quiet && c.tries > 1 {
			c.giveUp()
			return
		}
		c.deadline = w.tick + 40 + w.random.IntN(60)
		c.send()
		return
	}
	if w.quiet && c.phase != ending {
		return
	}
	switch {
	case c.phase == starting:
		c.initialise()
	case c.phase == writing && c.left > 0:
		c.write()
	default:
		c.end()
	}
}

// ask sends a request until it is answered; answered is called at most once.
func (c *client) ask(request func(answer func(code int16, producerID int64, epoch int16)), answered func(code int16, producerID int64, epoch int16)) {
	w := c.world
	c.call++
	call := c.call
	c.tries = 0
	c.send = func() {
		w.network(func() {
			if c.version < Version2 && c.call != call {
				// A request that comes after its producer has gone on: with one epoch for many
				// transactions nobody can tell it from one of the next (what KIP-890 is for).
				return
			}
			request(func(code int16, producerID int64, epoch int16) {
				w.network(func() {
					if c.call == call {
						c.call++
						c.send = nil
						answered(code, producerID, epoch)
					}
				})
			})
		})
	}
	c.deadline = w.tick + 40 + w.random.IntN(60)
	c.send()
}

// giveUp leaves everything behind; the next instance begins with InitProducerId.
func (c *client) giveUp() {
	c.call++
	c.send, c.phase, c.current = nil, starting, nil
}

func retriable(code int16) bool {
	return slices.Contains([]int16{kerr.ConcurrentTransactions.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code}, code)
}

func (c *client) initialise() {
	w := c.world
	c.ask(func(answer func(int16, int64, int16)) {
		w.freshID++
		req := InitRequest{TransactionalID: c.id, TimeoutMs: 1_000, ProducerID: -1, ProducerEpoch: -1, FreshProducerID: w.freshID}
		w.turn(func(m *Machine, t *coord.Turn) {
			m.InitProducerID(t, req, func(r InitResult) { answer(r.Code, r.ProducerID, r.ProducerEpoch) })
		})
	}, func(code int16, producerID int64, epoch int16) {
		if code == 0 {
			c.producerID, c.epoch = producerID, epoch
			c.begin()
		}
	})
}

func (c *client) begin() {
	c.sequences = [3]int32{}
	c.next()
}

func (c *client) next() {
	c.phase, c.left, c.current = writing, 1+c.world.random.IntN(4), &outcome{}
	c.world.outcomes = append(c.world.outcomes, c.current)
}

func (c *client) write() {
	w := c.world
	index := w.random.IntN(len(w.partitions))
	p := w.partitions[index]
	w.values++
	current := c.current
	req := request{c.id, c.version, c.producerID, c.epoch, c.sequences[index], fmt.Sprintf("%s/%d", c.id, w.values)}
	current.sent = append(current.sent, req.value)
	produce := func() {
		c.ask(func(answer func(int16, int64, int16)) {
			w.append(p, req, func(code int16) { answer(code, 0, 0) })
		}, func(code int16, _ int64, _ int16) {
			if code != 0 {
				c.giveUp()
				return
			}
			current.acked = append(current.acked, req.value)
			c.sequences[index]++
			c.left--
		})
	}
	if c.version >= Version2 {
		produce()
		return
	}
	add := AddRequest{TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch, Partitions: []TopicPartition{p.topic}}
	var tryAdd func()
	tryAdd = func() {
		c.ask(func(answer func(int16, int64, int16)) {
			w.turn(func(m *Machine, t *coord.Turn) { m.AddPartitions(t, add, func(code int16) { answer(code, 0, 0) }) })
		}, func(code int16, _ int64, _ int16) {
			switch {
			case code == 0:
				produce()
			case retriable(code) && !w.quiet:
				tryAdd()
			default:
				c.giveUp()
			}
		})
	}
	tryAdd()
}

func (c *client) end() {
	w := c.world
	if c.phase != ending {
		c.phase = ending
		c.current.commitSent = w.chance(70)
	}
	commit, current := c.current.commitSent, c.current
	w.freshID++
	req := EndRequest{TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch, Commit: commit, ClientVersion: c.version, FreshProducerID: w.freshID}
	c.ask(func(answer func(int16, int64, int16)) {
		w.turn(func(m *Machine, t *coord.Turn) {
			m.EndTransaction(t, req, func(r EndResult) { answer(r.Code, r.ProducerID, r.ProducerEpoch) })
		})
	}, func(code int16, producerID int64, epoch int16) {
		switch {
		case code == 0:
			current.acknowledged = commit
			if c.version >= Version2 {
				c.producerID, c.epoch = producerID, epoch
				c.begin()
			} else {
				c.next()
			}
		case !retriable(code):
			c.giveUp()
		}
	})
}
