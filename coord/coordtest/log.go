package coordtest

import (
	"context"
	"errors"
	"sync"

	"kaas/codec/batch"
)

// ErrClosed is what a crashed log answers.
var ErrClosed = errors.New("coordtest: the log has crashed")

// Log implements coord.Log in memory.
type Log struct {
	// MaxBytes of a batch. Set before use.
	MaxBytes int

	mu sync.Mutex
	// +checklocks:mu
	batches []batch.View // mu
	// +checklocks:mu
	endOffset int64 // mu
	// +checklocks:mu
	committed int // mu; batches that are committed
	// +checklocks:mu
	held bool // mu
	// +checklocks:mu
	failure error // mu; answer of appends and commits from now on
	// +checklocks:mu
	waiters []waiter // mu; by rising offset
	// +checklocks:mu
	appends int // mu
	// +checklocks:mu
	bytes int // mu
}

type waiter struct {
	offset int64
	done   func(error)
}

// NewLog returns an empty log that commits at once.
func NewLog() *Log { return &Log{MaxBytes: 1 << 20} }

// MaxBatchBytes implements coord.Log.
func (l *Log) MaxBatchBytes() int { return l.MaxBytes }

// CheckProducer implements coord.Log by the newest batch of the producer.
func (l *Log) CheckProducer(producerID int64, producerEpoch int16, _, raised bool, _ int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.batches) - 1; i >= 0; i-- {
		if v := l.batches[i]; v.HasProducerID() && v.ProducerID() == producerID {
			if v.ProducerEpoch() > producerEpoch || raised && v.ProducerEpoch() == producerEpoch && !v.IsControl() {
				return errors.New("coordtest: fenced")
			}
			return nil
		}
	}
	return nil
}

// Append implements coord.Log.
func (l *Log) Append(batches []byte) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure != nil {
		return 0, l.failure
	}
	l.appends++
	l.bytes += len(batches)
	rest := append([]byte(nil), batches...)
	for len(rest) > 0 {
		view, next, err := batch.Next(rest)
		if err != nil {
			return 0, err
		}
		if err := view.Validate(); err != nil {
			return 0, err
		}
		if len(view) > l.MaxBytes {
			return 0, errors.New("coordtest: batch too large")
		}
		view.SetBaseOffset(l.endOffset)
		l.batches = append(l.batches, view)
		l.endOffset = view.LastOffset() + 1
		rest = next
	}
	if !l.held {
		l.committed = len(l.batches)
	}
	return l.endOffset, nil
}

// WhenCommitted implements coord.Log.
func (l *Log) WhenCommitted(endOffset int64, done func(error)) {
	l.mu.Lock()
	failure, committed := l.failure, endOffset <= l.committedOffset()
	if failure == nil && !committed {
		l.waiters = append(l.waiters, waiter{endOffset, done})
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	if committed {
		failure = nil
	}
	done(failure)
}

// Replay implements coord.Log.
func (l *Log) Replay(_ context.Context, visit func(batch.View) error) (int64, error) {
	l.mu.Lock()
	batches, end, failure := l.batches, l.endOffset, l.failure
	l.mu.Unlock()
	if failure != nil {
		return 0, failure
	}
	for _, view := range batches {
		if err := visit(view); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// Hold stops commits until Commit; appends go on.
func (l *Log) Hold() {
	l.mu.Lock()
	l.held = true
	l.mu.Unlock()
}

// Commit commits everything and ends a Hold.
func (l *Log) Commit() {
	l.mu.Lock()
	l.held = false
	l.mu.Unlock()
	l.CommitSome(l.Uncommitted())
}

// CommitSome commits the first n of the batches that are not committed.
func (l *Log) CommitSome(n int) {
	l.mu.Lock()
	l.committed = min(l.committed+n, len(l.batches))
	var done []waiter
	for len(l.waiters) > 0 && l.waiters[0].offset <= l.committedOffset() {
		done, l.waiters = append(done, l.waiters[0]), l.waiters[1:]
	}
	l.mu.Unlock()
	for _, w := range done {
		w.done(nil)
	}
}

// committedOffset is the end of the last committed batch.
// +checklocks:l.mu
func (l *Log) committedOffset() int64 {
	if l.committed == 0 {
		return 0
	}
	return l.batches[l.committed-1].LastOffset() + 1
}

// Fail makes the log fail; nil repairs it.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	l.failure = err
	var waiters []waiter
	if err != nil {
		waiters, l.waiters = l.waiters, nil
	}
	l.mu.Unlock()
	for _, w := range waiters {
		w.done(err)
	}
}

// Crash returns the log as it is found after a crash: everything committed and the
// first keep of the batches that were not. The old log answers ErrClosed.
func (l *Log) Crash(keep int) *Log {
	crashed := ErrClosed
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(l.committed+keep, len(l.batches))
	after := &Log{MaxBytes: l.MaxBytes, batches: l.batches[:n:n], committed: n}
	if n > 0 {
		after.endOffset = after.batches[n-1].LastOffset() + 1
	}
	l.failure, l.waiters = crashed, nil
	return after
}

// Uncommitted is how many batches a crash may lose.
func (l *Log) Uncommitted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.batches) - l.committed
}

// Appends is how many appends there were, and their bytes.
func (l *Log) Appends() (count, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appends, l.bytes
}

// Records calls visit for every record from an offset on.
func (l *Log) Records(from int64, visit func(offset int64, key, value []byte)) error {
	_, err := l.Replay(context.Background(), func(view batch.View) error {
		if view.LastOffset() < from {
			return nil
		}
		iterator, err := view.Records(1 << 30)
		if err != nil {
			return err
		}
		defer iterator.Close()
		for iterator.Next() {
			if r := iterator.Record(); r.Offset >= from {
				visit(r.Offset, r.Key, r.Value)
			}
		}
		return iterator.Err()
	})
	return err
}

// Clone is a log of its own with the same batches, all of them committed.
func (l *Log) Clone() *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Log{MaxBytes: l.MaxBytes, batches: l.batches[:len(l.batches):len(l.batches)], endOffset: l.endOffset, committed: len(l.batches)}
}
