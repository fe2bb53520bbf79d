package index

import (
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"

	"kaas/codec/batch"
	"kaas/internal/vfs"
)

// Index entries, big-endian, sorted (OffsetIndex.java, TimeIndex.java; docs/format/index.md).
const (
	OffsetEntryBytes = 8  // relativeOffset int32 (last offset of the batch at position), position int32
	TimeEntryBytes   = 12 // timestamp int64 ms, relativeOffset int32
)

// OffsetEntry says where the batch that ends with an offset begins.
type OffsetEntry struct {
	RelativeOffset int32
	Position       int32
}

// TimeEntry says up to which offset a timestamp is the largest.
type TimeEntry struct {
	TimestampMs    int64
	RelativeOffset int32
}

// List is an append-only list with one writer (the holder of Partition.mu) and lock-free readers.
//
// Proof: an element below n is never written again. The writer stores the element, then n, and when it moves to a larger
// array it copies first and publishes the array before n grows. A reader loads n first and the array after it, so the
// array it sees is at least as new as the one in which element n-1 was written, and holds all n elements. Old arrays are
// freed by the garbage collector.
type List[T any] struct {
	items atomic.Pointer[[]T]
	n     atomic.Int32
}

// Append adds v. One writer at a time.
func (g *List[T]) Append(v T) {
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

// Len is the number of elements.
func (g *List[T]) Len() int { return int(g.n.Load()) }

// View is what is in the list now; its elements never change.
func (g *List[T]) View() []T {
	n := g.n.Load()
	if items := g.items.Load(); items != nil {
		return (*items)[:n]
	}
	return nil
}

// Writable is the offset and the time index of one segment, in one of two shapes.
//
// Writable (the active segment, and a sealed one until it is written out): growLists in memory. The index files are
// written at checkpoints, at a roll and at close, never on the append path; what a crash takes is rebuilt by the scan
// from the recovery point. So a full disk can't hit an index as SIGBUS, and an idle partition has no map.
//
// Sealed: the files, mapped (or read, when the budget of maps is spent) at the first lookup and kept until the segment
// dies.
type Writable struct {
	Offsets List[OffsetEntry]
	Times   List[TimeEntry]
}

// FloorOffset is the position of the last entry whose offset is <= relativeOffset, or 0.
func FloorOffset(entries []OffsetEntry, relativeOffset int32) int32 {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].RelativeOffset <= relativeOffset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	return entries[lo-1].Position
}

// FloorPosition is the position of the last entry that stands at or before position, or 0.
func FloorPosition(entries []OffsetEntry, position int32) int32 {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].Position <= position {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	return entries[lo-1].Position
}

// FloorTime is the relative offset of the last entry whose timestamp is <= timestampMs, or 0.
func FloorTime(entries []TimeEntry, timestampMs int64) int32 {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].TimestampMs <= timestampMs {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0
	}
	return entries[lo-1].RelativeOffset
}

// Mapped is one sealed index file: entries of fixed size over mapped (or read) bytes. Immutable.
type Mapped struct {
	B      []byte
	Mapped bool // b is a mmap that must be unmapped
}

