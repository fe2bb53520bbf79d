package logstore

import (
	"kaas/internal/limits"
	"kaas/logstore/segment"
)

// letGo closes files of sealed segments that nobody reads, first of those that were not read since the last call, until a fourth of the
// limit is free. The janitor does it, or a reader that it does not keep up with, who holds no lock.
func (s *Store) letGo() {
	s.lettingGo.Lock()
	defer s.lettingGo.Unlock()
	for _, anyway := range []bool{false, true} {
		for _, p := range s.All() {
			if s.segments.Enough() {
				break
			}
			p.letGo(anyway)
		}
	}
	s.segments.Settled()
}

// roomForFiles is called before a segment may be opened that may not be open yet, by who can wait.
func (s *Store) roomForFiles() {
	if s.segments.Late() {
		s.letGo()
	}
}

// letGo passes over a partition whose list is being changed, which may wait for a disk.
//
// +checklocksignore: it does not know TryLock.
func (p *Partition) letGo(anyway bool) {
	if !p.headMu.TryLock() {
		return
	}
	defer p.headMu.Unlock()
	for at, more := 0, true; more && !p.store.segments.Enough(); at += limits.LetGoSegments {
		more = p.letGoFrom(at, anyway)
		p.store.segments.Bury()
	}
}

// letGoFrom looks at some segments, for as long as appends may wait. Caller: headMu.
func (p *Partition) letGoFrom(at int, anyway bool) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.segments.Load()
	to := min(at+limits.LetGoSegments, len(list.all)-1)
	if at >= to {
		return false
	}
	if changed, gone := segment.LetGo(list.all, at, to, anyway); changed != nil {
		p.setSegments(changed)
		for i, seal := range p.pending { // none of them is being written: that takes a reference
			if k := list.find(seal.segment.BaseOffset); k >= 0 && list.all[k] == seal.segment {
				p.pending[i].segment = changed[k]
			}
		}
		for _, g := range gone {
			g.Release()
		}
	}
	return to < len(list.all)-1
}
