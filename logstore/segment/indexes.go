package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
)

// Writable is the writable index, nil when it is not loaded.
func (g *Segment) Writable() *index.Writable { return g.mem.Load() }

// DropWritable lets lookups map the files from here on. One that has loaded it before keeps its arrays.
func (g *Segment) DropWritable() { g.mem.Store(nil) }

// MemIndex returns the writable index, loading what the files hold. Caller: Partition.mu, or recovery.
func (g *Segment) MemIndex() (*index.Writable, error) {
	if m := g.mem.Load(); m != nil {
		return m, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loadMem()
}

// loadMem: owner mu held.
func (g *Segment) loadMem() (*index.Writable, error) {
	if m := g.mem.Load(); m != nil {
		return m, nil
	}
	m := new(index.Writable)
	offsets, times, err := index.ReadFiles(g.env.fs, g.name(layout.IndexSuffix), g.name(layout.TimeIndexSuffix), g.SizeBytes.Load(), g.fileSums())
	if err != nil {
		g.env.logger.Warn("index rebuilt", "file", g.Path(layout.IndexSuffix), "reason", err)
		if m, err = g.rebuildIndex(); err != nil {
			return nil, err
		}
		g.mem.Store(m)
		return m, nil
	}
	m = index.Decode(offsets, times)
	g.mem.Store(m)
	return m, nil
}

// rebuildIndex scans the segment up to SizeBytes. It may be slow; it happens once, when an index file is missing or wrong.
func (g *Segment) rebuildIndex() (*index.Writable, error) {
	f, err := g.openLocked()
	if err != nil {
		return nil, err
	}
	m, err := logfile.BuildIndex(f, g.SizeBytes.Load(), g.BaseOffset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Path(layout.LogSuffix), err)
	}
	return m, nil
}

// fileSums are what the index files were written with, nil: not known. Owner: mu held.
func (g *Segment) fileSums() *index.Sums {
	if g.Sealed.Load() {
		return index.ReadSums(g.env.fs, g.name(layout.SumsSuffix))
	}
	return g.sums
}

// Sums are of what the files of the index hold once all of it is written; nil: not known.
func (g *Segment) Sums() *index.Sums {
	m := g.mem.Load()
	if m == nil {
		return g.sums
	}
	return sumsOf(m, 0)
}

func sumsOf(m *index.Writable, aborted int) *index.Sums {
	return &index.Sums{Offsets: index.SumOf(index.EncodeOffsets(m.Offsets.View())), Times: index.SumOf(index.EncodeTimes(m.Times.View())), Aborted: aborted}
}

