package logstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

// producerWindow is how many batches of a producer are remembered (ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const producerWindow = 5

type producerBatch struct {
	lastSequence int32
	offsetDelta  int32
	lastOffset   int64
	timestampMs  int64
}

func (b *producerBatch) firstSequence() int32 {
	return batch.AddSequence(b.lastSequence, -b.offsetDelta)
}

// producer is what a partition knows of one producer id.
type producer struct {
	epoch            int16
	coordinatorEpoch int32
	count            int8 // batches in use, oldest first
	lastTimestampMs  int64
	txnFirstOffset   int64 // -1: no open transaction
	batches          [producerWindow]producerBatch
}

func (e *producer) add(b producerBatch) {
	if e.count == producerWindow {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = b
	e.count++
}

func (e *producer) find(v batch.View) *producerBatch {
	if e.epoch != v.ProducerEpoch() {
		return nil
	}
	for i := range e.batches[:e.count] {
		if b := &e.batches[i]; b.firstSequence() == v.BaseSequence() && b.lastSequence == v.LastSequence() {
			return b
		}
	}
	return nil
}

// transaction is one that holds the last stable offset down: open (lastOffset -1), or ended by a marker that is not yet
// below the high watermark.
type transaction struct {
	producerID int64
	first      position
	lastOffset int64
	aborted    bool
}

// position is an offset and where its batch stands.
type position struct {
	offset int64
	base   int64 // base offset of the segment, -1: unknown
	at     int64 // bytes from the start of the segment
}

// producerStates is the idempotence and transaction state of a partition. Owner: Partition.mu.
type producerStates struct {
	byID         map[int64]*producer
	transactions []transaction // by first offset
	// snapshotOffset is the newest .snapshot on disk (or queued); lastOffset the end of what was applied.
	snapshotOffset int64
	changed        bool // since snapshotOffset
}

// check decides over a data batch without changing anything. It returns the batch of the window that v repeats.
// Matches ProducerStateManager and ProducerAppendInfo.
func (s *producerStates) check(v batch.View, origin Origin) (*producerBatch, error) {
	e := s.byID[v.ProducerID()]
	if e == nil {
		return nil, nil // a producer that the partition knows nothing of may begin at any sequence
	}
	if origin == OriginClient {
		if b := e.find(v); b != nil {
			return b, nil
		}
	}
	if v.ProducerEpoch() < e.epoch {
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, v.ProducerID(), e.epoch, v.ProducerEpoch())
	}
	if origin == OriginClient {
		if err := e.checkSequence(v); err != nil {
			return nil, err
		}
	}
	if e.txnFirstOffset >= 0 && !v.IsTransactional() {
		return nil, fmt.Errorf("%w: producer %d has an open transaction and wrote outside of it", ErrInvalidTxnState, v.ProducerID())
	}
	return nil, nil
}

func (e *producer) checkSequence(v batch.View) error {
	first := v.BaseSequence()
	if v.ProducerEpoch() != e.epoch {
		if first != 0 {
			return fmt.Errorf("%w: producer %d began epoch %d with sequence %d instead of 0", ErrOutOfOrderSequence, v.ProducerID(), v.ProducerEpoch(), first)
		}
		return nil
	}
	last := int32(-1)
	if e.count > 0 {
		last = e.batches[e.count-1].lastSequence
	}
	if last >= 0 && first == batch.AddSequence(last, 1) || last < 0 && first == 0 {
		return nil
	}
	return fmt.Errorf("%w: producer %d epoch %d: sequence %d came, %d was the last", ErrOutOfOrderSequence, v.ProducerID(), e.epoch, first, last)
}

// checkMarker decides over a control batch.
func (s *producerStates) checkMarker(v batch.View, m marker) error {
	e := s.byID[v.ProducerID()]
	if e == nil {
		return nil
	}
	if v.ProducerEpoch() < e.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the marker %d", ErrInvalidProducerEpoch, v.ProducerID(), e.epoch, v.ProducerEpoch())
	}
	if m.coordinatorEpoch < e.coordinatorEpoch {
		return fmt.Errorf("%w: coordinator epoch %d, the marker says %d", ErrInvalidTxnState, e.coordinatorEpoch, m.coordinatorEpoch)
	}
	return nil
}

