package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/index"
	"kaas/logstore/journal"
	"kaas/logstore/layout"
	"kaas/logstore/logfile"
	"kaas/logstore/producer"
)

// Task is one recovery: where, and what is known from elsewhere.
type Task struct {
	FS                 vfs.FS
	Logger             *slog.Logger
	Dir                string // the partition's directory
	NowMs              int64
	IndexIntervalBytes int64

	Point    int64     // recovery point: what lies below was synced, with its indexes and epochs; 0: nothing
	LogStart int64     // of log-start-offset-checkpoint
	Stop     *StopMark // nil: the last stop was not clean
	// Durable is, of a recovery in place, the end of what was synced: what lies beyond is cut although the page cache may show
	// it, or written again when Relaxed. -1: not known, because the process is a new one.
	Durable int64
	Relaxed bool
	// Restore writes what the commit journal holds of the partition into its segments, before they are looked at. Nil: there
	// is no journal.
	Restore func(topicID [16]byte) error
	// CleanedTo is of cleaner-offset-checkpoint, -1: nothing was cleaned. Kafka's cleaner leaves gaps between segments below it.
	CleanedTo int64

	// ScannedBytes and CutBytes are counted also when Run fails.
	ScannedBytes, CutBytes int64

	log       Log
	hasKept   bool                      // the directory has what an earlier start took from the commit journal
	kept      *journal.Contents         // it, while it is open; nil: none
	files     map[int64]map[string]bool // segment base → suffixes that are there
	snapshots []int64                   // offsets, growing
	scanned   bool                      // some bytes after the recovery point were looked at
	cut       bool
	epochLost bool
	opened    []*Segment // those whose file is open, and some that were closed since; by age
	remove    []string   // files that describe what is gone
	used      int64      // offset of the snapshot that the replay began with; -1: none
}

// StopMark is what a clean stop wrote down of a partition (kaas-log-end-checkpoint).
type StopMark struct {
	EndOffset, ActiveBase, ActiveSize int64
	ProducersKnown                    bool
	Sums                              *index.Sums // of the active segment's index files; nil: not known
	Epoch                             *int64      // the newest leader epoch; nil: not known
}

// Log is what was found.
type Log struct {
	TopicID     [16]byte // zero: partition.metadata is missing or damaged
	Segments    []*Segment
	LogStart    int64
	StartNoted  int64 // log start that stands in the directory itself
	EndOffset   int64
	Point       int64 // recovery point from now on
	Producers   *producer.States
	Epochs      checkpoint.Epochs
	Seals       []Seal
	DirUnsynced bool // a file was made and the directory is not synced
	Clean       bool // the end was taken from a clean stop
}

// Segment is one .log file.
type Segment struct {
	BaseOffset, SizeBytes, EndOffset int64
	CreatedMs                        int64
	Sealed                           bool
	HasTxnIndex                      bool
	Aborted                          *[]index.AbortedTxn // nil: not looked at
	TxnMissing                       int                 // newest entries of Aborted that a full disk kept out of the file
	Index                            *index.Writable     // nil: the files hold
	Sums                             *index.Sums         // of the index files of an active segment; nil: not known
	SinceIndexBytes                  int64
	MaxTimestampMs, MaxTimestampAt   int64 // UnknownTimestamp: in the time index

	dir        string
	hasTxnCopy bool
	ahead      bool            // zeros behind its end were cut
	file       vfs.File        // nil until first use
	read       *index.Writable // what the files hold, once they were looked at
}

// UnknownTimestamp means that a largest timestamp was not looked up.
const UnknownTimestamp = int64(-2)

// Seal is a sealed segment whose index files have to be written, and the producer snapshot at its end.
type Seal struct {
	Segment        *Segment
	Snapshot       []byte // nil: none to write
	SnapshotOffset int64
}

// Run recovers the directory.
func (t *Task) Run() (*Log, error) {
	err := t.run()
	for _, g := range t.log.Segments {
		err = errors.Join(err, g.close())
	}
	if t.kept != nil {
		err = errors.Join(err, t.kept.Close())
	}
	if err != nil {
		return nil, err
	}
	return &t.log, nil
}

