package broker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/auth"
	"kaas/codec"
	"kaas/codec/batch"
	"kaas/internal/delay"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
)

// Produce (key 0), v3 to v13; v0 to v2 are advertised, since librdkafka chooses
// its codecs by the range, and answered 35 for each partition (Kafka closes).
//
//	v5   log start offset in the answer
//	v7   zstd; below it 76
//	v8   per-record errors and error message (KIP-467)
//	v9   flexible
//	v10  current leader and its endpoint with 6 (KIP-951)
//	v11  the producer knows TRANSACTION_ABORTABLE
//	v12  writing to a partition adds it to the transaction (KIP-890)
//	v13  topic ids: 100 for an unknown one
//
// The handler runs on the event loop: it appends every partition, patching
// offsets into the frame, and answers
//
//	acks=0   never; any error closes the connection
//	acks=1   after the append
//	acks=-1  when the commit covers the last partition, or with 7 for those that it
//	         does not cover at the timeout; they stay appended. The answer to a
//	         duplicate waits for the commit of the original.
//
// The first batch of a transaction in a partition waits for the transaction's
// coordinator, see produce_transaction.go.
//
// Exactly one batch a partition: none or two are 87, as are magic 0 and 1; bytes
// behind the batch that are too few for another one are ignored, all as Kafka
// (ProduceRequest.validateRecords). A null instead of records is 87 too, where
// Kafka never answers.

const produceKey = 0

// Produce versions at which the request or the answer changes.
const (
	produceLowestServed     = 3
	produceWithLogAppend    = 2
	produceWithThrottle     = 1
	produceWithLogStart     = 5
	produceWithZstd         = 7
	produceWithRecordErrors = 8
	produceFlexible         = 9
	produceWithLeader       = 10
	produceKnowsAbortable   = 11
	produceAddsPartitions   = 12
	produceWithTopicIDs     = 13
)

// adminClientID is the client id that may write to internal topics (Kafka:
// AdminUtils.ADMIN_CLIENT_ID).
const adminClientID = "__admin_client"

func (b *Broker) produceAPI() codec.API {
	return codec.API{Key: produceKey, Name: "Produce", MinVersion: 0, MaxVersion: 13, Class: codec.TwoPhase,
		Note:          "v0–v2 are advertised for librdkafka and answered UNSUPPORTED_VERSION",
		EstimateBytes: func(codec.Header, int) int { return 4096 },
		Handle:        b.handleProduce,
	}
}

// produceOperation is one Produce on its way. Pooled.
//
// Life: pending counts who may still touch it: the handler, each waiter, and the
// timer while it answers. Who takes it to 0 answers, if nobody did, and recycles.
// replied says who answers: the one that sets it.
type produceOperation struct {
	broker    *Broker
	request   *codec.Request
	version   int16
	acks      int16
	timeoutMs int32
	topics    int // with at least one partition
	// transactionalID is "" unless there are transactional batches.
	transactionalID string
	// verify: the first batches of transactions need the coordinator's word.
	verify     bool
	partitions []producePartition
	pending    atomic.Int32
	replied    atomic.Bool
	deadline   delay.Deadline
	timed      bool // deadline was added
}

// commitState of a partition.
const (
	commitSettled  = iota // nothing to wait for: the result stands
	commitPending         // the waiter is with the log
	commitArrived         // commitError is set
	commitTimedOut        // answered with 7 before the commit arrived
)

// producePartition is one partition of a produce with its result.
type producePartition struct {
	waiter    logstore.Waiter
	operation *produceOperation

	topicName []byte // view into the frame
	topicID   meta.UUID
	index     int32
	first     bool // of its topic
	siblings  int  // partitions of the topic, in the first one
	state     *partitionState
	// batch is a view into the frame while it is to be appended, then nil.
	batch []byte
	guard uint64 // of its verification

	code            int16
	message         string // "": null
	records         []logstore.RecordError
	baseOffset      int64
	logAppendTimeMs int64
	logStartOffset  int64

	commit atomic.Uint32
	// commitError is written before commit becomes commitArrived and read after.
	commitError error
}

var producePool sync.Pool // of *produceOperation

func newProduceOperation() *produceOperation {
	if o, pooled := producePool.Get().(*produceOperation); pooled {
		return o
	}
	o := new(produceOperation)
	o.deadline.Owner = o
	return o
}

