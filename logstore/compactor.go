package logstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kaas/logstore/cleaner"
	"kaas/logstore/layout"
	"kaas/logstore/segment"
)

// compactor owns the cleaner threads (log.cleaner.threads). Each takes the log with the largest dirty ratio, cleans it,
// and rests for log.cleaner.backoff.ms when no log needs it (LogCleaner.java).
type compactor struct {
	store    *Store
	throttle *cleaner.Throttle
	ctx      context.Context
	cancel   context.CancelFunc
	threads  sync.WaitGroup

	mu      sync.Mutex
	left    *sync.Cond     // a round ended; uses mu
	options CleanerOptions // owner: mu
	running int            // threads; owner: mu
	changed chan struct{}  // closed when the options change; owner: mu
}

// cleanState is where a partition stands with the compactor.
type cleanState struct {
	cancel      context.CancelFunc // of the running round; nil: none
	held        bool               // being moved: no round may begin
	uncleanable atomic.Bool        // a round found a log that it can't read; until the next start
}

// Uncleanable says that the log is compacted no more until the next start: its files can't be read.
func (p *Partition) Uncleanable() bool { return p.cleanState.uncleanable.Load() }

func newCompactor(s *Store) *compactor {
	o := s.options.Cleaner
	o.SetDefaults()
	c := &compactor{store: s, options: o, throttle: cleaner.NewThrottle(o.IOMaxBytesPerSecond), changed: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.left = sync.NewCond(&c.mu)
	return c
}

// start brings the number of threads up to what is configured.
func (c *compactor) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.options.Disabled && c.running < c.options.Threads && c.ctx.Err() == nil {
		c.running++
		c.threads.Go(c.run)
	}
}

// SetCleanerConfig changes the configuration of compaction while it runs, as far as Kafka's can be changed
// (LogCleaner.RECONFIGURABLE_CONFIGS): all but whether there is a cleaner. A round that runs is finished with what it began
// with, except for the I/O rate.
func (s *Store) SetCleanerConfig(o CleanerOptions) {
	c := s.compactor
	o.SetDefaults()
	c.throttle.SetRate(o.IOMaxBytesPerSecond)
	c.mu.Lock()
	o.Disabled = c.options.Disabled
	c.options = o
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.start()
}

// CleanerConfig is what SetCleanerConfig, or Open, was given, with the defaults in it.
func (s *Store) CleanerConfig() CleanerOptions {
	s.compactor.mu.Lock()
	defer s.compactor.mu.Unlock()
	return s.compactor.options
}

// wait returns when all threads have ended; call cancel first.
func (c *compactor) wait() { c.threads.Wait() }

// run is one thread. It ends when the store closes, or when there are more than are configured.
func (c *compactor) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		c.mu.Lock()
		if c.running > c.options.Threads || c.ctx.Err() != nil {
			c.running--
			c.mu.Unlock()
			return
		}
		backoffMs, changed := c.options.BackoffMs, c.changed
		c.mu.Unlock()
		if c.cleanFilthiest() {
			continue
		}
		timer.Reset(time.Duration(backoffMs) * time.Millisecond)
		select {
		case <-c.ctx.Done():
		case <-changed:
		case <-timer.C:
		}
	}
}

// leave ends a round of p and waits for it. p is closed, so no other begins.
func (c *compactor) leave(p *Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p.cleanState.cancel != nil {
		p.cleanState.cancel()
		c.left.Wait()
	}
}

// hold keeps rounds of p from beginning, and waits for the end of one that runs.
func (c *compactor) hold(p *Partition, held bool) {
	c.mu.Lock()
	p.cleanState.held = held
	c.mu.Unlock()
	if held {
		c.leave(p)
	}
}

