package logfile

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

// Scanner walks over the batches of a .log file by pread (never by mmap: a file that is cut meanwhile must not be
// SIGBUS). It belongs to one goroutine.
type Scanner struct {
	File        vfs.File
	At          int64 // position of the next batch
	Size        int64 // end of what may be read
	HeadersOnly bool  // views are cut to HeaderBytes; the records are skipped, not read
	ChunkBytes  int   // read size when records are read too; 0: limits.RecoveryChunkBytes

	buf   []byte
	start int64 // position of buf[0]
	fill  int   // valid bytes of buf
}

// ErrTorn marks a tail that ends inside a batch, or is no batch at all.
var ErrTorn = errors.New("torn batch")

// Next returns the next batch and its position, nil at the end. An error says what is wrong with the bytes at position.
// The view is valid until the next call.
func (s *Scanner) Next() (batch.View, int64, error) {
	at := s.At
	if at >= s.Size {
		return nil, at, nil
	}
	if s.Size-at < batch.HeaderBytes {
		return nil, at, fmt.Errorf("%w: %d bytes are left, a header has %d", ErrTorn, s.Size-at, batch.HeaderBytes)
	}
	header, err := s.read(at, batch.HeaderBytes)
	if err != nil {
		return nil, at, err
	}
	length := int32(binary.BigEndian.Uint32(header[8:]))
	size := int64(length) + batch.LogOverheadBytes
	switch {
	case index.AllZero(header):
		return nil, at, fmt.Errorf("%w: zeroes", ErrTorn)
	case size < batch.HeaderBytes || size > limits.RecoveryBatchBytes:
		return nil, at, fmt.Errorf("%w: batch length %d", ErrTorn, length)
	case size > s.Size-at:
		return nil, at, fmt.Errorf("%w: the batch has %d bytes, %d are left", ErrTorn, size, s.Size-at)
	case header[16] != 2:
		return nil, at, fmt.Errorf("%w: magic %d", ErrTorn, int8(header[16]))
	}
	v := batch.View(header)
	if !s.HeadersOnly {
		if v, err = s.read(at, int(size)); err != nil {
			return nil, at, err
		}
	}
	s.At = at + size
	return v, at, nil
}

// read returns n bytes at position at.
func (s *Scanner) read(at int64, n int) ([]byte, error) {
	if at >= s.start && at+int64(n) <= s.start+int64(s.fill) {
		return s.buf[at-s.start:][:n:n], nil
	}
	want := s.ChunkBytes
	if want == 0 {
		want = limits.RecoveryChunkBytes
	}
	if s.HeadersOnly {
		want = 4096 // neighbours of small batches come along, records of large ones do not
	}
	want = max(want, n)
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:cap(s.buf)]
	m, err := s.File.ReadAt(s.buf[:min(int64(len(s.buf)), s.Size-at)], at)
	s.start, s.fill = at, m
	if err != nil && err != io.EOF {
		return nil, err
	}
	if m < n {
		return nil, fmt.Errorf("%w: the file ends at %d", ErrTorn, at+int64(m))
	}
	return s.buf[:n:n], nil
}

// Close gives the buffer up.
func (s *Scanner) Close() { s.buf, s.fill = nil, 0 }

// Rewind lets the walk go on at position at, with whole batches from now on.
func (s *Scanner) Rewind(at int64) {
	s.HeadersOnly, s.At = false, at
	s.start, s.fill = 0, 0
}

// EndOffset is the offset behind the last batch of a file.
func EndOffset(fsys vfs.FS, name string) (end int64, err error) {
	f, err := fsys.OpenFile(name, vfs.ReadOnly)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	sc := Scanner{File: f, Size: size, HeadersOnly: true}
	defer sc.Close()
	for {
		v, at, err := sc.Next()
		if err != nil {
			return 0, fmt.Errorf("at %d: %w", at, err)
		}
		if v == nil {
			return end, nil
		}
		end = v.LastOffset() + 1
	}
}

// NamesBatch says whether there is a batch at the position that an index names for an offset: one that begins at or before it.
func NamesBatch(f vfs.File, base, size, at, offset int64) error {
	sc := Scanner{File: f, At: at, Size: size, HeadersOnly: true}
	defer sc.Close()
	v, _, err := sc.Next()
	if err == nil && (v == nil || v.BaseOffset() < base || v.BaseOffset() > offset) {
		err = ErrTorn
	}
	if err != nil {
		return fmt.Errorf("an index names position %d for offset %d: %w", at, offset, err)
	}
	return nil
}

// BuildIndex makes the indexes of a .log file by its batch headers, with Kafka's default interval.
func BuildIndex(f vfs.File, size, baseOffset int64) (*index.Writable, error) {
	b := index.NewBuilder(baseOffset, 4096)
	sc := Scanner{File: f, Size: size, HeadersOnly: true}
	defer sc.Close()
	next := baseOffset
	for {
		v, at, err := sc.Next()
		if err != nil {
			return nil, fmt.Errorf("at %d: %w", at, err)
		}
		if v == nil {
			b.Finish()
			return b.Index, nil
		}
		if v.BaseOffset() < next || v.LastOffset() < v.BaseOffset() || v.LastOffset()-baseOffset > 1<<31-1 {
			return nil, fmt.Errorf("at %d: %w: offsets %d to %d behind %d", at, ErrTorn, v.BaseOffset(), v.LastOffset(), next-1)
		}
		next = v.LastOffset() + 1
		b.Add(v, at)
	}
}
