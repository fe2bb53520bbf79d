//go:build e2e

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnPair is a pair of brokers with the producer ids that they gave.
type txnPair struct {
	*groupPair
	unique    string
	producers [2][]int64 // by order of their first appearance
	foreign   stamp      // of another id, which the partition and the group's know
}

// producerID is what a request names: the id that a side gave as its nth, or n itself.
func (x *txnPair) producerID(side int, n int64) int64 {
	if n >= 0 && n < int64(len(x.producers[side])) {
		return x.producers[side][n]
	}
	return n
}

// nth is the reverse, for an answer.
func (x *txnPair) nth(side int, id int64) int64 {
	if id < 0 || id >= unknownProducer {
		return id
	}
	at := slices.Index(x.producers[side], id)
	if at < 0 {
		x.producers[side] = append(x.producers[side], id)
		at = len(x.producers[side]) - 1
	}
	return int64(at)
}

const unknownProducer = 99_000_000

// comeAgain are the errors after which a client asks again: the coordinator loads, or
// writes the markers of an end.
var comeAgain = []string{`"ErrorCode":14,`, `"ErrorCode":15,`, `"ErrorCode":16,`, `"ErrorCode":51,`}

// ask compares both answers, in the place of groupPair's.
func (x *txnPair) ask(t *testing.T, what string, build func(side int) kmsg.Request) [2]kmsg.Response {
	t.Helper()
	var answers [2]kmsg.Response
	var compared [2]string
	for side := range sides {
		for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) { // a poll of another process
			request := build(side)
			answers[side] = exchange(t, x.conns[side], request)
			again := request.ResponseKind()
			must(t, again.ReadFrom(answers[side].AppendTo(nil)))
			compared[side] = x.text(t, side, again)
			if !slices.ContainsFunc(comeAgain, func(code string) bool { return strings.Contains(compared[side], code) }) || time.Now().After(deadline) {
				break
			}
		}
	}
	mustAgree(t, what, compared)
	return answers
}

// text is an answer as it is compared.
func (x *txnPair) text(t *testing.T, side int, response kmsg.Response) string {
	t.Helper()
	if joined, ok := response.(*kmsg.JoinGroupResponse); ok && joined.MemberID != "" {
		x.name(side, joined.MemberID)
	}
	text, err := json.Marshal(x.evenTxn(side, response))
	must(t, err)
	return x.named(side, string(text))
}

