package groupcommit

// Waiter waits until everything below an offset is committed. It is owned by the caller, may be reused after Done was called,
// and must not be changed in between.
type Waiter struct {
	Offset int64
	Done   func(w *Waiter, err error) // called once, with no lock held, on a worker or on the caller's goroutine
	User   any

	next *Waiter // owner: the lock of the list while queued
}

// Waiters is a list of waiters in the order of their offsets. It has no lock: its owner's lock guards it.
type Waiters struct{ first, last *Waiter }

// Add keeps the order; nearly always the newest has the largest offset.
func (l *Waiters) Add(w *Waiter) {
	w.next = nil
	switch {
	case l.first == nil:
		l.first, l.last = w, w
	case w.Offset >= l.last.Offset:
		l.last.next, l.last = w, w
	default:
		at := &l.first
		for (*at).Offset <= w.Offset {
			at = &(*at).next
		}
		w.next, *at = *at, w
	}
}

// Take cuts off those that wait for an offset up to highWatermark.
func (l *Waiters) Take(highWatermark int64) *Waiter {
	first := l.first
	if first == nil || first.Offset > highWatermark {
		return nil
	}
	last := first
	for last.next != nil && last.next.Offset <= highWatermark {
		last = last.next
	}
	l.first, last.next = last.next, nil
	if l.first == nil {
		l.last = nil
	}
	return first
}

// Complete calls Done in the order of offsets. A waiter may be reused by its owner as soon as Done is called.
func Complete(w *Waiter, err error) {
	for w != nil {
		next := w.next
		w.next = nil
		w.Done(w, err)
		w = next
	}
}
