package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/recovery"
)

// segment is one .log file with its indexes.
//
// # Who frees it, and why a reader of any age is safe
//
// refs counts the segment list (1) and each reader. A reader takes a list with one atomic load, picks a segment and
// acquires it by compare-and-swap from a count that is not zero. The list drops its reference once, when a newer list
// without the segment is published; the count can reach zero only then, and it never leaves zero again. So a reader that
// holds a reference has an open file and valid maps however many lists were published since, and a reader whose list is
// so old that the count is zero fails to acquire, loads the list again and finds what replaced the segment. The files
// are closed and unmapped by whoever takes the count to zero, through the store's graveyard, because that goroutine may
// be an event loop and unlink, munmap and close may block.
type segment struct {
	store      *Store
	dir        string // the directory at the time of creation; after Delete the path is stale, the open file is not
	baseOffset int64

	refs atomic.Int64

	// sizeBytes is the end of the last whole batch. Writer: holder of Partition.mu. Readers may be behind.
	sizeBytes atomic.Int64
	// endOffset is the next offset after the segment. Writer: holder of Partition.mu; final once sealed is true.
	endOffset atomic.Int64
	sealed    atomic.Bool
	recovered bool // made by a recovery in place: earlier readers may have the index files mapped. Immutable once in a list
	compacted bool // made by the cleaner in this process: all of it is below every limit of a reader. Immutable once in a list

	file   atomic.Pointer[openFile]          // nil until first use; set under mu
	log    atomic.Pointer[[]byte]            // the newest mmap of the .log, nil until first use; set under mu
	mem    atomic.Pointer[index.Writable]    // writable index; nil: see files
	files  atomic.Pointer[index.Files]       // sealed index; nil until first use
	recent atomic.Pointer[index.Recent]      // nil until the first append
	marks  atomic.Pointer[logfile.SizeMarks] // nil until a reader asks whether bytes are in memory
	// aborted is the transaction index; nil until first use. The slice is immutable, a longer one replaces it.
	aborted atomic.Pointer[[]AbortedTxn]

	// Owner of the rest, until the blank line: Partition.mu.
	bytesSinceIndex  int64
	maxTimestampMs   int64 // unknownTimestamp until loaded from the time index
	maxTimestampAt   int64 // last offset of the first batch that carries maxTimestampMs
	firstTimestampMs int64 // largest timestamp of the first batch, unknownTimestamp until known
	createdMs        int64
	writtenOffsets   int  // entries of mem that are in the .index file
	writtenTimes     int  // entries of mem that are in the .timeindex file
	unsynced         bool // appended to since the last successful fdatasync began
	hasTxnIndex      bool // a .txnindex file exists
	txnMissing       int  // newest entries of aborted that are not in the file, because the disk was full at a recovery

	txnUnsynced atomic.Bool // the .txnindex was written since its last sync began

	mu       sync.Mutex
	oldMaps  [][]byte // earlier, shorter mmaps; slices may still point into them. Owner: mu
	unlink   []string // files to remove at burial. Owner: mu
	buryNext *segment // owner: graveyard.mu
}

type openFile struct{ vfs.File }

const unknownTimestamp = recovery.UnknownTimestamp

func newSegment(s *Store, dir string, baseOffset int64) *segment {
	g := &segment{store: s, dir: dir, baseOffset: baseOffset, maxTimestampMs: unknownTimestamp, maxTimestampAt: -1, firstTimestampMs: unknownTimestamp}
	g.refs.Store(1)
	g.endOffset.Store(baseOffset)
	return g
}

func (g *segment) path(suffix string) string { return layout.SegmentFile(g.dir, g.baseOffset, suffix) }

