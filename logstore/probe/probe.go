package probe

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// Probe asks one directory.
type Probe struct {
	fs      vfs.FS
	dir, id string
	upMs    func() int64
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
	failed  int // questions in a row that were answered by an error; owner: the goroutine

	sinceMs atomic.Int64          // when the question began that is not answered yet, 0: none
	fault   atomic.Pointer[error] // nil: it answers
}

// New is for the directory with a directory.id. upMs is a clock for intervals.
func New(fsys vfs.FS, dir, id string, upMs func() int64) *Probe {
	p := &Probe{fs: fsys, dir: dir, id: id, upMs: upMs, done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Start asks each intervalMs, and sooner once an answer was an error. changed is called when the directory begins to fail, with why,
// and when it is well again, with nil.
func (p *Probe) Start(intervalMs int64, changed func(fault error)) {
	go p.run(intervalMs, changed)
}

// Stop lets no further question begin.
func (p *Probe) Stop() { p.cancel() }

// Wait returns when the last question was answered; call Stop first, and Start before.
func (p *Probe) Wait() { <-p.done }

// Fault says why the directory can't be used, nil: it answers. It waits for nothing.
func (p *Probe) Fault() error {
	if since := p.sinceMs.Load(); since != 0 && p.upMs()-since >= limits.CommitStalledMs {
		return fmt.Errorf("%s: the disk does not answer", p.dir)
	}
	if f := p.fault.Load(); f != nil {
		return fmt.Errorf("%s: %w", p.dir, *f)
	}
	return nil
}

func (p *Probe) run(intervalMs int64, changed func(error)) {
	defer close(p.done)
	pauseMs := intervalMs
	timer := time.NewTimer(time.Duration(pauseMs) * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-timer.C:
		}
		p.sinceMs.Store(max(p.upMs(), 1))
		err := p.ask()
		p.sinceMs.Store(0)
		p.judge(err, changed)
		pauseMs = intervalMs
		if p.failed > 0 {
			pauseMs = min(intervalMs, limits.ProbeAgainMs)
		}
		timer.Reset(time.Duration(pauseMs) * time.Millisecond)
	}
}

// judge lets several errors in a row count, and one answer.
func (p *Probe) judge(err error, changed func(error)) {
	was := p.fault.Load()
	switch {
	case err == nil:
		p.failed = 0
		if was != nil {
			p.fault.Store(nil)
			changed(nil)
		}
	case p.failed+1 < limits.ProbeFailures:
		p.failed++
	default:
		p.fault.Store(&err)
		if was == nil {
			changed(err)
		}
	}
}

// notTheDisk are errors of the process or of a full volume, which is written to again when there is room.
var notTheDisk = []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EAGAIN}

func (p *Probe) ask() error {
	err := p.question()
	for _, other := range notTheDisk {
		if errors.Is(err, other) {
			return nil
		}
	}
	return err
}

// question is answered by the disk, not by the page cache. The directory comes first: nothing is made in an empty mount point.
func (p *Probe) question() error {
	switch m, found, err := checkpoint.ReadMeta(p.fs, p.dir); {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%s is gone: the volume is not mounted any more, or somebody removed it", checkpoint.MetaName)
	case m.DirectoryID != p.id:
		return fmt.Errorf("another volume stands in its place: its directory.id is %s, it was %s", m.DirectoryID, p.id)
	}
	f, err := p.fs.OpenFile(filepath.Join(p.dir, layout.ProbeName), vfs.Create)
	if err != nil {
		return err
	}
	// The same byte at the same place: but for the first time the file system has nothing to note but this block.
	_, err = f.WriteAt([]byte{'\n'}, 0)
	if err == nil {
		err = f.Datasync()
	}
	return errors.Join(err, f.Close())
}
