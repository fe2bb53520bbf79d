package coord

import (
	"fmt"
	"sync"

	"kaas/codec/batch"
	"kaas/internal/limits"
)

// core is one incarnation of a shard: from a load to the failure or unload that
// ends it. It has no goroutine, no lock and no clock: whoever calls its methods
// owns it (the shard's goroutine; a test directly).
type core struct {
	machine Machine
	log     Log
	timers  timerHeap
	commits *commits

	// Batches are numbered from 1. filling is the number of the batch that Emit
	// adds to; appended and committed are the last ones that were appended and
	// committed. committed ≤ appended < filling always.
	filling, appended, committed uint64

	builder      batch.Builder // of batch filling; empty when Count is 0
	sealed       []byte        // finished batches from appended+1 to filling-1, not yet appended
	maxBatch     int
	parked       []parkedReply // by rising batch
	parkedHead   int           // parked[:parkedHead] have left
	emittedBytes int           // in this turn
	producers    producerEpochs
	failure      error // of an append in the middle of a turn
	// offload runs work elsewhere and then done in a turn of this incarnation. Set before
	// the first turn.
	offload func(work func(), done func(t *Turn))
	now     Turn // what turn returns
}

// parkedReply leaves when the batch is committed.
type parkedReply struct {
	batch uint64
	reply func(err error)
}

// commits is where the log's callbacks and offloaded work, on any goroutine, leave
// their word for the owner. Every incarnation has its own, so a late callback reaches nobody.
type commits struct {
	wake func() // immutable; makes the owner look

	mu sync.Mutex
	// +checklocks:mu
	committed uint64 // mu; the last committed batch
	// +checklocks:mu
	err error // mu; the first failure
	// +checklocks:mu
	finished []func(t *Turn) // mu; of Turn.Offload, at most one for each call
}

func (c *commits) done(batchNumber uint64, err error) {
	c.mu.Lock()
	if err == nil {
		c.committed = max(c.committed, batchNumber)
	} else if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.wake()
}

// finish leaves what a turn has to do now that offloaded work is done.
func (c *commits) finish(done func(t *Turn)) {
	c.mu.Lock()
	c.finished = append(c.finished, done)
	c.mu.Unlock()
	c.wake()
}

func (c *commits) takeFinished() []func(t *Turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	finished := c.finished
	c.finished = nil
	return finished
}

func (c *commits) look() (committed uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.committed, c.err
}

func newCore(machine Machine, log Log, wake func()) *core {
	return &core{machine: machine, log: log, filling: 1, maxBatch: log.MaxBatchBytes(), commits: &commits{wake: wake}}
}

// recordOverheadBytes bounds what a record costs in a batch besides key and
// value: five varints of at most 5 or 10 bytes, attributes and the header count.
const recordOverheadBytes = 40

// batchOverheadBytes leaves room for the batch header.
const batchOverheadBytes = batch.HeaderBytes

func (c *core) emit(t *Turn, records []Record) error {
	size, err := c.size(records)
	if err != nil {
		return err
	}
	if c.builder.Count() > 0 && c.builder.SizeBytes()+size > c.maxBatch {
		c.seal()
	}
	c.emittedBytes += size
	for i := range records {
		r := &records[i]
		r.Offset = -1
		c.builder.Append(t.WallMs, r.Key, r.Value)
		if err := c.machine.Replay(r); err != nil {
			panic(fmt.Sprintf("coord: the machine cannot replay its own record %x: %v", r.Key, err))
		}
	}
	return nil
}

// size of the records in a batch of their own, without its header.
func (c *core) size(records []Record) (int, error) {
	size := 0
	for i := range records {
		size += len(records[i].Key) + len(records[i].Value) + recordOverheadBytes
	}
	if size+batchOverheadBytes > c.maxBatch {
		return 0, fmt.Errorf("%w: %d records of %d bytes, largest batch %d bytes", ErrTooLarge, len(records), size, c.maxBatch)
	}
	return size, nil
}

