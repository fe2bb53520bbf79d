// Package vfs is the file system seam: every durable operation of the broker goes through it, so that a test can clone
// what a crash would leave, fail an operation or delay it.
//
// OS is the operating system. Mem keeps files in memfds, so descriptors, sendfile and mmap work as on a disk. Faulty
// wraps either and records what was synced.
//
// It is not an abstraction for reading: readers use the descriptor (pread, sendfile, mmap), which is why File has FD.
// It owns no goroutines. Mem and Faulty have one mutex each, held for memory operations only (Faulty: also while it
// calls the file system below, so Faulty.mu comes before Mem.mu).
package vfs
