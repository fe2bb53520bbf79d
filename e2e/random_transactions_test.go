//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRandomTransactionsAsKafka walks at random through transactions of both kinds, those
// whose client adds partitions and those of KIP-890: four producers share two
// transactional ids, so that some of them are zombies.
func TestRandomTransactionsAsKafka(t *testing.T) {
	t.Parallel()
	needJava(t)
	if os.Getenv("KAAS_E2E_LONG") == "" {
		t.Skip("some minutes: a part of make nightly")
	}
	brokers := [2]*broker{startBroker(t, walkSettings...), startReference(t, walkSettings...)}
	x := &txnPair{groupPair: &groupPair{pair: newPair(t, brokers, "first", 1), group: "first"}}
	x.awaitCoordinators(t)
	x.awaitTransactions(t)
	unique := fmt.Sprint(time.Now().UnixNano())
	n := 0
	walkAll(t, brokers, func() []*pair { // offsets are compared, so no walk may follow another
		n++
		return []*pair{newPair(t, brokers, fmt.Sprint("txn-walk-", unique, "-", n), 4)}
	}, "transactions", 100, transactionOperations)
}

// producerState is what a client knows of its producer.
type producerState struct {
	stamp
	sequences [2]int32 // the next of each partition
}

var transactionOperations = []operation{
	{"InitProducerId", 10, initSomehow}, {"AddPartitionsToTxn", 12, addPartitionsSomehow}, {"AddOffsetsToTxn", 8, addOffsetsSomehow},
	{"TxnOffsetCommit", 10, commitInTransaction}, {"Produce", 18, produceSomehow}, {"EndTxn", 16, endSomehow},
	{"DescribeTransactions", 4, describeTransactionsSomehow}, {"ListTransactions", 4, listTransactionsSomehow},
	{"DescribeProducers", 4, describeProducersSomehow}, {"OffsetFetch", 4, fetchStable},
}

func (w *randomWalk) transactionalID(n int) string { return fmt.Sprint("t", n, w.unique) }

// someStamp is mostly the actor's own.
func (w *randomWalk) someStamp(a *actor) stamp {
	s := a.producer.stamp
	if s.id == "" {
		s = stamp{w.transactionalID(w.random.IntN(2)), -1, -1}
	}
	switch w.random.IntN(24) {
	case 0:
		s.epoch--
	case 1:
		s.epoch++
	case 2:
		s.producer = unknownProducer
	case 3:
		s.id = w.transactionalID(9)
	case 4:
		s = w.other().producer.stamp
	case 5:
		s.id = w.transactionalID(w.random.IntN(2))
	}
	return s
}

// askSettled asks until no coordinator writes markers, compares, and waits until none
// does any more: neither waits for them with its answer.
func (w *randomWalk) askSettled(a *actor, what string, build func(side int) kmsg.Request) error {
	waited := &waiting{what: what, conns: a.conns}
	w.trace = append(w.trace, a.symbol+" "+what)
	w.requests++
	var answers [2]kmsg.Response
	for side := range sides {
		for deadline := time.Now().Add(walkPatience); ; time.Sleep(5 * time.Millisecond) { // a poll of another process
			waited.requests[side] = build(side)
			if err := write(a.conns[side], waited.requests[side]); err != nil {
				return fmt.Errorf("%s: %s: %w", sides[side], what, err)
			}
			var err error
			if answers[side], err = await(a.conns[side], waited.requests[side], walkPatience); err != nil {
				return fmt.Errorf("%s: %s: %w", sides[side], what, err)
			}
			text := w.text(side, answers[side])
			if !slices.ContainsFunc(comeAgain, func(code string) bool { return strings.Contains(text, code) }) || time.Now().After(deadline) {
				break
			}
		}
	}
	if err := w.compare(a, waited, answers); err != nil {
		return err
	}
	return w.settled()
}

func (w *randomWalk) settled() error {
	q := &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{w.transactionalID(0), w.transactionalID(1)}}
	for side := range sides {
		for deadline := time.Now().Add(walkPatience); ; time.Sleep(2 * time.Millisecond) { // a poll of another process
			r, err := w.at(side, q)
			if err != nil {
				return fmt.Errorf("%s: %w", sides[side], err)
			}
			text := w.text(side, r)
			if !strings.Contains(text, `"Prepare`) {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s does not settle: %s", sides[side], text)
			}
		}
	}
	return nil
}

