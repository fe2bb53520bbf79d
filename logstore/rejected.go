package logstore

import (
	"fmt"
	"strings"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

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
func rejectTimestamps(v batch.View, c *Config, nowMs int64) error {
	// The subtraction overflows for Kafka's default of no lower bound, there as here.
	oldest, newest := nowMs-c.TimestampBeforeMaxMs, nowMs+c.TimestampAfterMaxMs
	e := &RejectedError{Cause: ErrInvalidTimestamp, Message: "One or more records have been rejected due to invalid timestamp"}
	_ = eachRecord(v, func(index int32, r *batch.Record) {
		tooOld := c.TimestampBeforeMaxMs >= 0 && nowMs-r.TimestampMs > c.TimestampBeforeMaxMs
		tooNew := c.TimestampAfterMaxMs >= 0 && r.TimestampMs-nowMs > c.TimestampAfterMaxMs
		if r.TimestampMs != batch.NoTimestamp && (tooOld || tooNew) {
			e.Records = append(e.Records, RecordError{index, fmt.Sprintf(
				"Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]", r.TimestampMs, r.Offset, oldest, newest)})
		}
	}) // what cannot be decoded is refused all the same, without naming records
	return e
}

// checkKeys refuses records without a key: a compacted topic could never drop
// them (LogValidator.validateKey). It is a place where records must be decoded;
// it costs compacted topics only.
func (p *Partition) checkKeys(v batch.View) error {
	p.store.counters.KeyCheckBatches.Add(1)
	e := &RejectedError{Cause: ErrInvalidRecord}
	err := eachRecord(v, func(index int32, r *batch.Record) {
		if r.Key == nil {
			e.Records = append(e.Records, RecordError{index, fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %s-%d", p.topic, p.id)})
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

func eachRecord(v batch.View, f func(index int32, r *batch.Record)) error {
	it, err := v.Records(limits.DecompressedBatchBytes)
	if err != nil {
		return err
	}
	defer it.Close()
	for index := int32(0); it.Next(); index++ {
		f(index, it.Record())
	}
	return it.Err()
}
