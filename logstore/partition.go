package logstore

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"

	"kaas/internal/limits"
	"kaas/logstore/checkpoint"
	"kaas/logstore/groupcommit"
	"kaas/logstore/producer"
	"kaas/logstore/segment"
)

// Partition is one log. Its methods are safe for concurrent use.
//
// With ten thousand partitions each append finds nothing of its own in the processor's caches, so what an append touches
// stands together, first, and so does what it touches of a segment.
type Partition struct {
	// Context belongs to the broker: set once right after Ensure or Open, before the partition is published.
	Context any

	store       *Store
	config      atomic.Pointer[Config]          // shared with partitions that have the same
	active      atomic.Pointer[segment.Segment] // the last of segments, nil when closed; writer: mu
	segments    atomic.Pointer[segmentList]     // immutable lists; writer: mu
	failure     atomic.Pointer[error]           // under mu: the partition is offline (until the healer has recovered it) or closed (for ever)
	leaderEpoch atomic.Int32                    // writer: mu
	epochNoted  int32                           // epochs has this leader epoch less one; 0: look; owner: mu
	end         mark                            // log end; writer: mu
	high        mark                            // high watermark; writer: mu
	stable      mark                            // last stable offset; writer: mu
	logStart    atomic.Int64                    // writer: mu
	totalBytes  atomic.Int64                    // of all segments; writer: mu

	mu           sync.Mutex
	frozen       bool                // the last step of a move: appends are refused for a moment; owner: mu
	spareWanted  bool                // the janitor was asked for one; owner: mu
	producers    *producer.States    // owner: mu
	unflushed    int64               // records since the last commit began; owner: mu
	flushDueMs   int64               // flush.ms deadline, 0: none; owner: mu
	rollJitterMs int64               // owner: mu
	waiters      groupcommit.Waiters // owner: mu
	commits      groupcommit.Task

	generation   int64             // recoveries from disk in this process; owner: mu
	epochs       checkpoint.Epochs // owner: mu
	committedTo  position          // where durable stands in the files; owner: mu
	spare        *segment.Spare    // nil: none; owner: mu
	spares       int64             // how many were made; owner: mu
	dirUnsynced  bool              // a segment was created since the directory was synced; owner: mu
	txnMissing   bool              // some segment has TxnMissing; owner: mu
	dirSyncing   bool              // that sync runs; until it has ended the name of a segment may not outlive a crash; owner: mu
	pending      []pendingSeal     // sealed segments whose files are not written; owner: mu
	checkpointed int64             // recovery point of the newest checkpoint file; owner: mu
	markers      []producer.Marker // scratch of Append; owner: mu

	topic         string
	id            int32
	topicID       [16]byte              // immutable after Ensure adopted the directory
	place         atomic.Pointer[place] // where it lies; writer: the end of a move, which holds mu and headMu
	durable       atomic.Int64          // every offset below is on stable storage; writer: mu
	synced        atomic.Int64          // every offset below is, in the partition's own files; writers: mu, or a recovery
	recoveryPoint atomic.Int64          // recovery may trust everything below; writers: janitor, recovery, Close

	namesUnsynced bool // index files were made since the directory was synced; owner: writeOutMu, or the stop

	syncMu    sync.Mutex         // one sync of the files at a time; before mu. Appends, reads and watermarks do not wait for it
	syncing   []*segment.Segment // owner: syncMu
	journalID uint64             // the journal that has records of it, 0: none; owner: commitJournal.turn

	cleanedTo  atomic.Int64 // cleaner-offset-checkpoint: what lies below was cleaned; -1: nothing. Writers: recovery, the cleaner
	cleanState cleanState   // owner: compactor.mu

	startNoted int64 // the log start in the partition's own directory; owner: headMu

	headMu     sync.Mutex // one change of the list other than a roll at a time, with its renames: retention, swaps, deletion of the partition; before writeOutMu
	writeOutMu sync.Mutex // one writeOut at a time; before mu
}

// pendingSeal is a sealed segment whose index files have to be written, and the producer snapshot at its end.
type pendingSeal struct {
	segment        *segment.Segment
	snapshot       *producer.Snapshot // nil: none to write
	snapshotOffset int64
}

// segmentList is immutable; a change publishes a new list. The last segment is the active one.
type segmentList struct{ all []*segment.Segment }

// find returns the index of the segment whose base offset is the largest <= offset, or -1.
func (l *segmentList) find(offset int64) int {
	return sort.Search(len(l.all), func(i int) bool { return l.all[i].BaseOffset > offset }) - 1
}

// from returns the segments that hold what lies after a position, and where it begins in the first; none when its segment was
// replaced.
func (l *segmentList) from(p position) (all []*segment.Segment, at int64) {
	i := l.find(p.offset)
	switch {
	case i < 0:
		return nil, 0
	case l.all[i].BaseOffset == p.offset:
		return l.all[i:], 0
	case l.all[i].BaseOffset == p.base:
		return l.all[i:], p.at
	}
	return nil, 0
}

func (l *segmentList) active() *segment.Segment { return l.all[len(l.all)-1] }

// position is an offset and where its batch stands.
type position struct {
	offset int64
	base   int64 // base offset of the segment
	at     int64 // bytes from the start of the segment
}

