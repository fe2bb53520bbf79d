package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Errors of decompression.
var (
	ErrTooLarge    = errors.New("batch: decompressed records exceed the bound")
	ErrCompression = errors.New("batch: unknown compression type")
)

// Java clients frame snappy as xerial's SnappyOutputStream does: an 8-byte magic, two int32 versions, then blocks of
// int32 length + raw snappy. librdkafka and others send one raw snappy block. Both are read; the framed form is written.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeaderBytes = 16
	xerialBlockBytes  = 32 << 10
	zstdMaxWindow     = 128 << 20 // zstd level 22, the largest that Kafka's producers make
)

// The pools hold codecs only, never payload; a codec is reset before use and returned whatever the outcome.
var (
	gzipReaders sync.Pool // *gzip.Reader
	gzipWriters sync.Pool // *gzip.Writer
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	lz4Writers  sync.Pool // *lz4.Writer
	zstdReaders sync.Pool // *zstd.Decoder
	zstdWriters sync.Pool // *zstd.Encoder
)

// decompress appends the plain form of src to dst; at most maxBytes are made.
func decompress(dst, src []byte, codec Compression, maxBytes int) ([]byte, error) {
	switch codec {
	case Gzip:
		return gunzip(dst, src, maxBytes)
	case Snappy:
		return unsnappy(dst, src, maxBytes)
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		defer lz4Readers.Put(r)
		r.Reset(bytes.NewReader(src))
		return readBounded(dst, r, maxBytes)
	case Zstd:
		return unzstd(dst, src, maxBytes)
	}
	return nil, fmt.Errorf("%w: %d", ErrCompression, codec)
}

func gunzip(dst, src []byte, maxBytes int) ([]byte, error) {
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, fmt.Errorf("%w: gzip: %w", ErrCorrupt, err)
	}
	return readBounded(dst, r, maxBytes)
}

func unzstd(dst, src []byte, maxBytes int) ([]byte, error) {
	r, _ := zstdReaders.Get().(*zstd.Decoder)
	if r == nil {
		var err error
		if r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdMaxWindow)); err != nil {
			return nil, err
		}
	}
	defer zstdReaders.Put(r)
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, fmt.Errorf("%w: zstd: %w", ErrCorrupt, err)
	}
	return readBounded(dst, r, maxBytes)
}

// readBounded reads r to its end and fails rather than make more than maxBytes.
func readBounded(dst []byte, r io.Reader, maxBytes int) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > maxBytes {
			return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, maxBytes)
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}

func unsnappy(dst, src []byte, maxBytes int) ([]byte, error) {
	if len(src) < xerialHeaderBytes || !bytes.Equal(src[:len(xerialMagic)], xerialMagic) {
		return unsnappyBlock(dst, src, maxBytes)
	}
	start := len(dst)
	for src = src[xerialHeaderBytes:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, fmt.Errorf("%w: snappy block without a length", ErrCorrupt)
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return nil, fmt.Errorf("%w: snappy block of %d bytes, %d are left", ErrCorrupt, n, len(src)-4)
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[4:4+n], maxBytes-(len(dst)-start)); err != nil {
			return nil, err
		}
		src = src[4+n:]
	}
	return dst, nil
}

func unsnappyBlock(dst, src []byte, maxBytes int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, fmt.Errorf("%w: snappy: %w", ErrCorrupt, err)
	}
	if n > maxBytes {
		return nil, fmt.Errorf("%w of %d bytes", ErrTooLarge, maxBytes)
	}
	// A snappy element of 3 bytes makes at most 64: a length beyond that is a lie, refused before memory is taken for it.
	if n > 64+22*len(src) {
		return nil, fmt.Errorf("%w: snappy block of %d bytes claims %d", ErrCorrupt, len(src), n)
	}
	at := len(dst)
	dst = slices.Grow(dst, n)
	if _, err = snappy.Decode(dst[at:at+n], src); err != nil {
		return nil, fmt.Errorf("%w: snappy: %w", ErrCorrupt, err)
	}
	return dst[:at+n], nil
}

// compress appends the compressed form of src to dst, in the framing that the Java client reads.
func compress(dst, src []byte, codec Compression) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Snappy:
		return snappyFrame(dst, src), nil
	case Gzip:
		w, _ := gzipWriters.Get().(*gzip.Writer)
		if w == nil {
			w = gzip.NewWriter(nil)
		}
		defer gzipWriters.Put(w)
		out := sliceWriter{dst}
		w.Reset(&out)
		return out.finish(w, src)
	case LZ4:
		w, _ := lz4Writers.Get().(*lz4.Writer)
		if w == nil {
			w = lz4.NewWriter(nil)
		}
		defer lz4Writers.Put(w)
		out := sliceWriter{dst}
		w.Reset(&out)
		// KafkaLZ4BlockOutputStream: independent blocks of 64 KiB, no checksums.
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
			return nil, err
		}
		return out.finish(w, src)
	case Zstd:
		w, _ := zstdWriters.Get().(*zstd.Encoder)
		if w == nil {
			var err error
			if w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)); err != nil {
				return nil, err
			}
		}
		defer zstdWriters.Put(w)
		return w.EncodeAll(src, dst), nil
	}
	return nil, fmt.Errorf("%w: %d", ErrCompression, codec)
}

func snappyFrame(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, 1) // version
	dst = binary.BigEndian.AppendUint32(dst, 1) // lowest compatible version
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlockBytes)]
		src = src[len(block):]
		packed := snappy.Encode(nil, block)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(packed)))
		dst = append(dst, packed...)
	}
	return dst
}

type sliceWriter struct{ b []byte }

func (s *sliceWriter) Write(p []byte) (int, error) {
	s.b = append(s.b, p...)
	return len(p), nil
}

func (s *sliceWriter) finish(w io.WriteCloser, src []byte) ([]byte, error) {
	if _, err := w.Write(src); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return s.b, nil
}
