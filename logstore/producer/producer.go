package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"maps"
	"sort"
	"sync"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/logstore/index"
)

// Errors of Check and CheckMarker.
var (
	ErrOutOfOrderSequence   = errors.New("out of order sequence number")
	ErrInvalidProducerEpoch = errors.New("invalid producer epoch")
	ErrInvalidTxnState      = errors.New("invalid transaction state")
	ErrCoordinatorFenced    = errors.New("fenced transaction coordinator")
)

// Window is how many batches of a producer are remembered (ProducerStateEntry.NUM_BATCHES_TO_RETAIN).
const Window = 5

// Batch is one of the batches that are remembered.
type Batch struct {
	lastSequence int32
	offsetDelta  int32
	LastOffset   int64
	TimestampMs  int64 // largest timestamp
}

// FirstOffset is the offset of its first record.
func (b *Batch) FirstOffset() int64 { return b.LastOffset - int64(b.offsetDelta) }

func (b *Batch) firstSequence() int32 {
	return batch.AddSequence(b.lastSequence, -b.offsetDelta)
}

// entry is what a partition knows of one producer id.
type entry struct {
	epoch            int16
	coordinatorEpoch int32
	count            int8 // batches in use, oldest first
	lastTimestampMs  int64
	txnFirstOffset   int64 // -1: no open transaction
	batches          [Window]Batch
}

func (e *entry) add(b Batch) {
	if e.count == Window {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = b
	e.count++
}

func (e *entry) find(v batch.View) *Batch {
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
	first      Position
	lastOffset int64
	aborted    bool
}

// Position is an offset and where its batch stands.
type Position struct {
	Offset int64
	Base   int64 // base offset of the segment, -1: unknown
	At     int64 // bytes from the start of the segment
}

// States is the idempotence and transaction state of a partition. It has no lock: the partition's owner serialises.
type States struct {
	byID         map[int64]*entry
	transactions []transaction // by first offset
	// SnapshotOffset is the newest .snapshot on disk (or queued); lastOffset the end of what was applied.
	SnapshotOffset int64
	Changed        bool                    // since SnapshotOffset
	verifying      map[int64]*verification // by producer id; nil when there were none yet
	lastGuard      uint64
	snapshots      []*Snapshot // not encoded yet, oldest first
}

// Check decides over a data batch without changing anything. It returns the batch of the window that v repeats.
// Matches ProducerStateManager and ProducerAppendInfo.
func (s *States) Check(v batch.View, fromClient bool) (*Batch, error) {
	e := s.byID[v.ProducerID()]
	if e == nil {
		return nil, nil // a producer that the partition knows nothing of may begin at any sequence
	}
	if fromClient {
		if b := e.find(v); b != nil {
			return b, nil
		}
	}
	if v.ProducerEpoch() < e.epoch {
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, v.ProducerID(), e.epoch, v.ProducerEpoch())
	}
	if fromClient {
		if err := e.checkSequence(v); err != nil {
			return nil, err
		}
	}
	if e.txnFirstOffset >= 0 && !v.IsTransactional() {
		return nil, fmt.Errorf("%w: producer %d has an open transaction and wrote outside of it", ErrInvalidTxnState, v.ProducerID())
	}
	return nil, nil
}

func (e *entry) checkSequence(v batch.View) error {
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

// CheckMarker decides over a control batch.
func (s *States) CheckMarker(v batch.View, m Marker) error {
	e := s.byID[v.ProducerID()]
	if e == nil {
		return nil
	}
	if v.ProducerEpoch() < e.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the marker %d", ErrInvalidProducerEpoch, v.ProducerID(), e.epoch, v.ProducerEpoch())
	}
	if m.coordinatorEpoch < e.coordinatorEpoch {
		return fmt.Errorf("%w: epoch %d, the marker says %d", ErrCoordinatorFenced, e.coordinatorEpoch, m.coordinatorEpoch)
	}
	return nil
}

// Marker is the content of an end-transaction batch.
type Marker struct {
	valid            bool // false: another kind of control batch
	commit           bool
	coordinatorEpoch int32
}

// IsEndTxn says that it ends a transaction; other control batches do not.
func (m Marker) IsEndTxn() bool { return m.valid }

// IsCommit says that it commits.
func (m Marker) IsCommit() bool { return m.commit }

// ParseMarker reads the first record of a control batch.
func ParseMarker(v batch.View) (Marker, error) {
	it, err := v.Records(limits.DecompressedBatchBytes)
	if err != nil {
		return Marker{}, err
	}
	defer it.Close()
	if !it.Next() {
		return Marker{}, it.Err()
	}
	kind, epoch, err := batch.ParseEndTxnMarker(it.Record())
	if err != nil {
		return Marker{}, err
	}
	return Marker{kind == batch.ControlAbort || kind == batch.ControlCommit, kind == batch.ControlCommit, epoch}, nil
}

