// Package rig is what drives a broker process and what it is measured
// against: prepared frames, loads of several kinds, the raw loop, the bare
// echo and the bare fdatasync loop, and the reading of a child's processor
// time, memory and bytes written from outside.
//
// What it is not: a client for anybody, or a judge. It knows no scenario, no
// target and no row; package bench has those.
//
// The raw loop is the physical limit that a broker is compared with: read
// from the socket, CRC32C, append to a file, and the cheaper of sendfile and
// mmap+write back to the socket. It speaks just enough of the same bytes to
// be driven by the same client and promises nothing that a broker promises.
//
// Goroutines: a load owns one or two a connection and waits for all of them
// before it returns; Polls, Deaf and Members have theirs until Close;
// one that starts children lives as long as the process. Counters
// that a load's goroutines share are read after those have ended. Locks:
// LockedBuffer's, never held while calling out.
package rig
