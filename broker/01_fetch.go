package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/delay"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
)

// Fetch (key 1), v4 to v18.
//
//	v5   log start offset in request and answer
//	v7   incremental sessions (KIP-227), error of the whole answer
//	v9   current leader epoch: 74 below, 75 above the partition's
//	v11  rack; preferred read replica in the answer, always -1 here
//	v12  flexible; last fetched epoch: diverging epoch instead of records (KIP-595)
//	v13  topic ids: 100 for an unknown one (KIP-516)
//	v15  replica id is a tagged field (KIP-903)
//	v16  current leader and its endpoint with 6 and 74 (KIP-951)
//	v17  directory id of the replica, not looked at
//	v18  high watermark of the client, not looked at (KIP-1166)
//
// The handler runs on the event loop. It answers at once when there is enough to
// read, when a partition answers with an error, or when max_wait_ms is 0; else
// the request is parked (purgatory.go) and whoever moves a watermark completes
// it. Records leave as file ranges. What is not in memory is read by the cold
// workers, never on the loop.
//
// As Kafka: the first batch of the first partition that has one comes whole,
// whatever max_bytes and partition max_bytes say; the others only when they fit.
// Unlike Kafka a partition's records end with a whole batch, there are no
// followers: a request with a replica id is answered 6 (NOT_LEADER_OR_FOLLOWER),
// and max_bytes is no more than answerBound.

const fetchKey = 1

// Fetch versions at which the answer changes.
const (
	fetchWithLogStart      = 5
	fetchWithSessions      = 7
	fetchWithPreferred     = 11
	fetchFlexible          = 12
	fetchWithTopicIDs      = 13
	fetchWithCurrentLeader = 16
)

func (b *Broker) fetchAPI() codec.API {
	return codec.API{Key: fetchKey, Name: "Fetch", MinVersion: 4, MaxVersion: 18, Class: codec.TwoPhase,
		Note:          "long-poll, incremental sessions, read_committed, topic ids; no followers",
		EstimateBytes: func(_ codec.Header, bodyBytes int) int { return 1024 + 16*bodyBytes },
		Handle:        b.handleFetch,
	}
}

// fetchOperation is one Fetch on its way. It has one owner at a time: the event
// loop, then whoever parkState names. Pooled.
type fetchOperation struct {
	broker  *Broker
	request *codec.Request
	version int16

	committed bool // read_committed
	follower  bool
	minBytes  int
	maxBytes  int
	maxWait   time.Duration

	// makesSession: a full request that asks for a session. session is the one
	// that an incremental request continues, sessionEpoch what its epoch must
	// still be when the answer is made.
	makesSession bool
	session      *fetchSession
	sessionEpoch int32

	partitions []fetchPartition
	named      namedPartitions
	aborted    []logstore.AbortedTxn
	// What the last collect found.
	readable int  // bytes
	waitable bool // at least one partition can become readable
	urgent   bool // an error or a diverging epoch: answer at once

	// Parking; see purgatory.go.
	parked                   parkState
	deadline                 delay.Deadline
	linked                   bool // in the partitions' lists, the heap and the connection's chain
	chain                    *parkedFetches
	chainPrevious, chainNext *fetchOperation // guarded by chain.mu
	nextWoken                *fetchOperation // chain of whoever woke it
	woken, cold              delay.Job
}

// fetchPartition is one partition of a fetch with its result.
type fetchPartition struct {
	waiter fetchWaiter

	// What was asked. topicName is a view into the frame, or the session's.
	topicName          []byte
	topicID            meta.UUID
	index              int32
	fetchOffset        int64
	maxBytes           int32
	currentLeaderEpoch int32
	lastFetchedEpoch   int32
	state              *partitionState // nil: refused says why
	refused            *kerr.Error     // decided before reading; does not make the answer urgent
	entry              int32           // in the session

	// What came out.
	code             int16
	highWatermark    int64
	lastStableOffset int64
	logStartOffset   int64
	divergingEpoch   int32 // -1: none
	divergingEnd     int64
	slice            logstore.Slice
	abortedFrom      int // in operation.aborted
	abortedTo        int
	omitted          bool // from the answer of an incremental fetch

	// bound is the offset up to which this fetch may read, as of the last read.
	bound int64
	// available is what was readable when the fetch was parked, in bytes.
	available int
}

