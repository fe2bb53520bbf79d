package group

import (
	"bytes"
	"fmt"

	"kaas/coord"
	"kaas/group/consumerlog"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Replay applies one record to the durable half. It is called for every record
// of the log at load and for every record that a request emits.
func (m *Machine) Replay(r *coord.Record) error {
	key := kbin.Reader{Src: r.Key}
	version := key.Int16()
	if !key.Ok() {
		return fmt.Errorf("group: record key of %d bytes", len(r.Key))
	}
	switch version {
	case keyOffsetCommitOld, keyOffsetCommit:
		return m.replayOffset(r)
	case keyGroupMetadata:
		return m.replayGroup(r)
	default:
		if consumerlog.Kind(version).Known() {
			return m.replayConsumer(r)
		}
		m.unknownRecords++
		return nil
	}
}

func (m *Machine) replayOffset(r *coord.Record) error {
	var key kmsg.OffsetCommitKey
	if err := key.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("group: offset commit key: %w", err)
	}
	if r.Value == nil {
		if g := m.groups[key.Group]; g != nil {
			g.offsets.remove(key.Topic, key.Partition)
		}
		return nil
	}
	o, err := decodeOffset(r.Value)
	if err != nil {
		return err
	}
	m.offsetRecords++
	o.order = m.offsetRecords
	g := m.groupOrNew(key.Group)
	if r.InTransaction {
		if g.offsets.setPending(r.ProducerID, key.Topic, key.Partition, o) {
			m.transactions.add(r.ProducerID, r.ProducerEpoch, g)
		} else {
			m.transactions.add(r.ProducerID, r.ProducerEpoch, nil)
		}
		return nil
	}
	g.offsets.set(key.Topic, key.Partition, o)
	return nil
}

// ReplayMarker makes the offsets of a committed transaction count, or forgets
// those of an aborted one.
func (m *Machine) ReplayMarker(producerID int64, _ int16, commit bool) error {
	for _, g := range m.transactions.end(producerID) {
		g.offsets.endPending(producerID, commit)
	}
	return nil
}

func (m *Machine) replayGroup(r *coord.Record) error {
	var key kmsg.GroupMetadataKey
	if err := key.ReadFrom(r.Key); err != nil {
		return fmt.Errorf("group: group metadata key: %w", err)
	}
	if r.Value == nil {
		if g := m.groups[key.Group]; g != nil {
			g.recorded, g.loadedValue = false, nil
		}
		return nil
	}
	live := r.Offset < 0
	if !live {
		// Checked here, so that a damaged record is skipped and the one before it counts.
		if _, err := decodeGroup(r.Value); err != nil {
			return err
		}
	}
	g := m.groupOrNew(key.Group)
	g.recorded = true
	if !live {
		g.loadedValue = bytes.Clone(r.Value)
	}
	return nil
}

// restore makes the volatile half of a loaded group from its metadata record.
func (m *Machine) restore(t *coord.Turn, g *group) {
	v, err := decodeGroup(g.loadedValue)
	g.loadedValue = nil
	if err != nil {
		panic(fmt.Sprintf("group: a metadata record of %q was readable when it was replayed: %v", g.id, err))
	}
	g.protocolType, g.generation, g.stateSinceMs = v.ProtocolType, v.Generation, v.CurrentStateTimestamp
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	for i := range v.Members {
		r := &v.Members[i]
		if _, taken := g.members[r.MemberID]; taken || r.MemberID == unknownMemberID || r.InstanceID != nil && g.static[*r.InstanceID] != "" {
			m.logger.Warn("a group's record has a member that cannot be; it is left out", "group", g.id, "member", r.MemberID)
			continue
		}
		mem := m.newMember(g, r.MemberID, r.InstanceID, Client{ID: r.ClientID, Host: r.ClientHost})
		mem.sessionTimeoutMs, mem.rebalanceTimeoutMs = r.SessionTimeoutMillis, r.RebalanceTimeoutMillis
		if mem.rebalanceTimeoutMs < 0 { // the record is older than the field
			mem.rebalanceTimeoutMs = r.SessionTimeoutMillis
		}
		mem.protocols = []protocol{{name: g.protocol, metadata: bytes.Clone(r.Subscription)}}
		mem.assignment = bytes.Clone(r.Assignment)
		g.add(mem)
		m.touch(t, mem)
	}
	if g.members[g.leader] == nil {
		g.leader = ""
	}
	if len(g.members) > 0 {
		g.state = stateStable
		g.electAnyLeader()
		g.updateSubscribedTopics()
	}
	if int64(len(g.members)) > int64(m.config.MaxSize) {
		m.prepareRebalance(t, g, "the group that was loaded is larger than group.max.size")
	}
}