// Apply takes over a batch that stands in the log at position at. It returns the transaction that a marker aborted.
func (s *States) Apply(v batch.View, m Marker, at Position, nowMs int64) {
	if !v.HasProducerID() {
		return
	}
	s.Changed = true
	e := s.byID[v.ProducerID()]
	s.touch(v.ProducerID(), e)
	if e == nil {
		e = &entry{epoch: v.ProducerEpoch(), coordinatorEpoch: -1, txnFirstOffset: -1}
		s.makeRoom()
		s.byID[v.ProducerID()] = e
	}
	if e.epoch != v.ProducerEpoch() {
		e.epoch, e.count = v.ProducerEpoch(), 0
	}
	e.lastTimestampMs = max(e.lastTimestampMs, nowMs)
	if v.IsControl() {
		delete(s.verifying, v.ProducerID())
		if m.valid {
			e.coordinatorEpoch = m.coordinatorEpoch
			s.end(v.ProducerID(), e, v.LastOffset(), !m.commit)
		}
		return
	}
	if v.BaseSequence() >= 0 {
		e.add(Batch{v.LastSequence(), v.LastOffsetDelta(), v.LastOffset(), v.MaxTimestamp()})
	}
	if v.IsTransactional() && e.txnFirstOffset < 0 {
		delete(s.verifying, v.ProducerID())
		e.txnFirstOffset = at.Offset
		s.transactions = append(s.transactions, transaction{producerID: v.ProducerID(), first: at, lastOffset: -1})
	}
}

