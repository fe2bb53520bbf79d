package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Layout of a RecordBatch v2 (org.apache.kafka.common.record.DefaultRecordBatch); all numbers are big-endian.
//
//	 0 baseOffset           int64   patched by the broker, not covered by the CRC
//	 8 batchLength          int32   bytes after this field
//	12 partitionLeaderEpoch int32   patched by the broker, not covered by the CRC
//	16 magic                int8    2
//	17 crc                  uint32  CRC32C of everything from attributes to the end
//	21 attributes           int16   bits 0–2 compression, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
//	23 lastOffsetDelta      int32
//	27 baseTimestamp        int64   ms
//	35 maxTimestamp         int64   ms
//	43 producerId           int64   -1: none
//	51 producerEpoch        int16
//	53 baseSequence         int32
//	57 recordCount          int32
//	61 records
const (
	baseOffsetAt      = 0
	lengthAt          = 8
	leaderEpochAt     = 12
	magicAt           = 16
	crcAt             = 17
	attributesAt      = 21
	lastOffsetDeltaAt = 23
	baseTimestampAt   = 27
	maxTimestampAt    = 35
	producerIDAt      = 43
	producerEpochAt   = 51
	baseSequenceAt    = 53
	recordCountAt     = 57

	// HeaderBytes is the size of a batch without records.
	HeaderBytes = 61
	// LogOverheadBytes is baseOffset and batchLength, what is not counted by batchLength.
	LogOverheadBytes = 12
)

// Compression is the codec of a batch.
type Compression uint8

// Compression types (CompressionType.java).
const (
	None Compression = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

const (
	compressionMask  = 0x07
	timestampTypeBit = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
	noProducerID     = -1
	noSequence       = -1
	// NoTimestamp is the timestamp of a record without one.
	NoTimestamp = -1
)

// TimestampType is who stamped a batch.
type TimestampType uint8

// Timestamp types.
const (
	CreateTime TimestampType = iota
	LogAppendTime
)

// Errors of Next and Validate.
var (
	ErrShort   = errors.New("batch: fewer bytes than its length says")
	ErrCorrupt = errors.New("batch: corrupt")
	ErrMagic   = errors.New("batch: magic is not 2")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// View is exactly one batch, header and records. Accessors need len(v) >= HeaderBytes, which Next guarantees.
type View []byte

// Next cuts the first batch off records. Its length is checked, its contents are not: call Validate.
// It returns ErrShort when records end inside the batch, ErrCorrupt for an impossible length, ErrMagic (with the view)
// for the older message formats.
func Next(records []byte) (v View, rest []byte, err error) {
	if len(records) < LogOverheadBytes {
		return nil, records, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(records[lengthAt:]))
	if length < 0 || int64(length) > int64(1<<31-1-LogOverheadBytes) {
		return nil, records, fmt.Errorf("%w: length %d", ErrCorrupt, length)
	}
	size := int(length) + LogOverheadBytes
	if size > magicAt && len(records) > magicAt && records[magicAt] < 2 {
		return nil, records, ErrMagic
	}
	if size < HeaderBytes {
		return nil, records, fmt.Errorf("%w: length %d", ErrCorrupt, length)
	}
	if size > len(records) {
		return nil, records, ErrShort
	}
	v = View(records[:size:size])
	if v.Magic() != 2 {
		return nil, records, fmt.Errorf("%w: magic %d", ErrMagic, v.Magic())
	}
	return v, records[size:], nil
}

func (v View) BaseOffset() int64           { return int64(binary.BigEndian.Uint64(v[baseOffsetAt:])) }
func (v View) BatchLengthBytes() int32     { return int32(binary.BigEndian.Uint32(v[lengthAt:])) }
func (v View) PartitionLeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(v[leaderEpochAt:])) }
func (v View) Magic() int8                 { return int8(v[magicAt]) }
func (v View) CRC() uint32                 { return binary.BigEndian.Uint32(v[crcAt:]) }
func (v View) Attributes() int16           { return int16(binary.BigEndian.Uint16(v[attributesAt:])) }
func (v View) LastOffsetDelta() int32      { return int32(binary.BigEndian.Uint32(v[lastOffsetDeltaAt:])) }
func (v View) BaseTimestamp() int64        { return int64(binary.BigEndian.Uint64(v[baseTimestampAt:])) }
func (v View) MaxTimestamp() int64         { return int64(binary.BigEndian.Uint64(v[maxTimestampAt:])) }
func (v View) ProducerID() int64           { return int64(binary.BigEndian.Uint64(v[producerIDAt:])) }
func (v View) ProducerEpoch() int16        { return int16(binary.BigEndian.Uint16(v[producerEpochAt:])) }
func (v View) BaseSequence() int32         { return int32(binary.BigEndian.Uint32(v[baseSequenceAt:])) }
func (v View) RecordCount() int32          { return int32(binary.BigEndian.Uint32(v[recordCountAt:])) }

