package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

const openMode = 0o644

func (osFS) OpenFile(name string, flag Flag) (File, error) {
	mode := unix.O_CLOEXEC | unix.O_RDWR
	if flag&ReadOnly != 0 {
		mode = unix.O_CLOEXEC | unix.O_RDONLY | unix.O_NONBLOCK // a named pipe would wait for its writer
	}
	if flag&Create != 0 {
		mode |= unix.O_CREAT
	}
	if flag&Exclusive != 0 {
		mode |= unix.O_EXCL
	}
	if flag&Truncate != 0 {
		mode |= unix.O_TRUNC
	}
	if flag&Direct != 0 {
		mode |= unix.O_DIRECT
	}
	// unix.Open, not os.OpenFile: no finalizer, no poller registration and no extra object for ten thousand idle files.
	for {
		fd, err := unix.Open(name, mode, openMode)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		if flag&ReadOnly != 0 {
			if err := refuseIrregular(fd, name); err != nil {
				return nil, errors.Join(err, unix.Close(fd))
			}
		}
		return &osFile{fd: fd, name: name}, nil
	}
}

// ErrIrregular refuses to read a named pipe, socket or device.
var ErrIrregular = errors.New("not a regular file")

func refuseIrregular(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "fstat", Path: name, Err: err}
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return &fs.PathError{Op: "open", Path: name, Err: ErrIrregular}
	}
	return nil
}

func (osFS) Rename(from, to string) error    { return os.Rename(from, to) }
func (osFS) Remove(name string) error        { return os.Remove(name) }
func (osFS) RemoveAll(name string) error     { return os.RemoveAll(name) }
func (osFS) MkdirAll(name string) error      { return os.MkdirAll(name, 0o755) }
func (osFS) Mkdir(name string) error         { return os.Mkdir(name, 0o755) }
func (osFS) Stat(name string) (Entry, error) { return osStat(name) }

func osStat(name string) (Entry, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: info.Name(), Dir: info.IsDir(), Irregular: !info.IsDir() && !info.Mode().IsRegular(), SizeBytes: info.Size(), ModifiedMs: info.ModTime().UnixMilli()}, nil
}

func (osFS) List(dir string) ([]Entry, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	list, err := d.ReadDir(-1)
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(list))
	for i, e := range list {
		out[i] = Entry{Name: e.Name(), Dir: e.IsDir()}
		if e.Type()&fs.ModeSymlink != 0 {
			out[i].Link = true
			if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil { // a dangling link is listed as a file
				out[i].Dir = info.IsDir()
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (osFS) Usage(dir string) (totalBytes, usableBytes int64, err error) {
	st, err := statfs(dir)
	if err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
}

// statfs is unix.Statfs without its copy of the path on the heap: a log asks each time that it takes space ahead, some times a second.
func statfs(dir string) (st unix.Statfs_t, err error) {
	var path [unix.PathMax]byte // ends with a zero
	if len(dir) >= len(path) {
		return st, unix.ENAMETOOLONG
	}
	copy(path[:], dir)
	for {
		_, _, failed := unix.Syscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(&path)), uintptr(unsafe.Pointer(&st)), 0)
		switch failed {
		case 0:
			return st, nil
		case unix.EINTR:
		default:
			return st, failed
		}
	}
}

// LockedError says who holds a lock.
type LockedError struct {
	Name string
	PID  int // 0: unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Name)
	}
	return fmt.Sprintf("%s is locked by the process with pid %d", e.Name, e.PID)
}

type osLock struct{ f *os.File }

// Lock takes flock(2) on name and writes the pid into it. The kernel drops the lock when the process dies; the file
// stays, for removing it would race with the next owner.
func (osFS) Lock(name string) (Lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, openMode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		buf := make([]byte, 32)
		n, _ := f.ReadAt(buf, 0) // the pid only improves the message
		_ = f.Close()            // nothing was written
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &fs.PathError{Op: "flock", Path: name, Err: err}
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
		return nil, &LockedError{Name: name, PID: pid}
	}
	if err := writePID(f, os.Getpid()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &osLock{f}, nil
}

// writePID writes who has the lock, over what stands there: a start on a full disk has the block of an earlier one. It goes on without
// where there is none, as the name is only for a message.
func writePID(f interface {
	io.WriterAt
	Truncate(size int64) error
}, pid int) error {
	text := fmt.Appendf(nil, "%d\n", pid)
	_, err := f.WriteAt(text, 0)
	switch {
	case IsFull(err):
		return f.Truncate(0)
	case err != nil:
		return err
	}
	return f.Truncate(int64(len(text)))
}

func (l *osLock) Unlock() error { return l.f.Close() }

// localTypes are file systems on disks of this machine, which have one write cache for all files (statfs f_type).
var localTypes = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.OVERLAYFS_SUPER_MAGIC: true, 0x2fc12fc1: true /* ZFS */, 0xca451a4e: true, /* bcachefs */
}

// Local says that dir lies on a disk of this machine: not on the network, not in memory.
func Local(dir string) bool {
	st, err := statfs(dir)
	return err == nil && localTypes[int64(st.Type)]
}
