package segment

import "sync"

// Doomed are the list's references of segments that were taken out of it, which are dropped after file.delete.delay.ms.
type Doomed struct {
	mu  sync.Mutex
	all []doomed // by due time, nearly; owner: mu
}

type doomed struct {
	dueMs    int64
	segments []*Segment
}

// Add takes the references over.
func (d *Doomed) Add(dueMs int64, segments []*Segment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, doomed{dueMs, segments})
}

// Release drops the references whose delay is over at nowMs and returns when the next is due, 0 for never.
func (d *Doomed) Release(nowMs int64) (nextMs int64) {
	var due []doomed
	d.mu.Lock()
	kept := d.all[:0]
	for _, x := range d.all {
		if x.dueMs <= nowMs {
			due = append(due, x)
			continue
		}
		if nextMs == 0 || x.dueMs < nextMs {
			nextMs = x.dueMs
		}
		kept = append(kept, x)
	}
	clear(d.all[len(kept):])
	d.all = kept
	d.mu.Unlock()
	for _, x := range due {
		for _, g := range x.segments {
			g.Release()
		}
	}
	return nextMs
}
