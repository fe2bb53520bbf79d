package coord

// Turn is what a machine sees of the world while it handles events: the time and
// the ways out. It is valid during the call that it is passed to.
type Turn struct {
	// NowMs is monotonic milliseconds since an arbitrary start. All deadlines are on this clock.
	NowMs int64
	// WallMs is the time of day in ms since 1970, for timestamps in records.
	WallMs int64

	core *core
}

// Emit replays the records and puts them into the batch that is appended at the
// end of the turn. They are atomic: all of them stand in one batch of the log,
// so after a crash all or none of them are there. ErrTooLarge means that they do
// not fit and that nothing has happened. The bytes are copied.
func (t *Turn) Emit(records ...Record) error { return t.core.emit(t, records) }

// EmitInTransaction is Emit for records that count when the producer's transaction
// commits: they stand in a transactional batch of their own. ErrProducerFenced: the
// log knows a newer epoch; as for ErrTooLarge, nothing has happened.
func (t *Turn) EmitInTransaction(producerID int64, producerEpoch int16, records ...Record) error {
	return t.core.emitInTransaction(t, producerID, producerEpoch, records)
}

// CheckProducer is ErrProducerFenced when EmitInTransaction would be.
func (t *Turn) CheckProducer(producerID int64, producerEpoch int16) error {
	return t.core.checkProducer(producerID, producerEpoch, false, false, 0)
}

// EmitMarker ends the producer's transaction in this log: it replays the marker at
// once and appends it as a control batch. raised: the epoch is above that of the
// transaction, as it is from transaction version 2 on. ErrProducerFenced as above.
func (t *Turn) EmitMarker(producerID int64, producerEpoch int16, coordinatorEpoch int32, commit, raised bool) error {
	return t.core.emitMarker(t, producerID, producerEpoch, coordinatorEpoch, commit, raised)
}

// Reply calls reply with nil once everything that was emitted to the shard so far,
// by whichever event, is committed, at once if it is already; or with an error
// when the shard is unloaded before. Reads go through it too: what they
// have seen may not be committed yet.
func (t *Turn) Reply(reply func(err error)) { t.core.park(reply) }

// Schedule arms the timer; one that is armed is moved.
func (t *Turn) Schedule(timer *Timer, atMs int64) { t.core.timers.schedule(timer, atMs) }

// Cancel disarms the timer; an idle one stays idle.
func (t *Turn) Cancel(timer *Timer) { t.core.timers.cancel(timer) }

// Offload runs work on another goroutine, for what would hold the shard up, and then
// done in a later turn: once, or never when this incarnation ends before. work may
// touch what nobody changes any more, and nothing else of the machine; what done finds
// has moved on meanwhile. Of a whole runtime few run at a time, in their order.
func (t *Turn) Offload(work func(), done func(t *Turn)) {
	t.core.offload(work, done)
}
