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
// that lie in its window.
type HeaderWalk struct {
	FD     int
	NoWait bool
	start  int64
	fill   int
	window [2048]byte
}

// Header returns the last offset and the size of the batch at position at.
func (w *HeaderWalk) Header(at int64) (lastOffset, size int64, err error) {
	if at < w.start || at+lookBytes > w.start+int64(w.fill) {
		n, err := pread(w.FD, w.window[:], at, w.NoWait)
		if err != nil {
			return 0, 0, err
		}
		w.start, w.fill = at, n
	}
	b := w.window[at-w.start:][:lookBytes]
	size = int64(int32(binary.BigEndian.Uint32(b[8:]))) + batch.LogOverheadBytes
	if size < batch.HeaderBytes {
		return 0, 0, fmt.Errorf("%w: batch of %d bytes", ErrTorn, size)
	}
	return int64(binary.BigEndian.Uint64(b)) + int64(int32(binary.BigEndian.Uint32(b[23:]))), size, nil
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