// cleanFilthiest cleans the log that needs it most; false: none does, or the round failed.
func (c *compactor) cleanFilthiest() bool {
	var best *Partition
	var bestPlan cleaner.Plan
	for _, p := range c.store.All() {
		if plan, ok := c.planOf(p); ok && plan.Due && (best == nil || plan.DirtyRatio > bestPlan.DirtyRatio) {
			best, bestPlan = p, plan
		}
	}
	if best == nil {
		return false
	}
	ctx, taken := c.take(best)
	if !taken {
		return true // another thread was faster
	}
	err := best.clean(ctx, c, bestPlan)
	cancelled := ctx.Err() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	best.cleanState.cancel()
	best.cleanState.cancel = nil
	best.cleanState.uncleanable.Store(cleaner.Unreadable(err))
	c.left.Broadcast()
	switch {
	case err == nil || cancelled || errors.Is(err, ErrClosed):
	case best.Uncleanable():
		c.store.logger.Error("log not compacted any more until the next start", "topic", best.topic, "partition", best.id, "error", err)
	default:
		c.store.logger.Warn("log not compacted, again later", "topic", best.topic, "partition", best.id, "error", err)
	}
	return err == nil
}

func (c *compactor) take(p *Partition) (context.Context, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.cleanState.cancel != nil || p.cleanState.held {
		return nil, false
	}
	ctx, cancel := context.WithCancel(c.ctx)
	p.cleanState.cancel = cancel
	return ctx, true
}

// planOf says what a round of p would do; false: nothing to think about.
func (c *compactor) planOf(p *Partition) (cleaner.Plan, bool) {
	config := p.config.Load()
	list := p.segments.Load()
	if !config.CleanupCompact || len(list.all) < 2 || p.failure.Load() != nil {
		return cleaner.Plan{}, false
	}
	c.mu.Lock()
	idle := p.cleanState.cancel == nil && !p.Uncleanable() && !p.cleanState.held
	c.mu.Unlock()
	if !idle {
		return cleaner.Plan{}, false
	}
	plan, err := p.plan(config, list)
	if err != nil {
		c.store.logger.Warn("log not looked at for compaction", "topic", p.topic, "partition", p.id, "error", err)
		return plan, false
	}
	return plan, true
}

// plan describes the log. A segment's times are looked up only where a lag is configured.
func (p *Partition) plan(config *Config, list *segmentList) (cleaner.Plan, error) {
	if p.synced.Load() < list.active().BaseOffset {
		p.syncFiles() // a relaxed flush policy, or the journal, may leave it undone for long
	}
	l := cleaner.Log{
		LogStartOffset: p.logStart.Load(), StableOffset: min(p.LastStableOffset(), p.synced.Load()), CleanedTo: p.cleanedTo.Load(),
		NowMs: p.store.nowMs(), MinCompactionLagMs: config.MinCompactionLagMs, MaxCompactionLagMs: config.MaxCompactionLagMs,
		MinCleanableDirtyRatio: config.MinCleanableDirtyRatio,
	}
	for g := range p.held(list.all[0].BaseOffset) { // one that gave way to another of the same files has the same times
		s := cleaner.Segment{BaseOffset: g.BaseOffset, EndOffset: g.EndOffset.Load(), SizeBytes: g.SizeBytes.Load(), MaxTimestampMs: -1, FirstTimestampMs: -1}
		if g.Sealed.Load() && s.EndOffset > l.CleanedTo && (config.MinCompactionLagMs > 0 || config.MaxCompactionLagMs < 1<<63-1) {
			if err := p.timesOf(g, &s); err != nil {
				return cleaner.Plan{}, err
			}
		}
		l.Segments = append(l.Segments, s)
	}
	return l.Plan(), nil
}