var fetchPool sync.Pool // of *fetchOperation

func newFetchOperation() *fetchOperation {
	if o, pooled := fetchPool.Get().(*fetchOperation); pooled {
		return o
	}
	o := new(fetchOperation)
	o.deadline.Owner = o
	o.woken.Run = o.run
	o.cold.Run = o.runCold
	return o
}

func (b *Broker) handleFetch(request *codec.Request) {
	view, err := codec.ParseFetch(request.Version, request.Body)
	if err != nil {
		request.Fail(fmt.Errorf("fetch v%d: %w", request.Version, err))
		return
	}
	if view.PartitionCount > limits.FetchPartitions || view.ForgottenCount > limits.FetchPartitions {
		request.Fail(fmt.Errorf("fetch of %d partitions: at most %d are allowed", max(view.PartitionCount, view.ForgottenCount), limits.FetchPartitions))
		return
	}
	o := newFetchOperation()
	o.broker, o.request, o.version = b, request, request.Version
	o.committed = view.IsolationLevel == 1
	o.follower = view.ReplicaID >= 0
	o.maxBytes = int(min(view.MaxBytes, b.Config.FetchMaxBytes))
	o.minBytes = min(int(view.MinBytes), o.maxBytes)
	o.maxWait = milliseconds(view.MaxWaitMs)
	o.parked.own()
	if code := o.openSession(&view); code != nil {
		o.respondError(code)
		return
	}
	if view.IsolationLevel < 0 || view.IsolationLevel > 1 {
		o.respondToAll(kerr.UnknownServerError) // as Kafka, whose IsolationLevel.forId throws
		return
	}
	o.maxBytes = min(o.maxBytes, o.answerBound())
	o.resolve()
	o.start()
}

// answerBound is how many bytes an answer may have, whatever max_bytes says: what
// the socket takes at once, but all that a single partition or min_bytes asks for.
// What is beyond would wait here until the client has read the rest, and its bytes
// would have left the processor's cache; the client asks again in less time.
func (o *fetchOperation) answerBound() int {
	bound, buffer := max(limits.FetchAnswerBytes, o.minBytes), int(o.broker.Config.SocketSendBufferBytes)
	if buffer < 0 {
		return o.maxBytes // the system's buffer grows
	}
	bound = max(bound, 2*buffer) // the system doubles it
	for i := range o.partitions {
		bound = max(bound, int(o.partitions[i].maxBytes))
	}
	return bound
}

func (o *fetchOperation) usesTopicIDs() bool { return o.version >= fetchWithTopicIDs }

func (o *fetchOperation) add() *fetchPartition {
	n := len(o.partitions)
	if n < cap(o.partitions) {
		o.partitions = o.partitions[:n+1]
	} else {
		o.partitions = append(o.partitions, fetchPartition{})
	}
	return &o.partitions[n]
}

// addRequested takes a partition that is named again as it is named last, in its first place (Kafka: the map that
// FetchRequest.fetchData makes).
func (o *fetchOperation) addRequested(r *codec.FetchPartition) {
	p := o.named.find(o.partitions, r)
	if p == nil {
		p = o.add()
	}
	p.topicName, p.topicID, p.index = r.Topic, r.TopicID, r.Index
	p.fetchOffset, p.maxBytes = r.FetchOffset, r.MaxBytes
	p.currentLeaderEpoch, p.lastFetchedEpoch = r.CurrentLeaderEpoch, r.LastFetchedEpoch
	p.entry = noEntry
}

// addRemembered needs the session's lock.
// +checklocks:s.mu
func (o *fetchOperation) addRemembered(s *fetchSession, at int32) {
	p, e := o.add(), &s.entries[at]
	p.topicName, p.topicID, p.index = e.name, e.topicID, e.index
	p.fetchOffset, p.maxBytes = e.fetchOffset, e.maxBytes
	p.currentLeaderEpoch, p.lastFetchedEpoch = e.currentLeaderEpoch, e.lastFetchedEpoch
	p.state, p.entry = e.state, at
}

