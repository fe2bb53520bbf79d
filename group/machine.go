package group

import (
	"errors"
	"log/slog"
	"maps"
	"slices"

	"kaas/coord"
	"kaas/internal/limits"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Machine is the state machine of one shard: all groups that hash to it.
// Owner: the shard's goroutine.
type Machine struct {
	config *Config
	logger *slog.Logger
	counts *Counters
	groups map[string]*group
	// mostGroups since the map was made; a map never gives memory back by itself.
	mostGroups int

	transactions transactions
	// offsetRecords that were replayed, see offset.order.
	offsetRecords int64
	// unknownRecords of newer Kafka versions were met while loading.
	unknownRecords int64

	retention coord.Timer // next look for expired offsets
	sweeps    sweeps
}

// NewMachine returns an empty machine.
func NewMachine(config *Config) *Machine {
	m := &Machine{config: config, logger: config.Logger, counts: config.Counters, groups: map[string]*group{},
		transactions: transactions{open: map[int64]*openTransaction{}, verifying: map[int64][]*Verification{}}}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	if m.counts == nil {
		m.counts = &Counters{}
	}
	m.retention.Fire = m.checkRetention
	m.sweeps.timer.Fire = m.sweep
	return m
}

// Loaded gives the groups that were replayed their volatile half: members from
// the newest metadata record, each with a whole session timeout ahead.
func (m *Machine) Loaded(t *coord.Turn) {
	if m.unknownRecords > 0 {
		m.logger.Warn("records of a newer Kafka were skipped in the offsets topic", "records", m.unknownRecords)
	}
	for _, id := range m.sortedIDs() {
		g := m.groups[id]
		switch {
		case g.consumer != nil:
			g.loadedValue = nil // its tombstone stands before the consumer group's records
			m.restoreConsumer(t, g)
		case g.loadedValue != nil:
			m.restore(t, g)
		}
		m.dropIfVoid(t, g)
	}
	t.Schedule(&m.retention, t.NowMs+m.config.RetentionCheckIntervalMs)
}

// Unloaded answers every request that waits for a rebalance.
func (m *Machine) Unloaded(err error) {
	code := ErrorCode(err)
	for _, id := range m.sortedIDs() {
		for _, mem := range m.groups[id].ordered() {
			mem.answerJoin(JoinError(code, mem.id))
			mem.answerSync(SyncError(code))
		}
	}
	m.groups = nil
}

// ErrorCode is what a client is told when coord could not handle its request.
func ErrorCode(err error) int16 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, coord.ErrNotCoordinator):
		return kerr.NotCoordinator.Code
	case errors.Is(err, coord.ErrLoading), errors.Is(err, coord.ErrOverloaded):
		// Both mean: come again, to the same broker.
		return kerr.CoordinatorLoadInProgress.Code
	case errors.Is(err, coord.ErrLogFailed):
		return kerr.CoordinatorNotAvailable.Code
	default:
		return kerr.UnknownServerError.Code
	}
}

// groupOrNew returns the group, made now when there is none. A group that stays
// void (no members, no offsets, no record) is dropped by whoever made it.
func (m *Machine) groupOrNew(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = newGroup(id)
		g.rebalance.Fire = func(t *coord.Turn) { m.rebalanceTimer(t, g) }
		g.syncExpiry.Fire = func(t *coord.Turn) { m.syncExpired(t, g) }
		m.groups[id] = g
		m.mostGroups = max(m.mostGroups, len(m.groups))
	}
	return g
}

// dropIfVoid forgets a group of which nothing is left.
func (m *Machine) dropIfVoid(t *coord.Turn, g *group) {
	if len(g.members) > 0 || len(g.pending) > 0 || g.recorded || g.consumer != nil || !g.offsets.void() {
		return
	}
	t.Cancel(&g.rebalance)
	t.Cancel(&g.syncExpiry)
	g.state = stateDead
	delete(m.groups, g.id)
	if m.mostGroups > limits.GroupMapKept && len(m.groups) < m.mostGroups/4 {
		smaller := make(map[string]*group, len(m.groups))
		maps.Copy(smaller, m.groups)
		m.groups, m.mostGroups = smaller, len(smaller)
	}
}

// sortedIDs gives an order to walks over all groups, so that equal histories
// make equal logs.
func (m *Machine) sortedIDs() []string {
	ids := make([]string, 0, len(m.groups))
	for id := range m.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Groups is the number of groups in memory.
func (m *Machine) Groups() int { return len(m.groups) }