func (x *txnPair) evenTxn(side int, response kmsg.Response) kmsg.Response {
	switch r := response.(type) {
	case *kmsg.InitProducerIDResponse:
		r.ProducerID = x.nth(side, r.ProducerID)
	case *kmsg.EndTxnResponse:
		r.ProducerID = x.nth(side, r.ProducerID)
	case *kmsg.WriteTxnMarkersResponse:
		for i := range r.Markers {
			r.Markers[i].ProducerID = x.nth(side, r.Markers[i].ProducerID)
			slices.SortFunc(r.Markers[i].Topics, func(a, b kmsg.WriteTxnMarkersResponseMarkerTopic) int { return strings.Compare(a.Topic, b.Topic) })
		}
	case *kmsg.DescribeTransactionsResponse:
		for i := range r.TransactionStates {
			state := &r.TransactionStates[i]
			state.ProducerID = x.nth(side, state.ProducerID)
			state.StartTimestamp = min(state.StartTimestamp, 1)
			for j := range state.Topics {
				slices.Sort(state.Topics[j].Partitions)
			}
			slices.SortFunc(state.Topics, func(a, b kmsg.DescribeTransactionsResponseTransactionStateTopic) int {
				return strings.Compare(a.Topic, b.Topic)
			})
		}
	case *kmsg.ListTransactionsResponse:
		r.TransactionStates = append([]kmsg.ListTransactionsResponseTransactionState{}, slices.DeleteFunc(r.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool {
			return !strings.HasSuffix(s.TransactionalID, x.unique)
		})...)
		slices.SortFunc(r.TransactionStates, func(a, b kmsg.ListTransactionsResponseTransactionState) int {
			return strings.Compare(a.TransactionalID, b.TransactionalID)
		})
		for i := range r.TransactionStates {
			r.TransactionStates[i].ProducerID = x.nth(side, r.TransactionStates[i].ProducerID)
		}
		slices.Sort(r.UnknownStateFilters)
	case *kmsg.DescribeProducersResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				p := &r.Topics[i].Partitions[j]
				p.ErrorMessage = nil
				for k := range p.ActiveProducers {
					p.ActiveProducers[k].ProducerID = x.nth(side, p.ActiveProducers[k].ProducerID)
					p.ActiveProducers[k].LastTimestamp = min(p.ActiveProducers[k].LastTimestamp, 1)
				}
				slices.SortFunc(p.ActiveProducers, func(a, b kmsg.DescribeProducersResponseTopicPartitionActiveProducer) int {
					return int(a.ProducerID - b.ProducerID)
				})
			}
		}
	case *kmsg.ProduceResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				if p := &r.Topics[i].Partitions[j]; p.ErrorCode != 0 {
					p.ErrorMessage = nil
				}
			}
		}
		return evenProduce(r)
	case *kmsg.AddPartitionsToTxnResponse:
		byName := func(a, b kmsg.AddPartitionsToTxnResponseTopic) int { return strings.Compare(a.Topic, b.Topic) }
		slices.SortFunc(r.Topics, byName)
		for i := range r.Topics {
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.AddPartitionsToTxnResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		}
		slices.SortFunc(r.Transactions, func(a, b kmsg.AddPartitionsToTxnResponseTransaction) int {
			return strings.Compare(a.TransactionalID, b.TransactionalID)
		})
		for i := range r.Transactions {
			slices.SortFunc(r.Transactions[i].Topics, func(a, b kmsg.AddPartitionsToTxnResponseTransactionTopic) int {
				return strings.Compare(a.Topic, b.Topic)
			})
			for j := range r.Transactions[i].Topics {
				slices.SortFunc(r.Transactions[i].Topics[j].Partitions, func(a, b kmsg.AddPartitionsToTxnResponseTransactionTopicPartition) int {
					return int(a.Partition - b.Partition)
				})
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for i := range r.Topics {
			if r.Topics[i].TopicID == x.ids[side] {
				r.Topics[i].TopicID = [16]byte{1}
			}
			slices.SortFunc(r.Topics[i].Partitions, func(a, b kmsg.TxnOffsetCommitResponseTopicPartition) int { return int(a.Partition - b.Partition) })
		}
	default:
		return x.even(side, response)
	}
	return response
}

// stamp says who asks: a transactional id, a producer by its order, an epoch.
type stamp struct {
	id       string
	producer int64
	epoch    int16
}

func (x *txnPair) init(t *testing.T, what string, version int16, s stamp, timeoutMs int32) {
	t.Helper()
	x.ask(t, fmt.Sprintf("InitProducerId v%d %s", version, what), func(side int) kmsg.Request {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.Version, r.TransactionalID, r.TransactionTimeoutMillis, r.ProducerID, r.ProducerEpoch = version, &s.id, timeoutMs, x.producerID(side, s.producer), s.epoch
		return r
	})
}

func (x *txnPair) addPartitions(t *testing.T, what string, version int16, verify bool, s stamp, topics map[string][]int32) {
	t.Helper()
	x.ask(t, fmt.Sprintf("AddPartitionsToTxn v%d %s", version, what), func(side int) kmsg.Request {
		r := kmsg.NewPtrAddPartitionsToTxnRequest()
		r.Version = version
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = s.id, x.producerID(side, s.producer), s.epoch
		one := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: s.id, ProducerID: r.ProducerID, ProducerEpoch: s.epoch, VerifyOnly: verify}
		for topic, partitions := range topics {
			r.Topics = append(r.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: topic, Partitions: partitions})
			one.Topics = append(one.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic, Partitions: partitions})
		}
		r.Transactions = append(r.Transactions, one)
		return r
	})
}

