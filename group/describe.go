package group

import (
	"slices"
	"strings"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// typeClassic is the group type in ListGroups v5.
const typeClassic = "classic"

// describeNamesUnknownGroup: from v6 on an unknown group is an error (KIP-1043);
// before, it is a dead group without one.
const describeNamesUnknownGroup = 6

// DescribeGroup shows one group. Authorised operations are left to the handler.
func (m *Machine) DescribeGroup(t *coord.Turn, id string, version int16, done func(*kmsg.DescribeGroupsResponseGroup)) {
	r := kmsg.NewDescribeGroupsResponseGroup()
	r.Group = id
	g := m.groups[id]
	switch {
	case g == nil, g.consumer != nil:
		r.State = stateDead.String()
		if version >= describeNamesUnknownGroup {
			r.ErrorCode, r.ErrorMessage = codeGroupIDNotFound, kmsg.StringPtr("Group "+id+" not found.")
			if g != nil {
				r.ErrorMessage = kmsg.StringPtr("Group " + id + " is not a classic group.")
			}
		}
	default:
		r.State, r.ProtocolType = g.state.String(), g.protocolType
		if g.state == stateStable {
			r.Protocol = g.protocol
		}
		for _, mem := range g.ordered() {
			r.Members = append(r.Members, g.describeMember(mem))
		}
	}
	reply(t, done, &r, func(code int16) *kmsg.DescribeGroupsResponseGroup {
		failed := kmsg.NewDescribeGroupsResponseGroup()
		failed.Group, failed.ErrorCode = id, code
		return &failed
	})
}

// describeMember shows the metadata while there is a chosen protocol, in Stable,
// and the assignment that the member was told last, also while the group prepares
// another. Neither is ever null.
func (g *group) describeMember(mem *member) kmsg.DescribeGroupsResponseGroupMember {
	r := kmsg.DescribeGroupsResponseGroupMember{
		MemberID: mem.id, InstanceID: mem.instance(), ClientID: mem.client.ID, ClientHost: mem.client.Host,
		ProtocolMetadata: []byte{}, MemberAssignment: mem.assignment,
	}
	if g.state == stateStable {
		r.ProtocolMetadata = mem.metadata(g.protocol)
	}
	return r
}

// ListGroups lists the shard's groups; empty filters let everything through. The
// filters compare without case, as Kafka does.
func (m *Machine) ListGroups(t *coord.Turn, states, types []string, done func([]kmsg.ListGroupsResponseGroup, error)) {
	var list []kmsg.ListGroupsResponseGroup
	for _, id := range m.sortedIDs() {
		g := m.groups[id]
		one := kmsg.ListGroupsResponseGroup{Group: id, ProtocolType: g.protocolType, GroupState: g.state.String(), GroupType: typeClassic}
		if g.consumer != nil {
			one.ProtocolType, one.GroupState, one.GroupType = consumerProtocolType, g.consumer.state(), typeConsumer
		}
		if passes(types, one.GroupType) && passes(states, one.GroupState) {
			list = append(list, one)
		}
	}
	t.Reply(func(err error) { done(list, err) })
}

func passes(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}
