package segment

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kaas/codec/batch"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/recovery"
)

// Segment is one .log file with its indexes.
//
// # Who frees it, and why a reader of any age is safe
//
// refs counts the segment list (1) and each reader. A reader takes a list with one atomic load, picks a segment and
// acquires it by compare-and-swap from a count that is not zero. The list drops its reference once, when a newer list
// without the segment is published; the count can reach zero only then, and it never leaves zero again. So a reader that
// holds a reference has an open file and valid maps however many lists were published since, and a reader whose list is
// so old that the count is zero fails to acquire, loads the list again and finds what replaced the segment. The files
// are closed and unmapped by whoever takes the count to zero, through the graveyard, because that goroutine may
// be an event loop and unlink, munmap and close may block.
type Segment struct {
	refs atomic.Int64

	// SizeBytes is the end of the last whole batch. Writer: holder of Partition.mu. Readers may be behind.
	SizeBytes atomic.Int64
	// EndOffset is the next offset after the segment. Writer: holder of Partition.mu; final once Sealed is true.
	EndOffset  atomic.Int64
	BaseOffset int64
	Sealed     atomic.Bool
	recovered  bool // made by a recovery in place: earlier readers may have the index files mapped. Immutable once in a list
	compacted  bool // made by the cleaner in this process: all of it is below every limit of a reader. Immutable once in a list
	Unsynced   bool // appended to since the last successful fdatasync began. Owner: Partition.mu
	madeNames  bool // an index file was made, see MadeNames. Owner: who writes the files of the index

	file   atomic.Pointer[openFile]       // nil until first use; set under mu
	mem    atomic.Pointer[index.Writable] // writable index; nil: see files
	recent atomic.Pointer[index.Recent]   // nil until the first append
	opened openFile                       // what file points to

	// Owner of the rest, until the blank line: Partition.mu.
	BytesSinceIndex  int64
	AheadAt          int64 // the size at which AskAhead is due
	MaxTimestampMs   int64 // UnknownTimestamp until loaded from the time index
	MaxTimestampAt   int64 // last offset of the first batch that carries MaxTimestampMs
	FirstTimestampMs int64 // largest timestamp of the first batch, UnknownTimestamp until known
	window           window
	CreatedMs        int64
	WrittenOffsets   int  // entries of mem that are in the .index file
	WrittenTimes     int  // entries of mem that are in the .timeindex file
	HasTxnIndex      bool // a .txnindex file exists
	TxnMissing       int  // newest entries of aborted that are not in the file, because the disk was full at a recovery

	log   atomic.Pointer[[]byte]            // the newest mmap of the .log, nil until first use; set under mu
	files atomic.Pointer[index.Files]       // sealed index; nil until first use
	marks atomic.Pointer[logfile.SizeMarks] // nil until a reader asks whether bytes are in memory
	// missedMs is when a reader last met bytes that were not in memory; 0: never.
	missedMs atomic.Int64
	// lookedUpMs is when the index was looked into last by who may wait for it, to half of limits.ColdReaderMs.
	lookedUpMs atomic.Int64
	// aborted is the transaction index; nil until first use. The slice is immutable, a longer one replaces it.
	aborted atomic.Pointer[[]index.AbortedTxn]
	sums    *index.Sums // of the index files of an active segment after a clean stop, until it is appended to. Immutable once in a list
	env     *Env
	dir     string // the directory at the time of creation; after Delete the path is stale, the open file is not

	txnUnsynced atomic.Bool // the .txnindex was written since its last sync began
	endUnsynced atomic.Bool // the .log was cut behind its end since its last sync began

	mu       sync.Mutex
	oldMaps  [][]byte // earlier, shorter mmaps; slices may still point into them. Owner: mu
	unlink   []string // files to remove at burial. Owner: mu
	buryNext *Segment // owner: graveyard.mu

	aheadFrom int64 // SizeBytes at the last AskAhead. Owner: Partition.mu
	aheadMs   int64 // when that was; 0: never. Owner: Partition.mu
	restedAt  int64 // SizeBytes at the last GiveBackAhead. Owner: Partition.mu

	aheadMu     sync.Mutex // held while the file system allocates and frees: only for what lies behind the end. A leaf
	allocatedTo int64      // end of what was allocated behind the end, 0: nothing was. Owner: aheadMu
	aheadBytes  int64      // of the segment in ahead.held. Owner: aheadMu
	aheadDone   bool       // FreeAhead was called. Owner: aheadMu

	reindexed  atomic.Bool // the index was made anew: its files hold nothing of it
	unreadable atomic.Bool // a try to make it anew found that the log is damaged
}

