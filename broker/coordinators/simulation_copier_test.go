package coordinators

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/coord"
	"kaas/coord/coordtest"
	"kaas/group"
	"kaas/meta"
	"kaas/txn"
)

// copier is a process that is a member of a group and copies what it owns.
type copier struct {
	world   *world
	name    string // also its transactional id
	group   string // "classic" or "consumer", which is also its protocol
	version int16  // of its transactions
	life    int

	// As a member. generation is the epoch of the consumer protocol; 0: it has to join.
	member     string
	generation int32
	owned      []int32
	answered   bool // the last heartbeat was
	beats      link

	// As a producer. ready: it may begin a transaction.
	requests  link
	ready     bool
	producer  request
	sequences [simOutputs]int32
	positions map[int32]int64 // of the partitions that it owns; no entry: not known
	// copies is the partition of the transaction under way, noPartition: none. A consumer gives
	// a partition up in poll(), which nobody calls in the middle of a transaction: until the
	// end, or the answer to an InitProducerId behind all requests of it, heartbeats name it.
	// An offset is checked against the member's epoch, not against what the member owns.
	copies int32
}

const noPartition = int32(-1)

// request is who sends the requests of a transaction.
type request struct {
	id         string
	version    int16
	producerID int64
	epoch      int16
}

// link is one connection: requests arrive in the order in which they were sent, and
// only the last one's answer is awaited.
type link struct {
	sent      int
	arrivesMs int64
}

// ask sends a request. again is called when no answer comes in time.
func (c *copier) ask(l *link, handle func(answer func(atClient func())), again func()) {
	w := c.world
	life := c.life
	l.sent++
	sent := l.sent
	current := func() bool { return c.life == life && l.sent == sent }
	delay := func() int64 {
		if w.faulty && w.chance(3) {
			return w.random.Int64N(3_000)
		}
		return w.random.Int64N(20)
	}
	if !w.faulty || !w.chance(4) {
		l.arrivesMs = max(l.arrivesMs, w.NowMs+delay())
		w.After(l.arrivesMs-w.NowMs, func() {
			incarnation := w.incarnation
			handle(func(atClient func()) {
				if incarnation == w.incarnation && (!w.faulty || !w.chance(4)) {
					w.After(delay(), func() {
						if current() {
							l.sent++
							atClient()
						}
					})
				}
			})
		})
	}
	w.After(simPatienceMs, func() {
		if current() {
			l.sent++ // an answer that is late is nobody's any more
			again()
		}
	})
}

// then runs f after a while in this life.
func (c *copier) then(ms int64, f func()) {
	life := c.life
	c.world.After(ms, func() {
		if c.life == life {
			f()
		}
	})
}

// begin is a new process. What the old one has sent is still on its way.
func (c *copier) begin() {
	w := c.world
	c.life++
	w.nextID++
	c.member, c.generation, c.owned, c.answered, c.ready, c.copies = "", 0, nil, false, false, noPartition
	if c.group == "consumer" {
		c.member = fmt.Sprint(c.name, "-", w.nextID)
	}
	c.beats, c.requests, c.positions = link{}, link{}, map[int32]int64{}
	c.producer = request{id: c.name, version: c.version}
	if w.faulty {
		c.then(3_000+w.random.Int64N(15_000), func() {
			if !w.faulty {
				return
			}
			w.stats["zombie"]++
			c.life++
			w.After(w.random.Int64N(4_000), c.begin)
		})
	}
	c.beat()
	c.initialise()
}

// beat is the member's next request: join or heartbeat.
func (c *copier) beat() {
	switch {
	case c.group == "consumer":
		c.consumerBeat()
	case c.generation == 0:
		c.join()
	default:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = c.group, c.member, c.generation
		c.ask(&c.beats, func(answer func(func())) {
			c.world.onGroups(func(m *group.Machine, t *coord.Turn) {
				code := m.Heartbeat(t, req)
				answer(func() { c.beaten(code) })
			}, func(code int16) { answer(func() { c.beaten(code) }) })
		}, c.beat)
	}
}

