package txn

import (
	"kaas/coord"
	"kaas/internal/limits"
)

// beginMarkers has the markers of a prepared transaction written.
func (m *Machine) beginMarkers(t *coord.Turn, x *transaction) {
	if len(x.partitions) == 0 {
		m.complete(t, x)
		return
	}
	x.outstanding = make(map[TopicPartition]struct{}, len(x.partitions))
	for p := range x.partitions {
		x.outstanding[p] = struct{}{}
	}
	x.retryMs = limits.TxnMarkerRetryFirstMs
	m.writeMarkers(t, x)
}

// writeMarkers hands out the markers that are outstanding, once the decision is
// committed: a marker that a crash could contradict must never be seen.
func (m *Machine) writeMarkers(t *coord.Turn, x *transaction) {
	x.attempt++
	markers := Markers{
		TransactionalID: x.id, ProducerID: x.producerID, ProducerEpoch: x.epoch, CoordinatorEpoch: m.coordinatorEpoch,
		Commit: x.state == PrepareCommit, Raised: x.clientVersion >= Version2, Attempt: x.attempt,
	}
	for _, p := range x.sortedPartitions() {
		if _, out := x.outstanding[p]; out {
			markers.Partitions = append(markers.Partitions, p)
		}
	}
	t.Reply(func(err error) {
		if err == nil { // else the shard is loaded again, and Loaded begins anew
			m.config.WriteMarkers(markers)
		}
	})
}

// MarkersWritten says what became of markers, in the order of their partitions.
// Answers of an older attempt, or of a machine before the last load, say nothing.
func (m *Machine) MarkersWritten(t *coord.Turn, markers Markers, results []MarkerResult) {
	x := m.transactions[markers.TransactionalID]
	if x == nil || !x.state.prepared() || x.producerID != markers.ProducerID || x.epoch != markers.ProducerEpoch || x.attempt != markers.Attempt {
		return
	}
	for i, p := range markers.Partitions {
		if results[i] == MarkerDone {
			delete(x.outstanding, p)
		}
	}
	if len(x.outstanding) == 0 {
		m.complete(t, x)
		return
	}
	t.Schedule(&x.retry, t.NowMs+x.retryMs)
	if x.retryMs >= limits.TxnMarkerRetryMaxMs {
		m.logger.Warn("markers of a transaction can't be written; its partitions stay open for read_committed", "transactionalId", x.id,
			"producerId", x.producerID, "epoch", x.epoch, "partitions", len(x.outstanding))
	}
	x.retryMs = min(2*x.retryMs, limits.TxnMarkerRetryMaxMs)
}

// complete ends a prepared transaction whose markers are written.
func (m *Machine) complete(t *coord.Turn, x *transaction) {
	state := CompleteAbort
	if x.state == PrepareCommit {
		state = CompleteCommit
	}
	d := x.next(state, t.WallMs)
	d.partitions = nil
	if x.clientVersion >= Version2 && x.nextProducerID >= 0 {
		// The epochs of the producer id are used up: lastEpoch stays what the client saw last.
		d.producerID, d.epoch = x.nextProducerID, 0
	}
	d.nextProducerID = noProducerID
	x.outstanding = nil
	t.Cancel(&x.retry)
	if !m.put(t, x.id, &d) {
		// Smaller than the record before it, so only a lowered max.message.bytes gets here.
		t.Schedule(&x.retry, t.NowMs+limits.TxnMarkerRetryMaxMs)
		return
	}
	m.wake(t, x, false)
}
