package txn

import (
	"maps"
	"math"

	"kaas/coord"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kerr"
)

// AddRequest adds partitions to a transaction, or asks whether they are in it.
type AddRequest struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Partitions      []TopicPartition
	// ClientVersion is Version2 when writing to the partitions adds them.
	ClientVersion int16
}

// check is what adding and verifying have in common.
func (m *Machine) check(req *AddRequest) (*transaction, int16) {
	x := m.transactions[req.TransactionalID]
	switch {
	case x != nil && x.state.prepared() && x.nextProducerID >= 0 && x.nextProducerID == req.ProducerID && req.ProducerEpoch == 0:
		return x, kerr.ConcurrentTransactions.Code // the producer was told already what it goes on with
	case x == nil, x.producerID != req.ProducerID:
		return nil, kerr.InvalidProducerIDMapping.Code
	case x.epoch != req.ProducerEpoch, x.epoch == math.MaxInt16: // that one nobody gets
		return nil, kerr.ProducerFenced.Code
	case x.state.prepared():
		return x, kerr.ConcurrentTransactions.Code
	}
	return x, 0
}

// Verify says for each partition whether it is in the producer's transaction
// (handleVerifyPartitionsInTransaction, KIP-890 part 1).
func (m *Machine) Verify(t *coord.Turn, req AddRequest, done func(codes []int16)) {
	codes := make([]int16, len(req.Partitions))
	x, code := m.check(&req)
	for i, p := range req.Partitions {
		codes[i] = code
		if code != 0 {
			continue
		}
		if _, in := x.partitions[p]; !in {
			codes[i] = kerr.TransactionAbortable.Code
		}
	}
	// Parked: the answer may rest on a record that is not committed yet.
	t.Reply(func(err error) {
		if err != nil {
			for i := range codes {
				codes[i] = ErrorCode(err)
			}
		}
		done(codes)
	})
}

// AddPartitions begins a transaction or makes it larger. While the one before is
// being completed it waits, at most limits.TxnPatienceMs, for what Kafka has its
// callers ask again at once (CONCURRENT_TRANSACTIONS).
func (m *Machine) AddPartitions(t *coord.Turn, req AddRequest, done func(code int16)) {
	x, code := m.check(&req)
	switch {
	case code == kerr.ConcurrentTransactions.Code && len(x.waiting) < limits.TxnWaiting:
		x.waiting = append(x.waiting, func(t *coord.Turn, expired bool) {
			if expired {
				done(kerr.ConcurrentTransactions.Code)
				return
			}
			m.AddPartitions(t, req, done)
		})
		if !x.patience.Active() {
			t.Schedule(&x.patience, t.NowMs+limits.TxnPatienceMs)
		}
		return
	case code == 0 && (x.state != Ongoing || !x.hasAll(req.Partitions)):
		d := x.next(Ongoing, t.WallMs)
		if x.state != Ongoing {
			d.startMs = t.WallMs
		}
		d.clientVersion = req.ClientVersion
		d.partitions = maps.Clone(x.partitions)
		if d.partitions == nil {
			d.partitions = map[TopicPartition]struct{}{}
		}
		for _, p := range req.Partitions {
			d.partitions[p] = struct{}{}
		}
		if !m.put(t, x.id, &d) {
			code = kerr.UnknownServerError.Code
		}
	}
	reply(t, code, done)
}

func (x *transaction) hasAll(partitions []TopicPartition) bool {
	for _, p := range partitions {
		if _, in := x.partitions[p]; !in {
			return false
		}
	}
	return true
}

// wake goes on with the requests that wait for the end of the transaction.
func (m *Machine) wake(t *coord.Turn, x *transaction, expired bool) {
	waiting := x.waiting
	x.waiting = nil
	t.Cancel(&x.patience)
	for _, wait := range waiting {
		wait(t, expired)
	}
}
