package broker

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec/batch"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
)

// newTxnBroker serves t (two partitions) and coordinates transactions and groups in
// three shards each.
func newTxnBroker(t testing.TB, changes ...func(*config.Broker)) *Broker {
	t.Helper()
	b := newDataBroker(t, testTopics{"t": 2, meta.ConsumerOffsetsTopic: 3, meta.TransactionStateTopic: 3}, changes...)
	awaitCoordinators(t, b)
	eventually(t, "all shards of transactions are loaded", func() bool {
		return call[*kmsg.ListTransactionsResponse](t, b, testSession(), kmsg.NewPtrListTransactionsRequest()).ErrorCode == 0
	})
	return b
}

// txnProducer is a producer that speaks the protocol by hand.
type txnProducer struct {
	t     testing.TB
	b     *Broker
	conn  *connection
	txn   string
	id    int64
	epoch int16
}

func newTxnProducer(t testing.TB, b *Broker, txn string) *txnProducer {
	t.Helper()
	p := &txnProducer{t: t, b: b, conn: testConnection(), txn: txn}
	p.init(4)
	return p
}

// init gets producer id and epoch; while the last transaction is being aborted it
// asks again.
func (p *txnProducer) init(version int16) {
	p.t.Helper()
	request := versioned(kmsg.NewPtrInitProducerIDRequest(), version)
	request.TransactionalID, request.TransactionTimeoutMillis = &p.txn, 60_000
	eventually(p.t, "a producer id", func() bool {
		r := call[*kmsg.InitProducerIDResponse](p.t, p.b, testSession(), request)
		p.id, p.epoch = r.ProducerID, r.ProducerEpoch
		if r.ErrorCode != 0 && r.ErrorCode != kerr.ConcurrentTransactions.Code {
			p.t.Fatalf("init v%d: %+v", version, r)
		}
		return r.ErrorCode == 0
	})
}

func (p *txnProducer) add(version int16, partitions ...int32) []int16 {
	p.t.Helper()
	request := versioned(kmsg.NewPtrAddPartitionsToTxnRequest(), version)
	request.TransactionalID, request.ProducerID, request.ProducerEpoch = p.txn, p.id, p.epoch
	request.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "t", Partitions: partitions}}
	request.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
		TransactionalID: p.txn, ProducerID: p.id, ProducerEpoch: p.epoch,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "t", Partitions: partitions}},
	}}
	r := call[*kmsg.AddPartitionsToTxnResponse](p.t, p.b, testSession(), request)
	var codes []int16
	if version < 4 {
		for _, answer := range r.Topics[0].Partitions {
			codes = append(codes, answer.ErrorCode)
		}
		return codes
	}
	for _, answer := range r.Transactions[0].Topics[0].Partitions {
		codes = append(codes, answer.ErrorCode)
	}
	return codes
}

func (p *txnProducer) request(version int16, partition int32, sequence int32, value string) *kmsg.ProduceRequest {
	p.t.Helper()
	records := buildBatch(batch.Builder{Transactional: true, HasProducer: true, ProducerID: p.id, ProducerEpoch: p.epoch, BaseSequence: sequence}, value)
	request := produceOne(p.t, p.b, version, -1, "t", partition, records)
	request.TransactionID = &p.txn
	return request
}

func (p *txnProducer) produce(version int16, partition int32, sequence int32, value string) kmsg.ProduceResponseTopicPartition {
	p.t.Helper()
	request := p.request(version, partition, sequence, value)
	return receive[*kmsg.ProduceResponse](p.t, request, send(p.t, p.b, p.conn, request)).Topics[0].Partitions[0]
}

// end ends the transaction and takes over what the answer says; the code.
func (p *txnProducer) end(version int16, commit bool) int16 {
	p.t.Helper()
	request := versioned(kmsg.NewPtrEndTxnRequest(), version)
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Commit = p.txn, p.id, p.epoch, commit
	r := call[*kmsg.EndTxnResponse](p.t, p.b, testSession(), request)
	if version >= 5 && r.ErrorCode == 0 {
		p.id, p.epoch = r.ProducerID, r.ProducerEpoch
	}
	return r.ErrorCode
}