type openFile struct {
	vfs.File
	used atomic.Bool // since LetGo looked last
}

// UnknownTimestamp stands for a timestamp that has to be looked up first.
const UnknownTimestamp = recovery.UnknownTimestamp

// New is a segment of which nothing is known yet.
func New(e *Env, dir string, baseOffset int64) *Segment {
	g := &Segment{env: e, dir: dir, BaseOffset: baseOffset, MaxTimestampMs: UnknownTimestamp, MaxTimestampAt: -1, FirstTimestampMs: UnknownTimestamp}
	g.refs.Store(1)
	g.EndOffset.Store(baseOffset)
	return g
}

// NewActive is an empty segment that batches are appended to; its file is not there yet.
func NewActive(e *Env, dir string, baseOffset, nowMs int64) *Segment {
	g := New(e, dir, baseOffset)
	g.mem.Store(new(index.Writable))
	g.MaxTimestampMs, g.CreatedMs = -1, nowMs
	return g
}

// Recovered is what a recovery found; inPlace: earlier readers of the same files may be there.
func Recovered(e *Env, dir string, f *recovery.Segment, inPlace bool) *Segment {
	g := New(e, dir, f.BaseOffset)
	g.recovered = inPlace
	g.SizeBytes.Store(f.SizeBytes)
	g.EndOffset.Store(f.EndOffset)
	g.Sealed.Store(f.Sealed)
	g.mem.Store(f.Index)
	g.aborted.Store(f.Aborted)
	g.sums = f.Sums
	g.CreatedMs, g.HasTxnIndex, g.TxnMissing = f.CreatedMs, f.HasTxnIndex, f.TxnMissing
	g.MaxTimestampMs, g.MaxTimestampAt, g.BytesSinceIndex = f.MaxTimestampMs, f.MaxTimestampAt, f.SinceIndexBytes
	return g
}

// Path is the name of one of the segment's files.
func (g *Segment) Path(suffix string) string { return layout.SegmentFile(g.dir, g.BaseOffset, suffix) }

