// Package vfs is the file system seam: every durable operation of the broker goes through it, so that a test can clone
// what a crash would leave, fail an operation or delay it.
//
// OS is the operating system. Mem keeps files in memfds, so descriptors, sendfile and mmap work as on a disk. Faulty
// wraps either; a recording Mem knows what was synced.
//
// It is not an abstraction for reading: readers use the descriptor (pread, sendfile, mmap), which is why File has FD.
// It owns no goroutines. Mem has one mutex, held for memory operations only; Faulty has none, and calls its hook before it
// calls the file system below.
package vfs