// Floor returns the last entry whose key (big-endian, keyBytes wide) is <= key, or nil.
func (m *Mapped) Floor(key int64, entryBytes, keyAt, keyBytes int) []byte {
	lo, hi := 0, len(m.B)/entryBytes
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		var k int64
		if keyBytes == 8 {
			k = be64(m.B[mid*entryBytes+keyAt:])
		} else {
			k = int64(be32(m.B[mid*entryBytes+keyAt:]))
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
	return m.B[(lo-1)*entryBytes : lo*entryBytes]
}

// EncodeOffsets makes the bytes of .index entries.
func EncodeOffsets(entries []OffsetEntry) []byte {
	b := make([]byte, len(entries)*OffsetEntryBytes)
	for i, e := range entries {
		put32(b[i*OffsetEntryBytes:], e.RelativeOffset)
		put32(b[i*OffsetEntryBytes+4:], e.Position)
	}
	return b
}

// EncodeTimes makes the bytes of .timeindex entries.
func EncodeTimes(entries []TimeEntry) []byte {
	b := make([]byte, len(entries)*TimeEntryBytes)
	for i, e := range entries {
		put64(b[i*TimeEntryBytes:], e.TimestampMs)
		put32(b[i*TimeEntryBytes+8:], e.RelativeOffset)
	}
	return b
}

// CheckOffsets says what is wrong with the bytes of an offset index of a segment of sizeBytes.
func CheckOffsets(b []byte, sizeBytes int64) error {
	if len(b)%OffsetEntryBytes != 0 {
		return fmt.Errorf("size %d is no multiple of %d", len(b), OffsetEntryBytes)
	}
	last := OffsetEntry{-1, -1}
	for at := 0; at < len(b); at += OffsetEntryBytes {
		e := OffsetEntry{RelativeOffset: be32(b[at:]), Position: be32(b[at+4:])}
		if e.RelativeOffset <= last.RelativeOffset || e.Position <= last.Position && at > 0 || int64(e.Position) >= sizeBytes {
			return fmt.Errorf("entry %d (offset +%d at %d) after +%d at %d, segment of %d bytes",
				at/OffsetEntryBytes, e.RelativeOffset, e.Position, last.RelativeOffset, last.Position, sizeBytes)
		}
		last = e
	}
	return nil
}

// CheckTimes says what is wrong with the bytes of a time index.
func CheckTimes(b []byte) error {
	if len(b)%TimeEntryBytes != 0 {
		return fmt.Errorf("size %d is no multiple of %d", len(b), TimeEntryBytes)
	}
	last := TimeEntry{-1, -1}
	for at := 0; at < len(b); at += TimeEntryBytes {
		e := TimeEntry{be64(b[at:]), be32(b[at+8:])}
		if e.TimestampMs < last.TimestampMs || e.RelativeOffset < last.RelativeOffset {
			return fmt.Errorf("entry %d (%d ms, offset +%d) after %d ms, +%d", at/TimeEntryBytes, e.TimestampMs, e.RelativeOffset, last.TimestampMs, last.RelativeOffset)
		}
		last = e
	}
	return nil
}

// ReadFile reads a whole index file; the trailing zeroes of a file that Kafka preallocated and never trimmed are cut.
func ReadFile(fsys vfs.FS, name string, entryBytes int) ([]byte, error) {
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
	for end > entryBytes && AllZero(b[end-entryBytes:end]) {
		end -= entryBytes
	}
	if end == entryBytes && AllZero(b[:end]) {
		end = 0
	}
	if len(b)%entryBytes != 0 && end == len(b)/entryBytes*entryBytes {
		return b, nil // a partial entry: let the check say so
	}
	return b[:end], nil
}

// AllZero says whether b holds nothing but zeroes.
func AllZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Files are the two indexes of a sealed segment.
type Files struct{ Offsets, Times Mapped }

// Builder makes index entries as LogSegment.append does.
type Builder struct {
	Base           int64
	IntervalBytes  int64
	SinceBytes     int64
	MaxTimestampMs int64
	MaxTimestampAt int64
	Index          *Writable
}

// NewBuilder is for a segment without batches yet.
func NewBuilder(base, intervalBytes int64) Builder {
	return Builder{Base: base, IntervalBytes: intervalBytes, MaxTimestampMs: -1, MaxTimestampAt: -1, Index: new(Writable)}
}

// Add takes a batch that stands at position. One without records carries no timestamp: a lookup would find nothing there.
func (b *Builder) Add(v batch.View, position int64) {
	if ts := v.MaxTimestamp(); ts > b.MaxTimestampMs && v.RecordCount() > 0 {
		b.MaxTimestampMs, b.MaxTimestampAt = ts, v.LastOffset()
	}
	if b.SinceBytes > b.IntervalBytes {
		b.Index.Offsets.Append(OffsetEntry{relativeTo(v.LastOffset(), b.Base), int32(position)})
		b.Finish()
		b.SinceBytes = 0
	}
	b.SinceBytes += int64(v.SizeBytes())
}

// Finish adds the time entry of what was seen so far (TimeIndex.maybeAppend).
func (b *Builder) Finish() {
	AppendTime(b.Index, b.MaxTimestampMs, b.MaxTimestampAt, b.Base)
}

// AppendTime adds a time entry when the timestamp is larger than the last one.
func AppendTime(index *Writable, timestampMs, at, base int64) {
	last := int64(-1)
	if v := index.Times.View(); len(v) > 0 {
		last = v[len(v)-1].TimestampMs
	}
	if timestampMs > last {
		index.Times.Append(TimeEntry{timestampMs, relativeTo(at, base)})
	}
}

func relativeTo(offset, base int64) int32 { return int32(offset - base) }

// Resume takes over the entries of index files that stand below the offset point, and says at which position to go on, and
// which offset the batch there ends with.
func (b *Builder) Resume(offsets, times []byte, point int64) (position, lastOffset int64) {
	at, last := int64(0), int32(-1)
	for ; len(offsets) > 0; offsets = offsets[OffsetEntryBytes:] {
		e := OffsetEntry{RelativeOffset: be32(offsets), Position: be32(offsets[4:])}
		if b.Base+int64(e.RelativeOffset) >= point {
			break
		}
		b.Index.Offsets.Append(e)
		at, last = int64(e.Position), e.RelativeOffset
	}
	for ; len(times) > 0; times = times[TimeEntryBytes:] {
		e := TimeEntry{TimestampMs: be64(times), RelativeOffset: be32(times[8:])}
		if e.RelativeOffset > last {
			break
		}
		b.Index.Times.Append(e)
		b.MaxTimestampMs, b.MaxTimestampAt = e.TimestampMs, b.Base+int64(e.RelativeOffset)
	}
	return at, b.Base + int64(last)
}

// Decode reads the bytes of both files, which were checked.
func Decode(offsets, times []byte) *Writable {
	m := new(Writable)
	for at := 0; at < len(offsets); at += OffsetEntryBytes {
		m.Offsets.Append(OffsetEntry{RelativeOffset: be32(offsets[at:]), Position: be32(offsets[at+4:])})
	}
	for at := 0; at < len(times); at += TimeEntryBytes {
		m.Times.Append(TimeEntry{TimestampMs: be64(times[at:]), RelativeOffset: be32(times[at+8:])})
	}
	return m
}

// ReadFiles reads and checks both index files of a segment of sizeBytes; sums: what is known of them, or nil.
func ReadFiles(fsys vfs.FS, offsetsName, timesName string, sizeBytes int64, sums *Sums) (offsets, times []byte, err error) {
	if offsets, err = ReadFile(fsys, offsetsName, OffsetEntryBytes); err != nil {
		return nil, nil, err
	}
	if times, err = ReadFile(fsys, timesName, TimeEntryBytes); err != nil {
		return nil, nil, err
	}
	if err = CheckOffsets(offsets, sizeBytes); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Base(offsetsName), err)
	}
	if err = CheckTimes(times); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", filepath.Base(timesName), err)
	}
	if err = sums.Check(offsets, times); err != nil {
		return nil, nil, err
	}
	return offsets, times, nil
}
