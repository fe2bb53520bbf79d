package logstore

// RecordError says what is wrong with one record of a refused batch (KIP-467).
type RecordError struct {
	BatchIndex int32  // the record's place in the batch, from 0
	Message    string // Kafka's wording where clients show it
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