// Acquire takes a reference unless the segment is dead.
func (g *Segment) Acquire() bool {
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

// Release drops a reference.
func (g *Segment) Release() {
	switch n := g.refs.Add(-1); {
	case n == 0:
		g.env.dead.add(g)
	case n < 0:
		panic(fmt.Sprintf("logstore: segment %s released twice", g.Path(layout.LogSuffix)))
	}
}

// SetFile gives the segment its .log file, once: before anybody else has the segment, or with mu held.
func (g *Segment) SetFile(f vfs.File) {
	g.opened.File = f
	g.opened.used.Store(true)
	g.file.Store(&g.opened)
	g.env.fileOpened()
}

// IsOpen says that the .log file and the writable index are there.
func (g *Segment) IsOpen() bool { return g.file.Load() != nil && g.mem.Load() != nil }

// Open returns the .log file. The caller holds a reference.
func (g *Segment) Open() (vfs.File, error) {
	if f := g.file.Load(); f != nil {
		if !f.used.Load() {
			f.used.Store(true)
		}
		return f.File, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.openLocked()
}

// OpenAgain returns the .log file as one of its own, only to be read. The caller holds a reference, and closes it.
func (g *Segment) OpenAgain() (vfs.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.env.fs.OpenFile(g.name(layout.LogSuffix), vfs.ReadOnly)
}

// openLocked is open with mu held.
func (g *Segment) openLocked() (vfs.File, error) {
	if f := g.file.Load(); f != nil {
		return f.File, nil
	}
	f, err := g.env.fs.OpenFile(g.name(layout.LogSuffix), 0)
	if err != nil {
		if errors.Is(err, unix.EMFILE) {
			g.env.askForLess()
		}
		return nil, err
	}
	g.SetFile(f)
	return f, nil
}

// name is where one of the files is now. Owner: mu held.
func (g *Segment) name(suffix string) string {
	name := g.Path(suffix)
	if len(g.unlink) == 0 {
		return name
	}
	for _, aside := range g.unlink {
		if strings.HasPrefix(aside, name+".") {
			return aside
		}
	}
	return name + layout.DeletedSuffix // there was none; another segment may have the name by now
}

// mmap returns a view of the .log that covers [0, end), or nil when the budget of maps is spent. The active segment is
// mapped at reservedBytes at once; pages beyond what was written must not be touched (SIGBUS), and nobody does, because
// slices end at SizeBytes. The caller holds a reference.
func (g *Segment) mmap(end, reservedBytes int64) []byte {
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
	if f == nil || !g.env.takeMap() {
		return nil
	}
	length := max(end, reservedBytes)
	if g.Sealed.Load() {
		length = g.SizeBytes.Load()
	}
	m, err := f.Map(int(length))
	if err != nil {
		g.env.returnMaps(1)
		g.env.logger.Warn("mmap failed, reading by descriptor", "file", g.Path(layout.LogSuffix), "error", err)
		return nil
	}
	if old != nil {
		g.oldMaps = append(g.oldMaps, *old)
	}
	g.log.Store(&m)
	return m
}

// isYoung says whether all bytes from a position on were appended in the last seconds.
func (g *Segment) isYoung(at int64) bool {
	if g.marks.Load() == nil {
		g.marks.CompareAndSwap(nil, new(logfile.SizeMarks)) // a partition without readers has none
	}
	return g.marks.Load().Cover(at, g.env.clock().UnixMilli(), &g.SizeBytes)
}

// WaitedMs is how old the segment is: by the timestamp of its first batch, or by the clock when that has none.
func (g *Segment) WaitedMs(timestampMs, nowMs int64) (int64, error) {
	if g.FirstTimestampMs == UnknownTimestamp {
		f, err := g.Open()
		if err != nil {
			return 0, err
		}
		header := make([]byte, batch.HeaderBytes)
		if _, err := f.ReadAt(header, 0); err != nil {
			return 0, err
		}
		g.FirstTimestampMs = batch.View(header).MaxTimestamp()
	}
	if g.FirstTimestampMs >= 0 {
		return timestampMs - g.FirstTimestampMs, nil
	}
	return nowMs - g.CreatedMs, nil
}

// SyncEnd lets the file end where the log does, and makes that and the transaction index durable: what is trusted from now on. Where
// the log itself is not (synced), its sync will see to the end, too. Once more after an error would not help, because of what a
// failed sync loses. Nobody appends any more and nobody else syncs; the caller holds a reference.
func (g *Segment) SyncEnd(synced bool) error {
	if err := g.FreeAhead(); err != nil {
		return err
	}
	if synced && g.endUnsynced.Swap(false) {
		if err := g.file.Load().Datasync(); err != nil {
			return err
		}
	}
	return g.SyncTxnIndex()
}

// Sync makes the .log and the transaction index durable. The caller holds a reference.
func (g *Segment) Sync() error {
	f, err := g.Open()
	if err != nil {
		return err
	}
	g.endUnsynced.Store(false)
	g.window.synced.Store(true)
	size := g.SizeBytes.Load()
	if err := f.Datasync(); err != nil {
		return err
	}
	if g.window.was.Load() {
		if err := g.whole(f, size); err != nil {
			return err
		}
	}
	g.window.synced.Store(true) // an append between may have been before the write-back
	return g.SyncTxnIndex()
}
