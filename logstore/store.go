package logstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/cleaner"
	"kaas/logstore/groupcommit"
	"kaas/logstore/healer"
	"kaas/logstore/janitor"
	"kaas/logstore/layout"
	"kaas/logstore/probe"
	"kaas/logstore/producer"
	"kaas/logstore/registry"
	"kaas/logstore/segment"
	"kaas/logstore/volume"
)

// Counters are things that should be rare; a test asserts zero after plain traffic where that is promised.
type Counters struct {
	segment.LookupCounters
	groupcommit.Counters
	cleaner.Totals
	KeyCheckBatches   atomic.Int64 // batches decoded to see that every record has a key (compacted topics)
	CountCheckBatches atomic.Int64 // batches decoded because they claim more records than such bytes mostly hold
	// Bytes scanned by recoveries, and bytes cut off torn tails.
	RecoveredBytes, CutBytes atomic.Int64
	Reopened                 atomic.Int64 // partitions that came back after their disk failed
}

// Store is a set of partitions in one or more log directories.
type Store struct {
	options   Options
	fs        vfs.FS
	logger    *slog.Logger
	clusterID string
	dirs      []*logDir
	known     *volume.Known
	committer *groupcommit.Committer
	janitor   *janitor.Janitor[*Partition]
	compactor *compactor
	healer    *healer.Healer[*Partition]
	mover     *mover
	probes    probe.Set
	segments  *segment.Env
	strays    volume.Strays
	counters  Counters
	ids       checkpoint.ProducerIDs

	lastConfig atomic.Pointer[Config] // of the last SetConfig: partitions of a topic share theirs

	turns      registry.Turns[checkpoint.Key] // Ensure and Delete of one partition at a time
	lettingGo  sync.Mutex                     // one letGo at a time; before Partition.mu
	partitions *registry.Map[*Partition]      // writer: mu
	started    time.Time

	mu     sync.Mutex
	broken map[checkpoint.Key]*broken // directories that could not be recovered; owner: mu
	closed bool                       // owner: mu
}

// logDir is one element of log.dirs, and what the store keeps in it.
type logDir struct {
	*volume.Dir
	path string // Dir.Path

	checkpointMu sync.Mutex // serialises rewrites of the checkpoint files; before Partition.mu
	hasCleanedTo bool       // there is a cleaner-offset-checkpoint; owner: checkpointMu
	partitions   int        // served or being made; owner: Store.mu
	journal      *commitJournal
	stale        map[checkpoint.Key]bool // deleted partitions that the checkpoint files may still name; owner: Store.mu
}

// Open takes the directories' locks, reads meta.properties and recovers every partition. Partitions have DefaultConfig
// until Ensure gives them theirs.
func Open(ctx context.Context, o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := s.openDirs(); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	knownIDs, err := s.ids.Open(s.fs, s.known.Home())
	if err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	unfinished, err := s.settleMoves()
	if err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	count := 0
	for _, d := range slices.Clone(s.dirs) {
		n, err := s.recoverDir(ctx, d)
		if err != nil && ctx.Err() == nil {
			err = s.abandon(d, err)
		}
		if err != nil {
			return nil, errors.Join(err, s.unlock())
		}
		count += n
	}
	s.settleProducerIDs(knownIDs)
	s.janitor.Start()
	for _, d := range s.dirs {
		s.probes.Begin(s.fs, s.logger, d.path, d.ID, s.upMs, s.options.ProbeIntervalMs)
	}
	s.segments.StartAhead()
	s.resumeMoves(unfinished) // before a round of compaction changes what is copied
	s.compactor.start()
	s.logger.Debug("log directories opened", "dirs", len(s.dirs), "partitions", count, "took", time.Since(started))
	return s, nil
}

func newStore(o Options) (*Store, error) {
	if len(o.Dirs) == 0 {
		return nil, errors.New("logstore: log.dirs is empty")
	}
	setDefaults(&o)
	s := &Store{options: o, fs: o.FS, logger: o.Logger, partitions: registry.New[*Partition](), started: o.Clock(), broken: map[checkpoint.Key]*broken{}}
	s.segments = segment.NewEnv(s.fs, s.logger, func() time.Time { return s.started.Add(o.Uptime()) }, &s.counters.LookupCounters, o.windows)
	s.segments.LimitFiles(min(o.OpenFiles, limits.OpenFiles))
	s.committer = groupcommit.New(o.FlushWorkers, s.upMs, &s.counters.Counters)
	s.janitor = newJanitor(s)
	s.compactor = newCompactor(s)
	s.healer = newHealer(s.options.ReopenIntervalMs)
	s.mover = newMover(s)
	return s, nil
}

