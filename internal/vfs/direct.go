package vfs

import (
	"errors"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AlignedBytes is memory for a file that is opened Direct; its capacity is a multiple of DirectAlignment, n rounded up.
func AlignedBytes(n int) []byte {
	whole := (n + DirectAlignment - 1) &^ (DirectAlignment - 1)
	b := make([]byte, whole+DirectAlignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (DirectAlignment - 1)) // the heap does not move
	return b[skip : skip+n : skip+whole]
}

// directly says that a disk takes such a read or write of a file that is opened Direct.
func directly(p []byte, off int64) bool {
	return (uintptr(unsafe.Pointer(unsafe.SliceData(p)))|uintptr(len(p))|uintptr(off))&(DirectAlignment-1) == 0
}

// IsFull says that there is no space left, on the file system or in its owner's quota.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Refused says that a file system does not take what it was asked to do Direct; nothing was written.
func Refused(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) }

func (f *osFile) WriteSync(p []byte, off int64) error {
	for len(p) > 0 {
		n, err := unix.Pwritev2(f.fd, [][]byte{p}, off, unix.RWF_DSYNC)
		switch {
		case errors.Is(err, unix.EOPNOTSUPP): // nothing was written
			if _, err := f.WriteAt(p, off); err != nil {
				return err
			}
			return f.Datasync()
		case err != nil: // not repeated on EINTR, see Datasync
			return f.fail("pwritev2", err)
		case n == 0:
			return f.fail("pwritev2", io.ErrShortWrite)
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

var noPath [1]byte // ends a string of C

// Linked asks for the number of names only. Who asks for the times of a file, as fstat does, makes the kernel (6.13 and later)
// give the next write a time of its own, so that every write of a round would change the inode, and its sync write that too.
func (f *osFile) Linked() (bool, error) {
	var x unix.Statx_t
	// Not unix.Statx, which allocates for its path at each commit.
	_, _, failed := unix.Syscall6(unix.SYS_STATX, uintptr(f.fd), uintptr(unsafe.Pointer(&noPath)), unix.AT_EMPTY_PATH, unix.STATX_NLINK,
		uintptr(unsafe.Pointer(&x)), 0)
	if failed == 0 {
		return x.Nlink > 0, nil
	}
	var st unix.Stat_t // a sandbox that does not know statx
	if err := unix.Fstat(f.fd, &st); err != nil {
		return false, f.fail("fstat", err)
	}
	return st.Nlink > 0, nil
}