func (x *txnPair) addOffsets(t *testing.T, what string, version int16, s stamp, group string) {
	t.Helper()
	x.ask(t, fmt.Sprintf("AddOffsetsToTxn v%d %s", version, what), func(side int) kmsg.Request {
		return &kmsg.AddOffsetsToTxnRequest{Version: version, TransactionalID: s.id, ProducerID: x.producerID(side, s.producer), ProducerEpoch: s.epoch, Group: group}
	})
}

// offsets commits offset 3 of partitions 0 and 9; change may alter the request.
func (x *txnPair) offsets(t *testing.T, what string, version int16, s stamp, change func(r *kmsg.TxnOffsetCommitRequest)) {
	t.Helper()
	x.ask(t, fmt.Sprintf("TxnOffsetCommit v%d %s", version, what), func(side int) kmsg.Request {
		r := &kmsg.TxnOffsetCommitRequest{Version: version, TransactionalID: s.id, Group: x.group, ProducerID: x.producerID(side, s.producer), ProducerEpoch: s.epoch, Generation: -1}
		topic := kmsg.TxnOffsetCommitRequestTopic{Topic: x.topic, TopicID: x.ids[side]}
		for _, partition := range []int32{0, 9} {
			topic.Partitions = append(topic.Partitions, kmsg.TxnOffsetCommitRequestTopicPartition{Partition: partition, Offset: 3, LeaderEpoch: -1, Metadata: ptr("m")})
		}
		r.Topics = append(r.Topics, topic)
		if change != nil {
			change(r)
		}
		return r
	})
}

func (x *txnPair) end(t *testing.T, what string, version int16, s stamp, commit bool) {
	t.Helper()
	x.ask(t, fmt.Sprintf("EndTxn v%d %s", version, what), func(side int) kmsg.Request {
		return &kmsg.EndTxnRequest{Version: version, TransactionalID: s.id, ProducerID: x.producerID(side, s.producer), ProducerEpoch: s.epoch, Commit: commit}
	})
}

func (x *txnPair) write(t *testing.T, what string, version int16, s stamp, sequence int32) {
	t.Helper()
	x.ask(t, fmt.Sprintf("Produce v%d %s", version, what), func(side int) kmsg.Request {
		r := x.produce(side, version, -1, 0, transactionalBatch(x.producerID(side, s.producer), s.epoch, sequence)).(*kmsg.ProduceRequest)
		r.TransactionID = &s.id
		return r
	})
}

func transactionalBatch(producer int64, epoch int16, sequence int32) []byte {
	return rawBatch(time.Now().UnixMilli(), func(b []byte) {
		b[22] |= 0x10
		binary.BigEndian.PutUint64(b[43:], uint64(producer))
		binary.BigEndian.PutUint16(b[51:], uint16(epoch))
		binary.BigEndian.PutUint32(b[53:], uint32(sequence))
	}, "x")
}

// settle waits until no broker is writing markers any more: neither waits for them
// with its answer to an end.
func (x *txnPair) settle(t *testing.T, id string) {
	t.Helper()
	for side := range sides {
		eventually(t, 20*time.Second, func() error {
			answer := exchange(t, x.conns[side], &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{id}}).(*kmsg.DescribeTransactionsResponse)
			if state := answer.TransactionStates[0].State; strings.HasPrefix(state, "Prepare") {
				return fmt.Errorf("%s is in %s", id, state)
			}
			return nil
		})
	}
}

