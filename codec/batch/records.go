package batch

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
)

// Layout of a record (DefaultRecord); lengths are zigzag varints, -1 is null:
//
//	length varint, attributes int8 (0), timestampDelta varlong, offsetDelta varint, keyLength varint, key,
//	valueLength varint, value, headerCount varint, headers: keyLength varint, key, valueLength varint, value

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

// Iterator walks over the records of one batch. It belongs to one goroutine.
type Iterator struct {
	view    View
	rest    []byte // what is not decoded yet
	plain   []byte // decompressed bytes, owned, recycled by Close; nil for plain batches
	left    int32
	last    int32 // offset delta of the record before
	record  Record
	encoded []byte
	err     error
	closed  bool
}

var iterators = sync.Pool{New: func() any { return new(Iterator) }}

// maxPooledPlainBytes keeps one large batch from holding its memory for ever.
const maxPooledPlainBytes = 1 << 20

// Records starts an iteration; maxBytes bounds what decompression may make. Close it.
func (v View) Records(maxBytes int) (*Iterator, error) {
	i := iterators.Get().(*Iterator)
	plain := i.plain
	*i = Iterator{view: v, plain: plain, left: v.RecordCount(), last: -1, record: Record{Headers: i.record.Headers[:0]}}
	codec := v.Compression()
	if codec == None {
		i.rest = v[HeaderBytes:]
		return i, nil
	}
	out, err := decompress(plain[:0], v[HeaderBytes:], codec, maxBytes)
	if err != nil {
		i.Close()
		return nil, err
	}
	i.plain, i.rest = out, out
	return i, nil
}

// CountPlain counts the records of a batch that is not compressed by their lengths alone. whole: the last one ends where the
// batch does, and each has room for its fields.
func (v View) CountPlain() (records int32, whole bool) {
	b := v[HeaderBytes:]
	for at := 0; at < len(b); records++ {
		// Zigzag: even, twice the length. Rotated, an odd one is larger than anything that is left.
		length := uint64(b[at])
		at++
		if length >= 0x80 {
			// Two bytes are most records, and a call for each would be most of the cost.
			if at < len(b) && b[at] < 0x80 {
				length = length&0x7f | uint64(b[at])<<7
				at++
			} else {
				var n int
				if length, n = binary.Uvarint(b[at-1:]); n <= 0 {
					return records, false
				}
				at += n - 1
			}
		}
		length = bits.RotateLeft64(length, -1)
		if length < minRecordFields || length > uint64(len(b)-at) {
			return records, false
		}
		at += int(length)
	}
	return records, true
}

// minRecordFields is the least that follows the length of a record: attributes and five numbers of one byte.
const minRecordFields = 6

// Next returns false at the end or on an error (Err).
func (i *Iterator) Next() bool {
	if i.err != nil || i.left <= 0 {
		if i.err == nil && i.left == 0 && len(i.rest) > 0 {
			i.err = fmt.Errorf("%w: %d bytes after the last record", ErrCorrupt, len(i.rest))
		}
		return false
	}
	length, n := binary.Varint(i.rest)
	if n <= 0 || length < 0 || length > int64(len(i.rest)-n) {
		i.err = fmt.Errorf("%w: record length %d, %d bytes are left", ErrCorrupt, length, len(i.rest)-max(n, 0))
		return false
	}
	i.encoded = i.rest[:n+int(length)]
	if i.err = i.decode(i.rest[n : n+int(length)]); i.err != nil {
		return false
	}
	i.rest = i.rest[n+int(length):]
	i.left--
	return true
}

// Record is the one that Next moved to.
func (i *Iterator) Record() *Record { return &i.record }

// Encoded is the record that Next moved to as it stands in the batch, with its length.
func (i *Iterator) Encoded() []byte { return i.encoded }

// Err says why Next returned false; nil at the end.
func (i *Iterator) Err() error { return i.err }

// Close gives the decompressed bytes back; the records' slices are dead after it.
func (i *Iterator) Close() {
	if i.closed {
		panic("batch: iterator closed twice")
	}
	i.closed = true
	if cap(i.plain) > maxPooledPlainBytes {
		i.plain = nil
	}
	clear(i.record.Headers[:cap(i.record.Headers)])
	i.view, i.rest, i.encoded = nil, nil, nil
	i.record = Record{Headers: i.record.Headers[:0]}
	iterators.Put(i)
}

func (i *Iterator) decode(b []byte) error {
	d := decoder{b: b}
	d.skip(1) // attributes
	timestampDelta := d.varint()
	offsetDelta := d.varint()
	r := &i.record
	r.Key = d.bytes()
	r.Value = d.bytes()
	headers := d.varint()
	if d.bad || headers < 0 || headers > int64(len(d.b))/2 {
		return fmt.Errorf("%w: record of %d bytes", ErrCorrupt, len(b))
	}
	r.Headers = r.Headers[:0]
	for range headers {
		h := Header{Key: d.bytes(), Value: d.bytes()}
		if h.Key == nil {
			d.bad = true
			break
		}
		r.Headers = append(r.Headers, h)
	}
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: record of %d bytes", ErrCorrupt, len(b))
	}
	if offsetDelta <= int64(i.last) || offsetDelta > int64(i.view.LastOffsetDelta()) {
		return fmt.Errorf("%w: offset delta %d after %d in a batch of %d", ErrCorrupt, offsetDelta, i.last, i.view.LastOffsetDelta())
	}
	i.last = int32(offsetDelta)
	r.Offset = i.view.BaseOffset() + offsetDelta
	r.TimestampMs = i.view.BaseTimestamp() + timestampDelta
	if i.view.TimestampType() == LogAppendTime {
		r.TimestampMs = i.view.MaxTimestamp()
	}
	return nil
}

// decoder reads fields; after a bad one everything is zero and bad stays true.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) skip(n int) {
	if d.bad || n > len(d.b) {
		d.bad = true
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) varint() int64 {
	x, n := binary.Varint(d.b)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *decoder) bytes() []byte {
	n := d.varint()
	if d.bad || n < -1 || n > int64(len(d.b)) {
		d.bad = true
		return nil
	}
	if n == -1 {
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}