// seal ends the batch that is being filled.
func (c *core) seal() {
	sealed, err := c.builder.Build(c.sealed)
	if err != nil {
		panic(fmt.Sprintf("coord: a plain batch cannot be built: %v", err))
	}
	c.sealed = sealed
	if c.builder.SizeBytes() > limits.CoordBufferKept {
		c.builder = batch.Builder{}
	}
	c.builder.Reset()
	c.filling++
}

// park keeps the reply until everything emitted so far is committed.
func (c *core) park(reply func(err error)) {
	last := c.filling - 1
	if c.builder.Count() > 0 {
		last = c.filling
	}
	if last <= c.committed {
		reply(nil)
		return
	}
	c.parked = append(c.parked, parkedReply{batch: last, reply: reply})
}

// parkedCount is how many replies wait.
func (c *core) parkedCount() int { return len(c.parked) - c.parkedHead }

// turn is the Turn at this time; there is one at a time.
func (c *core) turn(nowMs, wallMs int64) *Turn {
	c.now = Turn{NowMs: nowMs, WallMs: wallMs, core: c}
	return &c.now
}

// release lets go the replies of committed batches.
func (c *core) release() error {
	committed, err := c.commits.look()
	if err != nil {
		return fmt.Errorf("%w: commit: %w", ErrLogFailed, err)
	}
	if committed <= c.committed {
		return nil
	}
	c.committed = committed
	for c.parkedHead < len(c.parked) && c.parked[c.parkedHead].batch <= committed {
		reply := c.parked[c.parkedHead].reply
		c.parked[c.parkedHead].reply = nil
		c.parkedHead++
		reply(nil)
	}
	if c.parkedHead == len(c.parked) {
		c.parked, c.parkedHead = c.parked[:0], 0
		if cap(c.parked) > limits.CoordTurnEvents*4 {
			c.parked = nil
		}
	} else if c.parkedHead > len(c.parked)/2 {
		n := copy(c.parked, c.parked[c.parkedHead:])
		clear(c.parked[n:])
		c.parked, c.parkedHead = c.parked[:n], 0
	}
	return nil
}

// fire runs the timers that are due. A timer that re-arms itself into the past
// runs again in the next turn, not in this one for ever.
func (c *core) fire(t *Turn) {
	for n := len(c.timers.timers); n > 0; n-- {
		timer := c.timers.popDue(t.NowMs)
		if timer == nil {
			return
		}
		timer.Fire(t)
	}
}

// flush appends what the turn has emitted: one append, one wait for its commit.
func (c *core) flush() error {
	if c.failure != nil {
		return c.failure
	}
	c.emittedBytes = 0
	clear(c.producers)
	if c.builder.Count() > 0 {
		c.seal()
	}
	if len(c.sealed) == 0 {
		return nil
	}
	endOffset, err := c.log.Append(c.sealed)
	if cap(c.sealed) > limits.CoordBufferKept {
		c.sealed = nil // one huge turn is not remembered for ever
	}
	c.sealed = c.sealed[:0]
	if err != nil {
		return fmt.Errorf("%w: append: %w", ErrLogFailed, err)
	}
	c.appended = c.filling - 1
	number, commits := c.appended, c.commits
	c.log.WhenCommitted(endOffset, func(err error) { commits.done(number, err) })
	return nil
}

// end gives err to everyone who waits. The core is dead afterwards.
func (c *core) end(err error) {
	for _, p := range c.parked[c.parkedHead:] {
		p.reply(err)
	}
	c.parked, c.parkedHead = nil, 0
	c.machine.Unloaded(err)
}

// loaded makes replies wait until what was replayed is committed: the tail of the
// log may have been appended and not yet be durable.
func (c *core) loaded(endOffset int64) {
	number, commits := c.filling, c.commits
	c.appended = number
	c.filling++
	c.log.WhenCommitted(endOffset, func(err error) { commits.done(number, err) })
}

// due says whether a timer wants a turn now.
func (c *core) due(nowMs int64) bool {
	atMs, ok := c.timers.next()
	return ok && atMs <= nowMs
}