// look compares all that can be asked about a transaction and its partition.
func (x *txnPair) look(t *testing.T, what, id string) {
	t.Helper()
	x.ask(t, what+": DescribeTransactions", func(int) kmsg.Request {
		return &kmsg.DescribeTransactionsRequest{TransactionalIDs: []string{id, "never" + x.unique, ""}}
	})
	x.ask(t, what+": DescribeProducers", func(int) kmsg.Request {
		return &kmsg.DescribeProducersRequest{Topics: []kmsg.DescribeProducersRequestTopic{{Topic: x.topic, Partitions: []int32{0, 1, 9}}, {Topic: "nowhere", Partitions: []int32{0}}}}
	})
	for version := int16(0); version <= 2; version++ {
		for _, filter := range []kmsg.ListTransactionsRequest{
			{}, {StateFilters: []string{"Ongoing", "NoState", "ongoing"}}, {StateFilters: []string{"CompleteCommit", "CompleteAbort", "Empty"}},
			{ProducerIDFilters: []int64{0}}, {DurationFilterMillis: 0}, {DurationFilterMillis: 3_600_000}, {DurationFilterMillis: -1},
			{TransactionalIDPattern: ptr(".*old.*")}, {TransactionalIDPattern: ptr("old")}, {TransactionalIDPattern: ptr("")}, {TransactionalIDPattern: ptr("a(")},
		} {
			x.ask(t, fmt.Sprintf("%s: ListTransactions v%d %+v", what, version, filter), func(side int) kmsg.Request {
				r := filter
				r.Version = version
				r.ProducerIDFilters = slices.Clone(filter.ProducerIDFilters)
				for i := range r.ProducerIDFilters {
					r.ProducerIDFilters[i] = x.producerID(side, r.ProducerIDFilters[i])
				}
				return &r
			})
		}
	}
	for _, stable := range []bool{false, true} {
		x.ask(t, fmt.Sprintf("%s: OffsetFetch, require stable %v", what, stable), func(side int) kmsg.Request {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Version, r.RequireStable = 9, stable
			one := kmsg.NewOffsetFetchRequestGroup()
			one.Group, one.Topics = x.group, []kmsg.OffsetFetchRequestGroupTopic{{Topic: x.topic, Partitions: []int32{0, 1}}}
			r.Groups = []kmsg.OffsetFetchRequestGroup{one}
			return r
		})
	}
}

// transactionAnswers walks through transactions of both kinds, those whose client adds
// partitions and those of KIP-890, in good and bad ways, by every version.
func transactionAnswers(t *testing.T, brokers [2]*broker) {
	unique := fmt.Sprint("-", time.Now().UnixNano())
	x := &txnPair{groupPair: &groupPair{pair: newPair(t, brokers, "txn"+unique, 2), group: "txn-group" + unique}, unique: unique}
	x.awaitCoordinators(t)
	x.awaitTransactions(t)
	x.foreign = walkForeign(t, x)
	walkInit(t, x)
	for version := int16(0); version <= 4; version++ {
		walkOldTransaction(t, x, version)
	}
	walkNewTransaction(t, x)
	walkFirstSequences(t, x)
	walkMarkers(t, x)
	x.ask(t, "DescribeTransactions of none", func(int) kmsg.Request { return &kmsg.DescribeTransactionsRequest{} })
	x.ask(t, "DescribeProducers of none", func(int) kmsg.Request { return &kmsg.DescribeProducersRequest{} })
}

