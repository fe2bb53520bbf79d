package batch

import (
	"encoding/binary"
	"fmt"
)

// Control record types (ControlRecordType.java).
const (
	ControlAbort  int16 = 0
	ControlCommit int16 = 1
)

// EndTxnMarker appends a control batch that ends a transaction to dst: key {version 0, type}, value {version 0,
// coordinatorEpoch} (EndTransactionMarker.java).
func EndTxnMarker(dst []byte, producerID int64, producerEpoch int16, commit bool, coordinatorEpoch int32, timestampMs int64) []byte {
	kind := ControlAbort
	if commit {
		kind = ControlCommit
	}
	key := binary.BigEndian.AppendUint16(make([]byte, 0, 4), 0)
	key = binary.BigEndian.AppendUint16(key, uint16(kind))
	value := binary.BigEndian.AppendUint16(make([]byte, 0, 6), 0)
	value = binary.BigEndian.AppendUint32(value, uint32(coordinatorEpoch))
	b := Builder{Transactional: true, Control: true, HasProducer: true, ProducerID: producerID, ProducerEpoch: producerEpoch, BaseSequence: noSequence}
	b.Append(timestampMs, key, value)
	dst, err := b.Build(dst)
	if err != nil {
		panic(err) // only compression can fail, and there is none
	}
	return dst
}

// ParseEndTxnMarker reads the type and coordinator epoch of a control batch's first record. Other control types (leader
// change, snapshot) are returned with coordinator epoch -1.
func ParseEndTxnMarker(r *Record) (controlType int16, coordinatorEpoch int32, err error) {
	if len(r.Key) < 4 || int16(binary.BigEndian.Uint16(r.Key)) < 0 {
		return 0, 0, fmt.Errorf("%w: control record key of %d bytes", ErrCorrupt, len(r.Key))
	}
	controlType = int16(binary.BigEndian.Uint16(r.Key[2:]))
	if controlType != ControlAbort && controlType != ControlCommit {
		return controlType, -1, nil
	}
	if len(r.Value) < 6 {
		return 0, 0, fmt.Errorf("%w: end transaction marker of %d bytes", ErrCorrupt, len(r.Value))
	}
	return controlType, int32(binary.BigEndian.Uint32(r.Value[2:])), nil
}
