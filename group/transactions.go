package group

import (
	"errors"
	"slices"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Verification is a producer's first commit in a transaction on this shard, while
// the transaction coordinator is being asked about it (KIP-890): valid until a marker
// of the producer comes. Owner: the machine that made it.
type Verification struct {
	producerID int64
	epoch      int16
	ended      bool
	sinceMs    int64
}

// transactions are what the shard knows of producers with offsets.
type transactions struct {
	// open are the groups in which a producer has offsets pending. A group may be in a
	// list without having them any more (they were tombstoned); the marker ends both.
	// Changed by Replay only.
	open map[int64]*openTransaction
	// verifying producers; volatile.
	verifying map[int64][]*Verification
}

type openTransaction struct {
	epoch  int16
	groups []*group
}

// add notes pending offsets of a producer in a group, the first ones there.
func (x *transactions) add(producerID int64, epoch int16, g *group) {
	o := x.open[producerID]
	if o == nil {
		o = &openTransaction{}
		x.open[producerID] = o
	}
	o.epoch = epoch
	if g != nil {
		o.groups = append(o.groups, g)
	}
}

// end forgets a producer's transaction and what was being verified for it.
func (x *transactions) end(producerID int64) (groups []*group) {
	if o := x.open[producerID]; o != nil {
		groups = o.groups
	}
	delete(x.open, producerID)
	for _, v := range x.verifying[producerID] {
		v.ended = true
	}
	delete(x.verifying, producerID)
	return groups
}

// release ends a verification. False: it holds no more.
func (x *transactions) release(v *Verification) bool {
	list := x.verifying[v.producerID]
	i := slices.Index(list, v)
	if i < 0 {
		return false
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(x.verifying, v.producerID)
	} else {
		x.verifying[v.producerID] = list
	}
	return !v.ended
}

// expire forgets verifications whose answer never came back.
func (x *transactions) expire(nowMs int64) {
	for id, list := range x.verifying {
		list = slices.DeleteFunc(list, func(v *Verification) bool { return nowMs-v.sinceMs > limits.GroupVerificationMs })
		if len(list) == 0 {
			delete(x.verifying, id)
		} else {
			x.verifying[id] = list
		}
	}
}

// NeedsVerification returns nil when the producer has offsets pending on this shard
// with this epoch; else what goes with the commit, or with ReleaseVerification when
// the coordinator says no. coord.ErrProducerFenced: the log knows a newer epoch, so
// nobody needs to be asked (UnifiedLog.maybeStartTransactionVerification).
func (m *Machine) NeedsVerification(t *coord.Turn, producerID int64, epoch int16) (*Verification, error) {
	if err := t.CheckProducer(producerID, epoch); err != nil {
		return nil, err
	}
	if o := m.transactions.open[producerID]; o != nil && o.epoch == epoch {
		return nil, nil
	}
	v := &Verification{producerID: producerID, epoch: epoch, sinceMs: t.NowMs}
	m.transactions.verifying[producerID] = append(m.transactions.verifying[producerID], v)
	return v, nil
}

// ReleaseVerification ends one that led to no commit.
func (m *Machine) ReleaseVerification(v *Verification) { m.transactions.release(v) }

// TxnOffsetCommit records offsets that count when the producer's transaction
// commits. verified is what NeedsVerification returned; authorised and resolved as
// for OffsetCommit.
func (m *Machine) TxnOffsetCommit(t *coord.Turn, req *kmsg.TxnOffsetCommitRequest, verified *Verification, done func(*kmsg.TxnOffsetCommitResponse)) {
	if verified != nil && !m.transactions.release(verified) {
		done(TxnCommitResponse(req, kerr.InvalidTxnState.Code))
		return
	}
	if code := m.checkTxnCommit(m.groups[req.Group], req); code != 0 {
		done(TxnCommitResponse(req, code))
		return
	}
	response := TxnCommitResponse(req, 0)
	var records []coord.Record
	for i := range req.Topics {
		topic := &req.Topics[i]
		for j := range topic.Partitions {
			p := &topic.Partitions[j]
			o := offset{offset: p.Offset, leaderEpoch: p.LeaderEpoch, commitMs: t.WallMs, expireMs: noExpiry, topicID: topic.TopicID}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			if m.metadataTooLarge(p.Metadata) {
				response.Topics[i].Partitions[j].ErrorCode = codeOffsetMetadataTooLarge
				continue
			}
			records = append(records, offsetRecord(req.Group, topic.Topic, p.Partition, &o))
		}
	}
	if len(records) > 0 {
		switch err := t.EmitInTransaction(req.ProducerID, req.ProducerEpoch, records...); {
		case errors.Is(err, coord.ErrProducerFenced):
			done(TxnCommitResponse(req, kerr.InvalidProducerEpoch.Code))
			return
		case err != nil:
			done(TxnCommitResponse(req, codeInvalidCommitSize))
			return
		}
		m.counts.Commits.Add(int64(len(records)))
	}
	reply(t, done, response, func(code int16) *kmsg.TxnOffsetCommitResponse { return TxnCommitResponse(req, code) })
}

// txnCommitNamesEpochs: from v6 on TxnOffsetCommit answers GROUP_ID_NOT_FOUND and
// STALE_MEMBER_EPOCH; producers before it know ILLEGAL_GENERATION only.
const txnCommitNamesEpochs = 6

// checkTxnCommit says whether the member may commit now (KIP-447); producers from
// before it name no member (ClassicGroup.validateOffsetCommit).
func (m *Machine) checkTxnCommit(g *group, req *kmsg.TxnOffsetCommitRequest) int16 {
	switch {
	case g == nil && req.Generation >= 0:
		if req.Version >= txnCommitNamesEpochs {
			return codeGroupIDNotFound
		}
		return codeIllegalGeneration
	case g == nil, req.Generation < 0 && g.state == stateEmpty && g.consumer == nil, req.Generation < 0 && req.MemberID == unknownMemberID && req.InstanceID == nil:
		return 0
	case g.consumer != nil:
		code := g.consumer.consumerCommit(req.MemberID, req.Generation, true, func(had func(assignor.TopicID, int32) bool) bool {
			for i := range req.Topics {
				for j := range req.Topics[i].Partitions {
					p := &req.Topics[i].Partitions[j]
					if !m.metadataTooLarge(p.Metadata) && !had(req.Topics[i].TopicID, p.Partition) {
						return false
					}
				}
			}
			return true
		})
		if code == codeStaleMemberEpoch && req.Version < txnCommitNamesEpochs {
			code = codeIllegalGeneration
		}
		return code
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	if req.Generation != g.generation {
		return codeIllegalGeneration
	}
	return 0
}

// EndTransaction writes the marker of a producer's transaction: its offsets count, or
// are forgotten, from now on. It is written also when there are none.
func (m *Machine) EndTransaction(t *coord.Turn, producerID int64, epoch int16, coordinatorEpoch int32, commit, raised bool, done func(err error)) {
	var groups []*group
	if o := m.transactions.open[producerID]; o != nil {
		groups = o.groups
	}
	if err := t.EmitMarker(producerID, epoch, coordinatorEpoch, commit, raised); err != nil {
		done(err)
		return
	}
	for _, g := range groups {
		if m.groups[g.id] == g {
			m.dropIfVoid(t, g)
		}
	}
	t.Reply(done)
}

// TxnCommitResponse answers every partition of the request with the same code.
func TxnCommitResponse(req *kmsg.TxnOffsetCommitRequest, code int16) *kmsg.TxnOffsetCommitResponse {
	r := kmsg.NewPtrTxnOffsetCommitResponse()
	r.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		from, to := &req.Topics[i], &r.Topics[i]
		to.Topic, to.TopicID = from.Topic, from.TopicID
		to.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(from.Partitions))
		for j := range from.Partitions {
			to.Partitions[j] = kmsg.TxnOffsetCommitResponseTopicPartition{Partition: from.Partitions[j].Partition, ErrorCode: code}
		}
	}
	return r
}
