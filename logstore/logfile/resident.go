package logfile

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const pageBytes = 4096

// Resident says whether length bytes of a file (mem: their map, or nil) are in memory, without touching them.
func Resident(fd int, offset int64, length int, mem []byte) bool {
	if length == 0 {
		return true
	}
	if mem == nil {
		var b [lookBytes]byte
		_, first := pread(fd, b[:], offset, true)
		_, last := pread(fd, b[:], max(offset, offset+int64(length)-lookBytes), true)
		return first != ErrWouldBlock && last != ErrWouldBlock
	}
	var state [1024]byte // 4 MiB at a time
	start, left := pages(mem)
	for left > 0 {
		n := min(left, len(state)*pageBytes)
		pages := (n + pageBytes - 1) / pageBytes
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, start, uintptr(n), uintptr(unsafe.Pointer(&state[0]))); errno != 0 {
			return false
		}
		for _, b := range state[:pages] {
			if b&1 == 0 {
				return false
			}
		}
		start += uintptr(n)
		left -= n
	}
	return true
}

// pages is the range of mem, from the start of its first page.
func pages(mem []byte) (start uintptr, length int) {
	start = uintptr(unsafe.Pointer(&mem[0]))
	in := int(start % pageBytes)
	return start - uintptr(in), len(mem) + in
}

// Populate brings them into memory and into this process' page table; it blocks, so never call it on an event loop.
func Populate(fd int, offset int64, length int, mem []byte) {
	if length == 0 {
		return
	}
	if mem != nil {
		start, left := pages(mem)
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, uintptr(left), unix.MADV_POPULATE_READ); errno == 0 {
			return
		}
	}
	// Older kernels, and slices without a map: reading fills the page cache. What fails here fails again, and is
	// reported, when the bytes are sent.
	buf := make([]byte, min(length, 256<<10))
	for at := 0; at < length; {
		n, err := unix.Pread(fd, buf[:min(len(buf), length-at)], offset+int64(at))
		if err != nil && err != unix.EINTR || err == nil && n == 0 {
			return
		}
		at += max(n, 0)
	}
}