// resolve finds the partitions and asks whether they may be read. A topic that
// may not be described is not told from one that does not exist.
func (o *fetchOperation) resolve() {
	b := o.broker
	if o.follower && !b.allowed(o.request, auth.OperationClusterAction, auth.ResourceCluster, auth.ClusterName) {
		for i := range o.partitions {
			o.partitions[i].refuse(kerr.TopicAuthorizationFailed)
		}
		return
	}
	asked, may := "", true // of the topic before: partitions of one come together
	for i := range o.partitions {
		p := &o.partitions[i]
		if p.state == nil || p.state.removed.Load() {
			p.find(b, o.usesTopicIDs())
		}
		if o.follower {
			if p.refused == nil {
				p.refuse(kerr.NotLeaderForPartition)
			}
			continue
		}
		name := ""
		switch {
		case p.state != nil:
			name = p.state.topicName
		case o.usesTopicIDs():
			if t := b.topicByID(p.topicID); t != nil {
				name = t.name
			} else {
				continue // refused with 100
			}
		default:
			name = string(p.topicName)
		}
		if name != asked {
			asked, may = name, b.allowed(o.request, auth.OperationRead, auth.ResourceTopic, name)
		}
		if !may {
			p.refuse(kerr.TopicAuthorizationFailed)
		}
	}
}

func (p *fetchPartition) find(b *Broker, byID bool) {
	p.refused = nil
	if byID {
		p.state, p.refused = b.partitionByID(p.topicID, p.index)
	} else {
		p.state, p.refused = b.partitionBytes(p.topicName, p.index)
	}
}

func (p *fetchPartition) refuse(code *kerr.Error) { p.state, p.refused = nil, code }

// start reads for the first time, on the event loop.
func (o *fetchOperation) start() {
	if len(o.partitions) > limits.FetchInlinePartitions || o.collect(false) {
		o.broker.data.cold.Push(&o.cold)
		return
	}
	o.decide()
}

// runCold is start on a cold worker, or the completion of a woken fetch that
// found its records not in memory.
func (o *fetchOperation) runCold() {
	o.collect(true)
	o.decide()
}

// decide answers or parks after a collect.
func (o *fetchOperation) decide() {
	if o.satisfied() {
		o.respond()
		return
	}
	o.releaseSlices()
	if !o.linked && !o.link() {
		return
	}
	o.settle()
}

// satisfied says whether the answer leaves now (Kafka: ReplicaManager.fetchMessages
// and DelayedFetch.tryComplete).
func (o *fetchOperation) satisfied() bool {
	return o.urgent || !o.waitable || o.readable >= o.minBytes || o.maxWait <= 0
}

// collect reads all partitions within the bounds of the request. True: something
// is not in memory, everything that was read is released and the operation must
// go to a cold worker. blocking: this is one.
func (o *fetchOperation) collect(blocking bool) (cold bool) {
	o.readable, o.urgent, o.waitable = 0, false, false
	o.aborted = o.aborted[:0]
	left, first := max(o.maxBytes, 0), true
	for i := range o.partitions {
		p := &o.partitions[i]
		p.reset()
		if p.refused != nil {
			p.code = p.refused.Code
			continue
		}
		o.waitable = true
		err := p.read(o, min(left, int(max(p.maxBytes, 0))), first, blocking)
		if errors.Is(err, logstore.ErrWouldBlock) || err == nil && !blocking && p.slice.Len > 0 && !o.broker.data.resident(&p.slice) {
			o.releaseSlices()
			return true
		}
		if err != nil {
			p.fail(o.broker, err)
		}
		if p.code != 0 || p.divergingEpoch >= 0 {
			o.urgent = true
		}
		if n := p.slice.Len; n > 0 {
			if blocking {
				p.slice.Populate()
			}
			first = false
			left = max(left-n, 0)
			o.readable += n
		}
		p.available = p.slice.Len
	}
	return false
}