func initSomehow(w *randomWalk, a *actor) error {
	version, timeout := w.version(0, 5), pick(w.random, int32(walkTimeoutMs), walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, walkTimeoutMs, 0, 900_001)
	s := stamp{w.transactionalID(w.random.IntN(2)), -1, -1}
	if version >= 3 && w.rarely(3) {
		s = w.someStamp(a)
	}
	return w.askSettled(a, fmt.Sprintf("InitProducerId v%d %v timeout %d", version, s, timeout), func(side int) kmsg.Request {
		q := kmsg.NewPtrInitProducerIDRequest()
		q.Version, q.TransactionalID, q.TransactionTimeoutMillis = version, &s.id, timeout
		q.ProducerID, q.ProducerEpoch = w.producerID(side, s.producer), s.epoch
		return q
	})
}

// somePartitions of the topic, or of none.
func (w *randomWalk) somePartitions() (topic string, partitions []int32) {
	return pick(w.random, w.topic, w.topic, w.topic, w.topic, w.topic, w.topic, w.topic, "nowhere"),
		pick(w.random, []int32{0}, []int32{0}, []int32{1}, []int32{0, 1}, []int32{0, 1}, []int32{0, 9}, nil)
}

func addPartitionsSomehow(w *randomWalk, a *actor) error {
	version, s, verify := w.version(0, 5), w.someStamp(a), w.rarely(3)
	topic, partitions := w.somePartitions()
	return w.askSettled(a, fmt.Sprintf("AddPartitionsToTxn v%d %v %s %v verify %v", version, s, topic, partitions, verify), func(side int) kmsg.Request {
		q := kmsg.NewPtrAddPartitionsToTxnRequest()
		q.Version, q.TransactionalID, q.ProducerID, q.ProducerEpoch = version, s.id, w.producerID(side, s.producer), s.epoch
		q.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
		q.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
			TransactionalID: s.id, ProducerID: q.ProducerID, ProducerEpoch: s.epoch, VerifyOnly: verify,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: partitions}},
		}}
		return q
	})
}

func addOffsetsSomehow(w *randomWalk, a *actor) error {
	version, s, group := w.version(0, 4), w.someStamp(a), pick(w.random, w.group, w.group, w.group, w.group, "")
	return w.askSettled(a, fmt.Sprintf("AddOffsetsToTxn v%d %v group %q", version, s, group), func(side int) kmsg.Request {
		return &kmsg.AddOffsetsToTxnRequest{Version: version, TransactionalID: s.id, ProducerID: w.producerID(side, s.producer), ProducerEpoch: s.epoch, Group: group}
	})
}

func commitInTransaction(w *randomWalk, a *actor) error {
	version, s, offset := w.version(0, 6), w.someStamp(a), int64(w.random.IntN(100))
	topic, partitions := w.somePartitions()
	generation, member := int32(-1), ""
	if version >= 3 && w.rarely(8) {
		generation, member = pick(w.random, int32(3), -1), "m"
	}
	what := fmt.Sprintf("TxnOffsetCommit v%d %v %s %v offset %d generation %d member %q", version, s, topic, partitions, offset, generation, member)
	return w.askSettled(a, what, func(side int) kmsg.Request {
		q := &kmsg.TxnOffsetCommitRequest{Version: version, TransactionalID: s.id, Group: w.group, ProducerID: w.producerID(side, s.producer), ProducerEpoch: s.epoch, Generation: generation, MemberID: member}
		one := kmsg.TxnOffsetCommitRequestTopic{Topic: topic, TopicID: w.topicID(side, topic)}
		for _, p := range partitions {
			one.Partitions = append(one.Partitions, kmsg.TxnOffsetCommitRequestTopicPartition{Partition: p, Offset: offset, LeaderEpoch: -1, Metadata: ptr("m")})
		}
		q.Topics = append(q.Topics, one)
		return q
	})
}