func (t *Task) run() error {
	id, err := checkpoint.ReadPartitionMetadata(t.FS, t.Dir)
	if errors.Is(err, checkpoint.ErrDamaged) {
		t.Logger.Warn("topic id unreadable, the next one that asks for the partition gives it its id", "dir", t.Dir, "reason", err)
	} else if err != nil {
		return err
	}
	t.log.TopicID = id
	if err := t.adoptTerms(); err != nil {
		return err
	}
	if err := t.finishSwaps(); err != nil {
		return err
	}
	if t.Restore != nil {
		if err := t.Restore(id); err != nil {
			return err
		}
	}
	if err := t.restoreKept(id); err != nil {
		return err
	}
	if err := t.list(); err != nil {
		return err
	}
	if err := t.openSegments(t.LogStart); err != nil {
		return err
	}
	t.loadEpochs()
	if !t.trustEnd() {
		if err := t.scan(); err != nil {
			return err
		}
	}
	start := max(t.LogStart, t.log.Segments[0].BaseOffset)
	if start > t.log.EndOffset {
		t.Logger.Warn("log start beyond the end, moved", "dir", t.Dir, "start", start, "end", t.log.EndOffset)
		start = t.log.Segments[0].BaseOffset
		t.LogStart = start // nothing of the log was deleted
	}
	t.log.LogStart = start
	if err := t.replay(); err != nil {
		return err
	}
	if err := t.mendAborted(); err != nil {
		return err
	}
	if err := t.settle(); err != nil || t.kept == nil {
		return err
	}
	return t.kept.Remove() // before anything is appended, or compacted
}

// restoreKept writes what an earlier start took from the commit journal for this partition, which it could not recover, and left in
// its directory.
func (t *Task) restoreKept(id [16]byte) (err error) {
	if !t.hasKept {
		return nil
	}
	if t.kept, err = journal.Load(t.FS, t.Dir, math.MaxUint64); t.kept == nil || err != nil {
		return err
	}
	topic, partition, _ := layout.ParsePartitionDir(filepath.Base(t.Dir))
	n, err := t.kept.Apply(topic, partition, id, t.Point, func(base int64) string { return layout.SegmentFile(t.Dir, base, layout.LogSuffix) })
	if err == nil {
		t.Logger.Info("records taken from what was kept of the commit journal", "dir", t.Dir, "bytes", n)
	}
	return err
}

// list sorts the directory's files.
func (t *Task) list() error {
	entries, err := t.FS.List(t.Dir)
	if err != nil {
		return err
	}
	t.files = map[int64]map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(t.Dir, e.Name)
		base, suffix, ok := layout.ParseSegmentFile(e.Name)
		switch {
		case e.Dir: // whatever its name is: it is nobody's of ours
			t.Logger.Warn("not a file of the log, left alone", "path", path)
		case ok && (strings.HasSuffix(suffix, layout.DeletedSuffix) || strings.HasSuffix(suffix, layout.CleanedSuffix)) || strings.HasSuffix(e.Name, layout.TemporarySuffix):
			if err := t.FS.Remove(path); err != nil {
				return err
			}
		case ok && suffix == layout.SnapshotSuffix:
			t.snapshots = append(t.snapshots, base)
		case ok && slices.Contains(layout.SegmentSuffixes, suffix):
			if t.files[base] == nil {
				t.files[base] = map[string]bool{}
			}
			t.files[base][suffix] = true
		case e.Name == layout.LogStartName: // the start never goes down
			t.readLogStart(path)
		case slices.Contains(journal.Names[:], e.Name) || e.Name == layout.MovedName || e.Name == checkpoint.MetadataName || e.Name == checkpoint.EpochsName:
		default:
			t.Logger.Warn("not a file of the log, left alone", "path", path)
		}
	}
	slices.Sort(t.snapshots)
	return nil
}

// readLogStart takes the log start that a partition keeps by itself: the file of the log directory may be lost, and does not
// name a partition that was set aside. An unreadable file is as if missing, as with all checkpoints.
func (t *Task) readLogStart(path string) {
	starts, err := checkpoint.ReadOffsets(t.FS, path, 1)
	if err != nil {
		t.Logger.Warn("checkpoint ignored", "file", path, "reason", err)
	}
	for _, start := range starts { // one
		t.log.StartNoted = start[0]
		t.LogStart = max(t.LogStart, start[0])
	}
}