func setDefaults(o *Options) {
	orElse := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	orElse(&o.ProducerIDExpirationMs, 86_400_000)
	orElse(&o.RetentionCheckIntervalMs, 300_000)
	orElse(&o.CheckpointIntervalMs, 60_000)
	orElse(&o.InitialDelayMs, 30_000)
	if o.InMemory {
		o.ProbeIntervalMs = -1 // there is no disk
	} else if o.ProbeIntervalMs == 0 {
		o.ProbeIntervalMs = limits.ProbeIntervalMs
	}
	orElse(&o.OpenFiles, limits.OpenFiles)
	orElse(&o.ReopenIntervalMs, limits.ReopenIntervalMs)
	if o.JournalBytes == 0 && (o.InMemory || o.FS != nil && o.FS != vfs.OS) {
		o.JournalBytes = -1 // nothing is gained in memory
	}
	if o.FS == nil {
		o.FS = vfs.OS
		if o.InMemory {
			o.FS = vfs.NewMem()
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NumRecoveryThreadsPerDataDir <= 0 {
		o.NumRecoveryThreadsPerDataDir = 2
	}
	if o.FlushWorkers <= 0 {
		o.FlushWorkers = limits.FlushWorkers
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Uptime == nil {
		started := o.Clock()
		o.Uptime = func() time.Duration { return o.Clock().Sub(started) } // of time.Now this is monotonic
	}
}

func (s *Store) nowMs() int64 { return s.options.Clock().UnixMilli() }

// upMs goes on from the time of the start and does not jump: for intervals.
func (s *Store) upMs() int64 { return s.started.UnixMilli() + s.options.Uptime().Milliseconds() }

// openDirs locks every directory and agrees on the cluster id.
func (s *Store) openDirs() error {
	dirs, known, clusterID, err := volume.OpenAll(s.fs, s.logger, s.options.Dirs, s.options.BrokerID, s.options.ClusterID)
	s.known, s.clusterID = known, clusterID
	for _, d := range dirs {
		dir := &logDir{Dir: d, path: d.Path, stale: map[checkpoint.Key]bool{}}
		dir.journal = newCommitJournal(s, dir)
		s.dirs = append(s.dirs, dir)
	}
	return err
}

func (s *Store) unlock() error {
	var errs []error
	for _, d := range s.dirs {
		errs = append(errs, d.Unlock())
	}
	return errors.Join(errs...)
}

// ClusterID is the cluster.id of meta.properties.
func (s *Store) ClusterID() string { return s.clusterID }

// Counters are the store's counters.
func (s *Store) Counters() *Counters { return &s.counters }

// Usage is what the volume of a log directory has and what is left of it.
func (s *Store) Usage(dir string) (totalBytes, usableBytes int64, err error) {
	if s.known.Unused(dir) {
		return 0, 0, fmt.Errorf("%s: %w: the log directory is missing or can't be used", dir, ErrStorage)
	}
	return s.fs.Usage(dir)
}

// Known are the log directories that partitions may lie in, those that are missing among them.
func (s *Store) Known() *volume.Known { return s.known }

// Dirs are the log directories, those of log.dirs that are missing among them.
func (s *Store) Dirs() []string { return s.options.Dirs }

// Get returns the partition or nil. It takes no lock and allocates nothing.
func (s *Store) Get(topic string, partition int32) *Partition {
	return s.partitions.Get(topic, partition)
}

// TopicID is the id of the topic whose partitions lie here; false when there are none.
func (s *Store) TopicID(topic string) ([16]byte, bool) {
	if p, ok := s.partitions.First(topic); ok {
		return p.topicID, true
	}
	return [16]byte{}, false
}

// All returns every partition, sorted by topic and number.
func (s *Store) All() []*Partition { return s.partitions.All() }

// Stalled are the partitions whose disk does not answer.
func (s *Store) Stalled() []*Partition {
	var out []*Partition
	for _, p := range s.All() {
		if p.Stalled() {
			out = append(out, p)
		}
	}
	return out
}

// DirFaults says of each log directory that does not take writes, or does not answer, which it is and why; nil: all do. It waits for
// nothing. What lies in a missing one Known tells.
func (s *Store) DirFaults() []error { return s.probes.Faults() }

// publish puts p (or, with nil, nothing) at its place in the map. Caller: mu.
func (s *Store) publish(key checkpoint.Key, p *Partition) {
	var old *Partition
	if p != nil {
		old, _ = s.partitions.Put(key.Topic, key.Partition, p)
		p.logDir().partitions++
	} else {
		old, _ = s.partitions.Remove(key.Topic, key.Partition)
	}
	if old != nil {
		old.logDir().partitions--
	}
}

// exclusive waits for its turn on one partition's directory.
func (s *Store) exclusive(key checkpoint.Key) (done func(), err error) {
	done = s.turns.Take(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		done()
		return nil, fmt.Errorf("%s-%d: %w", key.Topic, key.Partition, ErrClosed)
	}
	return done, nil
}

// Ensure opens or creates the partition's directory. A directory with another topic id is set aside (-stray) and not served;
// one that was set aside comes back when its topic id is asked for. Calls for different partitions may run at the same time, which lets their syncs overlap.
func (s *Store) Ensure(topic string, topicID [16]byte, partition int32, c Config) (*Partition, error) {
	key := checkpoint.Key{Topic: topic, Partition: partition}
	if _, _, ok := layout.ParsePartitionDir(layout.PartitionDir(topic, partition)); !ok {
		return nil, fmt.Errorf("%q is no topic name, or %d no partition", topic, partition)
	}
	done, err := s.exclusive(key)
	if err != nil {
		return nil, err
	}
	defer done()
	err = s.settleDouble(key, topicID)
	if err == nil {
		err = s.mend(key)
	}
	if err != nil {
		return nil, fmt.Errorf("%s-%d: %w: %w", topic, partition, ErrStorage, err)
	}
	if p := s.Get(topic, partition); p != nil {
		p, err := s.claim(p, topicID, c)
		if p != nil || err != nil {
			return p, err
		}
	}
	if p, err := s.unstray(key, topicID, c); p != nil || err != nil {
		return p, err
	}
	return s.create(key, topicID, c)
}

// claim gives p to who asks for a topic id, or sets it aside and returns nil. Caller: exclusive.
func (s *Store) claim(p *Partition, topicID [16]byte, c Config) (*Partition, error) {
	switch {
	case p.topicID == topicID:
		p.SetConfig(c)
		return p, nil
	case p.topicID == [16]byte{} || checkpoint.Misspelt(p.topicID, topicID): // created, or copied here, without its metadata; or it is damaged
		if went, err := s.giveWay(p, topicID); went || err != nil {
			return nil, err
		}
		if err := checkpoint.WritePartitionMetadata(s.fs, p.path(), topicID); err != nil {
			return nil, p.wrap(err)
		}
		p.topicID = topicID
		p.SetConfig(c)
		return p, nil
	}
	s.logger.Warn("directory of another topic id set aside", "dir", p.path(), "found", checkpoint.UUIDString(p.topicID), "wanted", checkpoint.UUIDString(topicID))
	_, err := s.setStray(p)
	return nil, err
}

// create makes the directory durably: first what is in it, then its name in the log directory. A crash leaves no
// directory, or one without metadata that the next Ensure adopts.
func (s *Store) create(key checkpoint.Key, topicID [16]byte, c Config) (*Partition, error) {
	if err := s.known.MayCreate(key, topicID); err != nil {
		return nil, fmt.Errorf("%s-%d: %w: %w", key.Topic, key.Partition, ErrStorage, err)
	}
	d, stale := s.placement(key)
	placed := true
	defer func() {
		if placed {
			s.mu.Lock()
			d.partitions--
			s.mu.Unlock()
		}
	}()
	if stale {
		if err := s.writeCheckpoints(d, nil); err != nil {
			return nil, fmt.Errorf("%s-%d: %w: %w", key.Topic, key.Partition, ErrStorage, err)
		}
	}
	p := s.newPartition(d, key, filepath.Join(d.path, layout.PartitionDir(key.Topic, key.Partition)))
	p.topicID = topicID
	p.SetConfig(c)
	g := segment.NewActive(s.segments, p.path(), 0, s.nowMs())
	err := s.fs.Mkdir(p.path())
	if err == nil {
		var f vfs.File
		if f, err = s.fs.OpenFile(g.Path(layout.LogSuffix), vfs.Create); err == nil {
			err = f.Close() // opened again at first use: an idle partition holds no descriptor
		}
	}
	if err == nil {
		err = checkpoint.WritePartitionMetadata(s.fs, p.path(), topicID)
	}
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		if !errors.Is(err, fs.ErrExist) {
			err = errors.Join(err, s.fs.RemoveAll(p.path())) // nothing was served from it
		}
		return nil, fmt.Errorf("%s-%d: %w: %w", key.Topic, key.Partition, ErrStorage, err)
	}
	p.setSegments([]*segment.Segment{g})
	s.mu.Lock()
	s.publish(key, p) // counts it too
	d.partitions--
	placed = false
	s.mu.Unlock()
	return p, nil
}

// placement picks the directory with the fewest partitions.
func (s *Store) placement(key checkpoint.Key) (best *logDir, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.dirs {
		if best == nil || d.partitions < best.partitions {
			best = d
		}
	}
	best.partitions++ // several are made at the same time
	return best, best.stale[key]
}

func (s *Store) newPartition(d *logDir, key checkpoint.Key, path string) *Partition {
	p := &Partition{store: s, topic: key.Topic, id: key.Partition, producers: producer.New()}
	p.place.Store(&place{d, path})
	p.commits.Commit, p.commits.Owner = p.commit, p
	s.committer.SetGroup(&p.commits, d.journal.group)
	c := DefaultConfig()
	p.config.Store(&c)
	p.cleanedTo.Store(-1)
	p.setSegments(nil)
	return p
}

// Delete closes the partition, renames its directory to <topic>-<partition>.<hex>-delete in one step and removes it later.
func (s *Store) Delete(topic string, partition int32) error {
	key := checkpoint.Key{Topic: topic, Partition: partition}
	done, err := s.exclusive(key)
	if err != nil {
		return err
	}
	defer done()
	s.known.Forget(key)
	p := s.Get(topic, partition)
	if p == nil {
		return nil
	}
	aside, err := s.setAside(p, layout.DeleteDirSuffix)
	if err != nil {
		return err
	}
	s.janitor.Remove(aside)
	return nil
}

// setAside closes p and renames its directory durably. When the rename fails the partition stays closed, and the
// directory is found again at the next start.
func (s *Store) setAside(p *Partition, suffix string) (aside string, err error) {
	s.mover.leave(p)
	s.mu.Lock()
	s.publish(checkpoint.Key{Topic: p.topic, Partition: p.id}, nil)
	p.logDir().stale[checkpoint.Key{Topic: p.topic, Partition: p.id}] = true
	s.mu.Unlock()
	p.close()
	s.mover.leave(p)
	s.compactor.leave(p)
	p.headMu.Lock() // nothing may go on to rename files at this path: the next partition of the name gets it
	defer p.headMu.Unlock()
	aside = filepath.Join(p.logDir().path, layout.AsideDir(p.topic, p.id, checkpoint.RandomUUID(), suffix))
	if err := s.fs.Rename(p.path(), aside); err != nil {
		return "", p.wrap(fmt.Errorf("%w: %w", ErrStorage, err))
	}
	if err := p.logDir().Sync(); err != nil {
		return "", p.wrap(fmt.Errorf("%w: %w", ErrStorage, err))
	}
	return aside, nil
}

// close makes every further call fail with ErrClosed and drops the list's references.
func (p *Partition) close() {
	err := p.wrap(ErrClosed)
	p.mu.Lock()
	p.failure.Store(&err)
	waiters := p.waiters.Take(1<<63 - 1)
	list := p.segments.Load()
	p.setSegments(nil)
	p.pending = nil
	spare := p.spare
	p.spare = nil
	p.mu.Unlock()
	p.store.segments.DropSpare(spare)
	groupcommit.Complete(waiters, err)
	for _, g := range list.all {
		if err := g.FreeAhead(); err != nil { // nothing is lost but space, until the next recovery or the end of the segment
			p.store.logger.Debug("space ahead not freed", "file", g.Path(layout.LogSuffix), "error", err)
		}
		g.Release()
	}
}

// Stray renames directories that keep does not claim to *-stray; they are kept, not served until Ensure asks for their topic
// id, and logged.
func (s *Store) Stray(keep func(topic string, partition int32, id [16]byte) bool) error {
	var errs []error
	for _, p := range s.All() {
		if keep(p.topic, p.id, p.topicID) {
			continue
		}
		done, err := s.exclusive(checkpoint.Key{Topic: p.topic, Partition: p.id})
		if err != nil {
			return err
		}
		aside, err := s.setStray(p)
		done()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.logger.Warn("directory without a topic set aside", "dir", p.path(), "now", aside)
	}
	return errors.Join(errs...)
}

// settleProducerIDs makes sure that no producer id is given out twice although the file with the next one is lost, damaged, or
// older than what the logs know (known: it says something), or the directory was Kafka's: it goes on above all that can have
// been given out. Ids grow from 0, and 1,024 for each millisecond since 1970 are more than any broker hands out; larger ones a
// client made up. A store without records has given none out that matters.
func (s *Store) settleProducerIDs(known bool) {
	highest, used, all := int64(-1), false, s.nowMs()<<10
	for _, p := range s.All() {
		used = used || p.LogEndOffset() > 0
		for id := range p.states().IDs() {
			if id <= all {
				highest = max(highest, id)
			}
		}
	}
	if known && !s.ids.Behind(highest) {
		return
	}
	s.mu.Lock()
	used = used || len(s.broken) > 0
	s.mu.Unlock()
	name := filepath.Join(s.known.Home(), checkpoint.ProducerIDsName)
	if used {
		highest = max(highest, all)
		s.logger.Warn("which producer ids were given out is not known, going on above all", "file", name, "next", highest+1)
	}
	if err := s.ids.StartAbove(highest); err != nil { // none is given out before the file is there
		s.logger.Warn("not written, again with the first id", "file", name, "error", err)
	}
}

// NextProducerID returns an id that was never returned before, over all restarts.
func (s *Store) NextProducerID() (int64, error) {
	id, err := s.ids.Next()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	return id, nil
}
