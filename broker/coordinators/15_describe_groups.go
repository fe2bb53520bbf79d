package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// DescribeGroups (key 15), v0 to v6. Kafka: GroupMetadataManager.describeGroups.
//
//   - Group Describe for each. Groups that exist only as offsets are Empty.
//   - An unknown group is Dead without an error up to v5 and GROUP_ID_NOT_FOUND from
//     v6 (KIP-1043).
//   - v3: authorised operations when asked for; v4: group.instance.id.
func (c *Coordinators) describeGroupsAPI() codec.API {
	return codec.API{
		Key: 15, Name: "DescribeGroups", MinVersion: 0, MaxVersion: 6, Class: codec.TwoPhase, Handle: c.describeGroups,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrDescribeGroupsRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			response := kmsg.NewPtrDescribeGroupsResponse()
			for _, id := range request.Groups {
				response.Groups = append(response.Groups, *describeGroupError(id, refusedCode))
			}
			return response
		}),
	}
}

func (c *Coordinators) describeGroups(r *codec.Request) {
	request := kmsg.NewPtrDescribeGroupsRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	session := *r.Session // read here, on the loop that owns it
	version, operations := request.Version, request.IncludeAuthorizedOperations
	response := kmsg.NewPtrDescribeGroupsResponse()
	response.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(request.Groups))
	all := newGather(len(request.Groups), func() { r.Respond(response) })
	for i, id := range request.Groups {
		done := func(described *kmsg.DescribeGroupsResponseGroup) {
			if operations && described.ErrorCode == 0 {
				described.AuthorizedOperations = auth.AuthorizedOperations(c.authorizer, session.Principal, session.RemoteHost, auth.ResourceGroup, id)
			}
			all.part(func() { response.Groups[i] = *described })
		}
		if !c.groupAllowed(r, auth.OperationDescribe, id) {
			done(describeGroupError(id, kerr.GroupAuthorizationFailed.Code))
			continue
		}
		c.submit(id,
			func(m *group.Machine, t *coord.Turn) { m.DescribeGroup(t, id, version, done) },
			func(code int16) { done(describeGroupError(id, code)) })
	}
}

func describeGroupError(id string, code int16) *kmsg.DescribeGroupsResponseGroup {
	described := kmsg.NewDescribeGroupsResponseGroup()
	described.Group, described.ErrorCode = id, code
	return &described
}