func (p *fetchPartition) reset() {
	p.code, p.highWatermark, p.lastStableOffset, p.logStartOffset = 0, -1, -1, -1
	p.divergingEpoch, p.divergingEnd = -1, -1
	p.abortedFrom, p.abortedTo, p.omitted = 0, 0, false
}

// fail turns the result into an error: no offsets, as Kafka's createLogReadResult.
func (p *fetchPartition) fail(b *Broker, err error) {
	p.reset()
	if p.state.removed.Load() {
		// The log was closed by the deletion of its topic.
		err = kerr.UnknownTopicOrPartition
	}
	code := kafkaError(err)
	p.code = code.Code
	b.storageFault("fetch failed", p.state.topicName, p.index, code, err)
}

// read fills in offsets and records of a partition (Kafka: Partition.fetchRecords
// and UnifiedLog.read). At most maxBytes, except that first lets the first batch
// come whole.
func (p *fetchPartition) read(o *fetchOperation, maxBytes int, first, blocking bool) error {
	if p.state.removed.Load() {
		return kerr.UnknownTopicOrPartition
	}
	log := p.state.log
	// Watermarks are loaded before the read: what moves later is seen by the check after parking.
	p.highWatermark, p.lastStableOffset, p.logStartOffset = log.HighWatermark(), log.LastStableOffset(), log.LogStartOffset()
	isolation := logstore.ReadUncommitted
	p.bound = p.highWatermark
	if o.committed {
		isolation, p.bound = logstore.ReadCommitted, p.lastStableOffset
	}
	if err := checkLeaderEpoch(log, p.currentLeaderEpoch); err != nil {
		return err
	}
	if p.lastFetchedEpoch >= 0 {
		if diverged, err := p.diverges(log); diverged || err != nil {
			return err
		}
	}
	if p.fetchOffset >= p.bound || p.fetchOffset < p.logStartOffset {
		// Nothing to read, in range or not, without a look at the segments.
		if p.fetchOffset < p.logStartOffset || p.fetchOffset > log.LogEndOffset() {
			return logstore.ErrOffsetOutOfRange
		}
		return log.Err() // offline: not a partition without news
	}
	if maxBytes == 0 && !first {
		return nil
	}
	var err error
	if blocking {
		p.slice, err = log.Read(p.fetchOffset, maxBytes, first, isolation)
	} else {
		p.slice, err = log.ReadNoWait(p.fetchOffset, maxBytes, first, isolation)
	}
	if err != nil {
		return err
	}
	if o.committed && p.slice.Len > 0 {
		p.abortedFrom = len(o.aborted)
		o.aborted, err = log.AbortedTransactions(p.fetchOffset, p.bound, o.aborted)
		p.abortedTo = len(o.aborted)
		if err != nil {
			p.slice.Release()
			p.slice = logstore.Slice{}
			return err
		}
	}
	return nil
}

// diverges compares the epoch that the client fetched last with the log's
// history (KIP-595): the client has records that this log never had, or lost.
func (p *fetchPartition) diverges(log *logstore.Partition) (bool, error) {
	epoch, end := endOffsetForEpoch(log, p.lastFetchedEpoch)
	if epoch < 0 || end < 0 || p.fetchOffset < p.logStartOffset {
		return false, logstore.ErrOffsetOutOfRange
	}
	if epoch < p.lastFetchedEpoch || end < p.fetchOffset {
		p.divergingEpoch, p.divergingEnd = epoch, end
		return true, nil
	}
	return false, nil
}

func (o *fetchOperation) releaseSlices() {
	for i := range o.partitions {
		if s := &o.partitions[i].slice; s.Len > 0 {
			s.Release()
			*s = logstore.Slice{}
		}
	}
}

