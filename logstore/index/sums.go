package index

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// Kafka's index formats have no checksum, so a flipped bit, or an entry cut off at its border, leaves an index that is well formed
// and wrong. Two files of ours say what the index files of a segment held when they were written (docs/format/index.md).

// Sum is the length and the CRC-32C of a file.
type Sum struct {
	Bytes int64
	CRC   uint32
}

// Sums are those of the offset and the time index.
type Sums struct{ Offsets, Times Sum }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SumOf is the sum of the bytes of a file.
func SumOf(b []byte) Sum { return Sum{int64(len(b)), crc32.Checksum(b, castagnoli)} }

// Check says whether these are the bytes of both files. Nil sums know nothing.
func (s *Sums) Check(offsets, times []byte) error {
	if s == nil {
		return nil
	}
	if now := SumOf(offsets); now != s.Offsets {
		return fmt.Errorf("the offset index has %d bytes with the CRC-32C %#x, it was written with %d and %#x", now.Bytes, now.CRC, s.Offsets.Bytes, s.Offsets.CRC)
	}
	if now := SumOf(times); now != s.Times {
		return fmt.Errorf("the time index has %d bytes with the CRC-32C %#x, it was written with %d and %#x", now.Bytes, now.CRC, s.Times.Bytes, s.Times.CRC)
	}
	return nil
}

// Numbers are lengths and CRCs, of the offset index and then of the time index; -1 first: not known.
func (s *Sums) Numbers() []int64 {
	if s == nil {
		return []int64{-1, 0, 0, 0}
	}
	return []int64{s.Offsets.Bytes, int64(s.Offsets.CRC), s.Times.Bytes, int64(s.Times.CRC)}
}

const (
	sumsMagic = "kaassum1"
	sumsBytes = 8 + 4 + 2*12
)

// Encode makes the bytes of <base offset>.kaas-sums.
func (s *Sums) Encode() []byte {
	b := append(make([]byte, 0, sumsBytes), sumsMagic+"\x00\x00\x00\x00"...)
	for _, x := range []Sum{s.Offsets, s.Times} {
		b = binary.BigEndian.AppendUint64(b, uint64(x.Bytes))
		b = binary.BigEndian.AppendUint32(b, x.CRC)
	}
	binary.BigEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

// ReadSums reads the file. Nil: it is not there, or not whole, so it says nothing.
func ReadSums(fsys vfs.FS, name string) *Sums {
	b, err := vfs.ReadFile(fsys, name, sumsBytes)
	if err != nil || len(b) != sumsBytes || string(b[:8]) != sumsMagic || binary.BigEndian.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return nil
	}
	sum := func(b []byte) Sum { return Sum{be64(b), binary.BigEndian.Uint32(b[8:])} }
	return &Sums{sum(b[12:]), sum(b[24:])}
}

// EncodeAbortedCopy makes the bytes of <base offset>.kaas-txnindex: those of the transaction index, and their CRC-32C.
func EncodeAbortedCopy(all []AbortedTxn) []byte {
	b := EncodeAbortedAll(all)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// ReadAbortedCopy reads what a transaction index begins with; nil: the copy is not there, or not whole, so it says nothing.
func ReadAbortedCopy(fsys vfs.FS, name string, base int64) []AbortedTxn {
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if err != nil || len(b) < 4 {
		return nil
	}
	at := len(b) - 4
	if binary.BigEndian.Uint32(b[at:]) != crc32.Checksum(b[:at], castagnoli) {
		return nil
	}
	all, err := DecodeAborted(b[:at], base)
	if err != nil {
		return nil
	}
	return all
}
