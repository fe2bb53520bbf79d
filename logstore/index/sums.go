package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

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
type Sums struct {
	Offsets, Times Sum
	// Aborted is how many entries the transaction index of a sealed segment has at least: both files of it may be lost, and a segment
	// without them is one without entries.
	Aborted int
}

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
	sumsMagic    = "kaassum2"
	sumsBytes    = 8 + 4 + 2*12 + 4
	oldSumsMagic = "kaassum1" // without the number of aborted transactions
)

// Encode makes the bytes of <base offset>.kaas-sums.
func (s *Sums) Encode() []byte {
	b := append(make([]byte, 0, sumsBytes), sumsMagic+"\x00\x00\x00\x00"...)
	for _, x := range []Sum{s.Offsets, s.Times} {
		b = binary.BigEndian.AppendUint64(b, uint64(x.Bytes))
		b = binary.BigEndian.AppendUint32(b, x.CRC)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(s.Aborted))
	binary.BigEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

// ReadSums reads the file. Nil: it is not there, or not whole, so it says nothing.
func ReadSums(fsys vfs.FS, name string) *Sums {
	b, err := vfs.ReadFile(fsys, name, sumsBytes)
	old := len(b) == sumsBytes-4 && string(b[:8]) == oldSumsMagic
	if err != nil || !old && (len(b) != sumsBytes || string(b[:8]) != sumsMagic) || binary.BigEndian.Uint32(b[8:]) != crc32.Checksum(b[12:], castagnoli) {
		return nil
	}
	sum := func(b []byte) Sum { return Sum{be64(b), binary.BigEndian.Uint32(b[8:])} }
	s := &Sums{Offsets: sum(b[12:]), Times: sum(b[24:])}
	if !old {
		s.Aborted = int(be32(b[36:]))
	}
	return s
}

// EncodeAbortedCopy makes the bytes of <base offset>.kaas-txnindex: those of the transaction index, and their CRC-32C.
func EncodeAbortedCopy(all []AbortedTxn) []byte {
	b := EncodeAbortedAll(all)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// AbortedFiles is what both files of a transaction index say.
type AbortedFiles struct {
	All        []AbortedTxn // of the index; of a damaged one those before the damage
	Damage     error        // why the index is wrong: by itself, or because it does not begin with its copy
	CopyDamage error        // why the copy says nothing although it is there
}

// ReadAborted reads the transaction index of a segment that begins at base, and its copy. Either may be missing; an empty copyName:
// that one is.
func ReadAborted(fsys vfs.FS, name, copyName string, base int64) AbortedFiles {
	var x AbortedFiles
	b, err := vfs.ReadFile(fsys, name, 1<<31)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // none was written, or the copy tells
	}
	all, decodeErr := DecodeAborted(b, base)
	x.All, x.Damage = all, cmp.Or(err, decodeErr)
	if copyName == "" {
		return x
	}
	copied, err := readAbortedCopy(fsys, copyName, base)
	if x.CopyDamage = err; err == nil {
		x.Damage = begins(x.All, x.Damage, copied)
	}
	return x
}

// Expect is told what the segment had when it was sealed; nil: nothing.
func (x *AbortedFiles) Expect(s *Sums) {
	if s != nil && len(x.All) < s.Aborted {
		x.Damage = cmp.Or(x.Damage, fmt.Errorf("the transaction index has %d entries, it had %d when the segment was sealed", len(x.All), s.Aborted))
	}
}

// Doubt is why the index can't be taken as it is, nil: it can. When the copy is damaged the index may be, too, and its format has
// nothing that would tell.
func (x *AbortedFiles) Doubt() error { return cmp.Or(x.Damage, x.CopyDamage) }

// CopyHolds says whether a transaction index of these entries begins with its copy, which is there.
func CopyHolds(all []AbortedTxn, fsys vfs.FS, name string, base int64) bool {
	copied, err := readAbortedCopy(fsys, name, base)
	return begins(all, err, copied) == nil
}

// readAbortedCopy reads what a transaction index begins with: nothing when there is no copy.
func readAbortedCopy(fsys vfs.FS, name string, base int64) ([]AbortedTxn, error) {
	b, err := vfs.ReadFile(fsys, name, 1<<31)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := len(b) - 4 // one without entries is never written, and would be whole when cut to four zeroes
	if at <= 0 || binary.BigEndian.Uint32(b[at:]) != crc32.Checksum(b[:at], castagnoli) {
		return nil, fmt.Errorf("the copy of the transaction index, %s, is damaged", name)
	}
	return DecodeAborted(b[:at], base)
}
