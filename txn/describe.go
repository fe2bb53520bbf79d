package txn

import (
	"regexp"
	"slices"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe answers for one transactional id.
func (m *Machine) Describe(t *coord.Turn, id string, done func(kmsg.DescribeTransactionsResponseTransactionState)) {
	r := kmsg.NewDescribeTransactionsResponseTransactionState()
	r.TransactionalID = id
	if x := m.transactions[id]; x == nil {
		r.ErrorCode = kerr.TransactionalIDNotFound.Code
	} else {
		r.State, r.TimeoutMillis, r.StartTimestamp = x.state.String(), x.timeoutMs, x.startMs
		r.ProducerID, r.ProducerEpoch = x.producerID, x.epoch
		for _, p := range x.sortedPartitions() {
			if n := len(r.Topics); n == 0 || r.Topics[n-1].Topic != p.Topic {
				topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
				topic.Topic = p.Topic
				r.Topics = append(r.Topics, topic)
			}
			last := &r.Topics[len(r.Topics)-1]
			last.Partitions = append(last.Partitions, p.Partition)
		}
	}
	t.Reply(func(err error) {
		if err != nil {
			r = kmsg.NewDescribeTransactionsResponseTransactionState()
			r.TransactionalID, r.ErrorCode = id, ErrorCode(err)
		}
		done(r)
	})
}

// Filter of a listing; empty lists and a nil pattern let everything through.
type Filter struct {
	ProducerIDs []int64
	States      []State
	// StatesGiven: also when no name was known, and nothing passes.
	StatesGiven bool
	// DurationMs: only what began longer ago; negative: no filter.
	DurationMs int64
	Pattern    *regexp.Regexp // matched whole
}

// StateNamed finds a state by the name that List shows.
func StateNamed(name string) (State, bool) {
	i := slices.Index(stateNames[:], name)
	return State(i), i >= 0
}

// List shows the transactional ids of the shard.
func (m *Machine) List(t *coord.Turn, f Filter, done func(states []kmsg.ListTransactionsResponseTransactionState, err error)) {
	var states []kmsg.ListTransactionsResponseTransactionState
	for _, id := range m.sortedIDs() {
		x := m.transactions[id]
		switch {
		case len(f.ProducerIDs) > 0 && !slices.Contains(f.ProducerIDs, x.producerID):
		case f.StatesGiven && !slices.Contains(f.States, x.state):
		case f.DurationMs >= 0 && t.WallMs-x.startMs <= f.DurationMs:
		case f.Pattern != nil && !f.Pattern.MatchString(id):
		default:
			states = append(states, kmsg.ListTransactionsResponseTransactionState{TransactionalID: id, ProducerID: x.producerID, TransactionState: x.state.String()})
		}
	}
	t.Reply(func(err error) { done(states, err) })
}
