package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of DurableCost, in bytes: a batch, a block, and what is written back at a time.
const (
	durableBatchBytes = 64 << 10
	durableBlockBytes = 1 << 20
	durableHalfBytes  = 64 << 20
)

// DurableCost returns the processor seconds a GB, beyond the append to the page cache, of the cheapest way known here to make
// batches of 64 KB in 16 files durable before they are answered: copied while they are in the processor's cache, written past
// the page cache in blocks of 1 MiB with a sync each, the files synced every 64 MiB. No broker can commit for less of the
// processor, whatever it overlaps. What the device's host and the kernel's own threads use for it is not counted.
func DurableCost(dir string, bytes int64) (seconds float64, err error) {
	dir, err = os.MkdirTemp(dir, "durable")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files := make([]*os.File, 16)
	for i := range files {
		if files[i], err = os.Create(filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return 0, err
		}
		defer files[i].Close()
	}
	fd, err := writtenFile(filepath.Join(dir, "blocks"), min(durableHalfBytes, bytes))
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	batch, block := make([]byte, durableBatchBytes), alignedBytes(durableBlockBytes)
	for i := range batch {
		batch[i] = byte(i * 7)
	}
	used := int64(0)
	for done := int64(0); done < bytes; done += durableBlockBytes {
		for i, f := range files {
			if _, err := f.WriteAt(batch, done/int64(len(files))); err != nil {
				return 0, err
			}
			before, err := threadCPU()
			if err != nil {
				return 0, err
			}
			copy(block[i*durableBatchBytes:], batch)
			if i == len(files)-1 {
				err = durableBlock(fd, block, done%durableHalfBytes, files)
			}
			after, cpuErr := threadCPU()
			if err = errors.Join(err, cpuErr); err != nil {
				return 0, err
			}
			used += after - before
		}
	}
	return float64(used) / float64(bytes), nil // nanoseconds a byte
}

// durableBlock writes a block at a position; the last one of a half has the files synced.
func durableBlock(fd int, block []byte, at int64, files []*os.File) error {
	if n, err := unix.Pwritev2(fd, [][]byte{block}, at, unix.RWF_DSYNC); err != nil || n != len(block) {
		return fmt.Errorf("write a block: %d bytes, %w", n, err)
	}
	if at+int64(len(block)) < durableHalfBytes {
		return nil
	}
	for _, f := range files {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
	}
	return nil
}

// writtenFile makes a file whose blocks are written, and opens it for writes past the page cache where the file system has that.
func writtenFile(name string, bytes int64) (fd int, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	zero := make([]byte, 1<<20)
	for at := int64(0); at < bytes && err == nil; at += int64(len(zero)) {
		_, err = f.WriteAt(zero, at)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return 0, err
	}
	fd, err = unix.Open(name, unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	}
	return fd, err
}

func alignedBytes(n int) []byte {
	const alignment = 4096
	b := make([]byte, n+alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1)) // the heap does not move
	return b[skip : skip+n]
}

// SyncVolume returns when nothing is dirty any more on the volume of a directory.
func SyncVolume(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// DirtyBackground is how much may be dirty in memory, in bytes, before the kernel begins to write it back at once.
func DirtyBackground() (int64, error) {
	const name = "nr_dirty_background_threshold"
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			pages, err := strconv.ParseInt(value, 10, 64)
			return pages * int64(os.Getpagesize()), err
		}
	}
	return 0, fmt.Errorf("/proc/vmstat has no %s", name)
}

// DeviceWritten is how many bytes the device below a directory has taken since it is there, 0 when it has none of its own (an
// overlay, a network).
func DeviceWritten(dir string) int64 {
	const sectorBytes, writtenAt = 512, 6 // Documentation/block/stat.rst
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) <= writtenAt {
		return 0
	}
	sectors, err := strconv.ParseInt(fields[writtenAt], 10, 64)
	if err != nil {
		return 0
	}
	return sectors * sectorBytes
}

// threadCPU is in nanoseconds.
func threadCPU() (int64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
	return now.Nano(), err
}