// openSegments makes the list, without reading the logs. Index files without a log are removed.
func (t *Task) openSegments(start int64) error {
	var bases []int64
	for base, suffixes := range t.files {
		if suffixes[layout.LogSuffix] {
			bases = append(bases, base)
			continue
		}
		for suffix := range suffixes {
			if err := t.FS.Remove(layout.SegmentFile(t.Dir, base, suffix)); err != nil {
				return err
			}
		}
	}
	slices.Sort(bases)
	if len(bases) == 0 {
		f, err := t.FS.OpenFile(layout.SegmentFile(t.Dir, start, layout.LogSuffix), vfs.Create)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		bases = append(bases, start)
		t.log.DirUnsynced = true
	}
	for i, base := range bases {
		g := &Segment{BaseOffset: base, EndOffset: base, dir: t.Dir, MaxTimestampMs: UnknownTimestamp, MaxTimestampAt: -1}
		st, err := t.FS.Stat(g.path(layout.LogSuffix))
		if err != nil {
			return err
		}
		g.CreatedMs, g.SizeBytes = st.ModifiedMs, st.SizeBytes
		g.HasTxnIndex = t.files[base][layout.TxnIndexSuffix]
		g.hasTxnCopy = t.files[base][layout.TxnCopySuffix]
		if i+1 < len(bases) {
			g.EndOffset, g.Sealed = bases[i+1], true
		}
		if !g.HasTxnIndex && !g.hasTxnCopy && !(g.Sealed && t.files[base][layout.SumsSuffix]) { // the sums may say that there was one
			g.Aborted = new([]index.AbortedTxn)
		}
		t.log.Segments = append(t.log.Segments, g)
	}
	return nil
}

// Active is the newest segment.
func (l *Log) Active() *Segment { return l.Segments[len(l.Segments)-1] }

// hasIndexes says that both index files are there.
func (t *Task) hasIndexes(g *Segment) bool {
	return t.files[g.BaseOffset][layout.IndexSuffix] && t.files[g.BaseOffset][layout.TimeIndexSuffix]
}

// trustEnd takes the end from the clean stop, when everything that it wrote down still holds.
func (t *Task) trustEnd() bool {
	if t.Stop == nil {
		return false
	}
	g := t.log.Active()
	if t.Stop.ActiveBase != g.BaseOffset || t.Stop.ActiveSize != g.SizeBytes || t.Point != t.Stop.EndOffset {
		t.Logger.Warn("the log changed after a clean stop, scanning it", "dir", t.Dir,
			"base", g.BaseOffset, "size", g.SizeBytes, "expectedBase", t.Stop.ActiveBase, "expectedSize", t.Stop.ActiveSize)
		t.Point = min(t.Point, g.BaseOffset)
		return false
	}
	for _, g := range t.log.Segments {
		if g.SizeBytes > 0 && !t.hasIndexes(g) {
			if err := t.rebuild(g, "missing"); err != nil {
				t.Logger.Warn("index not rebuilt, scanning the log", "dir", t.Dir, "error", err)
				t.Point = 0
				return false
			}
		}
	}
	t.log.Clean = true
	if e := t.Stop.Epoch; e != nil && *e != int64(t.log.Epochs.Latest()) {
		t.loseEpochs(fmt.Errorf("%s is of another day: its newest epoch is %d, the log's is %d", checkpoint.EpochsName, t.log.Epochs.Latest(), *e))
	}
	g.Sums = t.Stop.Sums
	t.log.EndOffset, g.EndOffset = t.Stop.EndOffset, t.Stop.EndOffset
	return true
}

// settle syncs what the scan found.
func (t *Task) settle() error {
	l := &t.log
	if t.Relaxed {
		if err := t.writeAgain(); err != nil {
			return err
		}
	}
	l.Point = l.EndOffset
	if err := t.prune(); err != nil {
		return err
	}
	if l.Clean {
		return nil
	}
	l.Point = min(t.Point, l.EndOffset) // until the index files and epochs of the scanned part are written
	for _, g := range l.Segments {
		if t.scanned && g.EndOffset > t.Point || t.cut || g.ahead {
			f, err := t.open(g)
			if err != nil {
				return err
			}
			if err := f.Datasync(); err != nil {
				return err
			}
		}
	}
	for _, name := range t.remove {
		if err := t.FS.Remove(name); err != nil {
			return err
		}
	}
	if t.scanned || l.DirUnsynced || len(t.remove) > 0 {
		if err := t.FS.SyncDir(t.Dir); err != nil {
			return err
		}
		l.DirUnsynced = false
	}
	return nil
}