// commitOffset commits in the transaction.
func (p *txnProducer) commitOffset(version int16, group string, offset int64) int16 {
	p.t.Helper()
	if version < 5 {
		add := versioned(kmsg.NewPtrAddOffsetsToTxnRequest(), version)
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.txn, p.id, p.epoch, group
		if r := call[*kmsg.AddOffsetsToTxnResponse](p.t, p.b, testSession(), add); r.ErrorCode != 0 {
			p.t.Fatalf("add offsets v%d: %d", version, r.ErrorCode)
		}
	}
	return call[*kmsg.TxnOffsetCommitResponse](p.t, p.b, testSession(), p.offsetRequest(version, group, offset)).Topics[0].Partitions[0].ErrorCode
}

func (p *txnProducer) addOffsets(group string) int16 {
	add := versioned(kmsg.NewPtrAddOffsetsToTxnRequest(), 4)
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.txn, p.id, p.epoch, group
	return call[*kmsg.AddOffsetsToTxnResponse](p.t, p.b, testSession(), add).ErrorCode
}

func (p *txnProducer) offsetRequest(version int16, group string, offset int64) *kmsg.TxnOffsetCommitRequest {
	request := versioned(kmsg.NewPtrTxnOffsetCommitRequest(), version)
	request.TransactionalID, request.Group, request.ProducerID, request.ProducerEpoch, request.Generation = p.txn, group, p.id, p.epoch, -1
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset, partition.LeaderEpoch, partition.Metadata = offset, -1, kmsg.StringPtr("m")
	request.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "t", TopicID: servedID(p.b, "t"), Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{partition}}}
	return request
}

// committed waits until no transaction is open in a partition and returns what
// read_committed shows.
func committedValues(t testing.TB, b *Broker, partition int32) []string {
	t.Helper()
	log := b.topic("t").partitions[partition].log
	eventually(t, "every transaction has ended", func() bool { return log.LastStableOffset() == log.LogEndOffset() })
	aborted := map[int64]int64{}
	all, err := log.AbortedTransactions(0, log.LogEndOffset(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		aborted[a.LastOffset] = a.FirstOffset<<32 | a.ProducerID
	}
	var values []string
	slice, err := log.Read(0, 1<<20, true, logstore.ReadCommitted)
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Release()
	for rest := slice.Mem; len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = after
		hidden := v.IsControl()
		for last, first := range aborted {
			hidden = hidden || v.ProducerID() == first&0xffffffff && v.BaseOffset() >= first>>32 && v.BaseOffset() <= last
		}
		if !hidden {
			seen, _ := valuesOf(t, v)
			values = append(values, seen...)
		}
	}
	return values
}

