package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/index"
	"kaas/logstore/layout"
)

// ErrStorage is wrapped by the errors of a disk.
var ErrStorage = errors.New("storage error")

// Env is what the segments of a store share.
type Env struct {
	fs      vfs.FS
	logger  *slog.Logger
	clock   func() time.Time
	lookups *LookupCounters
	maps    atomic.Int64 // mmaps in use
	dead    graveyard
	ahead   ahead
	files   openFiles
	asides  atomic.Int64 // segments that were moved aside
	windows atomic.Int64 // how many segments have one
	rules   WindowRules
	volumes vfs.Volumes
}

// LookupCounters count what should be rare, for what it does.
type LookupCounters struct {
	WindowAsks         atomic.Int64 // whether a file system takes writes, before a batch was copied into a window (vfs.Volumes)
	TimeLookupBatches  atomic.Int64 // batches decoded to answer a lookup by time
	UndecodableBatches atomic.Int64 // batches that a lookup by time passed over because their records can't be decoded
}

// NewEnv is the environment of a store that is being made. lookups may be read at any time. windows nil: as limits has them.
func NewEnv(fsys vfs.FS, logger *slog.Logger, clock func() time.Time, lookups *LookupCounters, windows *WindowRules) *Env {
	e := &Env{fs: fsys, logger: logger, clock: clock, lookups: lookups, rules: defaultWindows}
	if windows != nil {
		e.rules = *windows
	}
	e.volumes.Clock, e.volumes.Asks = e.rules.Clock, &lookups.WindowAsks
	e.dead.wake = make(chan struct{}, 1)
	e.files.crowded = make(chan struct{}, 1)
	e.LimitFiles(limits.OpenFiles)
	return e
}

// takeMap reserves one mmap of the budget.
func (e *Env) takeMap() bool {
	if e.maps.Add(1) > limits.FileMaps {
		e.maps.Add(-1)
		e.askForLess()
		return false
	}
	return true
}

func (e *Env) returnMaps(n int) { e.maps.Add(-int64(n)) }

// MapsInUse is how many mmaps there are.
func (e *Env) MapsInUse() int64 { return e.maps.Load() }

// graveyard holds segments whose last reference went away, until bury closes them.
type graveyard struct {
	mu   sync.Mutex
	head *Segment // owner: mu
	wake chan struct{}
}

func (y *graveyard) add(g *Segment) {
	y.mu.Lock()
	g.buryNext, y.head = y.head, g
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

func (y *graveyard) take() *Segment {
	y.mu.Lock()
	defer y.mu.Unlock()
	g := y.head
	y.head = nil
	return g
}

// Wake says that a segment died: somebody has to call bury.
func (e *Env) Wake() <-chan struct{} { return e.dead.wake }

// Bury closes the segments that died since the last call.
func (e *Env) Bury() {
	for g := e.dead.take(); g != nil; {
		next := g.buryNext
		g.buryNext = nil
		if err := g.bury(); err != nil {
			e.logger.Warn("segment not closed cleanly", "file", g.Path(layout.LogSuffix), "error", err)
		}
		g = next
	}
}

// bury closes everything. Called once, by the graveyard, when refs is zero.
func (g *Segment) bury() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forgetAhead()
	errs := []error{g.unmapWindow()}
	maps := g.oldMaps
	if m := g.log.Load(); m != nil {
		maps = append(maps, *m)
	}
	for _, m := range maps {
		errs = append(errs, unix.Munmap(m))
	}
	g.env.returnMaps(len(maps))
	if x := g.files.Load(); x != nil {
		for _, m := range []index.Mapped{x.Offsets, x.Times} {
			if m.Mapped {
				errs = append(errs, unix.Munmap(m.B))
				g.env.returnMaps(1)
			}
		}
	}
	if size := g.SizeBytes.Load() - limits.UnlinkStepBytes; size > 0 && len(g.unlink) > 0 {
		errs = append(errs, g.shrink(size))
	}
	if f := g.file.Load(); f != nil {
		errs = append(errs, f.Close())
		g.env.files.open.Add(-1)
	}
	for _, name := range g.unlink {
		if err := g.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// shrink cuts a file that nobody reads any more in steps, which a file system takes in its stride: the commit of a producer may
// have to wait for one. Owner: mu held.
func (g *Segment) shrink(size int64) error {
	f, err := g.openLocked()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // with its directory
	}
	for ; err == nil && size > 0; size -= limits.UnlinkStepBytes {
		err = f.Truncate(size)
	}
	return err
}

// MoveAside renames the segment's files to .<n>.deleted; they are unlinked when the last reader has let go. Who has its reference from
// an older list and opens it later finds them there.
func (g *Segment) MoveAside() error {
	var errs []error
	g.mu.Lock()
	defer g.mu.Unlock()
	// A segment that compaction made may stand aside beside the one that it replaced.
	aside := fmt.Sprintf(".%d%s", g.env.asides.Add(1), layout.DeletedSuffix)
	for _, suffix := range layout.SegmentSuffixes {
		name := g.Path(suffix)
		err := g.env.fs.Rename(name, name+aside)
		if err == nil {
			g.unlink = append(g.unlink, name+aside)
		} else if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
