package validate

import (
	"errors"
	"fmt"
	"strings"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

// Errors of Records and Keys.
var (
	ErrCorruptMessage         = errors.New("corrupt message")
	ErrMessageTooLarge        = errors.New("message too large")
	ErrInvalidRecord          = errors.New("invalid record")
	ErrInvalidTimestamp       = errors.New("invalid timestamp")
	ErrUnsupportedMagic       = errors.New("unsupported message format (magic 0 and 1)")
	ErrUnsupportedCompression = errors.New("unsupported compression type")
)

// Rules are the limits of a partition.
type Rules struct {
	SegmentBytes         int32
	MaxMessageBytes      int32
	TimestampBeforeMaxMs int64 // negative: no limit
	TimestampAfterMaxMs  int64
	LogAppendTime        bool
	FromClient           bool // not a coordinator, which may write several batches and control records
}

// Info is what validation found; it is a value, so an append allocates nothing.
type Info struct {
	Records      int64 // offsets that the batches take
	MaxTimestamp int64
	AppendTimeMs int64 // -1: CreateTime
	Producers    bool  // some batch has a producer id
	Controls     bool
	Decoded      bool // a batch was decompressed, because its header claimed more records than such bytes mostly hold
}

// Records checks what can be checked without the partition's state, and stamps LogAppendTime. It matches
// UnifiedLog.analyzeAndValidateRecords and LogValidator, except that records stay opaque: their timestamps are judged by
// the batch header.
func Records(records []byte, c *Rules, nowMs int64) (Info, error) {
	info := Info{MaxTimestamp: -1, AppendTimeMs: -1}
	if len(records) == 0 {
		return info, fmt.Errorf("%w: no batch", ErrInvalidRecord)
	}
	if len(records) > int(c.SegmentBytes) {
		return info, fmt.Errorf("%w: %d bytes, segment.bytes is %d", ErrMessageTooLarge, len(records), c.SegmentBytes)
	}
	for rest := records; len(rest) > 0; {
		v, after, err := batch.Next(rest)
		if errors.Is(err, batch.ErrMagic) {
			return info, fmt.Errorf("%w: %w", ErrUnsupportedMagic, err)
		}
		if err != nil {
			return info, fmt.Errorf("%w: %w", ErrCorruptMessage, err)
		}
		rest = after
		if c.FromClient && len(rest) > 0 {
			return info, fmt.Errorf("%w: more than one batch", ErrInvalidRecord)
		}
		if err := checkBatch(v, c, nowMs); err != nil {
			return info, err
		}
		if c.FromClient {
			if info.Decoded, err = checkCount(v); err != nil {
				return info, err
			}
		}
		if c.LogAppendTime {
			v.SetLogAppendTime(nowMs)
			info.AppendTimeMs = nowMs
		}
		info.Records += int64(v.LastOffsetDelta()) + 1
		info.MaxTimestamp = max(info.MaxTimestamp, v.MaxTimestamp())
		info.Producers = info.Producers || v.HasProducerID()
		info.Controls = info.Controls || v.IsControl()
	}
	return info, nil
}

func checkBatch(v batch.View, c *Rules, nowMs int64) error {
	if len(v) > int(c.MaxMessageBytes) {
		return fmt.Errorf("%w: a batch of %d bytes, max.message.bytes is %d", ErrMessageTooLarge, len(v), c.MaxMessageBytes)
	}
	if !v.VerifyCRC() {
		return fmt.Errorf("%w: the CRC32C is wrong", ErrCorruptMessage)
	}
	if v.Compression() > batch.Zstd {
		return fmt.Errorf("%w: id %d", ErrUnsupportedCompression, v.Compression())
	}
	if v.LastOffsetDelta() < 0 || v.RecordCount() <= 0 {
		return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidRecord, v.RecordCount(), v.LastOffsetDelta())
	}
	if c.FromClient {
		switch {
		case v.BaseOffset() != 0:
			return fmt.Errorf("%w: base offset %d, a producer must send 0", ErrInvalidRecord, v.BaseOffset())
		case int64(v.LastOffsetDelta())+1 != int64(v.RecordCount()):
			return fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalidRecord, v.RecordCount(), v.LastOffsetDelta())
		case v.IsControl():
			return fmt.Errorf("%w: clients may not write control records", ErrInvalidRecord)
		case v.HasProducerID() && v.BaseSequence() < 0:
			return fmt.Errorf("%w: producer %d without a sequence", ErrInvalidRecord, v.ProducerID())
		}
	}
	if !c.LogAppendTime && !v.IsControl() {
		return checkTimestamps(v, c, nowMs)
	}
	return nil
}

const (
	// minRecordBytes is the smallest record: seven fields of one byte (DefaultRecord).
	minRecordBytes = 7
	// plausibleRatio: compressed batches whose records would have to be packed better than that are looked into.
	plausibleRatio = 4
)