// Every version of every key of the transaction coordinator; call checks every byte.
func TestTransactionKeysInEveryVersion(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	var want []string
	for version := range int16(6) {
		p := newTxnProducer(t, b, fmt.Sprint("v", version))
		p.init(version)
		value := fmt.Sprint("value of ", version)
		if codes := p.add(version, 0, 1); !slices.Equal(codes, []int16{0, 0}) {
			t.Fatalf("add v%d: %v", version, codes)
		}
		if r := p.produce(9, 0, 0, value); r.ErrorCode != 0 {
			t.Fatalf("produce: %+v", r)
		}
		group := fmt.Sprint("group ", version)
		if code := p.commitOffset(min(version, 4), group, int64(version)+1); code != 0 {
			t.Fatalf("commit of offsets v%d: %d", version, code)
		}
		if offset, code := fetchOffset(t, b, 7, group, "t", 0); offset != -1 || code != 0 {
			t.Fatalf("v%d: an offset of an open transaction counts: %d, %d", version, offset, code)
		}
		if code := p.end(version, version%2 == 0); code != 0 {
			t.Fatalf("end v%d: %d", version, code)
		}
		if version%2 == 0 {
			want = append(want, value)
			eventually(t, "the offset counts", func() bool {
				offset, _ := fetchOffset(t, b, 7, group, "t", 0)
				return offset == int64(version)+1
			})
		}
	}
	if got := committedValues(t, b, 0); !slices.Equal(got, want) {
		t.Errorf("read_committed shows %q, want %q", got, want)
	}
	for version := range int16(3) {
		list := versioned(kmsg.NewPtrListTransactionsRequest(), version)
		list.StateFilters, list.DurationFilterMillis = []string{"CompleteCommit", "Nonsense"}, -1
		if version >= 2 {
			list.TransactionalIDPattern = kmsg.StringPtr("v[0-3]")
		}
		r := call[*kmsg.ListTransactionsResponse](t, b, testSession(), list)
		if n := map[int16]int{0: 3, 1: 3, 2: 2}[version]; len(r.TransactionStates) != n || !slices.Equal(r.UnknownStateFilters, []string{"Nonsense"}) {
			t.Errorf("list v%d: %+v", version, r)
		}
	}
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"v4", "nobody", ""}
	r := call[*kmsg.DescribeTransactionsResponse](t, b, testSession(), describe)
	if s := r.TransactionStates; s[0].State != "CompleteCommit" || s[1].ErrorCode != kerr.TransactionalIDNotFound.Code || s[2].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("describe: %+v", r)
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 9}}, {Topic: "nothing", Partitions: []int32{0}}}
	d := call[*kmsg.DescribeProducersResponse](t, b, testSession(), producers)
	if p := d.Topics[0].Partitions; len(p[0].ActiveProducers) != 6 || p[1].ErrorCode != kerr.UnknownTopicOrPartition.Code || d.Topics[1].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("producers: %+v", d)
	}
}

// A first batch is verified, or adds its partition, by the producer's version.
func TestFirstBatchesOfTransactions(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "x")
	for version := int16(3); version <= 11; version++ {
		want := kerr.InvalidTxnState.Code
		if version >= 11 {
			want = kerr.TransactionAbortable.Code
		}
		if r := p.produce(version, 0, 0, "never"); r.ErrorCode != want || version == 8 && (r.ErrorMessage == nil || *r.ErrorMessage != "Partition was not added to the transaction") {
			t.Errorf("v%d: %+v", version, r)
		}
	}
	for version := int16(12); version <= 13; version++ {
		if r := p.produce(version, 0, 0, fmt.Sprint("v", version)); r.ErrorCode != 0 {
			t.Fatalf("v%d: %+v", version, r)
		}
		if r := p.produce(version, 0, 0, fmt.Sprint("v", version)); r.ErrorCode != 0 {
			t.Fatalf("v%d, the repetition: %+v", version, r)
		}
		old := *p
		if code := p.end(5, true); code != 0 || p.epoch != old.epoch+1 {
			t.Fatalf("end: %d, epoch %d", code, p.epoch)
		}
		eventually(t, "the old epoch is fenced", func() bool {
			return old.produce(version, 1, 0, "never").ErrorCode == kerr.InvalidProducerEpoch.Code
		})
	}
	stranger := *p
	stranger.id += 1000
	if r := stranger.produce(12, 0, 0, "never"); r.ErrorCode != kerr.InvalidProducerIDMapping.Code {
		t.Errorf("another producer id: %+v", r)
	}
	if got := committedValues(t, b, 0); !slices.Equal(got, []string{"v12", "v13"}) {
		t.Errorf("read_committed shows %q", got)
	}
	if got := committedValues(t, b, 1); len(got) != 0 {
		t.Errorf("read_committed shows %q in the other partition", got)
	}
}

