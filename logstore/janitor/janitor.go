package janitor

import (
	"sync"
	"sync/atomic"
	"time"

	"kaas/logstore/segment"
)

// Chores are the works, all done on the janitor's goroutine, with no lock held.
type Chores[P comparable] struct {
	WriteOut   func(P)          // after Sealed
	MakeSpare  func(P)          // after Spare
	Remove     func(dir string) // after Remove
	DiskFull   func()           // after Full
	LetGo      func()           // too many files are open
	Checkpoint func()
	Retention  func()

	CheckpointMs     int64 // between two checkpoints
	FirstRetentionMs int64 // from Start to the first look
	RetentionMs      int64 // between two looks
	UpMs             func() int64
}

// Janitor does the chores. Make one with New.
type Janitor[P comparable] struct {
	chores   Chores[P]
	segments *segment.Env
	wake     chan struct{}
	stop     chan struct{}
	done     chan struct{}

	mu       sync.Mutex
	toSeal   map[P]bool // owner: mu
	toSpare  []P        // owner: mu
	toRemove []string   // owner: mu

	full atomic.Bool // an append met a full disk

	// Doomed are segments that were taken out of their list, see Doom.
	Doomed segment.Doomed
}

// New makes the janitor of a store whose segments are in env.
func New[P comparable](env *segment.Env, chores Chores[P]) *Janitor[P] {
	return &Janitor[P]{
		chores: chores, segments: env, toSeal: map[P]bool{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// Start begins to work; what was asked for before is done now.
func (j *Janitor[P]) Start() { go j.run() }

// Stop does what was asked for, and returns when that is done. It is called once, after Start.
func (j *Janitor[P]) Stop() {
	close(j.stop)
	<-j.done
}

// Signal has what waits be looked at.
func (j *Janitor[P]) Signal() {
	select {
	case j.wake <- struct{}{}:
	default: // pending already
	}
}

// Doom takes over the list's references of segments that were taken out of it, and drops them at dueMs.
func (j *Janitor[P]) Doom(dueMs int64, segments []*segment.Segment) {
	j.Doomed.Add(dueMs, segments)
	j.Signal()
}

// Sealed says that p has segments to write out.
func (j *Janitor[P]) Sealed(p P) {
	j.mu.Lock()
	j.toSeal[p] = true
	j.mu.Unlock()
	j.Signal()
}

// Full says that an append met a full disk.
func (j *Janitor[P]) Full() {
	j.full.Store(true)
	j.Signal()
}

// Spare asks for the file of p's next segment.
func (j *Janitor[P]) Spare(p P) {
	j.mu.Lock()
	j.toSpare = append(j.toSpare, p)
	j.mu.Unlock()
	j.Signal()
}

// Remove has a directory removed.
func (j *Janitor[P]) Remove(dir string) {
	j.mu.Lock()
	j.toRemove = append(j.toRemove, dir)
	j.mu.Unlock()
	j.Signal()
}

func (j *Janitor[P]) run() {
	defer close(j.done)
	c := &j.chores
	checkpoint := time.NewTicker(time.Duration(c.CheckpointMs) * time.Millisecond)
	defer checkpoint.Stop()
	retention := time.NewTimer(time.Duration(c.FirstRetentionMs) * time.Millisecond)
	defer retention.Stop()
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	for {
		select {
		case <-j.stop:
			j.work()
			return
		case <-j.wake:
		case <-j.segments.Wake():
		case <-expiry.C:
		case <-j.segments.Crowded():
			c.LetGo()
		case <-checkpoint.C:
			c.Checkpoint()
		case <-retention.C:
			c.Retention()
			retention.Reset(time.Duration(c.RetentionMs) * time.Millisecond)
		}
		if nextMs := j.work(); nextMs > 0 {
			expiry.Reset(time.Duration(max(nextMs-c.UpMs(), 1)) * time.Millisecond)
		}
	}
}

// work does what does not wait for a time, and says when it has to be called again at the latest (0: not).
func (j *Janitor[P]) work() (nextMs int64) {
	c := &j.chores
	j.mu.Lock()
	seal, remove, spares := j.toSeal, j.toRemove, j.toSpare
	j.toSeal, j.toRemove, j.toSpare = map[P]bool{}, nil, nil
	j.mu.Unlock()
	if j.full.Swap(false) {
		c.DiskFull()
	}
	for _, p := range spares {
		c.MakeSpare(p)
	}
	for p := range seal {
		c.WriteOut(p)
	}
	for _, dir := range remove {
		c.Remove(dir)
	}
	nextMs = j.Doomed.Release(c.UpMs())
	j.segments.Bury()
	return nextMs
}
