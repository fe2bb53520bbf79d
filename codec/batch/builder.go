package batch

import (
	"encoding/binary"
)

// Builder encodes records into one batch. The zero value builds a plain batch; fields may be set at any time before Build.
type Builder struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Compression   Compression
	Transactional bool
	Control       bool
	HasProducer   bool  // the three fields below count
	ProducerID    int64 // -1 in the batch otherwise
	ProducerEpoch int16
	BaseSequence  int32 // -1 in coordinator batches that have a producer but no sequence

	records []byte
	scratch []byte
	count   int32
	last    int32 // offset delta of the last record
	baseMs  int64
	maxMs   int64
}

// Reset empties the builder; it keeps its memory and its fields.
func (b *Builder) Reset() {
	b.records, b.count, b.last, b.baseMs, b.maxMs = b.records[:0], 0, 0, 0, 0
}

// Append adds a record at the next offset. Nil key or value is null.
func (b *Builder) Append(timestampMs int64, key, value []byte, headers ...Header) {
	delta := int32(0)
	if b.count > 0 {
		delta = b.last + 1
	}
	b.AppendAt(delta, timestampMs, key, value, headers...)
}

// AppendAt adds a record at an offset delta of its own, larger than that of the record before.
func (b *Builder) AppendAt(delta int32, timestampMs int64, key, value []byte, headers ...Header) {
	if b.count == 0 {
		b.baseMs, b.maxMs = timestampMs, timestampMs
	} else if delta <= b.last {
		panic("batch: offset deltas must grow")
	}
	b.maxMs = max(b.maxMs, timestampMs)
	s := append(b.scratch[:0], 0) // attributes
	s = binary.AppendVarint(s, timestampMs-b.baseMs)
	s = binary.AppendVarint(s, int64(delta))
	s = appendBytes(s, key)
	s = appendBytes(s, value)
	s = binary.AppendVarint(s, int64(len(headers)))
	for _, h := range headers {
		s = binary.AppendVarint(s, int64(len(h.Key)))
		s = append(s, h.Key...)
		s = appendBytes(s, h.Value)
	}
	b.scratch = s
	b.records = binary.AppendVarint(b.records, int64(len(s)))
	b.records = append(b.records, s...)
	b.last = delta
	b.count++
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// SizeBytes is what Build would append without compression.
func (b *Builder) SizeBytes() int { return HeaderBytes + len(b.records) }

// Build appends the batch to dst. It panics on an empty builder. The builder keeps its records until Reset.
func (b *Builder) Build(dst []byte) ([]byte, error) {
	if b.count == 0 {
		panic("batch: no records")
	}
	start := len(dst)
	dst = append(dst, make([]byte, HeaderBytes)...)
	dst, err := compress(dst, b.records, b.Compression)
	if err != nil {
		return nil, err
	}
	v := View(dst[start:])
	v.SetBaseOffset(b.BaseOffset)
	binary.BigEndian.PutUint32(v[lengthAt:], uint32(len(v)-LogOverheadBytes))
	v.SetPartitionLeaderEpoch(b.LeaderEpoch)
	v[magicAt] = 2
	attributes := uint16(b.Compression)
	if b.Transactional {
		attributes |= transactionalBit
	}
	if b.Control {
		attributes |= controlBit
	}
	binary.BigEndian.PutUint16(v[attributesAt:], attributes)
	binary.BigEndian.PutUint32(v[lastOffsetDeltaAt:], uint32(b.last))
	binary.BigEndian.PutUint64(v[baseTimestampAt:], uint64(b.baseMs))
	binary.BigEndian.PutUint64(v[maxTimestampAt:], uint64(b.maxMs))
	id, epoch, sequence := int64(noProducerID), int16(-1), int32(noSequence)
	if b.HasProducer {
		id, epoch, sequence = b.ProducerID, b.ProducerEpoch, b.BaseSequence
	}
	binary.BigEndian.PutUint64(v[producerIDAt:], uint64(id))
	binary.BigEndian.PutUint16(v[producerEpochAt:], uint16(epoch))
	binary.BigEndian.PutUint32(v[baseSequenceAt:], uint32(sequence))
	binary.BigEndian.PutUint32(v[recordCountAt:], uint32(b.count))
	v.sum()
	return dst, nil
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
