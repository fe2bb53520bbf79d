package batch

// Header is one record header; Value nil means null.
type Header struct {
	Key   []byte
	Value []byte
}

// Record is one record. Key and Value nil mean null. Slices of an iterated record are valid until the iterator is closed.
type Record struct {
	Offset      int64
	TimestampMs int64
	Key         []byte
	Value       []byte
	Headers     []Header
}

// Builder encodes records into one batch. The zero value builds a plain batch; fields may be set before Build.
type Builder struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Compression   Compression
	Transactional bool
	Control       bool
	ProducerID    int64 // ignored unless HasProducer
	ProducerEpoch int16
	BaseSequence  int32
	HasProducer   bool

	records []byte
	count   int32
	baseMs  int64
	maxMs   int64
	lastRel int32
}

// Reset empties the builder and keeps its memory.
func (b *Builder) Reset() { panic("batch: not yet") }

// Append adds a record at the next offset (record.Offset is ignored).
func (b *Builder) Append(timestampMs int64, key, value []byte, headers ...Header) {
	panic("batch: not yet")
}

// Count is the number of records so far; SizeBytes what Build would make without compression.
func (b *Builder) Count() int     { return int(b.count) }
func (b *Builder) SizeBytes() int { return HeaderBytes + len(b.records) }

// Build appends the batch to dst. It panics on an empty builder.
func (b *Builder) Build(dst []byte) ([]byte, error) { panic("batch: not yet") }

// Iterator walks over the records of one batch.
type Iterator struct{}

// Records starts an iteration; maxBytes bounds what decompression may make. Close it.
func (v View) Records(maxBytes int) (*Iterator, error) { panic("batch: not yet") }

// Next returns false at the end or on an error (Err).
func (i *Iterator) Next() bool      { panic("batch: not yet") }
func (i *Iterator) Record() *Record { panic("batch: not yet") }
func (i *Iterator) Err() error      { panic("batch: not yet") }
func (i *Iterator) Close()          { panic("batch: not yet") }