// reindex makes the index anew, because it led to a place that is no batch's. The file goes, so the next start makes it anew,
// too; who has it mapped keeps it. It reads the whole segment. The caller holds a reference.
func (g *Segment) reindex(reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unreadable.Load() || g.reindexed.Load() {
		return reason // the log is what is damaged
	}
	g.env.logger.Warn("index rebuilt", "file", g.Path(layout.IndexSuffix), "reason", reason)
	m, err := g.rebuildIndex()
	if err != nil {
		g.unreadable.Store(errors.Is(err, logfile.ErrTorn))
		return err
	}
	g.mem.Store(m)
	g.reindexed.Store(true)
	if !g.Sealed.Load() {
		return nil // written at the next checkpoint
	}
	if err := g.env.fs.Remove(g.name(layout.IndexSuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.env.logger.Warn("wrong index not removed", "file", g.Path(layout.IndexSuffix), "error", err)
	}
	return nil
}

// Rewrite says once that the files of the index have to be written from their beginning.
func (g *Segment) Rewrite() bool {
	return !g.Sealed.Load() && g.reindexed.Load() && g.reindexed.Swap(false)
}

// LoadIndex makes a lookup fast, whoever holds a lock by then. The caller holds a reference.
func (g *Segment) LoadIndex() error {
	_, _, err := g.sealedIndex()
	return err
}

// sealedIndex maps the index files. The caller holds a reference.
func (g *Segment) sealedIndex() (*index.Files, *index.Writable, error) {
	if m := g.mem.Load(); m != nil {
		return nil, m, nil
	}
	if x := g.files.Load(); x != nil {
		return x, nil, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if x := g.files.Load(); x != nil {
		return x, nil, nil
	}
	if !g.Sealed.Load() || g.mem.Load() != nil {
		m, err := g.loadMem()
		return nil, m, err
	}
	x := new(index.Files)
	var err error
	if x.Offsets, err = g.mapIndex(layout.IndexSuffix, index.OffsetEntryBytes); err == nil {
		if x.Times, err = g.mapIndex(layout.TimeIndexSuffix, index.TimeEntryBytes); err == nil {
			if err = index.CheckOffsets(x.Offsets.B, g.SizeBytes.Load()); err == nil {
				err = index.CheckTimes(x.Times.B)
			}
			if err == nil {
				err = g.fileSums().Check(x.Offsets.B, x.Times.B)
			}
		}
	}
	if err != nil {
		g.unmapIndex(x)
		g.env.logger.Warn("index rebuilt", "file", g.Path(layout.IndexSuffix), "reason", err)
		m, rebuildErr := g.rebuildIndex()
		if rebuildErr != nil {
			return nil, nil, rebuildErr
		}
		g.mem.Store(m)
		return nil, m, nil
	}
	g.files.Store(x)
	return x, nil, nil
}

func (g *Segment) unmapIndex(x *index.Files) {
	for _, m := range []*index.Mapped{&x.Offsets, &x.Times} {
		if m.Mapped {
			if err := unix.Munmap(m.B); err != nil {
				panic(fmt.Sprintf("logstore: munmap of an index: %v", err))
			}
			g.env.returnMaps(1)
		}
		*m = index.Mapped{}
	}
}

// mapIndex: owner mu held.
func (g *Segment) mapIndex(suffix string, entryBytes int) (index.Mapped, error) {
	f, err := g.env.fs.OpenFile(g.name(suffix), vfs.ReadOnly)
	if err != nil {
		return index.Mapped{}, err
	}
	defer func() { _ = f.Close() }() // only read from; the map outlives the descriptor
	size, err := f.Size()
	if err != nil || size == 0 {
		return index.Mapped{}, err
	}
	if size%int64(entryBytes) == 0 && g.env.takeMap() {
		b, err := f.Map(int(size))
		if err == nil {
			if !index.AllZero(b[len(b)-entryBytes:]) {
				return index.Mapped{B: b, Mapped: true}, nil
			}
			err = unix.Munmap(b) // preallocated and never trimmed: index.ReadFile cuts it
		}
		g.env.returnMaps(1)
		if err != nil {
			g.env.logger.Warn("mmap failed, reading the index", "file", g.Path(suffix), "error", err)
		}
	}
	b, err := index.ReadFile(g.env.fs, g.name(suffix), entryBytes)
	return index.Mapped{B: b, Mapped: false}, err
}

// IndexBytes is the size of the larger index.
func (g *Segment) IndexBytes() int64 {
	files, mem, err := g.sealedIndex()
	switch {
	case err != nil:
		return 0
	case mem != nil:
		return max(int64(mem.Offsets.Len())*index.OffsetEntryBytes, int64(mem.Times.Len())*index.TimeEntryBytes)
	}
	return int64(max(len(files.Offsets.B), len(files.Times.B)))
}

// PositionBefore is where to begin to look for the batch that holds an offset: the position of an indexed batch before it.
func (g *Segment) PositionBefore(offset int64) (int64, error) {
	files, mem, err := g.sealedIndex()
	if err != nil {
		return 0, err
	}
	rel := relative(min(offset, g.BaseOffset+1<<31-1), g.BaseOffset)
	if mem != nil {
		return int64(index.FloorOffset(mem.Offsets.View(), rel)), nil
	}
	if e := files.Offsets.Floor(int64(rel), index.OffsetEntryBytes, 0, 4); e != nil {
		return int64(be32(e[4:])), nil
	}
	return 0, nil
}

// Locate is PositionBefore, but an index that names no batch there is made anew. It may block.
func (g *Segment) Locate(offset int64) (int64, error) {
	at, err := g.PositionBefore(offset)
	if err != nil || at == 0 {
		return at, err
	}
	f, err := g.Open()
	if err != nil {
		return 0, err
	}
	wrong := logfile.NamesBatch(f, g.BaseOffset, g.SizeBytes.Load(), at, offset)
	if !errors.Is(wrong, logfile.ErrTorn) {
		return at, wrong // nil, or the disk does not answer: that says nothing of the index
	}
	if err := g.reindex(wrong); err != nil {
		return 0, err
	}
	return g.PositionBefore(offset)
}

// boundaryBefore returns the position of an indexed batch at or before position.
func (g *Segment) boundaryBefore(position int64) (int64, error) {
	files, mem, err := g.sealedIndex()
	if err != nil {
		return 0, err
	}
	if mem != nil {
		return int64(index.FloorPosition(mem.Offsets.View(), int32(position))), nil
	}
	if e := files.Offsets.Floor(position, index.OffsetEntryBytes, 4, 4); e != nil {
		return int64(be32(e[4:])), nil
	}
	return 0, nil
}

// offsetBeforeTime returns the offset of the last time entry at or before timestampMs, or the base offset.
func (g *Segment) offsetBeforeTime(timestampMs int64) (int64, error) {
	files, mem, err := g.sealedIndex()
	if err != nil {
		return 0, err
	}
	if mem != nil {
		return g.BaseOffset + int64(index.FloorTime(mem.Times.View(), timestampMs)), nil
	}
	if e := files.Times.Floor(timestampMs, index.TimeEntryBytes, 0, 8); e != nil {
		return g.BaseOffset + int64(be32(e[8:])), nil
	}
	return g.BaseOffset, nil
}

// LoadMaxTimestamp makes MaxTimestampMs known. Caller: Partition.mu.
func (g *Segment) LoadMaxTimestamp() error {
	if g.MaxTimestampMs != UnknownTimestamp {
		return nil
	}
	if g.SizeBytes.Load() == 0 {
		g.MaxTimestampMs, g.MaxTimestampAt = -1, -1
		return nil
	}
	files, mem, err := g.sealedIndex()
	if err != nil {
		return err
	}
	g.MaxTimestampMs, g.MaxTimestampAt = -1, -1
	if mem != nil {
		if v := mem.Times.View(); len(v) > 0 {
			g.MaxTimestampMs, g.MaxTimestampAt = v[len(v)-1].TimestampMs, g.BaseOffset+int64(v[len(v)-1].RelativeOffset)
		}
	} else if b := files.Times.B; len(b) > 0 {
		b = b[len(b)-index.TimeEntryBytes:]
		g.MaxTimestampMs, g.MaxTimestampAt = be64(b), g.BaseOffset+int64(be32(b[8:]))
	}
	return nil
}

// AddRecent notes a batch at position at. Caller: Partition.mu.
func (g *Segment) AddRecent(baseOffset, at int64) {
	r := g.recent.Load()
	if r == nil {
		r = new(index.Recent) // an idle partition has none
		g.recent.Store(r)
	}
	r.Add(relative(baseOffset, g.BaseOffset), at)
}

// recentBatch finds the batch that holds offset, if it is among the newest.
func (g *Segment) recentBatch(offset int64) (at, size int64, ok bool) {
	r := g.recent.Load()
	if r == nil || offset < g.BaseOffset {
		return 0, 0, false
	}
	return r.Find(uint64(offset-g.BaseOffset), &g.SizeBytes)
}

func be32(b []byte) int32       { return int32(binary.BigEndian.Uint32(b)) }
func be64(b []byte) int64       { return int64(binary.BigEndian.Uint64(b)) }
func relative(o, b int64) int32 { return int32(o - b) }