func (c *copier) beatLater() { c.then(200+c.world.random.Int64N(500), c.beat) }

// beaten is what a member of the classic protocol does with a code.
func (c *copier) beaten(code int16) {
	switch code {
	case 0:
	case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
		c.member = ""
		c.lose()
	case kerr.RebalanceInProgress.Code, kerr.IllegalGeneration.Code:
		c.lose()
	}
	c.beatLater()
}

// lose: it owns nothing any more, and joins again.
func (c *copier) lose() {
	c.generation = 0
	c.own(nil)
}

func (c *copier) join() {
	w := c.world
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 5, c.group, c.member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = simSessionMs, 3_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p"}}
	c.ask(&c.beats, func(answer func(func())) {
		w.onGroups(func(m *group.Machine, t *coord.Turn) {
			m.JoinGroup(t, group.Client{ID: c.name}, req, func(r *kmsg.JoinGroupResponse) { answer(func() { c.joined(r) }) })
		}, func(code int16) { answer(func() { c.beaten(code) }) })
	}, c.beat)
}

func (c *copier) joined(r *kmsg.JoinGroupResponse) {
	w := c.world
	if r.ErrorCode == kerr.MemberIDRequired.Code {
		c.member = r.MemberID
		c.beat()
		return
	}
	if r.ErrorCode != 0 {
		c.beaten(r.ErrorCode)
		return
	}
	c.member = r.MemberID
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 3, c.group, c.member, r.Generation
	for i := range r.Members {
		var plan []string
		for p := i; p < simPartitions; p += len(r.Members) {
			plan = append(plan, strconv.Itoa(p))
		}
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: r.Members[i].MemberID, MemberAssignment: []byte(strings.Join(plan, " "))})
	}
	c.ask(&c.beats, func(answer func(func())) {
		w.onGroups(func(m *group.Machine, t *coord.Turn) {
			m.SyncGroup(t, req, func(s *kmsg.SyncGroupResponse) {
				answer(func() {
					if s.ErrorCode != 0 {
						c.beaten(s.ErrorCode)
						return
					}
					c.generation = r.Generation
					var owned []int32
					for _, word := range strings.Fields(string(s.MemberAssignment)) {
						p, _ := strconv.Atoi(word)
						owned = append(owned, int32(p))
					}
					c.own(owned)
					c.beatLater()
				})
			})
		}, func(code int16) { answer(func() { c.beaten(code) }) })
	}, c.beat)
}

func (c *copier) consumerBeat() {
	w := c.world
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, c.group, c.member, c.generation
	if c.generation == 0 {
		c.own(nil)
	}
	if !c.answered || c.generation == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 3_000, []string{"in"}
	}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	owned := slices.Clone(c.owned)
	if c.generation != 0 && c.copies != noPartition && !slices.Contains(owned, c.copies) {
		owned = append(owned, c.copies)
	}
	if len(owned) > 0 {
		req.Topics = append(req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: simTopicID, Partitions: owned})
	}
	c.answered = false
	c.ask(&c.beats, func(answer func(func())) {
		w.onGroups(func(m *group.Machine, t *coord.Turn) {
			m.ConsumerHeartbeat(t, group.Client{ID: c.name}, req, func(string) bool { return true }, func(r *kmsg.ConsumerGroupHeartbeatResponse) {
				answer(func() { c.consumerBeaten(r) })
			})
		}, func(int16) { answer(c.beatLater) })
	}, c.beat)
}

func (c *copier) consumerBeaten(r *kmsg.ConsumerGroupHeartbeatResponse) {
	switch r.ErrorCode {
	case 0:
		c.answered, c.generation = true, r.MemberEpoch
		if r.Assignment != nil {
			var owned []int32
			for _, topic := range r.Assignment.Topics {
				owned = append(owned, topic.Partitions...)
			}
			c.own(owned)
		}
		c.claim()
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code, kerr.GroupIDNotFound.Code:
		c.lose()
	}
	c.beatLater()
}

