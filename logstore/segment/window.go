package segment

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/layout"
)

// A log that gets many small batches has a window: zeros behind its end, mapped, that the next batches are copied into. That
// saves each of them a system call, and most of what a file system does for one (docs/design/mapped-appends.md).
//
// The end of the log is SizeBytes, as ever; only the file is longer. Nobody looks behind SizeBytes but a recovery, which takes
// zeros there for what they are. The file ends where the log does again before the segment is sealed, when its
// log rests, at a clean stop, and after a failed write. Nothing is mapped when the file is cut.
//
// The zeros are written by who appends, in one piece: they are real pages and real space, so that a disk is found full by that
// write and not by a fault, and the page cache takes them in the largest folios that it has.

// window is a segment's. Owner: Partition.mu, or whoever has the segment when nobody appends any more.
type window struct {
	vfs.Window
	zeroTo  int64       // the file is so long at least, with zeros from SizeBytes on; 0: not known
	long    bool        // the file may be longer than the log
	counted bool        // in Env.windows and Env.maps
	refused bool        // the file system does not want to
	pads    bool        // the log grows fast: see pad
	was     atomic.Bool // there has been one
	synced  atomic.Bool // since a batch was written by a system call; whoever syncs sets it
	askedMs int64       // when that was
	pace    pace
}

// pace tells whether a window is worth it.
type pace struct {
	small  int32 // batches in a row that were small
	fromAt int64 // where the first of them stands
	fromMs int64 // when it came
	madeMs int64 // when the window was moved on last
}

// WindowRules say when segments get windows.
type WindowRules struct {
	Bytes   int64 // of one, a multiple of vfs.WindowPage; 0: there are none
	Batches int32 // limits.WindowAfterBatches
	Least   int64 // limits.WindowLeastBytes
	Eager   bool  // for all that is small, wherever there is room at all: for tests

	PadBytes int64 // what pad fills up to a multiple of, limits.WindowBytes at most; 0: nothing
	PadEager bool  // whatever is written by a system call: for tests

	Clock func() time.Duration // see vfs.Volumes; for tests
}

var defaultWindows = WindowRules{
	Bytes: limits.WindowBytes, Batches: limits.WindowAfterBatches, Least: limits.WindowLeastBytes, PadBytes: limits.WindowBytes,
}

// Appending is what a write has to know of its log.
type Appending struct {
	SegmentBytes int64
	Synced       bool // each commit syncs the file
	NowMs        int64
}

// Write writes b at the end, which stays where it is. Now and then, and after each sync, a batch is written by a system call although
// there is a window: its page was perhaps written back, and what the file system has to do for that may take long
// (vfs.Window). After an error TakeBack. Caller: Partition.mu.
func (g *Segment) Write(f vfs.File, b []byte, at int64, a *Appending) error {
	w := &g.window
	end := at + int64(len(b))
	if end <= w.zeroTo && w.Covers(at, end) {
		since := a.NowMs - w.askedMs
		if w.synced.Load() || since > limits.WindowStaleMs || since < 0 { // the clock may jump
			if !w.synced.Swap(false) { // else Sync has looked
				if err := g.whole(f, at); err != nil {
					return err
				}
			}
			return g.writePlain(f, b, at, a.NowMs)
		}
	} else if err := g.wholeBelowWindow(f, at); err != nil {
		return err
	} else if !g.wantsWindow(len(b), at, a) || !g.moveWindow(f, at, end, a.NowMs) {
		if g.wantsPad(len(b), end, a) {
			g.pad(f, at, end)
		}
		return g.writePlain(f, b, at, a.NowMs)
	}
	if err := w.WriteAt(b, at); err != nil {
		return fmt.Errorf("%s: %w", g.Path(layout.LogSuffix), err)
	}
	return nil
}

var errShortened = errors.New("somebody has cut the file")

// IsShortened says that somebody has cut a log file, and acknowledged batches with it.
func IsShortened(err error) bool { return errors.Is(err, errShortened) }