// mark is an offset together with where it stands in the files, readable without a lock.
//
// Proof: there is one writer at a time (Partition.mu). It makes seq odd, stores the fields and makes seq even again; all
// accesses are sequentially consistent atomics. A reader that sees the same even seq before and after its loads has seen
// no store in between, so the three values belong together. offset alone may be loaded directly.
type mark struct {
	seq    atomic.Uint32
	offset atomic.Int64
	base   atomic.Int64
	at     atomic.Int64
}

func (m *mark) store(p position) {
	m.seq.Add(1)
	m.offset.Store(p.offset)
	m.base.Store(p.base)
	m.at.Store(p.at)
	m.seq.Add(1)
}

func (m *mark) load() position {
	for {
		seq := m.seq.Load()
		if seq&1 != 0 {
			continue
		}
		p := position{m.offset.Load(), m.base.Load(), m.at.Load()}
		if m.seq.Load() == seq {
			return p
		}
	}
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch <= epoch and the end of it, or -1, -1.
func (p *Partition) EndOffsetForEpoch(epoch int32) (epochFound int32, endOffset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epochs.EndOffset(epoch, p.end.offset.Load())
}

// LeaderEpoch is the newest epoch that the log knows; 0 for a new log.
func (p *Partition) LeaderEpoch() int32 { return p.leaderEpoch.Load() }

// place is a log directory and the partition's directory in it. Immutable.
type place struct {
	dir  *logDir
	path string
}

func (p *Partition) logDir() *logDir { return p.place.Load().dir }
func (p *Partition) path() string    { return p.place.Load().path }

// Topic is the topic's name.
func (p *Partition) Topic() string { return p.topic }

// ID is the partition's number.
func (p *Partition) ID() int32 { return p.id }

// TopicID is the id in partition.metadata.
func (p *Partition) TopicID() [16]byte { return p.topicID }

// Dir is the log directory (an element of Options.Dirs) that holds the partition.
func (p *Partition) Dir() string { return p.logDir().path }

// SetConfig changes the configuration; the next append obeys it.
func (p *Partition) SetConfig(c Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared := p.store.lastConfig.Load()
	if shared == nil || *shared != c {
		shared = &c
		p.store.lastConfig.Store(shared)
	}
	p.config.Store(shared)
	p.rollJitterMs = rand.Int64N(max(min(c.SegmentJitterMs, 1<<62), 0) + 1) // spreads rolls of partitions that were made together
}

// Config is the configuration in force.
func (p *Partition) Config() Config { return *p.config.Load() }

// LogStartOffset is the first offset that may be read.
func (p *Partition) LogStartOffset() int64 { return p.logStart.Load() }

// HighWatermark is the end of what the flush policy holds for.
func (p *Partition) HighWatermark() int64 { return p.high.offset.Load() }

// LastStableOffset is the first offset of the oldest open transaction, or the high watermark. It is not below the log start,
// also when DeleteRecords took the beginning of an open transaction.
func (p *Partition) LastStableOffset() int64 { return max(p.stable.offset.Load(), p.logStart.Load()) }

// LogEndOffset is the offset that the next record gets.
func (p *Partition) LogEndOffset() int64 { return p.end.offset.Load() }

// DurableOffset is the end of what is on stable storage.
func (p *Partition) DurableOffset() int64 { return p.durable.Load() }

// SizeBytes is the sum of the sizes of all segments.
func (p *Partition) SizeBytes() int64 { return p.totalBytes.Load() }

// Err says why the partition is offline: nil while it serves.
func (p *Partition) Err() error {
	if f := p.failure.Load(); f != nil {
		return *f
	}
	return nil
}

// Stalled says that the disk has not answered a commit for so long that appends are refused. It ends by itself when the
// commit returns.
func (p *Partition) Stalled() bool {
	since := p.commits.SinceMs.Load()
	return since != 0 && p.store.upMs()-since >= limits.CommitStalledMs
}

// wrap adds topic and partition to a sentinel.
func (p *Partition) wrap(err error) error { return fmt.Errorf("%s-%d: %w", p.topic, p.id, err) }

// fail takes the partition offline. What the disk has is known only after a recovery; the healer tries one until it works.
func (p *Partition) fail(cause error) {
	err := p.wrap(fmt.Errorf("%w: %w (the partition is offline until the disk answers again; look at the volume of %s)", ErrStorage, cause, p.logDir().path))
	p.mu.Lock()
	if !p.failure.CompareAndSwap(nil, &err) {
		p.mu.Unlock()
		return
	}
	waiters := p.waiters.Take(1<<63 - 1)
	p.mu.Unlock()
	p.store.logger.Error("partition offline", "topic", p.topic, "partition", p.id, "error", cause)
	if l := p.store.options.Listener; l != nil {
		l.Failed(p, err)
	}
	groupcommit.Complete(waiters, err)
	p.store.healer.Add(p)
}

// setSegments publishes a list. Caller: mu.
func (p *Partition) setSegments(all []*segment.Segment) {
	p.segments.Store(&segmentList{all})
	var active *segment.Segment
	if len(all) > 0 {
		active = all[len(all)-1]
	}
	p.active.Store(active)
}
