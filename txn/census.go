package txn

import "sync/atomic"

// Counters are what all shards have done, for metrics. Any goroutine may read them.
type Counters struct {
	Committed, Aborted atomic.Int64 // decisions; TimedOut ones are among the aborts
	TimedOut           atomic.Int64
}

// Count counts the transactional ids by the state of their transaction, when somebody
// looks at the metrics.
func (m *Machine) Count() map[string]int64 {
	states := map[string]int64{}
	for _, x := range m.transactions {
		states[x.state.String()]++
	}
	return states
}