// own takes over what the member was told to have.
func (c *copier) own(owned []int32) {
	for p := range c.positions {
		if !slices.Contains(owned, p) {
			delete(c.positions, p)
		}
	}
	c.owned = owned
	c.claim()
}

// claim: no partition is owned twice in one generation or epoch.
func (c *copier) claim() {
	w := c.world
	for _, p := range c.owned {
		w.stats["owns"]++
		key := fmt.Sprintf("%s/%d in %d", c.group, p, c.generation)
		if owner := w.owners[key]; owner != "" && owner != c.member {
			w.fail("%s belongs to %s and to %s", key, owner, c.member)
		}
		w.owners[key] = c.member
	}
}

// initialise gets a producer id, which ends what an older process has open.
func (c *copier) initialise() {
	w := c.world
	c.ready = false
	c.positions = map[int32]int64{} // what became of the last transaction is not known
	w.producerIDs++
	req := txn.InitRequest{TransactionalID: c.name, TimeoutMs: simTimeoutMs, ProducerID: -1, ProducerEpoch: -1, FreshProducerID: w.producerIDs}
	again := func() { c.then(100, c.initialise) }
	c.ask(&c.requests, func(answer func(func())) {
		w.onTransactions(func(m *txn.Machine, t *coord.Turn) {
			m.InitProducerID(t, req, func(r txn.InitResult) {
				answer(func() {
					if r.Code != 0 {
						again()
						return
					}
					c.producer.producerID, c.producer.epoch, c.sequences, c.ready = r.ProducerID, r.ProducerEpoch, [simOutputs]int32{}, true
					c.work()
				})
			})
		}, func(int16) { answer(again) })
	}, again)
}

// work is the producer's next step: learn a position, or copy.
func (c *copier) work() {
	c.copies = noPartition
	if len(c.owned) == 0 || c.generation == 0 {
		c.then(100, c.work)
		return
	}
	p := c.owned[c.world.random.IntN(len(c.owned))]
	if _, known := c.positions[p]; !known {
		c.fetch(p)
		return
	}
	c.copies = p
	(&copying{c: c, partition: p, from: c.positions[p], left: 1 + c.world.random.IntN(3), member: c.member, generation: c.generation}).write()
}

// fetch asks where to go on; while a transaction may change that there is no answer.
func (c *copier) fetch(p int32) {
	w := c.world
	key := fmt.Sprintf("%s/%d", c.group, p)
	req := kmsg.NewOffsetFetchRequestGroup()
	req.Group = c.group
	req.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "in", TopicID: simTopicID, Partitions: []int32{p}}}
	again := func() { c.then(50, c.work) }
	generation := c.generation
	c.ask(&c.requests, func(answer func(func())) {
		w.onGroups(func(m *group.Machine, t *coord.Turn) {
			floor := w.told[key]
			m.OffsetFetch(t, &req, true, func(r *kmsg.OffsetFetchResponseGroup) {
				if r.ErrorCode != 0 || r.Topics[0].Partitions[0].ErrorCode != 0 {
					answer(again)
					return
				}
				position := max(r.Topics[0].Partitions[0].Offset, 0)
				if position < floor || position > w.attempted[key] {
					w.fail("%s: %d is told, at least %d was told or acknowledged before and at most %d was ever sent", key, position, floor, w.attempted[key])
				}
				w.told[key] = max(w.told[key], position)
				answer(func() {
					if slices.Contains(c.owned, p) && c.generation == generation {
						c.positions[p] = position
					}
					c.work()
				})
			})
		}, func(int16) { answer(again) })
	}, again)
}

// copying is one transaction.
type copying struct {
	c          *copier
	partition  int32
	from       int64
	written    int64
	left       int
	member     string
	generation int32
	tries      int
}