// awaitTransactions waits until both brokers have made the topic of the transactions,
// which they do when somebody looks for a coordinator, and have loaded it.
func (x *txnPair) awaitTransactions(t *testing.T) {
	t.Helper()
	for side := range sides {
		eventually(t, 60*time.Second, func() error {
			find := kmsg.NewPtrFindCoordinatorRequest()
			find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, []string{"first use"}
			if code := exchange(t, x.conns[side], find).(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode; code != 0 {
				return fmt.Errorf("FindCoordinator: error %d", code)
			}
			r := kmsg.NewPtrInitProducerIDRequest()
			r.Version, r.TransactionalID, r.TransactionTimeoutMillis = 2, ptr("first use"), 1000
			if code := exchange(t, x.conns[side], r).(*kmsg.InitProducerIDResponse).ErrorCode; code != 0 {
				return fmt.Errorf("InitProducerId: error %d", code)
			}
			return nil
		})
	}
}

// walkForeign makes a transaction of one id whose stamps others use later.
func walkForeign(t *testing.T, x *txnPair) stamp {
	id := "foreign" + x.unique
	x.init(t, "foreign", 4, stamp{id, -1, -1}, 60_000)
	x.init(t, "foreign again", 4, stamp{id, -1, -1}, 60_000)
	s := stamp{id, int64(len(x.producers[0]) - 1), 1}
	x.addPartitions(t, "foreign", 3, false, s, map[string][]int32{x.topic: {0}})
	x.write(t, "foreign", 11, s, 0)
	x.addOffsets(t, "foreign", 3, s, x.group)
	x.offsets(t, "foreign", 3, s, nil)
	x.end(t, "foreign", 4, s, true)
	x.settle(t, id)
	return s
}

func walkInit(t *testing.T, x *txnPair) {
	for version := int16(0); version <= 5; version++ {
		id := fmt.Sprint("init-", version, x.unique)
		fresh := stamp{id, -1, -1}
		x.init(t, "no id", version, stamp{"", -1, -1}, 1000)
		for _, timeout := range []int32{0, -1, 900_001, 1 << 30} {
			x.init(t, fmt.Sprint("a timeout of ", timeout), version, fresh, timeout)
		}
		x.init(t, "a producer of whom nobody knows", version, stamp{id + "x", unknownProducer, 3}, 1000)
		x.init(t, "a producer without an epoch", version, stamp{id, unknownProducer, -1}, 1000)
		x.init(t, "an epoch without a producer", version, stamp{id, -1, 3}, 1000)
		x.init(t, "first", version, fresh, 10_000)
		x.init(t, "again", version, fresh, 10_000)
		last := int64(len(x.producers[0]) - 1)
		for _, epoch := range []int16{1, 1, 0, 7, 2, -1} {
			x.init(t, fmt.Sprint("with epoch ", epoch), version, stamp{id, last, epoch}, 10_000)
		}
		for what, w := range x.wrong(stamp{id, last, 1}) {
			x.init(t, what, version, w, 10_000)
		}
		x.ask(t, "without transactions", func(int) kmsg.Request {
			r := kmsg.NewPtrInitProducerIDRequest()
			r.Version, r.TransactionTimeoutMillis = version, 0
			return r
		})
	}
}

// wrong are stamps that no coordinator may take for s.
func (x *txnPair) wrong(s stamp) map[string]stamp {
	return map[string]stamp{
		"an unknown transaction": {"unknown" + x.unique, s.producer, s.epoch}, "no transactional id": {"", s.producer, s.epoch},
		"another producer": {s.id, unknownProducer, s.epoch}, "an old epoch": {s.id, s.producer, s.epoch - 1}, "an epoch to come": {s.id, s.producer, s.epoch + 1},
		"no producer":                                    {s.id, -1, -1},
		"the producer of another id":                     {s.id, x.foreign.producer, x.foreign.epoch},
		"the producer of another id in an old epoch":     {s.id, x.foreign.producer, x.foreign.epoch - 1},
		"the producer of another id in an epoch to come": {s.id, x.foreign.producer, x.foreign.epoch + 1},
	}
}

func walkOldTransaction(t *testing.T, x *txnPair, version int16) {
	id := fmt.Sprint("old-", version, x.unique)
	x.init(t, "before", min(version, 4), stamp{id, -1, -1}, 60_000)
	s := stamp{id, int64(len(x.producers[0]) - 1), 0}
	x.init(t, "a second time", min(version, 4), stamp{id, -1, -1}, 60_000)
	s.epoch = 1
	add := min(version, 3)
	here := map[string][]int32{x.topic: {0}}
	x.end(t, "before anything", version, s, true)
	x.end(t, "an abort before anything", version, s, false)
	x.look(t, "begun", id)
	for what, w := range x.wrong(s) {
		x.write(t, what, 11, w, 0)
		x.addPartitions(t, what, add, false, w, here)
		x.addOffsets(t, what, version, w, x.group)
		x.end(t, what, version, w, true)
	}
	x.addPartitions(t, "a missing topic", add, false, s, map[string][]int32{x.topic: {0}, "nowhere": {0}})
	x.addPartitions(t, "a missing partition", add, false, s, map[string][]int32{x.topic: {0, 9}})
	x.addPartitions(t, "nothing", add, false, s, nil)
	x.write(t, "before it is added", 11, s, 0)
	x.addPartitions(t, "good", add, false, s, here)
	x.addPartitions(t, "good again", add, false, s, here)
	x.write(t, "added", 11, s, 0)
	for what, w := range x.wrong(s) {
		x.offsets(t, what, version, w, nil)
	}
	x.offsets(t, "before the group is added", version, s, nil)
	x.addOffsets(t, "no group", version, s, "")
	x.addOffsets(t, "good", version, s, x.group)
	walkOffsetsInTransaction(t, x, version, s)
	x.look(t, "written", id)
	x.end(t, "good", version, s, version%2 == 0)
	x.settle(t, id)
	x.look(t, "ended", id)
	x.end(t, "the same again", version, s, version%2 == 0)
	x.end(t, "the other again", version, s, version%2 != 0)
	x.write(t, "behind the end", 11, s, 1)
	x.write(t, "a repetition behind the end", 11, s, 0)
	x.write(t, "a gap behind the end", 11, s, 7)
	x.init(t, "fences", min(version, 4), stamp{id, -1, -1}, 60_000)
	x.write(t, "fenced", 11, s, 1)
	x.end(t, "fenced", version, s, true)
}

func walkOffsetsInTransaction(t *testing.T, x *txnPair, version int16, s stamp) {
	x.offsets(t, "good", version, s, nil)
	x.offsets(t, "metadata of 5,000 bytes", version, s, func(r *kmsg.TxnOffsetCommitRequest) {
		r.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("m", 5000))
	})
	x.offsets(t, "null metadata", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = nil })
	x.offsets(t, "a missing topic", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = "nowhere", [16]byte{9} })
	x.offsets(t, "an offset of -1", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -1 })
	x.offsets(t, "no topics", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.Topics = nil })
	x.offsets(t, "no group", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.Group = "" })
	x.offsets(t, "no group and a missing topic", version, s, func(r *kmsg.TxnOffsetCommitRequest) {
		r.Group, r.Topics[0].Topic, r.Topics[0].TopicID = "", "nowhere", [16]byte{9}
	})
	x.offsets(t, "a generation of a group that is not", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.Generation, r.MemberID = 3, "m" })
	x.offsets(t, "a member", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.MemberID = "m" })
	x.offsets(t, "an instance", version, s, func(r *kmsg.TxnOffsetCommitRequest) { r.InstanceID = ptr("i") })
}

