package codec

import "encoding/binary"

// viewReader walks one body. It never allocates and never panics: a read that
// would leave the body sets bad and answers zero, so a caller may read a whole
// structure and look at bad once. A view turns bad, and bytes left over, into
// ErrMalformed before it hands out anything, so nothing of a malformed request
// has been acted upon.
type viewReader struct {
	body   []byte
	offset int
	bad    bool
}

func (r *viewReader) remaining() int { return len(r.body) - r.offset }

// take hands out the next n bytes as a view into the body.
func (r *viewReader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.body)-r.offset {
		r.bad = true
		return nil
	}
	b := r.body[r.offset : r.offset+n : r.offset+n]
	r.offset += n
	return b
}

func (r *viewReader) int8() int8 {
	b := r.take(1)
	if b == nil {
		return 0
	}
	return int8(b[0])
}

func (r *viewReader) int16() int16 {
	b := r.take(2)
	if b == nil {
		return 0
	}
	return int16(binary.BigEndian.Uint16(b))
}

func (r *viewReader) int32() int32 {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(b))
}

func (r *viewReader) int64() int64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (r *viewReader) uuid() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

// uvarint reads an unsigned varint of at most 5 bytes and 32 bits (KIP-482).
func (r *viewReader) uvarint() uint32 {
	var value uint64
	for shift := uint(0); shift < 35; shift += 7 {
		b := r.take(1)
		if b == nil {
			return 0
		}
		value |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			if value > 0xffffffff {
				break
			}
			return uint32(value)
		}
	}
	r.bad = true
	return 0
}

// length reads the length of a compact (KIP-482: length + 1, 0 is null) or
// plain field; wide selects the 4-byte plain form (bytes, arrays) over the
// 2-byte one (strings). It answers -1 for null.
func (r *viewReader) length(flexible, wide bool) int {
	switch {
	case flexible:
		n := int64(r.uvarint()) - 1
		if n > int64(r.remaining()) {
			r.bad = true
			return -1
		}
		return int(n)
	case wide:
		n := r.int32()
		if n < -1 {
			r.bad = true
			return -1
		}
		return int(n)
	default:
		n := r.int16()
		if n < -1 {
			r.bad = true
			return -1
		}
		return int(n)
	}
}

// count reads the length of an array that must not be null. An element takes
// at least one byte, so a count above what remains is malformed, and a loop
// over the count ends within the body whatever was claimed.
func (r *viewReader) count(flexible bool) int {
	n := r.length(flexible, true)
	if n < 0 || n > r.remaining() {
		r.bad = true
		return 0
	}
	return n
}

// text reads a string that must not be null.
func (r *viewReader) text(flexible bool) []byte {
	n := r.length(flexible, false)
	if n < 0 {
		r.bad = true
		return nil
	}
	return r.take(n)
}

// nullableText answers nil for null and a non-nil slice for a present string,
// the empty one included.
func (r *viewReader) nullableText(flexible bool) []byte {
	n := r.length(flexible, false)
	if n < 0 {
		return nil
	}
	return r.take(n)
}

// nullableBytes is nullableText with the 4-byte plain length.
func (r *viewReader) nullableBytes(flexible bool) []byte {
	n := r.length(flexible, true)
	if n < 0 {
		return nil
	}
	return r.take(n)
}

// tag reads the next tag's number and value; n is the count that is left of
// the section, which the caller opened with uvarint.
func (r *viewReader) tag() (number uint32, value []byte) {
	number = r.uvarint()
	size := r.uvarint()
	if int64(size) > int64(r.remaining()) {
		r.bad = true
		return number, nil
	}
	return number, r.take(int(size))
}

// skipTags passes over one tag section.
func (r *viewReader) skipTags(flexible bool) {
	if !flexible {
		return
	}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.tag()
	}
}