func (b *Broker) handleProduce(request *codec.Request) {
	view, err := codec.ParseProduce(request.Version, request.Body)
	if err != nil {
		request.Fail(fmt.Errorf("produce v%d: %w", request.Version, err))
		return
	}
	if view.PartitionCount > limits.ProducePartitions {
		request.Fail(fmt.Errorf("produce to %d partitions: at most %d are allowed in one request", view.PartitionCount, limits.ProducePartitions))
		return
	}
	o := newProduceOperation()
	o.broker, o.request, o.version, o.acks, o.topics = b, request, request.Version, view.Acks, view.TopicCount
	o.fill(&view)
	o.timeoutMs = view.TimeoutMs
	refused := o.refusal(&view)
	for it, i := view.Partitions(), 0; it.Next(); i++ {
		if refused != nil {
			o.partitions[i].fail(refused)
			continue
		}
		o.prepare(&o.partitions[i], it.Partition.Records)
	}
	if o.transactionalID != "" && b.data.transactions.Queue(request.Session.ID, o) {
		return // goes on when the requests of its connection before it have appended theirs
	}
	if connection := connectionOf(request); connection.inFrame {
		o.deferWakes(&connection.wakes)
	}
	o.append()
}

// deferWakes leaves the wake of fetches to the end of what came at once.
func (o *produceOperation) deferWakes(wakes *deferredWakes) {
	for i := range o.partitions {
		if p := &o.partitions[i]; p.batch != nil && p.state.purgatory.waiting.Load() > 0 {
			wakes.hold(p.state)
		}
	}
}

// append does all partitions and waits for the commits that they need.
func (o *produceOperation) append() {
	if !o.appendVerified() {
		o.askCoordinator()
		return
	}
	o.appended()
}

// appendVerified appends all partitions but those that the coordinator has to be
// asked about; false: there are some.
func (o *produceOperation) appendVerified() bool {
	all := true
	for i := range o.partitions {
		if p := &o.partitions[i]; p.batch != nil && !o.appendOne(p) {
			all = false
		}
	}
	return all
}

// appended goes on when every partition has its offsets or its error.
func (o *produceOperation) appended() {
	if o.acks == -1 {
		o.awaitCommits(milliseconds(o.timeoutMs))
		return
	}
	o.pending.Store(1)
	o.release()
}

// fill makes the partitions before anything is appended: a waiter must not move.
func (o *produceOperation) fill(view *codec.ProduceView) {
	if cap(o.partitions) < view.PartitionCount {
		o.partitions = make([]producePartition, view.PartitionCount)
		for i := range o.partitions {
			p := &o.partitions[i]
			p.waiter.Done, p.waiter.User = produceCommitted, p
		}
	}
	o.partitions = o.partitions[:view.PartitionCount]
	for it, i := view.Partitions(), 0; it.Next(); i++ {
		p := &o.partitions[i]
		p.operation = o
		p.topicName, p.topicID, p.index = it.Partition.Topic, it.Partition.TopicID, it.Partition.Index
		p.first, p.siblings = it.Partition.First, it.Partition.Siblings
		p.code, p.message, p.records, p.state, p.batch, p.guard = 0, "", nil, nil, nil, 0
		p.baseOffset, p.logAppendTimeMs, p.logStartOffset = -1, -1, -1
		p.commit.Store(commitSettled)
		p.commitError = nil
	}
}

// refusal is the error that the whole request gets, before any partition is
// looked at.
func (o *produceOperation) refusal(view *codec.ProduceView) *kerr.Error {
	if o.version < produceLowestServed {
		return kerr.UnsupportedVersion
	}
	if hasTransactionalRecords(view) {
		o.transactionalID = transactionalID(o.request, view.TransactionalID)
		o.verify = o.version >= produceAddsPartitions || o.broker.Config.CurrentTransactionPartitionVerification()
		if view.TransactionalID == nil || !o.broker.allowed(o.request, auth.OperationWrite, auth.ResourceTransactionalID, o.transactionalID) {
			return kerr.TransactionalIDAuthorizationFailed
		}
	}
	return nil
}

// hasTransactionalRecords looks at the first batch of each partition, as Kafka's
// RequestUtils.
func hasTransactionalRecords(view *codec.ProduceView) bool {
	for it := view.Partitions(); it.Next(); {
		if b := it.Partition.Records; len(b) >= batch.HeaderBytes && batch.View(b).Magic() == 2 && batch.View(b).IsTransactional() {
			return true
		}
	}
	return false
}

