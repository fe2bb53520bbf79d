package logstore

import "kaas/logstore/probe"

// startProbes begins to ask each directory whether it takes writes.
func (s *Store) startProbes() {
	if s.options.ProbeIntervalMs < 0 {
		return
	}
	for _, d := range s.dirs {
		d.probe = probe.New(s.fs, d.path, d.ID, s.upMs)
		d.probe.Start(s.options.ProbeIntervalMs, func(fault error) {
			if fault != nil {
				s.logger.Error("log directory fails; its partitions go on as far as it lets them", "dir", d.path, "error", fault)
			} else {
				s.logger.Info("log directory is well again", "dir", d.path)
			}
		})
	}
}

func (s *Store) stopProbes() {
	for _, d := range s.dirs {
		if d.probe != nil {
			d.probe.Stop()
		}
	}
}

// waitProbes waits for a disk that is being asked.
func (s *Store) waitProbes() {
	for _, d := range s.dirs {
		if d.probe != nil {
			d.probe.Wait()
		}
	}
}

// DirFaults says of each log directory that does not take writes, or does not answer, which it is and why; nil: all do.
// It waits for nothing. What lies in a missing one Known tells.
func (s *Store) DirFaults() (faults []error) {
	for _, d := range s.dirs {
		if d.probe == nil {
			continue
		}
		if fault := d.probe.Fault(); fault != nil {
			faults = append(faults, fault)
		}
	}
	return faults
}
