package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is the smallest io_uring that can sync many files with one system call.
type ring struct {
	fd                     int
	sqTail, sqMask         *uint32
	cqHead, cqTail, cqMask *uint32
	array                  []uint32
	entries                []entry
	completions            []completion
}

type entry struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off, addr     uint64
	length        uint32
	fsyncFlags    uint32
	user          uint64
	rest          [3]uint64
}

type completion struct {
	user   uint64
	result int32
	flags  uint32
}

type ringParams struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFD uint32
	resv                                                               [3]uint32
	sq                                                                 struct {
		head, tail, mask, entries, flags, dropped, array, resv uint32
		user                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, resv uint32
		user                                                   uint64
	}
}

const (
	ringEntries    = 1024
	opFsync        = 3
	fsyncDatasync  = 1
	enterGetEvents = 1
	offsetSQ       = 0
	offsetCQ       = 0x8000000
	offsetEntries  = 0x10000000
)

func newRing() (*ring, error) {
	var p ringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, ringEntries, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r := &ring{fd: int(fd)}
	sq, err := r.mmap(offsetSQ, int(p.sq.array)+ringEntries*4)
	if err != nil {
		return nil, err
	}
	cq, err := r.mmap(offsetCQ, int(p.cq.cqes)+int(p.cqEntries)*int(unsafe.Sizeof(completion{})))
	if err != nil {
		return nil, err
	}
	sqes, err := r.mmap(offsetEntries, ringEntries*int(unsafe.Sizeof(entry{})))
	if err != nil {
		return nil, err
	}
	at := func(b []byte, offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[offset])) }
	r.sqTail, r.sqMask = at(sq, p.sq.tail), at(sq, p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = at(cq, p.cq.head), at(cq, p.cq.tail), at(cq, p.cq.mask)
	r.array = unsafe.Slice(at(sq, p.sq.array), ringEntries)
	r.completions = unsafe.Slice((*completion)(unsafe.Pointer(&cq[p.cq.cqes])), p.cqEntries)
	r.entries = unsafe.Slice((*entry)(unsafe.Pointer(&sqes[0])), ringEntries)
	return r, nil
}

func (r *ring) mmap(offset int64, length int) ([]byte, error) {
	return unix.Mmap(r.fd, offset, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// sync submits an fdatasync for each file and waits for all.
func (r *ring) sync(a *appended) error {
	tail := atomic.LoadUint32(r.sqTail)
	for i, f := range a.files {
		at := tail & *r.sqMask
		r.entries[at] = entry{opcode: opFsync, fd: int32(f.Fd()), fsyncFlags: fsyncDatasync, user: uint64(i)}
		r.array[at] = at
		tail++
	}
	atomic.StoreUint32(r.sqTail, tail)
	n := len(a.files)
	for submit := n; submit > 0 || atomic.LoadUint32(r.cqTail)-*r.cqHead < uint32(n); { // a signal ends the wait early
		done, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(n), enterGetEvents, 0, 0)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("io_uring_enter: %w", errno)
		}
		if errno == 0 {
			submit -= int(done)
		}
	}
	head := *r.cqHead
	for range n {
		if c := r.completions[head&*r.cqMask]; c.result < 0 {
			return unix.Errno(-c.result)
		}
		head++
	}
	atomic.StoreUint32(r.cqHead, head)
	return nil
}

func ringSync(dir string, n, size int) (*run, error) {
	r, err := newRing()
	if err != nil {
		return nil, err
	}
	a, err := openAppended(dir, n, size, 0)
	if err != nil {
		return nil, err
	}
	x := a.run(func() error { return r.sync(a) })
	x.close = func() error { return errors.Join(a.close(), unix.Close(r.fd)) }
	return x, nil
}