// whole fails when the file is shorter than its log. A window takes batches behind the end of a file, up to the end of a page, which are lost when
// the page is written back, and would be zeros if the file was made longer. So it is asked whenever the file is, or may be.
func (g *Segment) whole(f vfs.File, size int64) error {
	has, err := f.Size()
	if err == nil && has < size {
		err = fmt.Errorf("%w: %s has %d bytes and its log %d; what is behind is lost: a recovery goes on with what is left. Find out who cuts files in the log directories",
			errShortened, g.Path(layout.LogSuffix), has, size)
	}
	return err
}

// wholeBelowWindow is whole for a log that has a window, or whose file could not be cut.
func (g *Segment) wholeBelowWindow(f vfs.File, size int64) error {
	w := &g.window
	if w.Mapped() || w.long && w.zeroTo == 0 {
		return g.whole(f, size)
	}
	return nil
}

// writePlain writes by a system call.
func (g *Segment) writePlain(f vfs.File, b []byte, at, nowMs int64) error {
	g.window.askedMs = nowMs
	_, err := f.WriteAt(b, at)
	return err
}

// wantsPad decides for a batch that is going to be written by a system call. Where each commit syncs, the zeros would be written with
// each batch.
func (g *Segment) wantsPad(bytes int, end int64, a *Appending) bool {
	w, rules := &g.window, &g.env.rules
	if end <= w.zeroTo || rules.PadBytes == 0 || end%rules.PadBytes == 0 || end+rules.PadBytes > a.SegmentBytes {
		return false
	}
	return w.pads && bytes > limits.WindowBatchBytes && !a.Synced || rules.PadEager
}

// pad writes zeros to where the batch that will stand at [at, end) is going to end, one aligned piece of the file. The page cache takes
// such a piece as one folio, where it would take the end of this batch and the beginning of the next one in single pages, each with
// a file system's work of its own; that is more than what the zeros cost. They are those of a window, only not mapped.
func (g *Segment) pad(f vfs.File, at, end int64) {
	w, bytes := &g.window, g.env.rules.PadBytes
	from := end / bytes * bytes
	to := from + bytes
	from = max(from, at)
	w.long = true
	if _, err := f.WriteAt(zeros[:to-from], from); err != nil { // most likely the disk is full: the batch is tried without
		w.pads = false
		err = errors.Join(err, g.unmapWindow(), g.cut(f, at))
		g.env.logger.Debug("no zeros behind the log", "file", g.Path(layout.LogSuffix), "error", err)
		return
	}
	w.zeroTo = to
}

// wantsWindow decides for a batch that lies in none.
func (g *Segment) wantsWindow(bytes int, at int64, a *Appending) bool {
	p, rules := &g.window.pace, &g.env.rules
	if bytes > limits.WindowBatchBytes || rules.Bytes == 0 || g.window.refused || a.SegmentBytes-at < rules.Least {
		p.small = 0
		return false
	}
	if g.window.Mapped() || rules.Eager {
		return true
	}
	if p.small == 0 {
		p.fromAt, p.fromMs = at, a.NowMs
	}
	p.small++
	allowedMs := int64(limits.WindowAfterMs)
	if a.Synced {
		if at-p.fromAt < rules.Bytes {
			return false
		}
		allowedMs = limits.WindowDurableMs
	} else if p.small < rules.Batches {
		return false
	}
	p.small = 0
	return a.NowMs-p.fromMs <= allowedMs
}