// link makes the operation reachable by whoever can wake it. False: the
// connection has gone, and so has the operation.
func (o *fetchOperation) link() bool {
	if !connectionOf(o.request).fetches.add(o) {
		o.drop()
		return false
	}
	o.linked = true
	for i := range o.partitions {
		p := &o.partitions[i]
		if p.refused == nil {
			p.waiter.operation = o
			p.state.purgatory.add(&p.waiter)
		}
	}
	o.broker.data.fetchDeadlines.Add(&o.deadline, o.maxWait)
	for i := range o.partitions {
		// What moved between the read and the link, nobody has signalled.
		if p := &o.partitions[i]; p.refused == nil && p.moved(o) {
			p.waiter.dirty.Store(true)
			o.parked.signal(parkDirty)
		}
	}
	if o.broker.data.stopping.Load() {
		o.parked.signal(parkForced)
	}
	return true
}

// moved says whether more is visible than the last read saw, or the partition
// was removed.
func (p *fetchPartition) moved(o *fetchOperation) bool {
	if p.state.removed.Load() {
		return true
	}
	if o.committed {
		return p.state.log.LastStableOffset() != p.bound
	}
	return p.state.log.HighWatermark() != p.bound
}

func (o *fetchOperation) unlink() {
	if !o.linked {
		return
	}
	for i := range o.partitions {
		o.partitions[i].waiter.remove()
	}
	o.broker.data.fetchDeadlines.Cancel(&o.deadline)
	o.chain.remove(o)
	o.linked = false
}

// run goes on with an operation that was parked; the caller owns it.
func (o *fetchOperation) run() { o.settle() }

// settle acts on the signals until the operation is answered or parked.
func (o *fetchOperation) settle() {
	for {
		signals := o.parked.take()
		switch {
		case signals&parkCancelled != 0:
			o.drop()
			return
		case signals&parkForced != 0:
			o.maxWait = 0
			o.complete()
			return
		case signals&parkDirty != 0 && o.enough():
			o.complete()
			return
		}
		if o.parked.park() {
			return
		}
	}
}

// enough looks at the partitions that moved only. It reads them without keeping
// anything, since what is counted is not what is sent: Kafka counts each
// partition up to its own bound (DelayedFetch.tryComplete).
func (o *fetchOperation) enough() bool {
	urgent := false
	for i := range o.partitions {
		p := &o.partitions[i]
		if !p.waiter.dirty.Load() || !p.waiter.dirty.Swap(false) {
			continue
		}
		if o.minBytes <= 1 && p.state.removed.Load() {
			return true
		}
		p.reset()
		err := p.read(o, int(max(p.maxBytes, 0)), true, false)
		o.aborted = o.aborted[:0]
		if err != nil || p.divergingEpoch >= 0 {
			// Errors are told at once; what is not in memory is found out by the cold workers.
			urgent = true
			continue
		}
		o.readable += p.slice.Len - p.available
		p.available = p.slice.Len
		if p.slice.Len > 0 {
			p.slice.Release()
			p.slice = logstore.Slice{}
		}
	}
	return urgent || o.readable >= o.minBytes
}

// complete reads again and answers. It stays linked until the answer stands, so
// that a read that turns out too small (a segment ended, records were deleted)
// can be parked again.
func (o *fetchOperation) complete() { o.start() }

// Expire implements delay.Expirer.
func (o *fetchOperation) Expire() bool { return o.parked.signal(parkForced) }

// Expired implements delay.Expirer.
func (o *fetchOperation) Expired() { o.run() }

// drop ends an operation that nobody waits for.
func (o *fetchOperation) drop() {
	o.unlink()
	o.releaseSlices()
	o.request.Sink.Drop()
	o.finish()
}

// finish gives request and operation back. The sink has been told.
func (o *fetchOperation) finish() {
	o.request.Finish()
	for i := range o.partitions {
		p := &o.partitions[i]
		p.topicName, p.state, p.refused = nil, nil, nil
		p.waiter.operation = nil
		p.waiter.dirty.Store(false)
	}
	o.partitions, o.aborted = o.partitions[:0], o.aborted[:0]
	if cap(o.partitions) > limits.FetchPartitionsKept {
		o.partitions = nil
	}
	o.named.end()
	if cap(o.aborted) > limits.FetchPartitionsKept {
		o.aborted = nil
	}
	o.request, o.broker, o.session, o.makesSession = nil, nil, nil, false
	fetchPool.Put(o)
}
