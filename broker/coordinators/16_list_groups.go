package coordinators

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// ListGroups (key 16), v0 to v5. Kafka: GroupCoordinatorService.listGroups.
//
//   - All groups whose coordinator is this broker, by name, to whom Cluster Describe
//     is granted; else those with Group Describe.
//   - v4: states, and a filter by them (KIP-518); v5: types, and a filter (KIP-848).
//     Filters compare without case; what nobody knows matches nothing.
//   - While a shard is loading, the reply is COORDINATOR_LOAD_IN_PROGRESS: half a list
//     would look like deleted groups.
func (c *Coordinators) listGroupsAPI() codec.API {
	return codec.API{
		Key: 16, Name: "ListGroups", MinVersion: 0, MaxVersion: 5, Class: codec.TwoPhase, Handle: c.listGroups,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response {
			response := kmsg.NewPtrListGroupsResponse()
			response.ErrorCode = refusedCode
			return response
		}),
	}
}

func (c *Coordinators) listGroups(r *codec.Request) {
	request := kmsg.NewPtrListGroupsRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	session := *r.Session // read here, on the loop that owns it
	shards := c.groups.Shards()
	response := kmsg.NewPtrListGroupsResponse()
	all := newGather(len(shards), func() {
		if response.ErrorCode != 0 {
			response.Groups = nil
		}
		response.Groups = c.visibleGroups(&session, response.Groups)
		slices.SortFunc(response.Groups, func(a, b kmsg.ListGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
		r.Respond(response)
	})
	for _, shard := range shards {
		done := func(groups []kmsg.ListGroupsResponseGroup, err error) {
			all.part(func() {
				response.Groups = append(response.Groups, groups...)
				if err != nil && !isNotCoordinator(err) {
					response.ErrorCode = group.ErrorCode(err)
				}
			})
		}
		c.groups.Submit(shard, coord.Event[*group.Machine]{
			Run: func(m *group.Machine, t *coord.Turn) {
				m.ListGroups(t, request.StatesFilter, request.TypesFilter, done)
			},
			Refused: func(err error) { done(nil, err) },
		})
	}
}

// visibleGroups leaves out what the client may not know of.
func (c *Coordinators) visibleGroups(s *codec.Session, groups []kmsg.ListGroupsResponseGroup) []kmsg.ListGroupsResponseGroup {
	if c.authorizer.Authorize(s.Principal, s.RemoteHost, auth.OperationDescribe, auth.ResourceCluster, auth.ClusterName) {
		return groups
	}
	return slices.DeleteFunc(groups, func(g kmsg.ListGroupsResponseGroup) bool {
		return !c.authorizer.Authorize(s.Principal, s.RemoteHost, auth.OperationDescribe, auth.ResourceGroup, g.Group)
	})
}