// end closes the producer's transaction at the marker's offset.
func (s *States) end(producerID int64, e *entry, markerOffset int64, aborted bool) {
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

// AbortedBy is the index entry that the marker makes, if it aborts an open transaction.
func (s *States) AbortedBy(v batch.View, m Marker) (index.AbortedTxn, bool) {
	e := s.byID[v.ProducerID()]
	if e == nil || e.txnFirstOffset < 0 || !m.valid || m.commit {
		return index.AbortedTxn{}, false
	}
	stable := v.LastOffset() + 1
	for _, t := range s.transactions {
		if t.lastOffset < 0 && t.producerID != v.ProducerID() {
			stable = t.first.Offset
			break
		}
	}
	return index.AbortedTxn{ProducerID: v.ProducerID(), FirstOffset: e.txnFirstOffset, LastOffset: v.LastOffset(), LastStableOffset: stable}, true
}

// Committed forgets transactions whose marker lies below the high watermark and returns the first one that is left.
func (s *States) Committed(highWatermark int64) (first Position, any bool) {
	if len(s.transactions) == 0 {
		return Position{}, false
	}
	kept := s.transactions[:0]
	for _, t := range s.transactions {
		if t.lastOffset < 0 || t.lastOffset >= highWatermark {
			kept = append(kept, t)
		}
	}
	s.transactions = kept
	if len(kept) == 0 {
		return Position{}, false
	}
	return kept[0].first, true
}

// Expire forgets producers that were silent for expirationMs and have no open transaction. lock guards the states; it is taken
// again and again for a moment.
func (s *States) Expire(lock sync.Locker, nowMs, expirationMs int64) {
	s.inParts(lock, func(id int64, e *entry) {
		if e.txnFirstOffset < 0 && nowMs-e.lastTimestampMs >= expirationMs {
			s.forget(id, e)
			s.Changed = true
		}
	})
	lock.Lock()
	defer lock.Unlock()
	for id, v := range s.verifying {
		if nowMs-v.atMs >= expirationMs {
			delete(s.verifying, id)
		}
	}
}

// makeRoom keeps the map at its bound: of some producers, as the map gives them (it begins anywhere, and ids are hashed), the one
// goes that was silent for longest. Appends wait for this, so it looks at few: the chance that one goes that is not among the
// tenth that was silent for longest is 0.9^ProducersSampled, 0.1 %.
func (s *States) makeRoom() {
	for len(s.byID) >= limits.ProducersPerPartition {
		var oldestID int64
		var oldest *entry
		seen := 0
		for id, e := range s.byID {
			if e.txnFirstOffset < 0 && (oldest == nil || e.lastTimestampMs < oldest.lastTimestampMs) {
				oldestID, oldest = id, e
			}
			if seen++; seen == limits.ProducersSampled {
				break
			}
		}
		if oldest == nil {
			return // all in open transactions: the transaction coordinator's timeouts bound them
		}
		s.forget(oldestID, oldest)
	}
}

// Snapshot format (ProducerStateManager.java, message ProducerSnapshot v1), big-endian; docs/format/snapshot.md:
//
//	version int16 = 1, crc uint32 (CRC32C of what follows), count int32, then per producer 46 bytes:
//	producerId int64, epoch int16, lastSequence int32, lastOffset int64, offsetDelta int32, timestamp int64,
//	coordinatorEpoch int32, currentTxnFirstOffset int64
//
// then, of ours, the older batches of the windows (readWindows).
const (
	snapshotVersion     = 1
	snapshotHeaderBytes = 10
	snapshotEntryBytes  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode makes the bytes of a snapshot of now.
func (s *States) Encode() []byte {
	b := make([]byte, 0, len(s.byID)*wideEntryBytes)
	for id, e := range s.byID {
		b = e.encode(b, id)
	}
	return finishSnapshot(b)
}

// Decode reads a snapshot.
func Decode(b []byte) (*States, error) {
	if len(b) < snapshotHeaderBytes {
		return nil, fmt.Errorf("snapshot of %d bytes", len(b))
	}
	if v := be16(b); v != snapshotVersion {
		return nil, fmt.Errorf("snapshot version %d", v)
	}
	if got, want := crc32.Checksum(b[6:], castagnoli), binary.BigEndian.Uint32(b[2:]); got != want {
		return nil, fmt.Errorf("snapshot CRC32C is %#x, computed %#x", want, got)
	}
	if n := be32(b[6:]); n < 0 || int64(len(b)-snapshotHeaderBytes) < int64(n)*snapshotEntryBytes {
		return nil, fmt.Errorf("snapshot of %d producers has %d bytes", n, len(b))
	}
	s := New()
	end := snapshotHeaderBytes + int(be32(b[6:]))*snapshotEntryBytes
	entries := make([]*entry, 0, be32(b[6:]))
	for at := snapshotHeaderBytes; at < end; at += snapshotEntryBytes {
		r := b[at:]
		e := &entry{epoch: be16(r[8:]), lastTimestampMs: be64(r[26:]), coordinatorEpoch: be32(r[34:]), txnFirstOffset: be64(r[38:])}
		if seq := be32(r[10:]); seq >= 0 {
			e.add(Batch{seq, be32(r[22:]), be64(r[14:]), e.lastTimestampMs})
		}
		id := be64(r)
		s.byID[id], entries = e, append(entries, e)
		if e.txnFirstOffset >= 0 {
			s.transactions = append(s.transactions, transaction{producerID: id, first: Position{Offset: e.txnFirstOffset, Base: -1}, lastOffset: -1})
		}
	}
	if end < len(b) {
		if err := readWindows(b[end:], entries); err != nil {
			return nil, err
		}
	}
	sort.Slice(s.transactions, func(i, j int) bool { return s.transactions[i].first.Offset < s.transactions[j].first.Offset })
	return s, nil
}

// New knows no producer.
func New() *States {
	return &States{byID: map[int64]*entry{}, SnapshotOffset: -1}
}

// LastBatches is, by producer id, the batch that keeps the producer's state when a log is compacted
// (UnifiedLog.lastRecordsOfActiveProducers). lock guards the states; it is taken again and again for a moment.
func (s *States) LastBatches(lock sync.Locker) map[int64]LastBatch {
	all := map[int64]LastBatch{}
	s.inParts(lock, func(id int64, e *entry) {
		last := LastBatch{Epoch: e.epoch, LastOffset: -1}
		if e.count > 0 {
			last.LastOffset = e.batches[e.count-1].LastOffset
		}
		all[id] = last
	})
	return all
}

// LastBatch is a producer's newest batch with a sequence; LastOffset -1: there is none, its markers tell its epoch.
type LastBatch struct {
	LastOffset int64
	Epoch      int16
}

// IDs are the producers that are known.
func (s *States) IDs() iter.Seq[int64] { return maps.Keys(s.byID) }

// Len is how many producers are known.
func (s *States) Len() int { return len(s.byID) }

// SnapshotTaken notes that a snapshot of now stands, or is about to be written, at offset.
func (s *States) SnapshotTaken(offset int64) { s.Changed, s.SnapshotOffset = false, offset }

// Locate asks for the place of each transaction whose place is not known, as after Decode.
func (s *States) Locate(find func(offset int64) (Position, error)) error {
	for i := range s.transactions {
		t := &s.transactions[i]
		if t.first.Base >= 0 {
			continue
		}
		var err error
		if t.first, err = find(t.first.Offset); err != nil {
			return err
		}
	}
	return nil
}

func be16(b []byte) int16     { return int16(binary.BigEndian.Uint16(b)) }
func be32(b []byte) int32     { return int32(binary.BigEndian.Uint32(b)) }
func be64(b []byte) int64     { return int64(binary.BigEndian.Uint64(b)) }
func put16(b []byte, v int16) { binary.BigEndian.PutUint16(b, uint16(v)) }
func put32(b []byte, v int32) { binary.BigEndian.PutUint32(b, uint32(v)) }