// acquire takes a reference unless the segment is dead.
func (g *segment) acquire() bool {
	for {
		n := g.refs.Load()
		if n == 0 {
			return false
		}
		if g.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (g *segment) release() {
	switch n := g.refs.Add(-1); {
	case n == 0:
		g.store.graveyard.add(g)
	case n < 0:
		panic(fmt.Sprintf("logstore: segment %s released twice", g.path(layout.LogSuffix)))
	}
}

// open returns the .log file. The caller holds a reference.
func (g *segment) open() (vfs.File, error) {
	if f := g.file.Load(); f != nil {
		return f.File, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if f := g.file.Load(); f != nil {
		return f.File, nil
	}
	f, err := g.store.fs.OpenFile(g.path(layout.LogSuffix), 0)
	if err != nil {
		return nil, err
	}
	g.file.Store(&openFile{f})
	return f, nil
}

// mmap returns a view of the .log that covers [0, end), or nil when the budget of maps is spent. The active segment is
// mapped at reservedBytes at once; pages beyond what was written must not be touched (SIGBUS), and nobody does, because
// slices end at sizeBytes. The caller holds a reference.
func (g *segment) mmap(end, reservedBytes int64) []byte {
	if m := g.log.Load(); m != nil && int64(len(*m)) >= end {
		return *m
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.log.Load()
	if old != nil && int64(len(*old)) >= end {
		return *old
	}
	f := g.file.Load()
	if f == nil || !g.store.takeMap() {
		return nil
	}
	length := max(end, reservedBytes)
	if g.sealed.Load() {
		length = g.sizeBytes.Load()
	}
	m, err := f.Map(int(length))
	if err != nil {
		g.store.returnMaps(1)
		g.store.logger.Warn("mmap failed, reading by descriptor", "file", g.path(layout.LogSuffix), "error", err)
		return nil
	}
	if old != nil {
		g.oldMaps = append(g.oldMaps, *old)
	}
	g.log.Store(&m)
	return m
}

// isYoung says whether all bytes from a position on were appended in the last seconds.
func (g *segment) isYoung(at int64) bool {
	if g.marks.Load() == nil {
		g.marks.CompareAndSwap(nil, new(logfile.SizeMarks)) // a partition without readers has none
	}
	return g.marks.Load().Cover(at, g.store.nowMs(), &g.sizeBytes)
}

// bury closes everything. Called once, by the graveyard, when refs is zero.
func (g *segment) bury() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	f := g.file.Load()
	maps := g.oldMaps
	if m := g.log.Load(); m != nil {
		maps = append(maps, *m)
	}
	for _, m := range maps {
		errs = append(errs, unix.Munmap(m))
	}
	g.store.returnMaps(len(maps))
	if x := g.files.Load(); x != nil {
		for _, m := range []index.Mapped{x.Offsets, x.Times} {
			if m.Mapped {
				errs = append(errs, unix.Munmap(m.B))
				g.store.returnMaps(1)
			}
		}
	}
	if f != nil {
		if len(g.unlink) > 0 { // nobody reads it any more
			for size := g.sizeBytes.Load() - limits.UnlinkStepBytes; size > 0; size -= limits.UnlinkStepBytes {
				if err := f.Truncate(size); err != nil {
					errs = append(errs, err)
					break
				}
			}
		}
		errs = append(errs, f.Close())
	}
	for _, name := range g.unlink {
		if err := g.store.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// memIndex returns the writable index, loading what the files hold. Caller: Partition.mu, or recovery.
func (g *segment) memIndex() (*index.Writable, error) {
	if m := g.mem.Load(); m != nil {
		return m, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loadMem()
}

// loadMem: owner mu held.
func (g *segment) loadMem() (*index.Writable, error) {
	if m := g.mem.Load(); m != nil {
		return m, nil
	}
	m := new(index.Writable)
	offsets, times, err := index.ReadFiles(g.store.fs, g.path(layout.IndexSuffix), g.path(layout.TimeIndexSuffix), g.sizeBytes.Load())
	if err != nil {
		g.store.logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", err)
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

// rebuildIndex scans the segment up to sizeBytes. It may be slow; it happens once, when an index file is missing or wrong.
func (g *segment) rebuildIndex() (*index.Writable, error) {
	f, err := g.openLocked()
	if err != nil {
		return nil, err
	}
	m, err := logfile.BuildIndex(f, g.sizeBytes.Load(), g.baseOffset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.path(layout.LogSuffix), err)
	}
	return m, nil
}

// openLocked is open with mu held.
func (g *segment) openLocked() (vfs.File, error) {
	if f := g.file.Load(); f != nil {
		return f.File, nil
	}
	f, err := g.store.fs.OpenFile(g.path(layout.LogSuffix), 0)
	if err != nil {
		return nil, err
	}
	g.file.Store(&openFile{f})
	return f, nil
}

// sealedIndex maps the index files. The caller holds a reference.
func (g *segment) sealedIndex() (*index.Files, *index.Writable, error) {
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
	if !g.sealed.Load() || g.mem.Load() != nil {
		m, err := g.loadMem()
		return nil, m, err
	}
	x := new(index.Files)
	var err error
	if x.Offsets, err = g.mapIndex(layout.IndexSuffix, index.OffsetEntryBytes); err == nil {
		if x.Times, err = g.mapIndex(layout.TimeIndexSuffix, index.TimeEntryBytes); err == nil {
			if err = index.CheckOffsets(x.Offsets.B, g.sizeBytes.Load()); err == nil {
				err = index.CheckTimes(x.Times.B)
			}
		}
	}
	if err != nil {
		g.unmapIndex(x)
		g.store.logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", err)
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

func (g *segment) unmapIndex(x *index.Files) {
	for _, m := range []*index.Mapped{&x.Offsets, &x.Times} {
		if m.Mapped {
			if err := unix.Munmap(m.B); err != nil {
				panic(fmt.Sprintf("logstore: munmap of an index: %v", err))
			}
			g.store.returnMaps(1)
		}
		*m = index.Mapped{}
	}
}

// mapIndex: owner mu held.
func (g *segment) mapIndex(suffix string, entryBytes int) (index.Mapped, error) {
	f, err := g.store.fs.OpenFile(g.path(suffix), vfs.ReadOnly)
	if err != nil {
		return index.Mapped{}, err
	}
	defer func() { _ = f.Close() }() // only read from; the map outlives the descriptor
	size, err := f.Size()
	if err != nil || size == 0 {
		return index.Mapped{}, err
	}
	if size%int64(entryBytes) == 0 && g.store.takeMap() {
		b, err := f.Map(int(size))
		if err == nil {
			if !index.AllZero(b[len(b)-entryBytes:]) {
				return index.Mapped{B: b, Mapped: true}, nil
			}
			err = unix.Munmap(b) // preallocated and never trimmed: index.ReadFile cuts it
		}
		g.store.returnMaps(1)
		if err != nil {
			g.store.logger.Warn("mmap failed, reading the index", "file", g.path(suffix), "error", err)
		}
	}
	b, err := index.ReadFile(g.store.fs, g.path(suffix), entryBytes)
	return index.Mapped{B: b, Mapped: false}, err
}

// index.FloorPosition of an offset: where to begin to look for the batch that holds it.
func (g *segment) positionBefore(offset int64) (int64, error) {
	files, mem, err := g.sealedIndex()
	if err != nil {
		return 0, err
	}
	rel := relative(min(offset, g.baseOffset+1<<31-1), g.baseOffset)
	if mem != nil {
		return int64(index.FloorOffset(mem.Offsets.View(), rel)), nil
	}
	if e := files.Offsets.Floor(int64(rel), index.OffsetEntryBytes, 0, 4); e != nil {
		return int64(be32(e[4:])), nil
	}
	return 0, nil
}

// boundaryBefore returns the position of an indexed batch at or before position.
func (g *segment) boundaryBefore(position int64) (int64, error) {
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
func (g *segment) offsetBeforeTime(timestampMs int64) (int64, error) {
	files, mem, err := g.sealedIndex()
	if err != nil {
		return 0, err
	}
	if mem != nil {
		return g.baseOffset + int64(index.FloorTime(mem.Times.View(), timestampMs)), nil
	}
	if e := files.Times.Floor(timestampMs, index.TimeEntryBytes, 0, 8); e != nil {
		return g.baseOffset + int64(be32(e[8:])), nil
	}
	return g.baseOffset, nil
}

// loadMaxTimestamp makes maxTimestampMs known. Caller: Partition.mu.
func (g *segment) loadMaxTimestamp() error {
	if g.maxTimestampMs != unknownTimestamp {
		return nil
	}
	if g.sizeBytes.Load() == 0 {
		g.maxTimestampMs, g.maxTimestampAt = -1, -1
		return nil
	}
	files, mem, err := g.sealedIndex()
	if err != nil {
		return err
	}
	g.maxTimestampMs, g.maxTimestampAt = -1, -1
	if mem != nil {
		if v := mem.Times.View(); len(v) > 0 {
			g.maxTimestampMs, g.maxTimestampAt = v[len(v)-1].TimestampMs, g.baseOffset+int64(v[len(v)-1].RelativeOffset)
		}
	} else if b := files.Times.B; len(b) > 0 {
		b = b[len(b)-index.TimeEntryBytes:]
		g.maxTimestampMs, g.maxTimestampAt = be64(b), g.baseOffset+int64(be32(b[8:]))
	}
	return nil
}

// graveyard holds segments whose last reference went away, until the janitor buries them.
type graveyard struct {
	mu   sync.Mutex
	head *segment // owner: mu
	wake chan struct{}
}

func (y *graveyard) add(g *segment) {
	y.mu.Lock()
	g.buryNext, y.head = y.head, g
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

func (y *graveyard) take() *segment {
	y.mu.Lock()
	defer y.mu.Unlock()
	g := y.head
	y.head = nil
	return g
}

// takeMap reserves one mmap of the budget.
func (s *Store) takeMap() bool {
	if s.maps.Add(1) > limits.FileMaps {
		s.maps.Add(-1)
		return false
	}
	return true
}

func (s *Store) returnMaps(n int) { s.maps.Add(-int64(n)) }

// addRecent notes a batch at position at. Caller: Partition.mu.
func (g *segment) addRecent(baseOffset, at int64) {
	r := g.recent.Load()
	if r == nil {
		r = new(index.Recent) // an idle partition has none
		g.recent.Store(r)
	}
	r.Add(relative(baseOffset, g.baseOffset), at)
}

// recentBatch finds the batch that holds offset, if it is among the newest.
func (g *segment) recentBatch(offset int64) (at, size int64, ok bool) {
	r := g.recent.Load()
	if r == nil || offset < g.baseOffset {
		return 0, 0, false
	}
	return r.Find(uint64(offset-g.baseOffset), &g.sizeBytes)
}
