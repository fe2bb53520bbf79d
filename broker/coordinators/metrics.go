package coordinators

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"kaas/coord"
	"kaas/group"
	"kaas/internal/limits"
	"kaas/obs"
	"kaas/txn"
)

// counters are what the metrics show without asking a shard.
type counters struct {
	groups       group.Counters
	transactions txn.Counters
	// loads of shards, by topic; set once by Metrics, before that nobody is told.
	groupLoads, transactionLoads atomic.Pointer[obs.Histogram]
	loadedRecords                atomic.Int64
}

func (c *counters) loaded(histogram *atomic.Pointer[obs.Histogram]) func(int32, int64, time.Duration) {
	return func(_ int32, records int64, took time.Duration) {
		c.loadedRecords.Add(records)
		if h := histogram.Load(); h != nil {
			h.Update(took.Seconds())
		}
	}
}

// census is what all shards hold, asked for at most once in limits.CoordCensusMs:
// a scrape reads a dozen series.
type census struct {
	coordinators *Coordinators

	mu sync.Mutex
	// +checklocks:mu
	groups group.Census // mu
	// +checklocks:mu
	transactions map[string]int64 // mu
	// +checklocks:mu
	taken time.Time // mu
}

// look returns the newest census, made now when it is too old. Shards that do not
// answer in time (they load, or wait for the disk) are left out.
func (c *census) look() (group.Census, map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.taken) > limits.CoordCensusMs*time.Millisecond {
		groups := group.Census{Classic: map[string]int64{}, Consumer: map[string]int64{}}
		transactions := map[string]int64{}
		deadline := time.NewTimer(limits.CoordCensusWaitMs * time.Millisecond)
		defer deadline.Stop()
		askShards(c.coordinators.groups, (*group.Machine).Count, deadline.C, func(one group.Census) {
			addStates(groups.Classic, one.Classic)
			addStates(groups.Consumer, one.Consumer)
			groups.ClassicMembers += one.ClassicMembers
			groups.ConsumerMembers += one.ConsumerMembers
			groups.Offsets += one.Offsets
		})
		askShards(c.coordinators.transactions, (*txn.Machine).Count, deadline.C, func(one map[string]int64) { addStates(transactions, one) })
		c.groups, c.transactions = groups, transactions
		c.taken = time.Now()
	}
	return c.groups, c.transactions
}

func addStates(sum, one map[string]int64) {
	for state, n := range one {
		sum[state] += n
	}
}

// askShards adds up what the shards answer before the deadline.
func askShards[M coord.Machine, A any](runtime *coord.Runtime[M], ask func(M) A, deadline <-chan time.Time, add func(A)) {
	shards := runtime.Shards()
	answers := make(chan func(), len(shards)) // nobody waits who answers late
	for _, shard := range shards {
		runtime.Submit(shard, coord.Event[M]{
			Run:     func(m M, _ *coord.Turn) { answer := ask(m); answers <- func() { add(answer) } },
			Refused: func(error) { answers <- func() {} },
		})
	}
	for range shards {
		select {
		case answer := <-answers:
			answer()
		case <-deadline:
			return
		}
	}
}

// Metrics registers the coordinators' series.
func (c *Coordinators) Metrics(r *obs.Registry) {
	c.counters.groupLoads.Store(r.Histogram(`kaas_coordinator_load_seconds{coordinator="group"}`))
	c.counters.transactionLoads.Store(r.Histogram(`kaas_coordinator_load_seconds{coordinator="transaction"}`))
	for name, value := range map[string]*atomic.Int64{
		"kaas_coordinator_loaded_records_total":            &c.counters.loadedRecords,
		"kaas_group_offset_commits_total":                  &c.counters.groups.Commits,
		"kaas_group_offset_expirations_total":              &c.counters.groups.Expired,
		`kaas_group_rebalances_total{protocol="classic"}`:  &c.counters.groups.Rebalances,
		`kaas_group_rebalances_total{protocol="consumer"}`: &c.counters.groups.Plans,
		"kaas_group_members_dropped_total":                 &c.counters.groups.MembersDropped,
		`kaas_transactions_ended_total{result="commit"}`:   &c.counters.transactions.Committed,
		`kaas_transactions_ended_total{result="abort"}`:    &c.counters.transactions.Aborted,
		"kaas_transactions_timed_out_total":                &c.counters.transactions.TimedOut,
	} {
		r.CounterFunc(name, func() float64 { return float64(value.Load()) })
	}
	r.Gauge(`kaas_coordinator_shards{coordinator="group"}`, func() float64 { return float64(len(c.groups.Shards())) })
	r.Gauge(`kaas_coordinator_shards{coordinator="transaction"}`, func() float64 { return float64(len(c.transactions.Shards())) })
	s := &census{coordinators: c}
	for _, state := range []string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"} {
		r.Gauge(fmt.Sprintf("kaas_groups{protocol=\"classic\",state=%q}", state), func() float64 { g, _ := s.look(); return float64(g.Classic[state]) })
	}
	for _, state := range []string{"Empty", "Assigning", "Reconciling", "Stable"} {
		r.Gauge(fmt.Sprintf("kaas_groups{protocol=\"consumer\",state=%q}", state), func() float64 { g, _ := s.look(); return float64(g.Consumer[state]) })
	}
	r.Gauge(`kaas_group_members{protocol="classic"}`, func() float64 { g, _ := s.look(); return float64(g.ClassicMembers) })
	r.Gauge(`kaas_group_members{protocol="consumer"}`, func() float64 { g, _ := s.look(); return float64(g.ConsumerMembers) })
	r.Gauge("kaas_group_offsets", func() float64 { g, _ := s.look(); return float64(g.Offsets) })
	for state := txn.Empty; state <= txn.CompleteAbort; state++ {
		r.Gauge(fmt.Sprintf("kaas_transactions{state=%q}", state), func() float64 { _, x := s.look(); return float64(x[state.String()]) })
	}
}
