package logstore

import "context"

// Partition is one log. Its methods are safe for concurrent use.
type Partition struct {
	// Context belongs to the broker: set once right after Ensure or Open, before the partition is published.
	Context any
}

func (p *Partition) Topic() string           { panic("logstore: not yet") }
func (p *Partition) ID() int32               { panic("logstore: not yet") }
func (p *Partition) TopicID() [16]byte       { panic("logstore: not yet") }
func (p *Partition) SetConfig(c Config)      { panic("logstore: not yet") }
func (p *Partition) LeaderEpoch() int32      { panic("logstore: not yet") }
func (p *Partition) LogStartOffset() int64   { panic("logstore: not yet") }
func (p *Partition) HighWatermark() int64    { panic("logstore: not yet") }
func (p *Partition) LastStableOffset() int64 { panic("logstore: not yet") }
func (p *Partition) LogEndOffset() int64     { panic("logstore: not yet") }

// SizeBytes is the sum of the sizes of all segments.
func (p *Partition) SizeBytes() int64 { panic("logstore: not yet") }

// Dir is the log directory (an element of Options.Dirs) that holds the partition.
func (p *Partition) Dir() string { panic("logstore: not yet") }

// Append validates records (one or more whole batches), assigns offsets and writes them. records are borrowed and
// patched in place.
func (p *Partition) Append(records []byte, o AppendOptions) (AppendResult, error) {
	panic("logstore: not yet")
}

// WhenCommitted calls w.Done once, when every offset below w.Offset is committed by the flush policy or the partition
// failed; possibly before it returns.
func (p *Partition) WhenCommitted(w *Waiter) { panic("logstore: not yet") }

// Read returns whole batches from the one that contains offset (or the next one that is left).
func (p *Partition) Read(offset int64, maxBytes int, minOneBatch bool, iso Isolation) (Slice, error) {
	panic("logstore: not yet")
}

// ReadNoWait is Read for event loops: ErrWouldBlock instead of waiting for a disk.
func (p *Partition) ReadNoWait(offset int64, maxBytes int, minOneBatch bool, iso Isolation) (Slice, error) {
	panic("logstore: not yet")
}

// AbortedTransactions appends the aborted transactions that overlap [from, to) to into.
func (p *Partition) AbortedTransactions(from, to int64, into []AbortedTxn) []AbortedTxn {
	panic("logstore: not yet")
}

// OffsetForTimestamp finds the first record whose timestamp is at or after timestampMs.
func (p *Partition) OffsetForTimestamp(ctx context.Context, timestampMs int64, iso Isolation) (TimestampOffset, bool, error) {
	panic("logstore: not yet")
}

// MaxTimestamp finds the first record that carries the largest timestamp (KIP-734).
func (p *Partition) MaxTimestamp(ctx context.Context, iso Isolation) (TimestampOffset, bool, error) {
	panic("logstore: not yet")
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch <= epoch and the end of it, or -1, -1.
func (p *Partition) EndOffsetForEpoch(epoch int32) (epochFound int32, endOffset int64) {
	panic("logstore: not yet")
}

// DeleteRecords moves the log start offset to before (-1: the high watermark), durably.
func (p *Partition) DeleteRecords(before int64) (lowWatermark int64, err error) {
	panic("logstore: not yet")
}

// Slice is a range of a segment file that holds whole batches. It pins the segment until Release.
type Slice struct {
	FD     int
	Offset int64
	Len    int
	Mem    []byte // mmap view of the same bytes, or nil

	segment any
}

// Release unpins the segment. It is idempotent for one owner of the value; do not copy a Slice and release both.
func (s *Slice) Release() { panic("logstore: not yet") }

// Resident says whether the bytes are in memory, without touching them.
func (s *Slice) Resident() bool { panic("logstore: not yet") }

// Populate brings the bytes into memory; it blocks, so never call it on an event loop.
func (s *Slice) Populate() { panic("logstore: not yet") }