// produceSomehow writes as a client does, which may be a zombie: this walk is about the
// coordinator.
func produceSomehow(w *randomWalk, a *actor) error {
	s := a.producer.stamp
	if s.id == "" {
		return nil
	}
	version, partition := pick(w.random, int16(9), 11, 11, 12, 12, 12, 13), int32(w.random.IntN(2))
	sequence := a.producer.sequences[partition]
	return w.askSettled(a, fmt.Sprintf("Produce v%d %v to %d from %d", version, s, partition, sequence), func(side int) kmsg.Request {
		q := w.produce(side, version, -1, partition, transactionalBatch(w.producerID(side, s.producer), s.epoch, sequence)).(*kmsg.ProduceRequest)
		q.TransactionID = &s.id
		return q
	})
}

func endSomehow(w *randomWalk, a *actor) error {
	version, s, commit := w.version(0, 5), w.someStamp(a), w.rarely(2)
	return w.askSettled(a, fmt.Sprintf("EndTxn v%d %v commit %v", version, s, commit), func(side int) kmsg.Request {
		return &kmsg.EndTxnRequest{Version: version, TransactionalID: s.id, ProducerID: w.producerID(side, s.producer), ProducerEpoch: s.epoch, Commit: commit}
	})
}

func describeTransactionsSomehow(w *randomWalk, a *actor) error {
	return w.askSettled(a, "DescribeTransactions", func(int) kmsg.Request {
		return &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{w.transactionalID(0), w.transactionalID(1), w.transactionalID(9), ""}}
	})
}

func listTransactionsSomehow(w *randomWalk, a *actor) error {
	version, producer := w.version(0, 2), int64(w.random.IntN(3))
	q := kmsg.ListTransactionsRequest{Version: version}
	q.StateFilters = pick(w.random, nil, nil, []string{"Ongoing"}, []string{"CompleteCommit", "CompleteAbort"}, []string{"Empty", "nonsense"})
	q.DurationFilterMillis = pick(w.random, int64(-1), -1, 0, 3_600_000)
	q.TransactionalIDPattern = pick(w.random, nil, nil, ptr("t0.*"), ptr("t0"), ptr("("))
	by := w.rarely(3)
	return w.askSettled(a, fmt.Sprintf("ListTransactions v%d %v by %v %d for %d pattern %s", version, q.StateFilters, by, producer, q.DurationFilterMillis, quoted(q.TransactionalIDPattern)), func(side int) kmsg.Request {
		q := q
		q.StateFilters = slices.Clone(q.StateFilters)
		if by {
			q.ProducerIDFilters = []int64{w.producerID(side, producer)}
		}
		return &q
	})
}

func describeProducersSomehow(w *randomWalk, a *actor) error {
	return w.askSettled(a, "DescribeProducers", func(int) kmsg.Request {
		return &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: w.topic, Partitions: []int32{0, 1, 9}}, {Topic: "nowhere", Partitions: []int32{0}}}}
	})
}

func fetchStable(w *randomWalk, a *actor) error {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version, q.RequireStable = w.version(8, 10), w.rarely(2)
	return w.askSettled(a, fmt.Sprintf("OffsetFetch v%d stable %v", q.Version, q.RequireStable), func(side int) kmsg.Request {
		q := *q
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group, one.Topics = w.group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: w.topic, TopicID: w.ids[side], Partitions: []int32{0, 1}}}
		q.Groups = []kmsg.OffsetFetchRequestGroup{one}
		return &q
	})
}

// learnTransaction is what a producer does with a good answer.
func (w *randomWalk) learnTransaction(a *actor, request kmsg.Request, answer kmsg.Response) {
	switch r := answer.(type) {
	case *kmsg.InitProducerIDResponse:
		if r.ErrorCode == 0 {
			a.producer = producerState{stamp: stamp{*request.(*kmsg.InitProducerIDRequest).TransactionalID, w.nth(0, r.ProducerID), r.ProducerEpoch}}
		}
	case *kmsg.EndTxnResponse:
		if s := &a.producer; r.ErrorCode == 0 && r.Version >= 5 && r.ProducerEpoch >= 0 && request.(*kmsg.EndTxnRequest).TransactionalID == s.id {
			*s = producerState{stamp: stamp{s.id, w.nth(0, r.ProducerID), r.ProducerEpoch}}
		}
	case *kmsg.ProduceResponse:
		if p := &r.Topics[0].Partitions[0]; p.ErrorCode == 0 {
			a.producer.sequences[p.Partition]++
		}
	}
}
