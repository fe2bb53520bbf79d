package logfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
)

// ErrWouldBlock says that a read has to wait for a disk.
var ErrWouldBlock = errors.New("read would block")

// lookBytes is what a lookup reads of a header: base offset, length, epoch, magic, CRC, attributes, last offset delta.
const lookBytes = 27

// HeaderWalk reads batch headers one after the other. It lives on the stack; one pread serves all headers of small batches
// that lie in its window. What lies in Mem needs none.
type HeaderWalk struct {
	FD     int
	NoWait bool
	Mem    []byte // the file's bytes from MemAt on, which are in memory; nil: none
	MemAt  int64
	start  int64
	fill   int
	window [2048]byte
}

// Header returns the offsets and the size of the batch at position at.
func (w *HeaderWalk) Header(at int64) (baseOffset, lastOffset, size int64, err error) {
	if in := at - w.MemAt; in >= 0 && in+lookBytes <= int64(len(w.Mem)) {
		return header(w.Mem[in:][:lookBytes])
	}
	if at < w.start || at+lookBytes > w.start+int64(w.fill) {
		n, err := pread(w.FD, w.window[:], at, w.NoWait)
		if err != nil {
			return 0, 0, 0, err
		}
		w.start, w.fill = at, n
	}
	return header(w.window[at-w.start:][:lookBytes])
}

// Find looks for the first batch that ends at or after offset, from the batch at position at on; it answers end when there
// is none. ErrTorn: there is no batch at some position, offsets do not grow (no checksum covers them), or an index named a batch
// that begins behind the offset. The file's batches lie in [first, limit).
func (w *HeaderWalk) Find(at, offset, end, first, limit int64) (position, size int64, err error) {
	before := int64(-2) // last offset of the batch before; -2: not known
	if at == 0 {
		before = first - 1
	}
	for from := at; at < end; at += size {
		base, last, n, err := w.Header(at)
		if err != nil {
			return at, 0, err
		}
		size = n
		if base <= before || base < first || last < base || last >= limit || size > end-at || at == from && at > 0 && base > offset {
			return at, 0, fmt.Errorf("%w: offsets %d to %d behind %d, %d bytes of %d", ErrTorn, base, last, before, size, end-at)
		}
		if last < offset {
			before = last
			continue
		}
		gap := base > offset || before > -2 && base != before+1
		if gap && at+size < end { // compaction leaves gaps; a flipped bit one that what follows does not bear out
			if next, _, _, err := w.Header(at + size); err != nil || next <= last {
				return at, 0, gapError(err, at, base, next)
			}
		}
		return at, size, nil
	}
	return end, 0, nil
}

func gapError(err error, at, base, next int64) error {
	if err == nil {
		err = fmt.Errorf("%w: the batch at %d begins with offset %d, the next one with %d", ErrTorn, at, base, next)
	}
	return err
}

// WholeBefore returns the end of the last batch from the one at position end on that ends at or before stop; end itself
// when there is none.
func (w *HeaderWalk) WholeBefore(end, stop int64) (int64, error) {
	for {
		_, _, size, err := w.Header(end)
		if err == io.ErrUnexpectedEOF {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		if end+size > stop {
			return end, nil
		}
		end += size
	}
}

func header(b []byte) (baseOffset, lastOffset, size int64, err error) {
	size = int64(int32(binary.BigEndian.Uint32(b[8:]))) + batch.LogOverheadBytes
	if size < batch.HeaderBytes || b[16] != 2 {
		return 0, 0, 0, fmt.Errorf("%w: batch of %d bytes, magic %d", ErrTorn, size, int8(b[16]))
	}
	baseOffset = int64(binary.BigEndian.Uint64(b))
	return baseOffset, baseOffset + int64(int32(binary.BigEndian.Uint32(b[23:]))), size, nil
}

const rwfNoWait = 0x8 // RWF_NOWAIT: EAGAIN when the page is not in memory

// pread reads at least lookBytes and at most len(b). It calls the kernel directly: an io interface would move b to the heap,
// once per fetch.
func pread(fd int, b []byte, at int64, noWait bool) (int, error) {
	for {
		var n uintptr
		var errno unix.Errno
		if noWait {
			v := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
			n, _, errno = unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1, uintptr(at), 0, rwfNoWait)
		} else {
			n, _, errno = unix.Syscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(at), 0, 0)
		}
		switch errno {
		case 0:
			if n < lookBytes {
				if noWait && n > 0 {
					noWait = false // the header straddles a page that is not there, or the file ends: find out
					if _, err := pread(fd, b[:lookBytes], at+lookBytes-1, true); err == ErrWouldBlock {
						return 0, ErrWouldBlock
					}
					continue
				}
				return 0, io.ErrUnexpectedEOF
			}
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, ErrWouldBlock
		case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
			if !noWait {
				return 0, errno
			}
			noWait = false // a file system without it (or an old kernel): wait
		default:
			return 0, errno
		}
	}
}
