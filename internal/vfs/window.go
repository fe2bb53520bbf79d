package vfs

import (
	"fmt"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Window is a part of a file that is mapped to be written; the zero value is none. What is written to it the file has, like
// after WriteAt: reads see it, Datasync makes it durable, and it outlives the process. One goroutine at a time has it.
//
// A write is a copy, which is the point, and so it can't fail like a system call: when the disk does not answer, or somebody has cut
// the file, there is no page to write to. That is an error here, and any part of the write may have been made.
type Window struct {
	mem     []byte
	from    int64
	through windowHook
	volume  *volume // nil: every write asks for itself
	fd      int
	asks    func() error // of a Faulty
}

// windowHook sees the writes of a window, and makes them by write.
type windowHook func(p []byte, off int64, write func(p []byte, off int64) error) error

// WindowPage is what windows begin and end at, in bytes.
var WindowPage = int64(unix.Getpagesize())

// windowTypes are the file systems whose windows were thought about (statfs f_type): a page that has its block needs no other
// one to be written again.
var windowTypes = map[int64]bool{unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true}

func (f *osFile) MapWindow(from, to int64) (Window, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &st); err != nil {
		return Window{}, f.fail("fstatfs", err)
	}
	if !windowTypes[int64(st.Type)] {
		return Window{}, f.fail("mmap", unix.EOPNOTSUPP)
	}
	return f.mapWindow(from, to)
}

func (f *osFile) mapWindow(from, to int64) (Window, error) {
	b, err := unix.Mmap(f.fd, from, int(to-from), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return Window{}, f.fail("mmap", err)
	}
	return Window{mem: b, from: from, fd: f.fd}, nil
}

// Through lets a hook see every write, before the hooks that are there.
func (w *Window) Through(hook windowHook) {
	before := w.through
	w.through = hook
	if before == nil {
		return
	}
	w.through = func(p []byte, off int64, write func(p []byte, off int64) error) error {
		return hook(p, off, func(p []byte, off int64) error { return before(p, off, write) })
	}
}

// Mapped says that there is one.
func (w *Window) Mapped() bool { return w.mem != nil }

// Covers says that it has the bytes [from, to) of the file.
func (w *Window) Covers(from, to int64) bool {
	return from >= w.from && to <= w.from+int64(len(w.mem))
}

// WriteAt writes p to a place that the window covers and that the file has.
func (w *Window) WriteAt(p []byte, off int64) error {
	if w.through != nil {
		return w.through(p, off, w.write)
	}
	return w.write(p, off)
}

// write makes sure first that the file system takes writes (volume), and then copies.
func (w *Window) write(p []byte, off int64) error {
	if v := w.volume; v == nil {
		if err := w.ask(); err != nil {
			return err
		}
	} else if now := v.clock(); !v.fresh(now) {
		if err := w.ask(); err != nil {
			return err
		}
		v.passed(now)
	}
	return copyGuarded(w.mem[off-w.from:], p)
}

// ask waits, in a system call, while the file system is frozen: by a write of no bytes.
func (w *Window) ask() error {
	if w.asks != nil {
		if err := w.asks(); err != nil {
			return err
		}
	}
	for {
		_, _, errno := unix.Syscall6(unix.SYS_PWRITE64, uintptr(w.fd), uintptr(unsafe.Pointer(&noBytes)), 0, uintptr(w.from), 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

var noBytes byte

// Populate makes the part of a window that the file has writable, [from, to), so that no write has to.
func (w *Window) Populate(from, to int64) error {
	from &^= WindowPage - 1
	return unix.Madvise(w.mem[from-w.from:to-w.from], unix.MADV_POPULATE_WRITE)
}

// WindowFault is a write to a window that the processor could not make.
type WindowFault struct{ at uintptr }

func (e *WindowFault) Error() string {
	return fmt.Sprintf("a page of the mapped file can't be written to (fault at %#x): its disk fails, or somebody has cut the file", e.at)
}

// copyGuarded copies, and returns a fault as an error.
func copyGuarded(to, from []byte) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if cause := recover(); cause != nil {
			fault, ok := cause.(interface { // runtime/debug, SetPanicOnFault
				error
				Addr() uintptr
			})
			if !ok {
				panic(cause) // a bug
			}
			err = &WindowFault{fault.Addr()}
		}
	}()
	copy(to, from)
	return nil
}

// Unmap ends the window; there is none any more, also after an error.
func (w *Window) Unmap() error {
	b := w.mem
	*w = Window{}
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}
