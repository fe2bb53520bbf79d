package logstore

import (
	"fmt"
	"io"
	"sync/atomic"

	"kaas/internal/vfs"
)

// Index entries, big-endian, sorted (OffsetIndex.java, TimeIndex.java; docs/format/index.md).
const (
	offsetEntryBytes = 8  // relativeOffset int32 (last offset of the batch at position), position int32
	timeEntryBytes   = 12 // timestamp int64 ms, relativeOffset int32
)

type offsetEntry struct {
	relativeOffset int32
	position       int32
}

type timeEntry struct {
	timestampMs    int64
	relativeOffset int32
}

// growList is an append-only list with one writer (the holder of Partition.mu) and lock-free readers.
//
// Proof: an element below n is never written again. The writer stores the element, then n, and when it moves to a larger
// array it copies first and publishes the array before n grows. A reader loads n first and the array after it, so the
// array it sees is at least as new as the one in which element n-1 was written, and holds all n elements. Old arrays are
// freed by the garbage collector.
type growList[T any] struct {
	items atomic.Pointer[[]T]
	n     atomic.Int32
}

func (g *growList[T]) append(v T) {
	n := int(g.n.Load())
	items := g.items.Load()
	if items == nil || n == len(*items) {
		grown := make([]T, max(16, 2*n))
		if items != nil {
			copy(grown, *items)
		}
		g.items.Store(&grown)
		items = &grown
	}
	(*items)[n] = v
	g.n.Store(int32(n + 1))
}

func (g *growList[T]) view() []T {
	n := g.n.Load()
	if items := g.items.Load(); items != nil {
		return (*items)[:n]
	}
	return nil
}

// segmentIndex is the offset and the time index of one segment, in one of two shapes.
//
// Writable (the active segment, and a sealed one until it is written out): growLists in memory. The index files are
// written at checkpoints, at a roll and at close, never on the append path; what a crash takes is rebuilt by the scan
// from the recovery point. So a full disk can't hit an index as SIGBUS, and an idle partition has no map.
//
// Sealed: the files, mapped (or read, when the budget of maps is spent) at the first lookup and kept until the segment
// dies.
type segmentIndex struct {
	offsets growList[offsetEntry]
	times   growList[timeEntry]
}

// floorOffset is the position of the last entry whose offset is <= relativeOffset, or 0.
func floorOffset(entries []offsetEntry, relativeOffset int32) int32 {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].relativeOffset <= relativeOffset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	return entries[lo-1].position
}

// floorPosition is the position of the last entry that stands at or before position, or 0.
func floorPosition(entries []offsetEntry, position int32) int32 {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].position <= position {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	return entries[lo-1].position
}

// floorTime is the relative offset of the last entry whose timestamp is <= timestampMs, or 0.
func floorTime(entries []timeEntry, timestampMs int64) int32 {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].timestampMs <= timestampMs {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	return entries[lo-1].relativeOffset
}

// mappedIndex is one sealed index file: entries of fixed size over mapped (or read) bytes. Immutable.
type mappedIndex struct {
	b      []byte
	mapped bool // b is a mmap that must be unmapped
}

// floor returns the last entry whose key (big-endian, keyBytes wide) is <= key, or nil.
func (m *mappedIndex) floor(key int64, entryBytes, keyAt, keyBytes int) []byte {
	lo, hi := 0, len(m.b)/entryBytes
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		var k int64
		if keyBytes == 8 {
			k = be64(m.b[mid*entryBytes+keyAt:])
		} else {
			k = int64(be32(m.b[mid*entryBytes+keyAt:]))
		}
		if k <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	return m.b[(lo-1)*entryBytes : lo*entryBytes]
}

func encodeOffsets(entries []offsetEntry) []byte {
	b := make([]byte, len(entries)*offsetEntryBytes)
	for i, e := range entries {
		put32(b[i*offsetEntryBytes:], e.relativeOffset)
		put32(b[i*offsetEntryBytes+4:], e.position)
	}
	return b
}

func encodeTimes(entries []timeEntry) []byte {
	b := make([]byte, len(entries)*timeEntryBytes)
	for i, e := range entries {
		put64(b[i*timeEntryBytes:], e.timestampMs)
		put32(b[i*timeEntryBytes+8:], e.relativeOffset)
	}
	return b
}

// checkOffsets says what is wrong with the bytes of an offset index of a segment of sizeBytes.
func checkOffsets(b []byte, sizeBytes int64) error {
	if len(b)%offsetEntryBytes != 0 {
		return fmt.Errorf("size %d is no multiple of %d", len(b), offsetEntryBytes)
	}
	last := offsetEntry{-1, -1}
	for at := 0; at < len(b); at += offsetEntryBytes {
		e := offsetEntry{be32(b[at:]), be32(b[at+4:])}
		if e.relativeOffset <= last.relativeOffset || e.position <= last.position && at > 0 || int64(e.position) >= sizeBytes {
			return fmt.Errorf("entry %d (offset +%d at %d) after +%d at %d, segment of %d bytes",
				at/offsetEntryBytes, e.relativeOffset, e.position, last.relativeOffset, last.position, sizeBytes)
		}
		last = e
	}
	return nil
}

// checkTimes says what is wrong with the bytes of a time index.
func checkTimes(b []byte) error {
	if len(b)%timeEntryBytes != 0 {
		return fmt.Errorf("size %d is no multiple of %d", len(b), timeEntryBytes)
	}
	last := timeEntry{-1, -1}
	for at := 0; at < len(b); at += timeEntryBytes {
		e := timeEntry{be64(b[at:]), be32(b[at+8:])}
		if e.timestampMs < last.timestampMs || e.relativeOffset < last.relativeOffset {
			return fmt.Errorf("entry %d (%d ms, offset +%d) after %d ms, +%d", at/timeEntryBytes, e.timestampMs, e.relativeOffset, last.timestampMs, last.relativeOffset)
		}
		last = e
	}
	return nil
}

// readIndexFile reads a whole index file; the trailing zeroes of a file that Kafka preallocated and never trimmed are cut.
func readIndexFile(fsys vfs.FS, name string, entryBytes int) ([]byte, error) {
	f, err := fsys.OpenFile(name, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	b = b[:n]
	end := len(b) / entryBytes * entryBytes
	for end > entryBytes && allZero(b[end-entryBytes:end]) {
		end -= entryBytes
	}
	if end == entryBytes && allZero(b[:end]) {
		end = 0
	}
	if len(b)%entryBytes != 0 && end == len(b)/entryBytes*entryBytes {
		return b, nil // a partial entry: let the check say so
	}
	return b[:end], nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
