package txn

import (
	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kerr"
)

// InitRequest asks for a producer id and epoch. The handler has checked the
// timeout's bounds and that the id is not empty.
type InitRequest struct {
	TransactionalID string
	TimeoutMs       int32
	// ProducerID and ProducerEpoch are what the producer has now; both -1: a new
	// producer, which fences the others (KIP-360).
	ProducerID    int64
	ProducerEpoch int16
	// FreshProducerID was never used; -1: none was made yet.
	FreshProducerID int64
}

// InitResult answers an InitRequest.
type InitResult struct {
	Code          int16
	ProducerID    int64
	ProducerEpoch int16
	// NeedsProducerID: ask again, with a fresh producer id. Nothing has happened.
	NeedsProducerID bool
}

func initFailed(code int16) InitResult {
	return InitResult{Code: code, ProducerID: noProducerID, ProducerEpoch: noProducerEpoch}
}

// InitProducerID begins a producer's session: it aborts what is open and hands out
// the next epoch (TransactionCoordinator.handleInitProducerId).
func (m *Machine) InitProducerID(t *coord.Turn, req InitRequest, done func(InitResult)) {
	answer := func(r InitResult) {
		t.Reply(func(err error) {
			if err != nil {
				r = initFailed(ErrorCode(err))
			}
			done(r)
		})
	}
	x := m.transactions[req.TransactionalID]
	switch {
	case x == nil:
		if req.FreshProducerID < 0 {
			done(InitResult{NeedsProducerID: true})
			return
		}
		d := metadata{producerID: req.FreshProducerID, previousProducerID: noProducerID, nextProducerID: noProducerID,
			timeoutMs: req.TimeoutMs, state: Empty, startMs: noTimestamp, updateMs: t.WallMs}
		answer(m.initialise(t, req.TransactionalID, &d, noProducerEpoch))
	case req.ProducerID >= 0 && req.ProducerID != x.producerID &&
		!(req.ProducerID == x.previousProducerID && epochExhausted(req.ProducerEpoch)):
		answer(initFailed(kerr.ProducerFenced.Code))
	case x.state.prepared():
		answer(initFailed(kerr.ConcurrentTransactions.Code))
	case x.state == Ongoing:
		// The epoch that this bump makes is never handed out: the client asks again and
		// gets the one after it.
		if code := m.fence(t, x); code != 0 {
			answer(initFailed(code))
			return
		}
		answer(initFailed(kerr.ConcurrentTransactions.Code))
	default:
		m.initKnown(t, x, req, done, answer)
	}
}

// initKnown is for an id without a transaction under way.
func (m *Machine) initKnown(t *coord.Turn, x *transaction, req InitRequest, done, answer func(InitResult)) {
	expected := req.ProducerID >= 0
	d := x.next(Empty, t.WallMs)
	d.timeoutMs, d.partitions, d.startMs = req.TimeoutMs, nil, noTimestamp
	lastEpoch := noProducerEpoch
	switch {
	case epochExhausted(x.epoch) && (!expected || req.ProducerEpoch == x.epoch):
		if req.FreshProducerID < 0 {
			done(InitResult{NeedsProducerID: true})
			return
		}
		if expected {
			lastEpoch = x.epoch
		}
		d.producerID, d.epoch = req.FreshProducerID, 0
	case !expected:
		d.epoch++
	case req.ProducerEpoch == x.epoch:
		lastEpoch = x.epoch
		d.epoch++
	case req.ProducerEpoch == x.lastEpoch:
		lastEpoch = x.lastEpoch // the repetition of a call whose answer was lost
	default:
		answer(initFailed(kerr.ProducerFenced.Code))
		return
	}
	answer(m.initialise(t, x.id, &d, lastEpoch))
}

func (m *Machine) initialise(t *coord.Turn, id string, d *metadata, lastEpoch int16) InitResult {
	if !m.put(t, id, d) {
		return initFailed(kerr.UnknownServerError.Code)
	}
	m.transactions[id].lastEpoch = lastEpoch
	return InitResult{ProducerID: d.producerID, ProducerEpoch: d.epoch}
}