// marker is the content of an end-transaction batch.
type marker struct {
	valid            bool // false: another kind of control batch
	commit           bool
	coordinatorEpoch int32
}

func parseMarker(v batch.View) (marker, error) {
	it, err := v.Records(limits.DecompressedBatchBytes)
	if err != nil {
		return marker{}, err
	}
	defer it.Close()
	if !it.Next() {
		return marker{}, it.Err()
	}
	kind, epoch, err := batch.ParseEndTxnMarker(it.Record())
	if err != nil {
		return marker{}, err
	}
	return marker{kind == batch.ControlAbort || kind == batch.ControlCommit, kind == batch.ControlCommit, epoch}, nil
}

// apply takes over a batch that stands in the log at position at. It returns the transaction that a marker aborted.
func (s *producerStates) apply(v batch.View, m marker, at position, nowMs int64) {
	if !v.HasProducerID() {
		return
	}
	s.changed = true
	e := s.byID[v.ProducerID()]
	if e == nil {
		e = &producer{epoch: v.ProducerEpoch(), coordinatorEpoch: -1, txnFirstOffset: -1}
		s.makeRoom()
		s.byID[v.ProducerID()] = e
	}
	if e.epoch != v.ProducerEpoch() {
		e.epoch, e.count = v.ProducerEpoch(), 0
	}
	e.lastTimestampMs = max(e.lastTimestampMs, nowMs)
	if v.IsControl() {
		if m.valid {
			e.coordinatorEpoch = m.coordinatorEpoch
			s.end(v.ProducerID(), e, v.LastOffset(), !m.commit)
		}
		return
	}
	if v.BaseSequence() >= 0 {
		e.add(producerBatch{v.LastSequence(), v.LastOffsetDelta(), v.LastOffset(), v.MaxTimestamp()})
	}
	if v.IsTransactional() && e.txnFirstOffset < 0 {
		e.txnFirstOffset = at.offset
		s.transactions = append(s.transactions, transaction{producerID: v.ProducerID(), first: at, lastOffset: -1})
	}
}

// end closes the producer's transaction at the marker's offset.
func (s *producerStates) end(producerID int64, e *producer, markerOffset int64, aborted bool) {
	if e.txnFirstOffset < 0 {
		return
	}
	e.txnFirstOffset = -1
	for i := range s.transactions {
		if t := &s.transactions[i]; t.producerID == producerID && t.lastOffset < 0 {
			t.lastOffset, t.aborted = markerOffset, aborted
			return
		}
	}
}

// abortedBy is the index entry that the marker makes, if it aborts an open transaction.
func (s *producerStates) abortedBy(v batch.View, m marker) (AbortedTxn, bool) {
	e := s.byID[v.ProducerID()]
	if e == nil || e.txnFirstOffset < 0 || !m.valid || m.commit {
		return AbortedTxn{}, false
	}
	stable := v.LastOffset() + 1
	for _, t := range s.transactions {
		if t.lastOffset < 0 && t.producerID != v.ProducerID() {
			stable = t.first.offset
			break
		}
	}
	return AbortedTxn{ProducerID: v.ProducerID(), FirstOffset: e.txnFirstOffset, LastOffset: v.LastOffset(), LastStableOffset: stable}, true
}

// committed forgets transactions whose marker lies below the high watermark and returns the first one that is left.
func (s *producerStates) committed(highWatermark int64) (first position, any bool) {
	if len(s.transactions) == 0 {
		return position{}, false
	}
	kept := s.transactions[:0]
	for _, t := range s.transactions {
		if t.lastOffset < 0 || t.lastOffset >= highWatermark {
			kept = append(kept, t)
		}
	}
	s.transactions = kept
	if len(kept) == 0 {
		return position{}, false
	}
	return kept[0].first, true
}

// expire forgets producers that were silent for expirationMs and have no open transaction.
func (s *producerStates) expire(nowMs, expirationMs int64) {
	for id, e := range s.byID {
		if e.txnFirstOffset < 0 && nowMs-e.lastTimestampMs >= expirationMs {
			delete(s.byID, id)
			s.changed = true
		}
	}
}