// timesOf looks up the largest timestamp of a segment and that of its first batch. The caller holds a reference.
func (p *Partition) timesOf(g *segment.Segment, s *cleaner.Segment) error {
	if err := g.LoadIndex(); err != nil { // loads it without the partition's lock
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := g.LoadMaxTimestamp(); err != nil {
		return err
	}
	if _, err := g.WaitedMs(0, 0); err != nil { // reads the first timestamp
		return err
	}
	s.MaxTimestampMs, s.FirstTimestampMs = g.MaxTimestampMs, g.FirstTimestampMs
	return nil
}

// clean is one round (Cleaner.doClean).
func (p *Partition) clean(ctx context.Context, c *compactor, plan cleaner.Plan) (err error) {
	started := time.Now()
	if err := p.writeOut(); err != nil {
		return err
	}
	config := p.config.Load()
	producers := p.states().LastBatches(&p.mu)
	held, sources, err := p.holdBelow(plan)
	defer func() {
		for _, g := range held {
			g.Release()
		}
	}()
	if err != nil {
		return err
	}
	c.mu.Lock()
	o := c.options
	c.mu.Unlock()
	r := cleaner.Round{
		NowMs: p.store.nowMs(), DeleteRetentionMs: config.DeleteRetentionMs, LoadFactor: o.LoadFactor, Throttle: c.throttle,
		DedupeBytes: o.DedupeBufferBytes / int64(o.Threads), BufferBytes: max(o.IOBufferBytes/o.Threads/2, 4096),
		Producers: producers,
	}
	defer func() { p.store.counters.Totals.Add(&r.Stats, err != nil) }()
	dirty := sources
	for len(dirty) > 0 && dirty[0].EndOffset <= plan.FirstDirtyOffset {
		dirty = dirty[1:]
	}
	aborted, err := p.AbortedTransactions(plan.FirstDirtyOffset, plan.UncleanableOffset, nil)
	if err != nil {
		return err
	}
	end, err := r.BuildMap(ctx, dirty, plan.FirstDirtyOffset, aborted)
	if err != nil {
		return err
	}
	var planned []cleaner.Segment
	for _, g := range held {
		if g.BaseOffset < end {
			planned = append(planned, cleaner.Segment{BaseOffset: g.BaseOffset, EndOffset: g.EndOffset.Load(), SizeBytes: g.SizeBytes.Load(), IndexBytes: g.IndexBytes()})
		}
	}
	at := 0
	for _, n := range cleaner.Group(planned, int64(config.SegmentBytes), int64(max(config.SegmentIndexBytes, 16))) {
		if err := p.cleanGroup(ctx, &r, held[at:at+n], sources[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	p.cleanedTo.Store(end)
	if err := p.store.writeCheckpoints(p.logDir(), nil); err != nil {
		return fmt.Errorf("%s: %w", layout.CleanedToName, err)
	}
	p.store.logger.Info("log compacted", "topic", p.topic, "partition", p.id, "from", plan.FirstDirtyOffset, "to", end, "keys", r.Stats.Keys,
		"recordsRead", r.Stats.RecordsRead, "recordsKept", r.Stats.RecordsKept, "recordsWithoutKey", r.Stats.RecordsWithoutKey,
		"bytesRead", r.Stats.BytesRead, "bytesWritten", r.Stats.BytesWritten, "took", time.Since(started))
	return nil
}

// holdBelow takes references of the segments that a round may touch, oldest first.
func (p *Partition) holdBelow(plan cleaner.Plan) (held []*segment.Segment, sources []cleaner.Source, err error) {
	p.headMu.Lock() // none may give way to another one until it is held
	defer p.headMu.Unlock()
	for _, g := range p.segments.Load().all {
		if g.BaseOffset >= plan.UncleanableOffset {
			break
		}
		if !g.Acquire() {
			return held, nil, p.wrap(ErrClosed)
		}
		held = append(held, g)
		at := int64(0)
		if g.EndOffset.Load() > plan.FirstDirtyOffset && g.BaseOffset < plan.FirstDirtyOffset {
			if at, err = g.Locate(plan.FirstDirtyOffset); err != nil {
				return held, nil, err
			}
		}
		sources = append(sources, cleaner.Source{Open: g.OpenAgain, Name: g.Path(layout.LogSuffix), SizeBytes: g.SizeBytes.Load(), EndOffset: g.EndOffset.Load(), StartAt: at})
	}
	return held, sources, nil
}

// errSegmentGone: retention took a segment meanwhile; the next round sees the log as it is.
var errSegmentGone = errors.New("a segment was deleted during compaction")
