package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// DeleteGroups (key 42), v0 to v3. Kafka: GroupMetadataManager.deleteGroups.
//
//   - Group Delete for each. A group with members is NON_EMPTY_GROUP, an unknown one
//     GROUP_ID_NOT_FOUND. Its offsets go with it, by tombstones.
//   - A name that is there twice is answered once.
//   - v3: error messages, for errors only.
func (c *Coordinators) deleteGroupsAPI() codec.API {
	return codec.API{
		Key: 42, Name: "DeleteGroups", MinVersion: 0, MaxVersion: 3, Class: codec.TwoPhase, Handle: c.deleteGroups,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrDeleteGroupsRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			response := kmsg.NewPtrDeleteGroupsResponse()
			for _, id := range request.Groups {
				response.Groups = append(response.Groups, deletedGroup(id, refusedCode))
			}
			return response
		}),
	}
}

func (c *Coordinators) deleteGroups(r *codec.Request) {
	request := kmsg.NewPtrDeleteGroupsRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	ids := unique(request.Groups)
	response := kmsg.NewPtrDeleteGroupsResponse()
	response.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(ids))
	all := newGather(len(ids), func() { r.Respond(response) })
	for i, id := range ids {
		done := func(code int16) { all.part(func() { response.Groups[i] = deletedGroup(id, code) }) }
		if !c.groupAllowed(r, auth.OperationDelete, id) {
			done(kerr.GroupAuthorizationFailed.Code)
			continue
		}
		c.submit(id, func(m *group.Machine, t *coord.Turn) { m.DeleteGroup(t, id, done) }, done)
	}
}

func deletedGroup(id string, code int16) kmsg.DeleteGroupsResponseGroup {
	deleted := kmsg.NewDeleteGroupsResponseGroup()
	deleted.Group, deleted.ErrorCode = id, code
	if err := kerr.TypedErrorForCode(code); err != nil {
		deleted.ErrorMessage = &err.Description
	}
	return deleted
}

// unique keeps the first of equal names, in order.
func unique(names []string) []string {
	seen := make(map[string]struct{}, len(names))
	kept := make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := seen[name]; !ok {
			seen[name] = struct{}{}
			kept = append(kept, name)
		}
	}
	return kept
}