// moveWindow gives the batch that will stand at [at, end) a window; false: it has none.
func (g *Segment) moveWindow(f vfs.File, at, end, nowMs int64) bool {
	w, bytes := &g.window, g.env.rules.Bytes
	to := (end + bytes/2 + bytes - 1) / bytes * bytes
	if !w.Covers(at, to) {
		length := to - at
		if w.Mapped() && nowMs-w.pace.madeMs <= limits.WindowQuickMs {
			length = max(length, limits.WindowMapBytes)
		}
		if err := g.mapWindow(f, at, at+length); err != nil {
			if !errors.Is(err, errNoWindow) {
				g.env.logger.Debug("no window", "file", g.Path(layout.LogSuffix), "error", err)
			}
			return false
		}
	}
	w.pace.madeMs, w.askedMs = nowMs, nowMs
	w.long = true
	for from := max(w.zeroTo, at); from < to; {
		n := min(to-from, int64(len(zeros)), bytes-from%bytes)
		if _, err := f.WriteAt(zeros[:n], from); err != nil { // most likely the disk is full: the batch is tried without
			if err = errors.Join(err, g.unmapWindow(), g.cut(f, at)); err != nil {
				g.env.logger.Debug("no window", "file", g.Path(layout.LogSuffix), "error", err)
			}
			return false
		}
		from += n
		w.zeroTo = from
	}
	if err := w.Populate(at, to); err != nil && !errors.Is(err, unix.EINVAL) { // Linux before 5.14: a fault each page
		g.env.logger.Debug("window not populated", "file", g.Path(layout.LogSuffix), "error", err)
	}
	return true
}

var zeros [limits.WindowBytes]byte

// errNoWindow: enough of them are open.
var errNoWindow = errors.New("no room for one more")

// mapWindow maps at least [from, to) in place of what is mapped.
func (g *Segment) mapWindow(f vfs.File, from, to int64) error {
	e, w := g.env, &g.window
	if w.Mapped() {
		if err := w.Unmap(); err != nil {
			return errors.Join(err, g.unmapWindow())
		}
	} else {
		if !e.roomForWindow(g.dir) || !e.takeMap() {
			return errNoWindow
		}
		e.windows.Add(1)
		w.counted = true
	}
	page := vfs.WindowPage
	m, err := f.MapWindow(from&^(page-1), (to+page-1)&^(page-1))
	if err != nil {
		w.refused = errors.Is(err, unix.EOPNOTSUPP)
		return errors.Join(err, g.unmapWindow())
	}
	m.Share(&e.volumes)
	w.was.Store(true)
	w.Window = m
	return nil
}

// roomForWindow says whether there may be one more.
func (e *Env) roomForWindow(dir string) bool {
	most := min(limits.AllocatedBytes, debug.SetMemoryLimit(-1)/limits.WindowMemoryShare)
	if (e.windows.Load()+1)*e.rules.Bytes+e.ahead.held.Load() > most {
		return false
	}
	if e.rules.Eager {
		return true
	}
	total, usable, err := e.fs.Usage(dir)
	return err == nil && usable >= min(total/limits.AllocateFreeShare, limits.AllocateFreeBytes)
}

// unmapWindow gives up the map; the zeros are left.
func (g *Segment) unmapWindow() error {
	w := &g.window
	if !w.counted {
		return nil
	}
	w.counted = false
	g.env.windows.Add(-1)
	g.env.returnMaps(1)
	w.zeroTo, w.pace.small = 0, 0
	return w.Unmap()
}

// cut lets the file end at size, where the log does, if it may be longer. Nothing is mapped.
func (g *Segment) cut(f vfs.File, size int64) error {
	g.window.zeroTo = 0
	if !g.window.long {
		return nil
	}
	if err := g.whole(f, size); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	g.window.long = false
	g.endUnsynced.Store(true)
	return nil
}

// TakeBack makes a failed write as if it had never been tried. When not even that works the next write goes to the same place, and
// recovery cuts what is left there by its CRC or overwrites it: the end offset did not move. IsShortened of the result: the log has lost
// batches, and needs a recovery. Caller: Partition.mu.
func (g *Segment) TakeBack(f vfs.File, size int64, cause error) error {
	if IsShortened(cause) {
		return errors.Join(cause, g.unmapWindow())
	}
	g.window.long = true
	return errors.Join(cause, g.unmapWindow(), g.cut(f, size))
}
