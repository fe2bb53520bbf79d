package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// osFile is a descriptor; Mem uses it too, over a memfd.
type osFile struct {
	fd     int
	name   string // of the opening
	memory bool   // a memfd: its name is not the operating system's
	closed atomic.Bool
}

func (f *osFile) FD() int { return f.fd }

func (f *osFile) fail(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.called(), Err: err}
}

// called is what the file is called now: it, or a directory above it, may have been renamed since it was opened.
func (f *osFile) called() string {
	var named, open unix.Stat_t
	if f.memory || f.closed.Load() || unix.Fstat(f.fd, &open) != nil {
		return f.name
	}
	if unix.Stat(f.name, &named) == nil && named.Dev == open.Dev && named.Ino == open.Ino {
		return f.name
	}
	if link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(f.fd)); err == nil && strings.HasPrefix(link, "/") {
		return link
	}
	return f.name
}

// ReadAt follows io.ReaderAt: n < len(p) comes with an error, io.EOF at the end of the file.
func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pread(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, f.fail("pread", err)
		}
		if m == 0 {
			return n, io.EOF
		}
		n += m
	}
	return n, nil
}

// WriteAt writes all of p or fails; after a failure any prefix may have been written.
func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Pwrite(f.fd, p[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, f.fail("pwrite", err)
		}
		n += m
	}
	return n, nil
}

func (f *osFile) Truncate(size int64) error {
	for {
		err := unix.Ftruncate(f.fd, size)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return f.fail("truncate", err)
		}
		return nil
	}
}

func (f *osFile) Allocate(from, to int64) error {
	for {
		err := unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return f.fail("fallocate", err)
		}
		return nil
	}
}

func (f *osFile) AllocatedBytes() (int64, error) {
	const blockBytes = 512 // of st_blocks, whatever the file system's are
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return 0, f.fail("fstat", err)
	}
	return st.Blocks * blockBytes, nil
}

// Datasync is not repeated on EINTR: a second call may succeed although the pages of the first were lost.
func (f *osFile) Datasync() error {
	if err := unix.Fdatasync(f.fd); err != nil {
		return f.fail("fdatasync", err)
	}
	return nil
}

func (f *osFile) Size() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return 0, f.fail("fstat", err)
	}
	return st.Size, nil
}

func (f *osFile) Map(length int) ([]byte, error) {
	b, err := unix.Mmap(f.fd, 0, length, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, f.fail("mmap", err)
	}
	return b, nil
}

func (f *osFile) Unmap(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return f.fail("munmap", err)
	}
	return nil
}

// Close fails the second time: by then the kernel may have given the descriptor to another file.
func (f *osFile) Close() error {
	if f.closed.Swap(true) {
		return f.fail("close", fs.ErrClosed)
	}
	if err := unix.Close(f.fd); err != nil {
		return f.fail("close", err)
	}
	return nil
}

// WriteFileAtomic replaces name by data in one step that survives a crash: write name.tmp, fdatasync, rename, sync the
// directory. After a crash name holds the old or the new content, and name.tmp may be left over.
func WriteFileAtomic(fsys FS, name, dir string, data []byte) error {
	tmp := name + ".tmp"
	f, err := fsys.OpenFile(tmp, Create|Truncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Datasync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// ReadFile reads the whole of name; it fails when the file is larger than maxBytes.
func ReadFile(fsys FS, name string, maxBytes int64) ([]byte, error) {
	f, err := fsys.OpenFile(name, ReadOnly)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxBytes {
		return nil, &fs.PathError{Op: "read", Path: name, Err: unix.EFBIG}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return b[:n], err
}

// copyBytes is how much CopyRange reads at a time.
const copyBytes = 1 << 20

// CopyRange copies [at, size) of a file to the same place of the file name, which is made when it is missing, and syncs it.
// step is called with the number of bytes before each piece; its error ends the copy.
func CopyRange(fsys FS, name string, from File, at, size int64, step func(bytes int) error) error {
	to, err := fsys.OpenFile(name, Create)
	if err != nil {
		return err
	}
	b := make([]byte, min(copyBytes, max(size-at, 1)))
	for at < size && err == nil {
		n := min(int64(len(b)), size-at)
		if err = step(int(n)); err != nil {
			break
		}
		if _, err = from.ReadAt(b[:n], at); err == nil {
			_, err = to.WriteAt(b[:n], at)
		}
		at += n
	}
	if err == nil {
		err = to.Datasync()
	}
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	return err
}

// MakeDir makes a directory, and what is missing above it, when it is missing; its name is durable then.
func MakeDir(fsys FS, path string) error {
	if _, err := fsys.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.MkdirAll(path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