// What the coordinator refuses leaves nothing behind, and the log is not looked at
// before its word (Kafka: no log start offset in the answer).
func TestRefusedVerifications(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	for _, version := range []int16{11, 12} {
		p := newTxnProducer(t, b, fmt.Sprint("refused-", version))
		early := *p
		early.epoch++
		for _, sequence := range []int32{3, 0} {
			if r := early.produce(version, 0, sequence, "never"); r.ErrorCode != kerr.InvalidProducerEpoch.Code || r.LogStartOffset != -1 {
				t.Errorf("v%d, an epoch to come: %+v", version, r)
			}
		}
		if version < 12 {
			p.add(3, 0)
		}
		if r := p.produce(version, 0, 0, fmt.Sprint("v", version)); r.ErrorCode != 0 {
			t.Fatalf("v%d, the right epoch: %+v", version, r)
		}
		if code := p.end(4, true); code != 0 {
			t.Fatal(code)
		}
		eventually(t, "the transaction has ended", func() bool {
			return b.topic("t").partitions[0].log.LastStableOffset() == b.topic("t").partitions[0].log.LogEndOffset()
		})
		if version < 12 { // a later version would begin another transaction
			for _, sequence := range []int32{0, 1, 7} {
				if r := p.produce(version, 0, sequence, "never"); r.ErrorCode != kerr.TransactionAbortable.Code || r.LogStartOffset != -1 {
					t.Errorf("sequence %d behind the end: %+v", sequence, r)
				}
			}
		}
	}
	if got := committedValues(t, b, 0); !slices.Equal(got, []string{"v11", "v12"}) {
		t.Errorf("read_committed shows %q", got)
	}
}

// The verification of versions that add partitions themselves can be switched while the broker runs.
func TestVerificationIsSwitched(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "switched")
	const key = "transaction.partition.verification.enable"
	for i, step := range []struct {
		cluster, broker map[string]string
		want            int16
	}{
		{nil, nil, kerr.InvalidTxnState.Code},
		{map[string]string{key: "false"}, map[string]string{key: "true"}, kerr.InvalidTxnState.Code},
		{map[string]string{key: "false"}, nil, 0},
	} {
		if err := b.Config.SetDynamic(step.cluster, step.broker); err != nil {
			t.Fatal(err)
		}
		if r := p.produce(9, int32(0), 0, "v"); r.ErrorCode != step.want {
			t.Errorf("step %d: %+v", i, r)
		}
		if code := call[*kmsg.TxnOffsetCommitResponse](t, b, testSession(), p.offsetRequest(3, "g", 1)).Topics[0].Partitions[0].ErrorCode; code != step.want {
			t.Errorf("step %d, an offset: %d", i, code)
		}
	}
}

// The group without a name commits no offsets in a transaction, and is not added to it.
func TestTransactionalOffsetsWithoutGroup(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "no group")
	for version := range int16(7) {
		r := call[*kmsg.TxnOffsetCommitResponse](t, b, testSession(), p.offsetRequest(version, "", 1))
		if code := r.Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidGroupID.Code {
			t.Errorf("v%d: %d", version, code)
		}
	}
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{p.txn}
	if s := call[*kmsg.DescribeTransactionsResponse](t, b, testSession(), describe).TransactionStates[0]; s.State != "Empty" || len(s.Topics) != 0 {
		t.Errorf("%+v", s)
	}
}

// Requests of one connection that come while the first one waits for the coordinator
// are appended in their order, transaction after transaction.
func TestPipelinedTransactionalProduce(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "pipelined")
	var want []string
	for round := range 30 {
		var requests []*kmsg.ProduceRequest
		var sinks []*replySink
		for sequence := range int32(5) {
			value := fmt.Sprint(round, "/", sequence)
			want = append(want, value)
			requests = append(requests, p.request(12, 0, sequence, value))
		}
		for _, request := range requests {
			sinks = append(sinks, send(t, b, p.conn, request))
		}
		for i, sink := range sinks {
			if r := receive[*kmsg.ProduceResponse](t, requests[i], sink).Topics[0].Partitions[0]; r.ErrorCode != 0 {
				t.Fatalf("round %d, request %d: %+v", round, i, r)
			}
		}
		if code := p.end(5, true); code != 0 {
			t.Fatalf("end of round %d: %d", round, code)
		}
	}
	if got := committedValues(t, b, 0); !slices.Equal(got, want) {
		t.Errorf("%d values, want %d in their order: %q", len(got), len(want), got)
	}
}

