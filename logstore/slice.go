package logstore

import "kaas/logstore/logfile"

// Slice is a range of a segment file that holds whole batches. It pins the segment until Release: the descriptor stays
// open, the map mapped and the bytes as they are, whatever rolls, retention or compaction do meanwhile.
type Slice struct {
	FD     int
	Offset int64
	Len    int
	Mem    []byte // mmap view of the same bytes, or nil

	segment  *segment
	resident bool // the bytes were in memory when they were read
}

// Release unpins the segment. It is idempotent for one owner of the value; do not copy a Slice and release both.
func (s *Slice) Release() {
	if s.segment != nil {
		s.segment.release()
		s.segment = nil
	}
}

// Pin takes the pin out of the slice, so that it can be handed on without an allocation; Release on the slice does
// nothing after it. It returns nil for an empty slice.
func (s *Slice) Pin() interface{ Release() } {
	g := s.segment
	s.segment = nil
	if g == nil {
		return nil
	}
	return (*pin)(g)
}

// pin is a segment seen as something to release once.
type pin segment

// Release drops the reference.
func (p *pin) Release() { (*segment)(p).release() }

// Resident says whether the bytes are in memory, without touching them.
func (s *Slice) Resident() bool {
	if s.resident || s.segment != nil && s.segment.isYoung(s.Offset) {
		return true
	}
	return logfile.Resident(s.FD, s.Offset, s.Len, s.Mem)
}

// Populate brings the bytes into memory and into this process' page table; it blocks, so never call it on an event loop.
func (s *Slice) Populate() { logfile.Populate(s.FD, s.Offset, s.Len, s.Mem) }