// checkCount refuses a batch that does not hold as many records as it claims: the log end would move by what the header says,
// and clients fail at such a batch for ever. Kafka decodes every batch. Here one that is not compressed is walked through by the
// lengths of its records, which are in the cache after its checksum; a compressed one is decoded only when it claims more than
// such bytes mostly hold. One that lies by less takes offsets that nobody gets, and no more of them than the same bytes could
// have taken honestly.
func checkCount(v batch.View) (decoded bool, err error) {
	count, bytes := int64(v.RecordCount()), int64(len(v)-batch.HeaderBytes)
	if v.Compression() == batch.None {
		if found, whole := v.CountPlain(); !whole || int64(found) != count {
			return false, fmt.Errorf("%w: %d records are in %d bytes (to the end: %v), the header says %d", ErrInvalidRecord, found, bytes, whole, count)
		}
		return false, nil
	}
	if count*minRecordBytes <= plausibleRatio*bytes {
		return false, nil
	}
	if count*minRecordBytes > limits.CountCheckBytes {
		return false, fmt.Errorf("%w: %d records in one batch, at most %d bytes are decompressed to count them", ErrInvalidRecord, count, limits.CountCheckBytes)
	}
	found := int64(0)
	err = eachRecord(v, limits.CountCheckBytes, func(int32, *batch.Record) { found++ })
	if err == nil && found != count {
		err = fmt.Errorf("%d records, the header says %d", found, count)
	}
	if err != nil && !errors.Is(err, batch.ErrTooLarge) { // so many bytes hold the records
		return true, fmt.Errorf("%w: %w", ErrInvalidRecord, err)
	}
	return true, nil
}

// checkTimestamps: first and largest timestamp must lie within the bounds (LogValidator.validateTimestamp).
func checkTimestamps(v batch.View, c *Rules, nowMs int64) error {
	first, largest := v.BaseTimestamp(), v.MaxTimestamp()
	if first != batch.NoTimestamp && nowMs-first > c.TimestampBeforeMaxMs && c.TimestampBeforeMaxMs >= 0 {
		return rejectTimestamps(v, c, nowMs)
	}
	if largest != batch.NoTimestamp && largest-nowMs > c.TimestampAfterMaxMs && c.TimestampAfterMaxMs >= 0 {
		return rejectTimestamps(v, c, nowMs)
	}
	return nil
}

// RecordError says what is wrong with one record of a refused batch (KIP-467).
type RecordError struct {
	BatchIndex int32  // the record's place in the batch, from 0
	Message    string // Kafka's wording: producers log it
}

// RejectedError is wrapped by the error of an Append that refused records for
// their content. It carries what the answer of a Produce can say; Cause is one
// of the sentinels.
type RejectedError struct {
	Cause   error
	Message string // for the whole batch
	Records []RecordError
}

func (e *RejectedError) Error() string { return e.Cause.Error() + ": " + e.Message }

func (e *RejectedError) Unwrap() error { return e.Cause }

// rejectTimestamps names the records whose timestamps are out of the bounds.
// The header has shown that some are; records are decoded for the answer only.
func rejectTimestamps(v batch.View, c *Rules, nowMs int64) error {
	// The subtraction overflows for Kafka's default of no lower bound, there as here.
	oldest, newest := nowMs-c.TimestampBeforeMaxMs, nowMs+c.TimestampAfterMaxMs
	e := &RejectedError{Cause: ErrInvalidTimestamp, Message: "One or more records have been rejected due to invalid timestamp"}
	_ = eachRecord(v, limits.DecompressedBatchBytes, func(index int32, r *batch.Record) {
		tooOld := c.TimestampBeforeMaxMs >= 0 && nowMs-r.TimestampMs > c.TimestampBeforeMaxMs
		tooNew := c.TimestampAfterMaxMs >= 0 && r.TimestampMs-nowMs > c.TimestampAfterMaxMs
		if r.TimestampMs != batch.NoTimestamp && (tooOld || tooNew) {
			e.Records = append(e.Records, RecordError{index, fmt.Sprintf(
				"Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]", r.TimestampMs, r.Offset, oldest, newest)})
		}
	}) // what cannot be decoded is refused all the same, without naming records
	return e
}

// Keys refuses records without a key: a compacted topic could never drop
// them (LogValidator.validateKey). It is a place where records must be decoded;
// it costs compacted topics only.
func Keys(v batch.View, topic string, partition int32) error {
	e := &RejectedError{Cause: ErrInvalidRecord}
	err := eachRecord(v, limits.DecompressedBatchBytes, func(index int32, r *batch.Record) {
		if r.Key == nil {
			e.Records = append(e.Records, RecordError{index, fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %s-%d", topic, partition)})
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCorruptMessage, err)
	case len(e.Records) == 0:
		return nil
	}
	var shown []string
	for _, r := range e.Records[:min(len(e.Records), 3)] {
		shown = append(shown, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", r.BatchIndex, r.Message))
	}
	e.Message = fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: [%s]",
		len(e.Records), strings.Join(shown, ", "))
	return e
}

func eachRecord(v batch.View, maxBytes int, f func(index int32, r *batch.Record)) error {
	it, err := v.Records(maxBytes)
	if err != nil {
		return err
	}
	defer it.Close()
	for index := int32(0); it.Next(); index++ {
		f(index, it.Record())
	}
	return it.Err()
}
