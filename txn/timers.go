package txn

import (
	"maps"
	"slices"

	"kaas/coord"
	"kaas/internal/limits"
)

// abortTimedOut aborts transactions that are open for longer than their producer
// has asked for.
func (m *Machine) abortTimedOut(t *coord.Turn) {
	t.Schedule(&m.timeouts, t.NowMs+m.config.AbortTimedOutIntervalMs)
	for _, id := range slices.Sorted(maps.Keys(m.ongoing)) {
		x := m.ongoing[id]
		if x.startMs+int64(x.timeoutMs) >= t.WallMs {
			continue
		}
		m.logger.Info("a transaction is aborted, its time is over", "transactionalId", id, "producerId", x.producerID, "epoch", x.epoch,
			"startMs", x.startMs, "timeoutMs", x.timeoutMs)
		if m.fence(t, x) == 0 { // else it did not fit, is logged, and tried again by the next look
			m.counts.TimedOut.Add(1)
		}
	}
}

// removeExpired forgets ids that were not used for transactional.id.expiration.ms,
// in turns of bounded size.
func (m *Machine) removeExpired(t *coord.Turn) {
	if len(m.expiryLeft) == 0 {
		for id, x := range m.transactions {
			if m.expired(t, x) {
				m.expiryLeft = append(m.expiryLeft, id)
			}
		}
		slices.Sort(m.expiryLeft)
	}
	n := min(len(m.expiryLeft), limits.TxnExpirationsPerTurn)
	for _, id := range m.expiryLeft[:n] {
		if x := m.transactions[id]; x != nil && m.expired(t, x) {
			if err := t.Emit(tombstone(id)); err != nil {
				m.logger.Error("a tombstone does not fit into max.message.bytes of the transaction log", "transactionalId", id, "error", err)
			}
		}
	}
	if m.expiryLeft = m.expiryLeft[n:]; len(m.expiryLeft) > 0 {
		t.Schedule(&m.expiry, t.NowMs)
		return
	}
	m.expiryLeft = nil
	t.Schedule(&m.expiry, t.NowMs+m.config.RemoveExpiredIntervalMs)
}

func (m *Machine) expired(t *coord.Turn, x *transaction) bool {
	return x.state != Ongoing && !x.state.prepared() && x.updateMs <= t.WallMs-m.config.ExpirationMs
}