// prune removes the producer snapshots of earlier clean stops (ProducerStateManager.removeStraySnapshots): those of segments
// stay, and of the others the newest when it is the newest of all.
func (t *Task) prune() error {
	stray := func(at int64) bool {
		return at != t.used && !slices.ContainsFunc(t.log.Segments, func(g *Segment) bool { return g.BaseOffset == at })
	}
	for i, at := range t.snapshots {
		name := layout.SegmentFile(t.Dir, at, layout.SnapshotSuffix)
		if i == len(t.snapshots)-1 || !stray(at) || slices.Contains(t.remove, name) {
			continue
		}
		if err := t.FS.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

func (g *Segment) path(suffix string) string { return layout.SegmentFile(g.dir, g.BaseOffset, suffix) }

// open returns the .log file, which is open until so many others were used since.
func (t *Task) open(g *Segment) (vfs.File, error) {
	if g.file != nil {
		return g.file, nil
	}
	if len(t.opened) == limits.RecoveryFiles {
		oldest := t.opened[0]
		t.opened = append(t.opened[:0], t.opened[1:]...)
		if err := oldest.close(); err != nil {
			return nil, err
		}
	}
	f, err := t.FS.OpenFile(g.path(layout.LogSuffix), 0)
	if err != nil {
		return nil, err
	}
	g.file = f
	t.opened = append(t.opened, g)
	return f, nil
}

// close lets go of the file: an idle partition holds no descriptor.
func (g *Segment) close() error {
	f := g.file
	if g.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// rebuild makes the indexes of a segment from its batch headers, and has them written.
func (t *Task) rebuild(g *Segment, reason any) error {
	t.Logger.Warn("index rebuilt", "file", g.path(layout.IndexSuffix), "reason", reason)
	f, err := t.open(g)
	if err != nil {
		return err
	}
	if g.Index, err = logfile.BuildIndex(f, g.SizeBytes, g.BaseOffset); err != nil {
		return fmt.Errorf("%s: %w", g.path(layout.LogSuffix), err)
	}
	if g.Sealed {
		t.log.Seals = append(t.log.Seals, Seal{Segment: g})
	}
	return nil
}

// positionBefore is where to begin to look for the batch that holds offset.
func (t *Task) positionBefore(g *Segment, offset int64) (int64, error) {
	m := g.Index
	if m == nil {
		m = g.read
	}
	if m == nil {
		offsets, times, err := index.ReadFiles(t.FS, g.path(layout.IndexSuffix), g.path(layout.TimeIndexSuffix), g.SizeBytes, t.sums(g))
		if err == nil {
			m = index.Decode(offsets, times)
			g.read = m
		} else {
			if err := t.rebuild(g, err); err != nil {
				return 0, err
			}
			m = g.Index
		}
	}
	relative := int32(min(offset-g.BaseOffset, 1<<31-1))
	at := int64(index.FloorOffset(m.Offsets.View(), relative))
	if m == g.Index || at == 0 {
		return at, nil
	}
	if err := t.namesBatch(g, at, offset); err != nil { // the index file is well formed and wrong
		if err := t.rebuild(g, err); err != nil {
			return 0, err
		}
		at = int64(index.FloorOffset(g.Index.Offsets.View(), relative))
	}
	return at, nil
}

// namesBatch says whether a batch stands at a position that an index names for an offset.
func (t *Task) namesBatch(g *Segment, at, offset int64) error {
	f, err := t.open(g)
	if err != nil {
		return err
	}
	return logfile.NamesBatch(f, g.BaseOffset, g.SizeBytes, at, offset)
}

// sums are what the index files were written with, as far as that is known.
func (t *Task) sums(g *Segment) *index.Sums {
	if g.Sealed && t.files[g.BaseOffset][layout.SumsSuffix] {
		return index.ReadSums(t.FS, g.path(layout.SumsSuffix))
	}
	return g.Sums
}

// loadEpochs reads leader-epoch-checkpoint; when it is lost the epochs are taken from the batches.
func (t *Task) loadEpochs() {
	err := t.log.Epochs.Load(t.FS, t.Dir)
	if err == nil {
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // mostly there was none
	}
	t.loseEpochs(err)
}

// loseEpochs has the epochs taken from the log.
func (t *Task) loseEpochs(reason error) {
	if reason != nil {
		t.Logger.Warn("leader epochs taken from the log", "dir", t.Dir, "reason", reason)
	}
	t.log.Epochs = checkpoint.Epochs{Dirty: true}
	t.epochLost = true
}
