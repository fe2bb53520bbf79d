package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"kaas/codec/batch"
	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
)

// scanner walks over the batches of a .log file by pread (never by mmap: a file that is cut meanwhile must not be
// SIGBUS). It belongs to one goroutine.
type scanner struct {
	file        vfs.File
	at          int64 // position of the next batch
	size        int64 // end of what may be read
	headersOnly bool  // views are cut to HeaderBytes; the records are skipped, not read

	buf   []byte
	start int64 // position of buf[0]
	fill  int   // valid bytes of buf
}

// errTorn marks a tail that ends inside a batch, or is no batch at all.
var errTorn = errors.New("torn batch")

// next returns the next batch and its position, nil at the end. An error says what is wrong with the bytes at position.
// The view is valid until the next call.
func (s *scanner) next() (batch.View, int64, error) {
	at := s.at
	if at >= s.size {
		return nil, at, nil
	}
	if s.size-at < batch.HeaderBytes {
		return nil, at, fmt.Errorf("%w: %d bytes are left, a header has %d", errTorn, s.size-at, batch.HeaderBytes)
	}
	header, err := s.read(at, batch.HeaderBytes)
	if err != nil {
		return nil, at, err
	}
	length := int32(binary.BigEndian.Uint32(header[8:]))
	size := int64(length) + batch.LogOverheadBytes
	switch {
	case index.AllZero(header):
		return nil, at, fmt.Errorf("%w: zeroes", errTorn)
	case size < batch.HeaderBytes || size > limits.RecoveryBatchBytes:
		return nil, at, fmt.Errorf("%w: batch length %d", errTorn, length)
	case size > s.size-at:
		return nil, at, fmt.Errorf("%w: the batch has %d bytes, %d are left", errTorn, size, s.size-at)
	case header[16] != 2:
		return nil, at, fmt.Errorf("%w: magic %d", errTorn, int8(header[16]))
	}
	v := batch.View(header)
	if !s.headersOnly {
		if v, err = s.read(at, int(size)); err != nil {
			return nil, at, err
		}
	}
	s.at = at + size
	return v, at, nil
}

// read returns n bytes at position at.
func (s *scanner) read(at int64, n int) ([]byte, error) {
	if at >= s.start && at+int64(n) <= s.start+int64(s.fill) {
		return s.buf[at-s.start:][:n:n], nil
	}
	want := limits.RecoveryChunkBytes
	if s.headersOnly {
		want = 4096 // neighbours of small batches come along, records of large ones do not
	}
	want = max(want, n)
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:cap(s.buf)]
	m, err := s.file.ReadAt(s.buf[:min(int64(len(s.buf)), s.size-at)], at)
	s.start, s.fill = at, m
	if err != nil && err != io.EOF {
		return nil, err
	}
	if m < n {
		return nil, fmt.Errorf("%w: the file ends at %d", errTorn, at+int64(m))
	}
	return s.buf[:n:n], nil
}

func (s *scanner) close() { s.buf, s.fill = nil, 0 }
