package batch

// Control record types (ControlRecordType.java).
const (
	ControlAbort  int16 = 0
	ControlCommit int16 = 1
)

// EndTxnMarker appends a control batch that ends a transaction to dst: key {version 0, type}, value {version 0,
// coordinatorEpoch} (EndTransactionMarker.java).
func EndTxnMarker(dst []byte, producerID int64, producerEpoch int16, commit bool, coordinatorEpoch int32, timestampMs int64) []byte {
	panic("batch: not yet")
}

// ParseEndTxnMarker reads the type and coordinator epoch of a control batch's first record.
func ParseEndTxnMarker(r *Record) (controlType int16, coordinatorEpoch int32, err error) {
	panic("batch: not yet")
}
