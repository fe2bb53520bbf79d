package batch

import "encoding/binary"

// Retained collects what compaction leaves of one batch and encodes it anew, with the codec, base offset, last offset and
// producer fields that it had (MemoryRecords.filterTo). It belongs to one goroutine; the zero value is ready.
type Retained struct {
	records [][]byte // as they stand in the batch, with their lengths; they belong to the iterator
	scratch []byte
	maxMs   int64
	// Tombstones says that some retained record has no value.
	Tombstones bool
}

// Reset empties it for the next batch.
func (r *Retained) Reset() {
	clear(r.records)
	r.records, r.maxMs, r.Tombstones = r.records[:0], NoTimestamp, false
}

// Keep takes the record that the iterator moved to. Its bytes must stay until Build: close the iterator after it.
func (r *Retained) Keep(i *Iterator) {
	r.records = append(r.records, i.Encoded())
	r.maxMs = max(r.maxMs, i.Record().TimestampMs)
	r.Tombstones = r.Tombstones || i.Record().Value == nil
}

// Count is how many records were kept.
func (r *Retained) Count() int { return len(r.records) }

// Build appends v with nothing but the kept records to dst. horizonMs, when it is not negative, becomes the delete horizon
// (KIP-534): it takes the place of the base timestamp, and the records' deltas follow it.
func (r *Retained) Build(dst []byte, v View, horizonMs int64) ([]byte, error) {
	shift := int64(0)
	base := v.BaseTimestamp()
	if horizonMs >= 0 {
		shift, base = base-horizonMs, horizonMs
	}
	plain := r.scratch[:0]
	for _, record := range r.records {
		if shift == 0 {
			plain = append(plain, record...)
		} else {
			plain = appendShifted(plain, record, shift)
		}
	}
	r.scratch = plain
	start := len(dst)
	dst = append(dst, v[:HeaderBytes]...)
	dst, err := compress(dst, plain, v.Compression())
	if err != nil {
		return nil, err
	}
	out := View(dst[start:])
	binary.BigEndian.PutUint32(out[lengthAt:], uint32(len(out)-LogOverheadBytes))
	binary.BigEndian.PutUint32(out[recordCountAt:], uint32(len(r.records)))
	binary.BigEndian.PutUint64(out[baseTimestampAt:], uint64(base))
	if v.TimestampType() == CreateTime {
		binary.BigEndian.PutUint64(out[maxTimestampAt:], uint64(r.maxMs))
	}
	if horizonMs >= 0 {
		out[attributesAt+1] |= deleteHorizonBit
	}
	out.sum()
	return dst, nil
}

// appendShifted appends a record whose timestamp delta is shift larger.
func appendShifted(dst, record []byte, shift int64) []byte {
	_, n := binary.Varint(record) // the iterator has decoded the record, so its fields are sound
	body := record[n:]
	delta, deltaBytes := binary.Varint(body[1:])
	var encoded [binary.MaxVarintLen64]byte
	encodedBytes := binary.PutVarint(encoded[:], delta+shift)
	dst = binary.AppendVarint(dst, int64(len(body)-deltaBytes+encodedBytes))
	dst = append(dst, body[0])
	dst = append(dst, encoded[:encodedBytes]...)
	return append(dst, body[1+deltaBytes:]...)
}

// AppendEmpty appends v without records: it stands for its offsets and its producer's last sequence
// (DefaultRecordBatch.writeEmptyHeader).
func AppendEmpty(dst []byte, v View) []byte {
	start := len(dst)
	dst = append(dst, v[:HeaderBytes]...)
	out := View(dst[start:])
	binary.BigEndian.PutUint32(out[lengthAt:], HeaderBytes-LogOverheadBytes)
	binary.BigEndian.PutUint32(out[recordCountAt:], 0)
	noTimestamp := int64(NoTimestamp)
	binary.BigEndian.PutUint64(out[baseTimestampAt:], uint64(noTimestamp))
	out[attributesAt+1] &^= compressionMask | deleteHorizonBit
	out.sum()
	return dst
}