// makeRoom keeps the map below its bound by forgetting the tenth that was silent for longest.
func (s *producerStates) makeRoom() {
	if len(s.byID) < limits.ProducersPerPartition {
		return
	}
	times := make([]int64, 0, len(s.byID))
	for _, e := range s.byID {
		if e.txnFirstOffset < 0 {
			times = append(times, e.lastTimestampMs)
		}
	}
	if len(times) == 0 {
		return // all in open transactions: the transaction coordinator's timeouts bound them
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	cut := times[len(times)/10]
	for id, e := range s.byID {
		if e.txnFirstOffset < 0 && e.lastTimestampMs <= cut {
			delete(s.byID, id)
		}
	}
}

// Snapshot format (ProducerStateManager.java, message ProducerSnapshot v1), big-endian; docs/format/snapshot.md:
//
//	version int16 = 1, crc uint32 (CRC32C of what follows), count int32, then per producer 46 bytes:
//	producerId int64, epoch int16, lastSequence int32, lastOffset int64, offsetDelta int32, timestamp int64,
//	coordinatorEpoch int32, currentTxnFirstOffset int64
const (
	snapshotVersion     = 1
	snapshotHeaderBytes = 10
	snapshotEntryBytes  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *producerStates) encode() []byte {
	ids := make([]int64, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	b := make([]byte, snapshotHeaderBytes, snapshotHeaderBytes+len(ids)*snapshotEntryBytes)
	for _, id := range ids {
		e := s.byID[id]
		last := producerBatch{lastSequence: -1, lastOffset: -1}
		if e.count > 0 {
			last = e.batches[e.count-1]
		}
		b = binary.BigEndian.AppendUint64(b, uint64(id))
		b = binary.BigEndian.AppendUint16(b, uint16(e.epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(last.lastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(last.offsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(e.lastTimestampMs))
		b = binary.BigEndian.AppendUint32(b, uint32(e.coordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.txnFirstOffset))
	}
	put16(b, snapshotVersion)
	put32(b[6:], int32(len(ids)))
	binary.BigEndian.PutUint32(b[2:], crc32.Checksum(b[6:], castagnoli))
	return b
}

func decodeSnapshot(b []byte) (*producerStates, error) {
	if len(b) < snapshotHeaderBytes {
		return nil, fmt.Errorf("snapshot of %d bytes", len(b))
	}
	if v := be16(b); v != snapshotVersion {
		return nil, fmt.Errorf("snapshot version %d", v)
	}
	if got, want := crc32.Checksum(b[6:], castagnoli), binary.BigEndian.Uint32(b[2:]); got != want {
		return nil, fmt.Errorf("snapshot CRC32C is %#x, computed %#x", want, got)
	}
	if n := be32(b[6:]); n < 0 || int64(len(b)-snapshotHeaderBytes) != int64(n)*snapshotEntryBytes {
		return nil, fmt.Errorf("snapshot of %d producers has %d bytes", n, len(b))
	}
	s := newProducerStates()
	for at := snapshotHeaderBytes; at < len(b); at += snapshotEntryBytes {
		r := b[at:]
		e := &producer{epoch: be16(r[8:]), lastTimestampMs: be64(r[26:]), coordinatorEpoch: be32(r[34:]), txnFirstOffset: be64(r[38:])}
		if seq := be32(r[10:]); seq >= 0 {
			e.add(producerBatch{seq, be32(r[22:]), be64(r[14:]), e.lastTimestampMs})
		}
		id := be64(r)
		s.byID[id] = e
		if e.txnFirstOffset >= 0 {
			s.transactions = append(s.transactions, transaction{producerID: id, first: position{e.txnFirstOffset, -1, 0}, lastOffset: -1})
		}
	}
	sort.Slice(s.transactions, func(i, j int) bool { return s.transactions[i].first.offset < s.transactions[j].first.offset })
	return s, nil
}

func newProducerStates() *producerStates {
	return &producerStates{byID: map[int64]*producer{}, snapshotOffset: -1}
}