// SizeBytes is the whole batch, including the 12 bytes that batchLength does not count.
func (v View) SizeBytes() int { return int(v.BatchLengthBytes()) + LogOverheadBytes }

// LastOffset is the offset of the last record that the batch was made with (compaction may have taken it away).
func (v View) LastOffset() int64 { return v.BaseOffset() + int64(v.LastOffsetDelta()) }

// LastSequence wraps at the largest int32 as DefaultRecordBatch.incrementSequence does.
func (v View) LastSequence() int32 {
	if v.BaseSequence() == noSequence {
		return noSequence
	}
	return AddSequence(v.BaseSequence(), v.LastOffsetDelta())
}

// AddSequence is sequence + delta, wrapped from 2^31-1 to 0.
func AddSequence(sequence, delta int32) int32 {
	return int32((int64(sequence) + int64(delta)) & 0x7fffffff)
}

func (v View) Compression() Compression { return Compression(v[attributesAt+1] & compressionMask) }
func (v View) IsTransactional() bool    { return v[attributesAt+1]&transactionalBit != 0 }
func (v View) IsControl() bool          { return v[attributesAt+1]&controlBit != 0 }
func (v View) HasProducerID() bool      { return v.ProducerID() > noProducerID }

// DeleteHorizonMs is the time at which tombstones of a cleaned batch may go; it stands in BaseTimestamp then.
func (v View) DeleteHorizonMs() (int64, bool) {
	return v.BaseTimestamp(), v[attributesAt+1]&deleteHorizonBit != 0
}

// TimestampType is LogAppendTime when the broker stamped the batch.
func (v View) TimestampType() TimestampType {
	if v[attributesAt+1]&timestampTypeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// VerifyCRC says whether the contents are what the sender summed up.
func (v View) VerifyCRC() bool { return crc32.Checksum(v[attributesAt:], castagnoli) == v.CRC() }

// Validate checks what the header says against the bytes: length, magic, counts, CRC. Records stay opaque.
func (v View) Validate() error {
	switch {
	case len(v) < HeaderBytes || v.SizeBytes() != len(v):
		return ErrShort
	case v.Magic() != 2:
		return fmt.Errorf("%w: magic %d", ErrMagic, v.Magic())
	case !v.VerifyCRC():
		return fmt.Errorf("%w: CRC32C is %#x, computed %#x", ErrCorrupt, v.CRC(), crc32.Checksum(v[attributesAt:], castagnoli))
	case v.RecordCount() < 0 || v.LastOffsetDelta() < 0:
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrCorrupt, v.RecordCount(), v.LastOffsetDelta())
	}
	return nil
}

// SetBaseOffset patches the base offset; the CRC does not cover it.
func (v View) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(v[baseOffsetAt:], uint64(offset))
}

// SetPartitionLeaderEpoch patches the leader epoch; the CRC does not cover it.
func (v View) SetPartitionLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(v[leaderEpochAt:], uint32(epoch))
}

// SetLogAppendTime stamps the batch (attributes bit 3 and the maximum timestamp, DefaultRecordBatch.setMaxTimestamp) and
// sums it up anew.
func (v View) SetLogAppendTime(timestampMs int64) {
	v[attributesAt+1] |= timestampTypeBit
	binary.BigEndian.PutUint64(v[maxTimestampAt:], uint64(timestampMs))
	v.sum()
}

func (v View) sum() {
	binary.BigEndian.PutUint32(v[crcAt:], crc32.Checksum(v[attributesAt:], castagnoli))
}