// The epoch of version 5 offsets: the commit adds the group's partition itself.
func TestTransactionalOffsets(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "offsets")
	for version := range int16(5) {
		want := kerr.InvalidTxnState.Code
		if version == 4 {
			want = kerr.TransactionAbortable.Code
		}
		r := call[*kmsg.TxnOffsetCommitResponse](t, b, testSession(), p.offsetRequest(version, "g", 1))
		if code := r.Topics[0].Partitions[0].ErrorCode; code != want {
			t.Errorf("v%d without AddOffsetsToTxn: %d, want %d", version, code, want)
		}
	}
	for version := int16(5); version <= 6; version++ {
		at := int64(version)
		if code := p.commitOffset(version, "g", at); code != 0 {
			t.Fatalf("v%d: %d", version, code)
		}
		fetch := kmsg.NewOffsetFetchRequestGroup()
		fetch.Group, fetch.Topics = "g", []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}
		request := versioned(kmsg.NewPtrOffsetFetchRequest(), 8)
		request.Groups, request.RequireStable = []kmsg.OffsetFetchRequestGroup{fetch}, true
		stable := func() int16 {
			return call[*kmsg.OffsetFetchResponse](t, b, testSession(), request).Groups[0].Topics[0].Partitions[0].ErrorCode
		}
		if code := stable(); code != kerr.UnstableOffsetCommit.Code {
			t.Errorf("v%d: require_stable says %d of an open transaction", version, code)
		}
		old := *p
		if code := p.end(5, true); code != 0 {
			t.Fatalf("end: %d", code)
		}
		eventually(t, "the offset counts", func() bool {
			offset, _ := fetchOffset(t, b, 7, "g", "t", 0)
			return offset == at && stable() == 0
		})
		if code := old.commitOffset(version, "g", 99); code != kerr.InvalidProducerEpoch.Code {
			t.Errorf("v%d: the old epoch commits: %d", version, code)
		}
	}
	aborted := p.commitOffset(5, "gone", 1)
	if code := p.end(5, false); aborted != 0 || code != 0 {
		t.Fatalf("%d, %d", aborted, code)
	}
	eventually(t, "the group of an aborted offset is forgotten", func() bool {
		r := call[*kmsg.ListGroupsResponse](t, b, testSession(), kmsg.NewPtrListGroupsRequest())
		return len(r.Groups) == 1
	})
	stale := p.offsetRequest(5, "g", 7)
	stale.Generation, stale.MemberID = 3, "nobody"
	if r := call[*kmsg.TxnOffsetCommitResponse](t, b, testSession(), stale); r.Topics[0].Partitions[0].ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("an unknown member: %+v", r)
	}
}