func (x *copying) key() string { return fmt.Sprintf("%s/%d", x.c.group, x.partition) }

// try sends a request up to a few times, then gives the producer up.
func (x *copying) try(handle func(done func(code int16)), succeeded func()) {
	c := x.c
	x.tries = 0
	var send func()
	again := func() {
		if x.tries++; x.tries > 5 {
			c.initialise()
			return
		}
		send()
	}
	send = func() {
		c.ask(&c.requests, func(answer func(func())) {
			handle(func(code int16) {
				answer(func() {
					switch code {
					case 0:
						succeeded()
					case kerr.ConcurrentTransactions.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
						c.then(30, again)
					default:
						c.world.stats["refused"]++
						c.initialise()
					}
				})
			})
		}, again)
	}
	send()
}

// write copies the next record; clients of version 0 add the partition before.
func (x *copying) write() {
	c := x.c
	w := c.world
	if x.left == 0 {
		x.commit()
		return
	}
	output := x.partition % simOutputs
	producer := c.producer
	record := coordtest.Record{ProducerID: producer.producerID, Epoch: producer.epoch, Sequence: c.sequences[output], Value: fmt.Sprintf("%s@%d", x.key(), x.from+x.written)}
	x.adding(TopicPartition{Topic: "out", Partition: output}, func() {
		x.try(func(done func(int16)) { w.produce(&producer, output, record, done) }, func() {
			c.sequences[output]++
			x.written++
			x.left--
			x.write()
		})
	})
}

func (x *copying) adding(p TopicPartition, then func()) {
	c := x.c
	if c.version >= txn.Version2 {
		then()
		return
	}
	add := txn.AddRequest{TransactionalID: c.name, ProducerID: c.producer.producerID, ProducerEpoch: c.producer.epoch, Partitions: []TopicPartition{p}}
	x.try(func(done func(int16)) {
		c.world.onTransactions(func(m *txn.Machine, t *coord.Turn) { m.AddPartitions(t, add, done) }, done)
	}, then)
}

// commit sends the offset to the transaction.
func (x *copying) commit() {
	c := x.c
	w := c.world
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = 5, c.name, c.group, c.producer.producerID, c.producer.epoch
	req.MemberID, req.Generation = x.member, x.generation
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = x.partition, x.from+x.written
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "in", TopicID: simTopicID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	w.attempted[x.key()] = max(w.attempted[x.key()], p.Offset)
	producer := c.producer
	x.adding(TopicPartition{Topic: meta.ConsumerOffsetsTopic, Partition: simOffsetsShard}, func() {
		x.try(func(done func(int16)) { w.commitOffset(&producer, req, done) }, x.end)
	})
}

// end commits or aborts.
func (x *copying) end() {
	c := x.c
	w := c.world
	w.producerIDs++
	req := txn.EndRequest{TransactionalID: c.name, ProducerID: c.producer.producerID, ProducerEpoch: c.producer.epoch, Commit: !w.chance(15), ClientVersion: c.version, FreshProducerID: w.producerIDs}
	var result txn.EndResult
	x.try(func(done func(int16)) {
		w.onTransactions(func(m *txn.Machine, t *coord.Turn) {
			m.EndTransaction(t, req, func(r txn.EndResult) {
				if r.Code == 0 {
					result = r
				}
				done(r.Code)
			})
		}, done)
	}, func() {
		if req.Commit {
			w.stats["committed"]++
			w.told[x.key()] = max(w.told[x.key()], x.from+x.written)
			if _, owns := c.positions[x.partition]; owns {
				c.positions[x.partition] = x.from + x.written
			}
		} else {
			w.stats["aborted"]++
		}
		if c.version >= txn.Version2 {
			c.producer.producerID, c.producer.epoch, c.sequences = result.ProducerID, result.ProducerEpoch, [simOutputs]int32{}
		}
		c.work()
	})
}

func cutValue(value string) (key, number string, ok bool) { return strings.Cut(value, "@") }