// walkFirstSequences: where the partition knows nothing of a producer, that begins with 0
// if the version of the first one who asked adds partitions itself, and anywhere else.
func walkFirstSequences(t *testing.T, x *txnPair) {
	for _, c := range []struct {
		what  string
		first int16 // Produce of a partition that is not in the transaction yet
		then  int16
	}{{"by an old version", -1, 11}, {"by a new version", -1, 12}, {"by the newest version", -1, 13}, {"by a new version after an old one", 11, 12}, {"by an old version after a new one", 12, 11}} {
		id := fmt.Sprint("sequences-", c.what, x.unique)
		x.init(t, c.what, 5, stamp{id, -1, -1}, 60_000)
		s := stamp{id, int64(len(x.producers[0]) - 1), 0}
		if c.first >= 0 {
			x.write(t, "refused: "+c.what, c.first, s, 7)
		}
		if c.then < 12 {
			x.addPartitions(t, c.what, 3, false, s, map[string][]int32{x.topic: {0}})
		}
		x.write(t, "not from the beginning "+c.what, c.then, s, 5)
		x.write(t, "the next "+c.what, c.then, s, 6)
		x.write(t, "the beginning "+c.what, c.then, s, 0)
		x.write(t, "the second "+c.what, c.then, s, 1)
		x.end(t, c.what, 4, s, true)
		x.settle(t, id)
	}
}

