package probe

import (
	"log/slog"

	"kaas/internal/vfs"
)

// Set are the probes of several directories. The zero value is empty. Begin must have returned before anything else is called.
type Set struct{ all []*Probe }

// Begin asks the directory with a directory.id each intervalMs, never when that is negative.
func (s *Set) Begin(fsys vfs.FS, logger *slog.Logger, dir, id string, upMs func() int64, intervalMs int64) {
	if intervalMs < 0 {
		return
	}
	p := New(fsys, dir, id, upMs)
	s.all = append(s.all, p)
	p.Start(intervalMs, func(fault error) {
		if fault != nil {
			logger.Error("log directory fails; its partitions go on as far as it lets them", "dir", dir, "error", fault)
		} else {
			logger.Info("log directory is well again", "dir", dir)
		}
	})
}

// Stop lets no further question begin.
func (s *Set) Stop() {
	for _, p := range s.all {
		p.Stop()
	}
}

// Wait returns when the last questions were answered, which may be never; call Stop first.
func (s *Set) Wait() {
	for _, p := range s.all {
		p.Wait()
	}
}

// Faults says which directories can't be used, and why; nil: all can. It waits for nothing.
func (s *Set) Faults() (faults []error) {
	for _, p := range s.all {
		if fault := p.Fault(); fault != nil {
			faults = append(faults, fault)
		}
	}
	return faults
}
