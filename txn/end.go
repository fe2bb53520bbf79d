package txn

import (
	"math"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kerr"
)

// EndRequest commits or aborts a transaction.
type EndRequest struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	Commit          bool
	ClientVersion   int16
	FreshProducerID int64 // as in InitRequest
}

// EndResult answers an EndRequest. Producer id and epoch are what the producer goes
// on with; -1 in errors and for Version0.
type EndResult struct {
	Code            int16
	ProducerID      int64
	ProducerEpoch   int16
	NeedsProducerID bool
}

func endFailed(code int16) EndResult {
	return EndResult{Code: code, ProducerID: noProducerID, ProducerEpoch: noProducerEpoch}
}

// EndTransaction decides the end of a transaction. The answer leaves when the
// decision is committed; the markers are written after it.
func (m *Machine) EndTransaction(t *coord.Turn, req EndRequest, done func(EndResult)) {
	x := m.transactions[req.TransactionalID]
	var r EndResult
	switch {
	case x == nil:
		r = endFailed(kerr.InvalidProducerIDMapping.Code)
	case req.ClientVersion >= Version2:
		r = m.endV2(t, x, &req)
	default:
		r = m.endV0(t, x, &req)
	}
	if r.NeedsProducerID {
		done(r)
		return
	}
	t.Reply(func(err error) {
		if err != nil {
			r = endFailed(ErrorCode(err))
		}
		done(r)
	})
}

// repeated is the answer to an end in a state that is past it.
func repeated(state State, commit bool) int16 {
	switch {
	case state == CompleteCommit && commit, state == CompleteAbort && !commit:
		return 0
	case state == PrepareCommit && commit, state == PrepareAbort && !commit:
		return kerr.ConcurrentTransactions.Code
	}
	return kerr.InvalidTxnState.Code
}

func (m *Machine) decided(commit bool) {
	if commit {
		m.counts.Committed.Add(1)
	} else {
		m.counts.Aborted.Add(1)
	}
}

func prepareState(commit bool) State {
	if commit {
		return PrepareCommit
	}
	return PrepareAbort
}

// endV0 is for clients whose epoch stays (endTransactionWithTV1).
func (m *Machine) endV0(t *coord.Turn, x *transaction, req *EndRequest) EndResult {
	switch {
	case x.producerID != req.ProducerID:
		return endFailed(kerr.InvalidProducerIDMapping.Code)
	case x.epoch != req.ProducerEpoch:
		return endFailed(kerr.ProducerFenced.Code)
	case x.state != Ongoing:
		return endFailed(repeated(x.state, req.Commit))
	}
	d := x.next(prepareState(req.Commit), t.WallMs)
	d.nextProducerID, d.clientVersion = noProducerID, Version0
	if !m.put(t, x.id, &d) {
		return endFailed(kerr.UnknownServerError.Code)
	}
	m.decided(req.Commit)
	m.beginMarkers(t, x)
	return endFailed(0)
}

// endV2 is for clients whose epoch rises at each end (KIP-890 part 2). A repetition
// is known by the epoch before; the same epoch means the next transaction, of which
// an abort is allowed even when nothing was written in it.
func (m *Machine) endV2(t *coord.Turn, x *transaction, req *EndRequest) EndResult {
	onOverflow := x.previousProducerID == req.ProducerID && req.ProducerEpoch == math.MaxInt16-1 && x.epoch == 0
	onBump := x.epoch == req.ProducerEpoch+1
	if x.producerID != req.ProducerID && !onOverflow {
		return endFailed(kerr.InvalidProducerIDMapping.Code)
	}
	current, retry := x.epoch == req.ProducerEpoch, onBump || onOverflow
	valid := current
	switch x.state {
	case PrepareCommit, PrepareAbort:
		valid = onBump
	case CompleteCommit, CompleteAbort:
		valid = current || retry
	}
	switch {
	case !valid, x.epoch == math.MaxInt16 && x.state != Ongoing: // fenced with the last epoch there is, which nobody gets
		return endFailed(kerr.ProducerFenced.Code)
	case x.state == Ongoing:
	case x.state.prepared(), retry:
		if code := repeated(x.state, req.Commit); code != 0 {
			return endFailed(code)
		}
		return EndResult{ProducerID: x.producerID, ProducerEpoch: x.epoch}
	case req.Commit:
		return endFailed(kerr.InvalidTxnState.Code)
	}
	fresh := noProducerID
	if epochExhausted(x.epoch) {
		if fresh = req.FreshProducerID; fresh < 0 {
			return EndResult{NeedsProducerID: true}
		}
	}
	if code := m.prepareV2(t, x, req.Commit, fresh); code != 0 {
		return endFailed(code)
	}
	if fresh >= 0 {
		return EndResult{ProducerID: fresh, ProducerEpoch: 0}
	}
	return EndResult{ProducerID: x.producerID, ProducerEpoch: x.epoch}
}

// prepareV2 decides the end with a bump of the epoch.
func (m *Machine) prepareV2(t *coord.Turn, x *transaction, commit bool, fresh int64) int16 {
	d := x.next(prepareState(commit), t.WallMs)
	if x.state != Ongoing {
		d.startMs = t.WallMs // an abort of nothing
	}
	lastEpoch := x.epoch
	d.nextProducerID, d.clientVersion = fresh, Version2
	if x.epoch < math.MaxInt16 {
		d.epoch++
	} else {
		// Only a log of somebody else says that this epoch was handed out. It can't rise,
		// so the end is one of version 0.
		d.nextProducerID, d.clientVersion = noProducerID, Version0
	}
	if !m.put(t, x.id, &d) {
		return kerr.UnknownServerError.Code
	}
	x.lastEpoch = lastEpoch
	m.decided(commit)
	m.beginMarkers(t, x)
	return 0
}

// fence aborts an open transaction against its producer's will: another one has
// come with the same id, or its time is over. The bump makes the partitions refuse
// the old epoch as soon as the marker is there. An epoch of 32767 is possible here
// and only here, see epochExhausted.
func (m *Machine) fence(t *coord.Turn, x *transaction) int16 {
	return m.prepareV2(t, x, false, noProducerID)
}