// prepare looks at one partition, on the event loop: afterwards it has its batch, or
// its error.
func (o *produceOperation) prepare(p *producePartition, records []byte) {
	b := o.broker
	var unknown *kerr.Error
	if o.version >= produceWithTopicIDs {
		p.state, unknown = b.partitionByID(p.topicID, p.index)
	} else {
		p.state, unknown = b.partitionBytes(p.topicName, p.index)
	}
	if unknown == kerr.UnknownTopicID {
		p.fail(unknown)
		return
	}
	if !o.mayWrite(p) {
		p.fail(kerr.TopicAuthorizationFailed)
		return
	}
	if unknown != nil {
		p.fail(unknown)
		return
	}
	one, refused, message := oneBatch(records, o.version)
	switch {
	case refused != nil:
		p.fail(refused)
		p.message = message
		return
	case o.acks < -1 || o.acks > 1:
		p.fail(kerr.InvalidRequiredAcks)
		return
	case meta.IsInternalTopicName(p.state.topicName) && string(o.request.ClientID) != adminClientID:
		p.fail(kerr.InvalidTopicException)
		return
	}
	p.batch = one
}

// appendOne appends the batch of one partition; what goes wrong stands in it. False:
// the transaction's coordinator has to be asked first.
func (o *produceOperation) appendOne(p *producePartition) (verified bool) {
	one := p.batch
	result, err := p.state.log.Append(one, logstore.AppendOptions{
		Origin: logstore.OriginClient, LeaderEpoch: p.state.log.LeaderEpoch(), Verify: o.verify, Guard: p.guard,
	})
	if err != nil && errors.Is(err, logstore.ErrUnverified) {
		if !errors.Is(err, logstore.ErrInvalidProducerEpoch) {
			return false
		}
		p.batch = nil
		p.fail(kerr.InvalidProducerEpoch) // as the coordinator would: without a log start offset
		return true
	}
	p.batch = nil
	if err != nil {
		p.appendFailed(o.broker, err)
		return true
	}
	p.baseOffset, p.logAppendTimeMs, p.logStartOffset = result.BaseOffset, result.LogAppendTimeMs, result.LogStartOffset
	if result.Duplicate && p.logAppendTimeMs < 0 {
		// Kafka tells the time of the first append here, also under CreateTime, where it is the batch's.
		p.logAppendTimeMs = batch.View(one).MaxTimestamp()
	}
	if o.acks == -1 {
		p.waiter.Offset = result.LastOffset + 1
		p.commit.Store(commitPending)
	}
	return true
}

func (o *produceOperation) mayWrite(p *producePartition) bool {
	name := ""
	switch {
	case p.state != nil:
		name = p.state.topicName
	case o.version >= produceWithTopicIDs:
		if t := o.broker.topicByID(p.topicID); t != nil {
			name = t.name
		}
	default:
		name = string(p.topicName)
	}
	return o.broker.allowed(o.request, auth.OperationWrite, auth.ResourceTopic, name)
}

func (p *producePartition) fail(code *kerr.Error) { p.code = code.Code }

// appendFailed takes over what the log says (Kafka: ReplicaManager.appendToLocalLog):
// the log start offset goes with the errors that come from the records' content.
func (p *producePartition) appendFailed(b *Broker, err error) {
	if p.state.removed.Load() {
		err = kerr.UnknownTopicOrPartition // the log was closed by the deletion of its topic
	}
	code := kafkaError(err)
	p.code = code.Code
	switch code {
	case kerr.UnknownTopicOrPartition, kerr.NotLeaderForPartition, kerr.MessageTooLarge, kerr.CorruptMessage, kerr.KafkaStorageError:
	default:
		p.logStartOffset = p.state.log.LogStartOffset()
	}
	var rejected *logstore.RejectedError
	if errors.As(err, &rejected) {
		p.records, p.message = rejected.Records, rejected.Message
	}
	b.storageFault("append failed", p.state.topicName, p.index, code, err)
}

// oneBatch cuts the one batch out of the records of a partition.
func oneBatch(records []byte, version int16) (one []byte, refused *kerr.Error, message string) {
	one, rest, refused, message := nextBatch(records)
	if refused != nil || one == nil {
		return nil, orInvalidRecord(refused), message
	}
	view := batch.View(one)
	if view.Magic() != 2 || len(one) < batch.HeaderBytes {
		return nil, kerr.InvalidRecord, ""
	}
	if version < produceWithZstd && view.Compression() == batch.Zstd {
		return nil, kerr.UnsupportedCompressionType, ""
	}
	if len(rest) > 0 {
		if second, _, refused, message := nextBatch(rest); refused != nil || second != nil {
			return nil, orInvalidRecord(refused), message
		}
	}
	return one, nil, ""
}

