package logstore

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Slice is a range of a segment file that holds whole batches. It pins the segment until Release: the descriptor stays
// open, the map mapped and the bytes as they are, whatever rolls, retention or compaction do meanwhile.
type Slice struct {
	FD     int
	Offset int64
	Len    int
	Mem    []byte // mmap view of the same bytes, or nil

	segment *segment
}

// Release unpins the segment. It is idempotent for one owner of the value; do not copy a Slice and release both.
func (s *Slice) Release() {
	if s.segment != nil {
		s.segment.release()
		s.segment = nil
	}
}

// Pin takes the pin out of the slice, so that it can be handed on without an allocation; Release on the slice does
// nothing after it. It returns nil for an empty slice.
func (s *Slice) Pin() interface{ Release() } {
	g := s.segment
	s.segment = nil
	if g == nil {
		return nil
	}
	return (*pin)(g)
}

// pin is a segment seen as something to release once.
type pin segment

// Release drops the reference.
func (p *pin) Release() { (*segment)(p).release() }

const pageBytes = 4096

// Resident says whether the bytes are in memory, without touching them.
func (s *Slice) Resident() bool {
	if s.Len == 0 {
		return true
	}
	if s.Mem == nil {
		var b [lookBytes]byte
		_, first := pread(s.FD, b[:], s.Offset, true)
		_, last := pread(s.FD, b[:], max(s.Offset, s.Offset+int64(s.Len)-lookBytes), true)
		return first != ErrWouldBlock && last != ErrWouldBlock
	}
	var state [1024]byte // 4 MiB at a time
	start, length := s.pages()
	for length > 0 {
		n := min(length, len(state)*pageBytes)
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
		length -= n
	}
	return true
}

// pages is the range of Mem, from the start of its first page.
func (s *Slice) pages() (start uintptr, length int) {
	start = uintptr(unsafe.Pointer(&s.Mem[0]))
	in := int(start % pageBytes)
	return start - uintptr(in), len(s.Mem) + in
}

// Populate brings the bytes into memory and into this process' page table; it blocks, so never call it on an event loop.
func (s *Slice) Populate() {
	if s.Len == 0 {
		return
	}
	if s.Mem != nil {
		start, length := s.pages()
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, uintptr(length), unix.MADV_POPULATE_READ); errno == 0 {
			return
		}
	}
	// Older kernels, and slices without a map: reading fills the page cache. What fails here fails again, and is
	// reported, when the bytes are sent.
	buf := make([]byte, min(s.Len, 256<<10))
	for at := 0; at < s.Len; {
		n, err := unix.Pread(s.FD, buf[:min(len(buf), s.Len-at)], s.Offset+int64(at))
		if err != nil && err != unix.EINTR || err == nil && n == 0 {
			return
		}
		at += max(n, 0)
	}
}
