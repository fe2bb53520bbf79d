package broker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/broker/coordinators"
	"kaas/codec"
	"kaas/internal/delay"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/netio"
	"kaas/obs"
)

// dataPart is the state of produce, fetch and the offset lookups.
//
// Its goroutines: those of two timers, the completion workers and the cold
// workers. All end with stop.
type dataPart struct {
	sessions         fetchSessions
	transactions     coordinators.Order[*produceOperation] // transactional requests that wait
	fetchDeadlines   delay.Timer
	produceDeadlines delay.Timer
	// woken completes fetches beyond those that whoever woke them completes itself.
	woken delay.Queue
	// cold runs what may wait for a disk or burn time: reads of what is not in
	// memory, lookups by time.
	cold delay.Queue
	// lookups counts offset lookups in cold.
	lookups atomic.Int32
	// resident says whether records are in memory; tests replace it.
	resident func(*logstore.Slice) bool
	// faults limits the lines about storage that fails: at the rate of the requests
	// they would fill the disk that is left.
	faults obs.Limited
	// stopping: no fetch is parked any more.
	stopping atomic.Bool
}

// dataAPIs is a list that APIs joins.
func (b *Broker) dataAPIs() []codec.API {
	return []codec.API{b.produceAPI(), b.fetchAPI(), b.listOffsetsAPI(), b.offsetForLeaderEpochAPI()}
}

// start runs at the end of New; stop runs in Close.
func (d *dataPart) start(b *Broker) error {
	d.sessions.init(int(b.Config.MaxIncrementalFetchSessionCacheSlots), b.Clock)
	d.resident = (*logstore.Slice).Resident
	d.fetchDeadlines.Start()
	d.produceDeadlines.Start()
	d.woken.Start(limits.FetchWorkers)
	d.cold.Start(limits.FetchColdWorkers)
	b.hooks.partitionRemoved = append(b.hooks.partitionRemoved, func(p *partitionState) { b.wakeFetches(p) })
	return nil
}

func (d *dataPart) stop() {
	d.answerParked()
	d.fetchDeadlines.Stop()
	d.produceDeadlines.Stop()
	d.woken.Stop()
	d.cold.Stop()
}

var errTooManyLookups = errors.New("the broker is at its bound of offset lookups under way")

// lookup runs f on a cold worker. False: too many wait already, f is not run.
func (d *dataPart) lookup(f func()) bool {
	if d.lookups.Add(1) > limits.ListOffsetsLookups {
		d.lookups.Add(-1)
		return false
	}
	d.cold.Push(&delay.Job{Run: func() {
		defer d.lookups.Add(-1)
		f()
	}})
	return true
}

// answerParked answers every parked fetch with what there is.
func (d *dataPart) answerParked() {
	// A fetch that parks now looks at stopping after it has put its deadline into
	// the heap: either it is forced here, or it forces itself.
	d.stopping.Store(true)
	d.fetchDeadlines.ForceAll()
}

// AnswerParked answers every request that waits by nature, and none waits from now
// on: fetches for data get what there is, members of groups for others
// NOT_COORDINATOR, after what the coordinators have under way is committed. It
// comes before the network is drained: they would hold the shutdown up for as long
// as they may wait.
func (b *Broker) AnswerParked() {
	b.data.answerParked()
	b.coordinators.Close()
}

var (
	_ logstore.Listener = (*Broker)(nil)
	_ netio.Storage     = (*Broker)(nil)
)

// Advanced implements logstore.Listener: it wakes the fetches of the partition, unless
// an event loop does in a moment.
func (b *Broker) Advanced(p *logstore.Partition) {
	if state := stateOf(p); state != nil && state.purgatory.held.Load() == 0 {
		b.wakeFetches(state)
	}
}

// Failed implements logstore.Listener. Waiting produces hear of it through their
// commit, waiting fetches are woken to find the error.
func (b *Broker) Failed(p *logstore.Partition, err error) {
	b.Logger.Error("partition is offline", "topic", p.Topic(), "partition", p.ID(), "error", err)
	if state := stateOf(p); state != nil {
		b.wakeFetches(state)
	}
}

// Resident implements netio.Storage.
func (b *Broker) Resident(r netio.FileRange) bool { return b.data.resident(sliceOf(r)) }

// Populate implements netio.Storage, by the cold workers.
func (b *Broker) Populate(r netio.FileRange, ready func()) {
	b.data.cold.Push(&delay.Job{Run: func() {
		sliceOf(r).Populate()
		ready()
	}})
}

// sliceOf is a slice of the same bytes that pins nothing.
func sliceOf(r netio.FileRange) *logstore.Slice {
	return &logstore.Slice{FD: r.FD, Offset: r.Offset, Len: r.Len, Mem: r.Mem}
}

// wakeFetches goes on with the fetches that wait for the partition: a few here,
// the rest on the completion workers. No lock is held.
func (b *Broker) wakeFetches(p *partitionState) {
	woken := p.purgatory.wake()
	for n := 0; woken != nil; n++ {
		o := woken
		woken, o.nextWoken = o.nextWoken, nil
		if n < limits.FetchInlineWakes {
			o.run()
		} else {
			b.data.woken.Push(&o.woken)
		}
	}
}

// storageFault logs what no client can mend: an error of the disk, or one that
// nobody has given a code.
func (b *Broker) storageFault(what, topic string, partition int32, code *kerr.Error, err error) {
	if code == kerr.UnknownServerError || code == kerr.KafkaStorageError {
		b.data.faults.Warn(b.Logger, what, "topic", topic, "partition", partition, "error", err)
	}
}

// checkLeaderEpoch compares the epoch that a client knows with the partition's
// (KIP-320); -1 is none.
func checkLeaderEpoch(log *logstore.Partition, current int32) error {
	if current < 0 {
		return nil
	}
	switch epoch := log.LeaderEpoch(); {
	case current < epoch:
		return kerr.FencedLeaderEpoch
	case current > epoch:
		return kerr.UnknownLeaderEpoch
	}
	return nil
}

// milliseconds of a duration on the wire.
func milliseconds(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
