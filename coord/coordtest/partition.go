package coordtest

import (
	"errors"
	"fmt"
	"slices"

	"kaas/codec/batch"
	"kaas/logstore/producer"
)

// Partition is a data partition for simulations: the real producer state over a list
// of batches of one record each, committed when the test says so. It is not safe for
// several goroutines.
type Partition struct {
	entries   []entry
	states    *producer.States
	committed int
	waiters   []placeWaiter // by rising place
	shown     []string      // by read_committed so far
}

type entry struct {
	view   batch.View
	value  string
	commit bool // of a marker
}

type placeWaiter struct {
	place int
	done  func()
}

// Errors of Partition.Append.
var (
	ErrFenced     = errors.New("coordtest: a newer epoch of the producer is known")
	ErrUnverified = errors.New("coordtest: the first batch of a transaction needs a guard")
	ErrGuard      = errors.New("coordtest: the guard holds no more")
)

// NewPartition returns an empty one.
func NewPartition() *Partition { return &Partition{states: producer.New()} }

// Marker is the end of a producer's transaction.
type Marker struct {
	ProducerID       int64
	Epoch            int16
	CoordinatorEpoch int32
	Commit, Raised   bool
}

// Mark appends a marker and calls done after its commit; false: a newer epoch refuses it.
func (p *Partition) Mark(m Marker, done func()) bool {
	view := batch.View(batch.EndTxnMarker(nil, m.ProducerID, m.Epoch, m.Commit, m.CoordinatorEpoch, 0))
	parsed, err := producer.ParseMarker(view)
	if err != nil || p.states.CheckMarker(view, parsed) != nil || m.Raised && p.states.CheckRaised(view) != nil {
		return false
	}
	p.add(entry{view: view, commit: m.Commit})
	p.waiters = append(p.waiters, placeWaiter{len(p.entries), done})
	return true
}

func (p *Partition) add(e entry) {
	var m producer.Marker
	if e.view.IsControl() {
		m, _ = producer.ParseMarker(e.view)
	}
	e.view.SetBaseOffset(int64(len(p.entries)))
	p.states.Apply(e.view, m, producer.Position{Offset: int64(len(p.entries))}, 0)
	p.entries = append(p.entries, e)
}

// Record is one record of a transaction.
type Record struct {
	ProducerID int64
	Epoch      int16
	Sequence   int32
	Value      string
}

// BeginVerification returns the guard for the record; raisesEpoch as that of a log.
func (p *Partition) BeginVerification(r Record, raisesEpoch bool) uint64 {
	return p.states.BeginVerification(r.ProducerID, r.Epoch, r.Sequence, raisesEpoch, 0)
}

// Append appends the record and calls done after its commit, unless it returns an
// error; guard is 0 or what BeginVerification returned. A repetition waits for the
// first one.
func (p *Partition) Append(r Record, guard uint64, done func()) error {
	b := batch.Builder{Transactional: true, HasProducer: true, ProducerID: r.ProducerID, ProducerEpoch: r.Epoch, BaseSequence: r.Sequence}
	b.Append(0, nil, []byte(r.Value))
	bytes, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	view := batch.View(bytes)
	if p.states.CheckVerified(view, guard) != nil {
		return ErrUnverified
	}
	repeated, err := p.states.Check(view, true)
	place := len(p.entries) + 1
	switch {
	case err != nil:
		return ErrFenced
	case repeated != nil:
		place = int(repeated.LastOffset) + 1
	default:
		if p.states.CheckGuard(view, guard) != nil {
			return ErrGuard
		}
		p.add(entry{view: view, value: r.Value})
	}
	if place <= p.committed {
		done()
		return nil
	}
	p.waiters = append(p.waiters, placeWaiter{place, done})
	return nil
}

// Commit makes everything durable. An error: read_committed takes back what it showed.
func (p *Partition) Commit() error {
	if p.committed == len(p.entries) {
		return nil
	}
	p.committed = len(p.entries)
	for len(p.waiters) > 0 {
		done := p.waiters[0].done
		p.waiters = p.waiters[1:]
		done()
	}
	visible := p.Visible()
	if len(visible) < len(p.shown) || !slices.Equal(visible[:len(p.shown)], p.shown) {
		return fmt.Errorf("read_committed shows %v after it showed %v", visible, p.shown)
	}
	p.shown = visible
	return nil
}

// Uncommitted is how many batches a crash may lose.
func (p *Partition) Uncommitted() int { return len(p.entries) - p.committed }

// Crash keeps what is committed and the first keep of the rest. Nobody who waited is told.
func (p *Partition) Crash(keep int) {
	entries := p.entries[:p.committed+keep]
	p.entries, p.states, p.waiters = nil, producer.New(), nil
	for _, e := range entries {
		p.add(e)
	}
	p.committed = len(p.entries)
}

// Open says whether a transaction holds read_committed up.
func (p *Partition) Open() bool {
	_, open := p.states.Committed(int64(len(p.entries)))
	return open
}

// Visible is what read_committed shows: below the last stable offset.
func (p *Partition) Visible() (values []string) {
	end := p.committed
	if first, open := p.states.Committed(int64(p.committed)); open {
		end = min(end, int(first.Offset))
	}
	commits := map[int64]bool{} // by producer id, what the next marker says
	for i := len(p.entries) - 1; i >= 0; i-- {
		e := &p.entries[i]
		if e.view.IsControl() {
			commits[e.view.ProducerID()] = e.commit
		} else if i < end && commits[e.view.ProducerID()] {
			values = append(values, e.value)
		}
	}
	slices.Reverse(values)
	return values
}
