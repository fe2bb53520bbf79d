package index

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// AbortedTxn is one entry of the aborted-transaction index.
type AbortedTxn struct {
	ProducerID       int64
	FirstOffset      int64
	LastOffset       int64
	LastStableOffset int64
}

// Entries of .txnindex, big-endian, in the order of their last offsets (AbortedTxn.java; docs/format/txnindex.md):
//
//	version int16 = 0, producerId int64, firstOffset int64, lastOffset int64, lastStableOffset int64
const AbortedEntryBytes = 34

// EncodeAborted makes the bytes of one entry.
func EncodeAborted(a AbortedTxn) []byte {
	b := make([]byte, AbortedEntryBytes)
	put64(b[2:], a.ProducerID)
	put64(b[10:], a.FirstOffset)
	put64(b[18:], a.LastOffset)
	put64(b[26:], a.LastStableOffset)
	return b
}

// EncodeAbortedAll makes the bytes of a file.
func EncodeAbortedAll(all []AbortedTxn) []byte {
	b := make([]byte, 0, len(all)*AbortedEntryBytes)
	for _, a := range all {
		b = append(b, EncodeAborted(a)...)
	}
	return b
}

// begins says whether the transaction index, of which err says what is wrong, begins with its copy.
func begins(all []AbortedTxn, err error, copied []AbortedTxn) error {
	if err == nil && (len(all) < len(copied) || !slices.Equal(all[:len(copied)], copied)) {
		err = fmt.Errorf("transaction index of %d entries does not begin with the %d of its copy", len(all), len(copied))
	}
	return err
}

// DecodeAborted reads the transaction index of a segment that begins at base. With an error come the entries before the
// one that is damaged.
func DecodeAborted(b []byte, base int64) ([]AbortedTxn, error) {
	out := make([]AbortedTxn, 0, len(b)/AbortedEntryBytes)
	last := base - 1
	for ; len(b) > 0; b = b[AbortedEntryBytes:] {
		if len(b) < AbortedEntryBytes {
			return out, fmt.Errorf("transaction index ends with %d bytes of an entry", len(b))
		}
		a := AbortedTxn{be64(b[2:]), be64(b[10:]), be64(b[18:]), be64(b[26:])}
		if be16(b) != 0 || a.LastOffset <= last || a.FirstOffset >= a.LastOffset { // a marker stands behind what it ends
			return out, fmt.Errorf("transaction index entry %+v, version %d, after offset %d", a, be16(b), last)
		}
		last = a.LastOffset
		out = append(out, a)
	}
	return out, nil
}

func be32(b []byte) int32     { return int32(binary.BigEndian.Uint32(b)) }
func be64(b []byte) int64     { return int64(binary.BigEndian.Uint64(b)) }
func be16(b []byte) int16     { return int16(binary.BigEndian.Uint16(b)) }
func put32(b []byte, v int32) { binary.BigEndian.PutUint32(b, uint32(v)) }
func put64(b []byte, v int64) { binary.BigEndian.PutUint64(b, uint64(v)) }