func orInvalidRecord(code *kerr.Error) *kerr.Error {
	if code == nil {
		return kerr.InvalidRecord
	}
	return code
}

// The least that Kafka's ByteBufferLogInputStream looks at: offset i64, size i32
// (of what follows it), leader epoch or CRC i32, magic i8.
const (
	batchOverheadBytes = 12
	batchMagicAt       = 16
	leastBatchSize     = 14 // of a record of magic 0
)

// nextBatch answers nil without an error when the bytes hold no whole batch.
func nextBatch(b []byte) (one, rest []byte, refused *kerr.Error, message string) {
	if len(b) < batchOverheadBytes {
		return nil, nil, nil, ""
	}
	size := int(int32(uint32(b[8])<<24 | uint32(b[9])<<16 | uint32(b[10])<<8 | uint32(b[11])))
	if size < leastBatchSize {
		return nil, nil, kerr.CorruptMessage, fmt.Sprintf("Record size %d is less than the minimum record overhead (%d)", size, leastBatchSize)
	}
	if len(b) <= batchMagicAt {
		return nil, nil, nil, ""
	}
	if magic := int8(b[batchMagicAt]); magic < 0 || magic > 2 {
		return nil, nil, kerr.CorruptMessage, fmt.Sprintf("Invalid magic found in record: %d", magic)
	}
	end := batchOverheadBytes + size
	if end > len(b) {
		return nil, nil, nil, ""
	}
	return b[:end:end], b[end:], nil, ""
}

// awaitCommits hands the waiters to the logs. From the first one on other
// goroutines may touch the operation.
func (o *produceOperation) awaitCommits(timeout time.Duration) {
	waiting := int32(0)
	for i := range o.partitions {
		if o.partitions[i].commit.Load() == commitPending {
			waiting++
		}
	}
	o.pending.Store(waiting + 1)
	if waiting > 0 {
		for i := range o.partitions {
			if p := &o.partitions[i]; p.waiter.Offset > 0 {
				p.state.log.WhenCommitted(&p.waiter)
			}
		}
		if o.pending.Load() > 1 {
			o.timed = true
			o.broker.data.produceDeadlines.Add(&o.deadline, max(timeout, limits.ProduceTimeoutFloor))
		}
	}
	o.release()
}

// produceCommitted is the Done of every waiter.
func produceCommitted(w *logstore.Waiter, err error) {
	p := w.User.(*producePartition)
	o := p.operation
	p.commitError = err
	p.commit.CompareAndSwap(commitPending, commitArrived)
	o.release()
}

// release gives up one share of the operation.
func (o *produceOperation) release() {
	if o.pending.Add(-1) > 0 {
		return
	}
	if o.timed {
		// After this the timer does not know the operation: Expire takes no share when
		// none is left, and runs under the lock that Cancel takes.
		o.broker.data.produceDeadlines.Cancel(&o.deadline)
	}
	if o.replied.CompareAndSwap(false, true) {
		o.reply()
	}
	o.recycle()
}

// Expire implements delay.Expirer: it takes a share, unless the last one is gone.
func (o *produceOperation) Expire() bool {
	for {
		n := o.pending.Load()
		if n == 0 {
			return false
		}
		if o.pending.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Expired answers what has not been committed with 7. The waiters stay with their
// logs; the last one recycles the operation.
func (o *produceOperation) Expired() {
	if o.replied.CompareAndSwap(false, true) {
		for i := range o.partitions {
			p := &o.partitions[i]
			if p.commit.CompareAndSwap(commitPending, commitTimedOut) {
				p.code = kerr.RequestTimedOut.Code
			}
		}
		o.reply()
	}
	o.release()
}

func (o *produceOperation) recycle() {
	for i := range o.partitions {
		p := &o.partitions[i]
		p.waiter.Offset = 0
		p.operation, p.topicName, p.state, p.batch, p.records, p.commitError = nil, nil, nil, nil, nil, nil
	}
	o.partitions = o.partitions[:0]
	if cap(o.partitions) > limits.ProducePartitionsKept {
		o.partitions = nil
	}
	o.broker, o.transactionalID, o.verify, o.timed = nil, "", false, false
	o.replied.Store(false)
	producePool.Put(o)
}
