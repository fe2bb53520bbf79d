package coord

// Timer is a deadline of a machine. It is embedded in the machine's own state,
// so arming one allocates nothing. The zero value is idle; Fire is set once.
// Owner: the shard's goroutine.
type Timer struct {
	// Fire runs as an event of its own when the deadline has passed; the timer is
	// idle by then and may be scheduled again.
	Fire func(t *Turn)

	atMs  int64
	order int64 // among timers of one deadline: the one that was scheduled first is first
	slot  int   // position in the heap + 1; 0: idle
}

// Active says whether the timer is scheduled.
func (t *Timer) Active() bool { return t.slot != 0 }

// timerHeap is a binary min-heap by deadline, then by when they were scheduled, so
// that equal histories fire in an equal order. Timers know their place, so that
// cancelling costs O(log n) and leaves no dead entries behind.
type timerHeap struct {
	timers []*Timer
	orders int64 // schedule calls so far
}

func (t *Timer) before(o *Timer) bool {
	return t.atMs < o.atMs || t.atMs == o.atMs && t.order < o.order
}

// next returns the earliest deadline.
func (h *timerHeap) next() (atMs int64, ok bool) {
	if len(h.timers) == 0 {
		return 0, false
	}
	return h.timers[0].atMs, true
}

func (h *timerHeap) schedule(t *Timer, atMs int64) {
	h.orders++
	t.atMs, t.order = atMs, h.orders
	if t.slot == 0 {
		h.timers = append(h.timers, t)
		t.slot = len(h.timers)
	}
	h.down(h.up(t.slot - 1))
}

func (h *timerHeap) cancel(t *Timer) {
	if t.slot == 0 {
		return
	}
	hole, last := t.slot-1, len(h.timers)-1
	h.swap(hole, last)
	h.timers[last] = nil
	h.timers = h.timers[:last]
	t.slot = 0
	if hole < last {
		h.down(h.up(hole))
	}
	if cap(h.timers) > 64 && len(h.timers) < cap(h.timers)/4 {
		// Memory of many groups returns when they have gone.
		h.timers = append(make([]*Timer, 0, cap(h.timers)/2), h.timers...)
	}
}

// popDue takes the earliest timer out when its deadline is not after nowMs.
func (h *timerHeap) popDue(nowMs int64) *Timer {
	if len(h.timers) == 0 || h.timers[0].atMs > nowMs {
		return nil
	}
	t := h.timers[0]
	h.cancel(t)
	return t
}

func (h *timerHeap) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if h.timers[parent].before(h.timers[i]) {
			break
		}
		h.swap(i, parent)
		i = parent
	}
	return i
}

func (h *timerHeap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.timers); child++ {
			if h.timers[child].before(h.timers[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *timerHeap) swap(i, j int) {
	h.timers[i], h.timers[j] = h.timers[j], h.timers[i]
	h.timers[i].slot, h.timers[j].slot = i+1, j+1
}
