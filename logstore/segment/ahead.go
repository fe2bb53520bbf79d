package segment

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/logstore/layout"
)

// Space ahead. A file system that allocates late (ext4, XFS) makes each block of an append pay for a reservation of its own,
// which is a fifth of what an append costs. So a segment that grows fast gets space behind its end, without a change of its size
// (FALLOC_FL_KEEP_SIZE): no reader and no recovery sees it.
//
// Logs that get many small batches have something else behind their ends, see window.
//
// It is asked for under Partition.mu and made by one goroutine of the store, because it waits for the file system's journal. It
// is a fourth of the segment at most, so what is small holds little. Who does not grow any more, is sealed, or stops gives it back,
// everybody on a full disk, and a recovery what a crash has left.

// ahead is what the segments of a store share of it.
type ahead struct {
	wanted  chan wantedAhead
	off     atomic.Bool  // the file system can't
	held    atomic.Int64 // bytes behind the ends of segments as of their last allocation; who holds the segment's aheadMu adds
	stop    chan struct{}
	stopped sync.WaitGroup
}

// wantedAhead holds a reference.
type wantedAhead struct {
	segment *Segment
	to      int64
}

// StartAhead starts the goroutine that allocates; StopAhead ends it.
func (e *Env) StartAhead() {
	e.ahead.wanted, e.ahead.stop = make(chan wantedAhead, limits.AllocateQueue), make(chan struct{})
	e.ahead.stopped.Go(e.allocateAll)
}

// StopAhead ends the goroutine. Nobody appends any more.
func (e *Env) StopAhead() {
	if e.ahead.stop == nil {
		return
	}
	close(e.ahead.stop)
	e.ahead.stopped.Wait()
	for {
		select {
		case w := <-e.ahead.wanted:
			w.segment.Release()
		default:
			return
		}
	}
}

// AheadBytes is how much room files have behind the ends of their logs, at most.
func (e *Env) AheadBytes() int64 { return e.ahead.held.Load() + e.windows.Load()*e.rules.Bytes }

// AllocatesAhead says that the file system has not refused it yet.
func (e *Env) AllocatesAhead() bool { return e.ahead.wanted != nil && !e.ahead.off.Load() }

// AskAhead asks for space behind a segment that has grown to AheadAt, if it grows fast, and sets when to look again. It never
// waits. Caller: Partition.mu.
func (g *Segment) AskAhead(sizeBytes, nowMs int64) {
	grown, tookMs := sizeBytes-g.aheadFrom, nowMs-g.aheadMs
	fast := g.aheadMs != 0 && grown*1000 >= tookMs*limits.AllocateBytesPerSecond
	g.aheadFrom, g.aheadMs = sizeBytes, nowMs
	bytes := min(sizeBytes/4, limits.AllocateBytes) &^ (limits.AllocateLeastBytes - 1)
	g.AheadAt = sizeBytes + limits.AllocateLeastBytes
	a := &g.env.ahead
	g.window.pads = false
	switch {
	case !g.env.AllocatesAhead():
		g.AheadAt = math.MaxInt64
	case g.window.Mapped(): // the zeros have their blocks
	case fast && bytes > 0 && g.Acquire():
		select {
		case a.wanted <- wantedAhead{g, sizeBytes + bytes}:
			g.AheadAt = sizeBytes + bytes/2
			g.window.pads = true
		default: // it does not keep up: as without it
			g.Release()
		}
	}
}

func (e *Env) allocateAll() {
	for {
		select {
		case <-e.ahead.stop:
			return
		case w := <-e.ahead.wanted:
			if err := w.segment.allocate(w.to); err != nil {
				e.logger.Debug("no space allocated ahead", "file", w.segment.Path(layout.LogSuffix), "error", err)
			}
			w.segment.Release()
		}
	}
}

// allocate gives the segment space up to a position, unless too much is held that way already or the disk is nearly full.
func (g *Segment) allocate(to int64) error {
	a := &g.env.ahead
	g.aheadMu.Lock()
	defer g.aheadMu.Unlock()
	size := g.SizeBytes.Load()
	more := to - size - g.aheadBytes
	if f := g.file.Load(); f != nil && !g.aheadDone && to > max(size, g.allocatedTo) && a.held.Load()+more <= limits.AllocatedBytes {
		total, usable, err := g.env.fs.Usage(g.dir)
		if err != nil || usable < min(total/limits.AllocateFreeShare, limits.AllocateFreeBytes) {
			return err
		}
		switch err := f.Allocate(max(size, g.allocatedTo), to); {
		case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL):
			a.off.Store(true)
			return err
		case err != nil:
			return err
		}
		g.allocatedTo = to
		g.aheadBytes += more
		a.held.Add(more)
	}
	return nil
}

// FreeAhead gives back what lies behind the end, for good. Nobody appends: the segment is sealed, or its partition closed.
func (g *Segment) FreeAhead() error {
	g.aheadMu.Lock()
	defer g.aheadMu.Unlock()
	if err := g.freeAhead(g.SizeBytes.Load()); err != nil {
		return err
	}
	g.aheadDone = true
	return nil
}

// endWindow lets the file end where the log does before the segment is sealed: a recovery by an earlier release, or by Kafka, takes zeros
// at the end of a segment for damage, and what comes behind them away. Caller: Partition.mu.
func (g *Segment) endWindow() error {
	f, err := g.Open()
	if err == nil {
		err = errors.Join(g.unmapWindow(), g.cut(f, g.SizeBytes.Load()))
	}
	return err
}

// GiveBackAhead does it for an active segment that has hardly grown since the last call, or in any case; it gets more when it
// grows again. Caller: Partition.mu, without which an append could stand where the file is cut.
//
// +checklocksignore: it does not know TryLock.
func (g *Segment) GiveBackAhead(anyway bool) error {
	size := g.SizeBytes.Load()
	rests := size-g.restedAt < limits.WindowRestBytes
	g.restedAt = size
	if !rests && !anyway {
		return nil
	}
	if !g.aheadMu.TryLock() { // it is getting more just now
		return nil
	}
	defer g.aheadMu.Unlock()
	g.AheadAt = min(g.AheadAt, size+limits.AllocateLeastBytes)
	return g.freeAhead(size)
}

// freeAhead is called with aheadMu, and by who owns the window.
func (g *Segment) freeAhead(size int64) error {
	if err := g.unmapWindow(); err != nil {
		return err
	}
	if f := g.file.Load(); g.window.long {
		if err := g.cut(f, size); err != nil {
			return err
		}
	} else if g.allocatedTo > size {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	g.forgetAhead()
	return nil
}

// forgetAhead takes the segment out of the account. Caller: aheadMu, or nobody else has the segment.
func (g *Segment) forgetAhead() {
	g.env.ahead.held.Add(-g.aheadBytes)
	g.allocatedTo, g.aheadBytes = 0, 0
}