// walkNewTransaction: each end raises the epoch, and a record or an offset adds itself.
func walkNewTransaction(t *testing.T, x *txnPair) {
	id := fmt.Sprint("new", x.unique)
	x.init(t, "before", 5, stamp{id, -1, -1}, 60_000)
	s := stamp{id, int64(len(x.producers[0]) - 1), 0}
	x.init(t, "a second time", 5, stamp{id, -1, -1}, 60_000)
	s.epoch = 1
	x.end(t, "an abort before anything", 5, s, false)
	s.epoch = 2
	x.end(t, "a commit before anything", 5, s, true)
	x.look(t, "begun", id)
	for what, w := range x.wrong(s) {
		x.write(t, what, 12, w, 0)
		x.offsets(t, what, 5, w, nil)
		x.end(t, what, 5, w, true)
		for _, version := range []int16{4, 5} {
			x.addPartitions(t, what, version, true, w, map[string][]int32{x.topic: {0}})
			x.addPartitions(t, what, version, false, w, map[string][]int32{x.topic: {0}})
		}
	}
	x.addPartitions(t, "verified too early", 5, true, s, map[string][]int32{x.topic: {0}})
	x.write(t, "not from the beginning", 12, s, 5)
	x.write(t, "good", 12, s, 0)
	x.addPartitions(t, "verified", 5, true, s, map[string][]int32{x.topic: {0, 1}})
	x.write(t, "a gap", 12, s, 5)
	x.write(t, "by an old version", 11, s, 1)
	for version := int16(5); version <= 6; version++ {
		walkOffsetsInTransaction(t, x, version, s)
	}
	x.look(t, "written", id)
	x.end(t, "good", 5, s, true)
	x.settle(t, id)
	x.end(t, "the same again", 5, s, true)
	x.end(t, "the other again", 5, s, false)
	x.look(t, "ended", id)
	old := s
	s.epoch++
	x.write(t, "in the epoch before", 12, old, 1)
	x.write(t, "in the next", 12, s, 0)
	x.end(t, "an abort", 5, s, false)
	x.settle(t, id)
	x.end(t, "an abort again", 5, s, false)
	x.end(t, "a commit behind it", 5, s, true)
	x.look(t, "aborted", id)
}

func walkMarkers(t *testing.T, x *txnPair) {
	id := fmt.Sprint("marked", x.unique)
	x.init(t, "before", 4, stamp{id, -1, -1}, 60_000)
	x.init(t, "a second time", 4, stamp{id, -1, -1}, 60_000)
	s := stamp{id, int64(len(x.producers[0]) - 1), 1}
	x.addPartitions(t, "good", 3, false, s, map[string][]int32{x.topic: {0}})
	x.write(t, "good", 11, s, 0)
	mark := func(what string, version int16, producer int64, epoch int16, coordinatorEpoch int32, topics map[string][]int32) {
		t.Helper()
		x.ask(t, fmt.Sprintf("WriteTxnMarkers v%d %s", version, what), func(side int) kmsg.Request {
			m := kmsg.WriteTxnMarkersRequestMarker{ProducerID: x.producerID(side, producer), ProducerEpoch: epoch, CoordinatorEpoch: coordinatorEpoch}
			for topic, partitions := range topics {
				m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: topic, Partitions: partitions})
			}
			return &kmsg.WriteTxnMarkersRequest{Version: version, Markers: []kmsg.WriteTxnMarkersRequestMarker{m}}
		})
	}
	for version := int16(1); version <= 2; version++ {
		x.ask(t, "no marker", func(int) kmsg.Request { return &kmsg.WriteTxnMarkersRequest{Version: version} })
		mark("a missing topic", version, s.producer, 0, 0, map[string][]int32{"nowhere": {0}, x.topic: {9}})
		mark("an unknown producer", version, unknownProducer, 0, 0, map[string][]int32{x.topic: {1}})
		mark("an old epoch", version, s.producer, 0, 0, map[string][]int32{x.topic: {0}})
		mark("good", version, s.producer, 1, 0, map[string][]int32{x.topic: {0}})
		mark("good again", version, s.producer, 1, 0, map[string][]int32{x.topic: {0}})
		mark("an old coordinator", version, s.producer, 1, -1, map[string][]int32{x.topic: {0}})
		mark("a new epoch", version, s.producer, 2, 0, map[string][]int32{x.topic: {0}})
		x.look(t, "marked", id)
	}
	mark("a new epoch where the transaction is not", 2, s.producer, 2, 0, map[string][]int32{x.topic: {1}})
	x.ask(t, "Produce v12 to where only the partition knows of a newer epoch", func(side int) kmsg.Request {
		r := x.produce(side, 12, -1, 1, transactionalBatch(x.producerID(side, s.producer), s.epoch, 0)).(*kmsg.ProduceRequest)
		r.TransactionID = &id
		return r
	})
	x.look(t, "refused by the partition", id)
}