// A timed-out transaction is aborted with another epoch, and hanging ones can be
// ended by hand.
func TestTimedOutAndHangingTransactions(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t, func(c *config.Broker) {
		c.TransactionAbortTimedOutTransactionCleanupIntervalMs = 20
		c.TransactionPartitionVerificationEnable = false
	})
	p := newTxnProducer(t, b, "slow")
	short := versioned(kmsg.NewPtrInitProducerIDRequest(), 4)
	short.TransactionalID, short.TransactionTimeoutMillis = &p.txn, 50
	if r := call[*kmsg.InitProducerIDResponse](t, b, testSession(), short); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	} else {
		p.epoch = r.ProducerEpoch
	}
	if codes := p.add(3, 0); codes[0] != 0 {
		t.Fatal(codes)
	}
	if r := p.produce(9, 0, 0, "never"); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	if got := committedValues(t, b, 0); len(got) != 0 {
		t.Errorf("read_committed shows %q", got)
	}
	if code := p.end(4, true); code != kerr.ProducerFenced.Code {
		t.Errorf("the end of a transaction that was aborted: %d", code)
	}
	// Without verification an old producer can still leave a transaction hanging.
	hanging := &txnProducer{t: t, b: b, conn: testConnection(), txn: "hanging", id: p.id + 500}
	if r := hanging.produce(9, 1, 0, "never"); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	log := b.topic("t").partitions[1].log
	if log.LastStableOffset() != 0 {
		t.Fatal("the transaction is not open")
	}
	abort := func(version int16, epoch int16, coordinatorEpoch int32, topic string) int16 {
		request := versioned(kmsg.NewPtrWriteTxnMarkersRequest(), version)
		request.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: hanging.id, ProducerEpoch: epoch, CoordinatorEpoch: coordinatorEpoch,
			Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{1}}}}}
		return call[*kmsg.WriteTxnMarkersResponse](t, b, testSession(), request).Markers[0].Topics[0].Partitions[0].ErrorCode
	}
	for _, c := range []struct {
		version, epoch   int16
		coordinatorEpoch int32
		topic            string
		want             *kerr.Error
	}{
		{1, -1, 5, "t", kerr.InvalidProducerEpoch},
		{1, 0, 5, "nothing", kerr.UnknownTopicOrPartition},
		{1, 0, 5, "t", nil},
		{2, 0, 4, "t", kerr.TransactionCoordinatorFenced},
		{2, 0, 5, "t", nil},
		{1, 0, 5, meta.ConsumerOffsetsTopic, nil},
		{1, 0, 4, meta.ConsumerOffsetsTopic, kerr.TransactionCoordinatorFenced},
	} {
		code := int16(0)
		if c.want != nil {
			code = c.want.Code
		}
		if got := abort(c.version, c.epoch, c.coordinatorEpoch, c.topic); got != code {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := committedValues(t, b, 1); len(got) != 0 || log.LastStableOffset() != 3 {
		t.Errorf("read_committed shows %q, last stable offset %d", got, log.LastStableOffset())
	}
}

// Each key asks the authorizer for what Kafka asks.
func TestTransactionAuthorization(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "x")
	if codes := p.add(3, 0); codes[0] != 0 {
		t.Fatal(codes)
	}
	open := b.Authorizer
	for _, c := range []struct {
		deny deny
		what string
		ask  func() int16
		want *kerr.Error
	}{
		{deny{"WRITE TRANSACTIONAL_ID x": true}, "add", func() int16 { return p.add(3, 0)[0] }, kerr.TransactionalIDAuthorizationFailed},
		{deny{"WRITE TOPIC t": true}, "add", func() int16 { return p.add(3, 0)[0] }, kerr.TopicAuthorizationFailed},
		{deny{"WRITE TRANSACTIONAL_ID x": true, "WRITE TOPIC t": true}, "add, from a broker", func() int16 { return p.add(4, 0)[0] }, nil},
		{deny{"WRITE TRANSACTIONAL_ID x": true}, "end", func() int16 { return p.end(4, true) }, kerr.TransactionalIDAuthorizationFailed},
		{deny{"WRITE TRANSACTIONAL_ID x": true}, "offsets", func() int16 { return p.commitOffset(5, "g", 1) }, kerr.TransactionalIDAuthorizationFailed},
		{deny{"READ GROUP g": true}, "offsets", func() int16 { return p.commitOffset(5, "g", 1) }, kerr.GroupAuthorizationFailed},
		{deny{"READ TOPIC t": true}, "offsets", func() int16 { return p.commitOffset(5, "g", 1) }, kerr.TopicAuthorizationFailed},
		{deny{"WRITE TRANSACTIONAL_ID x": true}, "add offsets", func() int16 { return p.addOffsets("g") }, kerr.TransactionalIDAuthorizationFailed},
		{deny{"READ GROUP g": true}, "add offsets", func() int16 { return p.addOffsets("g") }, kerr.GroupAuthorizationFailed},
		{deny{"READ GROUP h": true}, "add offsets", func() int16 { return p.addOffsets("g") }, nil},
		{deny{"WRITE TRANSACTIONAL_ID x": true}, "init", func() int16 {
			request := versioned(kmsg.NewPtrInitProducerIDRequest(), 4)
			request.TransactionalID, request.TransactionTimeoutMillis = &p.txn, 60_000
			return call[*kmsg.InitProducerIDResponse](t, b, testSession(), request).ErrorCode
		}, kerr.TransactionalIDAuthorizationFailed},
		{deny{"DESCRIBE TRANSACTIONAL_ID x": true}, "find", func() int16 {
			request := versioned(kmsg.NewPtrFindCoordinatorRequest(), 4)
			request.CoordinatorType, request.CoordinatorKeys = 1, []string{"x"}
			return call[*kmsg.FindCoordinatorResponse](t, b, testSession(), request).Coordinators[0].ErrorCode
		}, kerr.TransactionalIDAuthorizationFailed},
		{deny{"DESCRIBE TOPIC t": true}, "topics that are described", func() int16 {
			request := kmsg.NewPtrDescribeTransactionsRequest()
			request.TransactionalIDs = []string{"x"}
			state := call[*kmsg.DescribeTransactionsResponse](t, b, testSession(), request).TransactionStates[0]
			if state.ErrorCode != 0 || state.State != "Ongoing" {
				t.Errorf("%+v", state)
			}
			for _, topic := range state.Topics {
				if topic.Topic == "t" {
					t.Errorf("a topic that may not be seen is shown: %+v", state)
				}
			}
			return state.ErrorCode
		}, nil},
		{deny{"DESCRIBE TRANSACTIONAL_ID x": true}, "describe", func() int16 {
			request := kmsg.NewPtrDescribeTransactionsRequest()
			request.TransactionalIDs = []string{"x"}
			return call[*kmsg.DescribeTransactionsResponse](t, b, testSession(), request).TransactionStates[0].ErrorCode
		}, kerr.TransactionalIDAuthorizationFailed},
		{deny{"READ TOPIC t": true}, "producers", func() int16 {
			request := kmsg.NewPtrDescribeProducersRequest()
			request.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
			return call[*kmsg.DescribeProducersResponse](t, b, testSession(), request).Topics[0].Partitions[0].ErrorCode
		}, kerr.TopicAuthorizationFailed},
		{deny{"ALTER CLUSTER kafka-cluster": true, "CLUSTER_ACTION CLUSTER kafka-cluster": true}, "markers", func() int16 {
			request := versioned(kmsg.NewPtrWriteTxnMarkersRequest(), 1)
			request.Markers = []kmsg.WriteTxnMarkersRequestMarker{{Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "t", Partitions: []int32{0}}}}}
			return call[*kmsg.WriteTxnMarkersResponse](t, b, testSession(), request).Markers[0].Topics[0].Partitions[0].ErrorCode
		}, kerr.ClusterAuthorizationFailed},
		{deny{"CLUSTER_ACTION CLUSTER kafka-cluster": true}, "add, from a broker", func() int16 {
			request := versioned(kmsg.NewPtrAddPartitionsToTxnRequest(), 4)
			return call[*kmsg.AddPartitionsToTxnResponse](t, b, testSession(), request).ErrorCode
		}, kerr.ClusterAuthorizationFailed},
		{deny{"DESCRIBE TRANSACTIONAL_ID x": true}, "list", func() int16 {
			return int16(len(call[*kmsg.ListTransactionsResponse](t, b, testSession(), kmsg.NewPtrListTransactionsRequest()).TransactionStates))
		}, nil},
	} {
		b.Authorizer = c.deny
		want := int16(0)
		if c.want != nil {
			want = c.want.Code
		}
		if got := c.ask(); got != want {
			t.Errorf("%s with %v: %d, want %d", c.what, c.deny, got, want)
		}
	}
	b.Authorizer = open
}

// A batch of an open transaction costs what any other batch costs.
func TestTransactionalProduceDoesNotAllocate(t *testing.T) {
	skipUnderRace(t)
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "hot")
	if r := p.produce(12, 0, 0, "first"); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	// The repetition of the last batch goes the whole way to the producer's window.
	request := p.request(12, 0, 0, "first")
	request.Acks = 1
	once := repeated(t, b, request)
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(1000, once); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

// A transaction ends although one of its partitions is deleted before its marker.
func TestTransactionOfADeletedTopic(t *testing.T) {
	t.Parallel()
	b := newTxnBroker(t)
	p := newTxnProducer(t, b, "x")
	if r := p.produce(12, 0, 0, "gone"); r.ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
	if code := p.commitOffset(5, "g", 3); code != 0 {
		t.Fatal(code)
	}
	if err := b.DropTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if code := p.end(5, true); code != 0 {
		t.Fatal(code)
	}
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"x"}
	eventually(t, "the transaction is complete", func() bool {
		return call[*kmsg.DescribeTransactionsResponse](t, b, testSession(), describe).TransactionStates[0].State == "CompleteCommit"
	})
}
