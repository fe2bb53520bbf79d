package txn

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"kaas/coord"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Machine is the state machine of one shard: all transactional ids that hash to it.
// Owner: the shard's goroutine.
type Machine struct {
	config *Config
	logger *slog.Logger
	counts *Counters
	// coordinatorEpoch goes into the markers: the leader epoch of the shard's partition.
	coordinatorEpoch int32

	transactions map[string]*transaction
	// mostTransactions since the map was made; a map never gives memory back by itself.
	mostTransactions int
	// ongoing are the ids in state Ongoing: what the look for timeouts goes through.
	ongoing map[string]*transaction

	timeouts   coord.Timer // next look for transactions that are open for too long
	expiry     coord.Timer // next look for ids that are not used any more
	expiryLeft []string    // ids of a look under way
}

// NewMachine returns an empty machine.
func NewMachine(config *Config, coordinatorEpoch int32) *Machine {
	m := &Machine{config: config, logger: config.Logger, counts: config.Counters, coordinatorEpoch: coordinatorEpoch, transactions: map[string]*transaction{}, ongoing: map[string]*transaction{}}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	if m.counts == nil {
		m.counts = &Counters{}
	}
	m.timeouts.Fire = m.abortTimedOut
	m.expiry.Fire = m.removeExpired
	return m
}

// Replay applies one record to the durable half, live and at load.
func (m *Machine) Replay(r *coord.Record) error {
	id, err := decodeKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		m.forget(id)
		return nil
	}
	d, err := decodeValue(r.Value)
	if err != nil {
		return err
	}
	x := m.transactions[id]
	if x == nil {
		x = &transaction{id: id, lastEpoch: noProducerEpoch}
		x.retry.Fire = func(t *coord.Turn) { m.writeMarkers(t, x) }
		x.patience.Fire = func(t *coord.Turn) { m.wake(t, x, true) }
		m.transactions[id] = x
		m.mostTransactions = max(m.mostTransactions, len(m.transactions))
	}
	x.metadata = d
	if d.state == Ongoing {
		m.ongoing[id] = x
	} else {
		delete(m.ongoing, id)
	}
	return nil
}

func (m *Machine) forget(id string) {
	delete(m.ongoing, id)
	delete(m.transactions, id)
	if m.mostTransactions > limits.TxnMapKept && len(m.transactions) < m.mostTransactions/4 {
		smaller := make(map[string]*transaction, len(m.transactions))
		maps.Copy(smaller, m.transactions)
		m.transactions, m.mostTransactions = smaller, len(smaller)
	}
}

// ReplayMarker implements coord.Machine: nobody writes transactions into the
// transaction log itself; a marker in it (by hand, WriteTxnMarkers) ends nothing.
func (m *Machine) ReplayMarker(int64, int16, bool) error { return nil }

// Loaded writes the markers of transactions whose end was decided before the load.
func (m *Machine) Loaded(t *coord.Turn) {
	for _, id := range m.sortedIDs() {
		if x := m.transactions[id]; x.state.prepared() {
			m.beginMarkers(t, x)
		}
	}
	t.Schedule(&m.timeouts, t.NowMs+m.config.AbortTimedOutIntervalMs)
	t.Schedule(&m.expiry, t.NowMs+m.config.RemoveExpiredIntervalMs)
}

// Unloaded implements coord.Machine.
func (m *Machine) Unloaded(error) {
	for _, id := range m.sortedIDs() {
		for _, wait := range m.transactions[id].waiting {
			wait(nil, true)
		}
	}
	m.transactions, m.ongoing = nil, nil
}

// put emits the next metadata of an id. False: it does not fit into a batch.
func (m *Machine) put(t *coord.Turn, id string, d *metadata) bool {
	r := record(id, d)
	if len(r.Value) > limits.TxnRecordBytes && d.state == Ongoing {
		m.logger.Warn("a transaction has too many partitions", "transactionalId", id, "partitions", len(d.partitions), "bytes", len(r.Value), "limit", limits.TxnRecordBytes)
		return false
	}
	if err := t.Emit(r); err != nil {
		m.logger.Error("a transaction's record does not fit into max.message.bytes of the transaction log", "transactionalId", id, "error", err)
		return false
	}
	return true
}

// next is the metadata that a transition begins with (TransactionMetadata.TransitionData).
func (x *transaction) next(state State, wallMs int64) metadata {
	d := x.metadata
	d.state, d.updateMs, d.previousProducerID = state, wallMs, x.producerID
	return d
}

func (m *Machine) sortedIDs() []string { return slices.Sorted(maps.Keys(m.transactions)) }

// Transactions is the number of transactional ids in memory.
func (m *Machine) Transactions() int { return len(m.transactions) }

// ErrorCode is what a client is told when coord could not handle its request.
func ErrorCode(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, coord.ErrNotCoordinator):
		return kerr.NotCoordinator.Code
	case errors.Is(err, coord.ErrLoading), errors.Is(err, coord.ErrOverloaded):
		return kerr.CoordinatorLoadInProgress.Code
	case errors.Is(err, coord.ErrLogFailed):
		return kerr.CoordinatorNotAvailable.Code
	default:
		return kerr.UnknownServerError.Code
	}
}

// reply sends code after the commit of all that it was made from.
func reply(t *coord.Turn, code int16, done func(code int16)) {
	t.Reply(func(err error) {
		if err != nil {
			done(ErrorCode(err))
			return
		}
		done(code)
	})
}

func (x *transaction) String() string {
	return fmt.Sprintf("%s: producer %d epoch %d, %s", x.id, x.producerID, x.epoch, x.state)
}
