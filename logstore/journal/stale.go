package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"kaas/internal/vfs"
)

// Of a batch: where its length stands, and how much of it is compared.
const (
	batchLengthAt = 8
	batchPrefix   = 12 // base offset and length, not counted by the length
	batchCRCAt    = 17
	batchHeader   = 61 // the least that one has
)

// Stale is how many entries Apply has left out because they do not belong where they say.
func (c *Contents) Stale() int64 { return c.stale.Load() }

// belongs says whether b, whole batches, may be written to f at position. A journal that lost its last blocks, or is of
// another day, lacks the forgets that make entries of replaced segments dead; they must not be written over what compaction
// has made. An entry that is wanted begins where the log ends, or where it has the same batch or bytes that never reached
// the disk; then everything before it is whole, so that its position is the start of a batch.
func belongs(f vfs.File, position int64, b []byte) (bool, error) {
	size, err := f.Size()
	if err != nil || position >= size {
		return position == size, err
	}
	there := make([]byte, min(size-position, batchHeader, int64(len(b))))
	if _, err := f.ReadAt(there, position); err != nil {
		return false, err
	}
	if bytes.HasPrefix(b, there) || len(bytes.Trim(there, "\x00")) == 0 {
		return true, nil
	}
	for at := int64(0); at < position; {
		n, err := batchSize(f, at, size)
		if err != nil {
			return false, err
		}
		if at += n; n == 0 || at > position {
			return false, nil
		}
	}
	whole, err := wholeBatch(f, position, size)
	return !whole, err
}

// batchSize is the size that the batch at a position gives itself; 0: it is none.
func batchSize(f vfs.File, at, size int64) (int64, error) {
	var head [batchPrefix]byte
	if _, err := f.ReadAt(head[:], at); errors.Is(err, io.EOF) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	n := batchPrefix + int64(int32(binary.BigEndian.Uint32(head[batchLengthAt:])))
	if n < batchHeader || n > size-at {
		return 0, nil
	}
	return n, nil
}

// wholeBatch says that a batch stands there whose checksum holds.
func wholeBatch(f vfs.File, at, size int64) (bool, error) {
	n, err := batchSize(f, at, size)
	if n == 0 || err != nil {
		return false, err
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		return false, err
	}
	return crc32.Checksum(b[batchCRCAt+4:], castagnoli) == binary.BigEndian.Uint32(b[batchCRCAt:]), nil
}
