package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/meta"
)

// DeleteAcls, key 31, v0 to v3.
//
// One update for each KafkaUser of which a filter matches something. Entries that
// match in some operations keep the others. The answer lists what was removed, by
// filter, and comes when that is in force. In dev mode: success, nothing matches.
//
//	v0     literal patterns
//	v1     pattern types (KIP-290)
//	v2     flexible
//	v3     user resource type, refused
func (a *Admin) deleteACLsAPI() codec.API {
	return codec.API{
		Key: 31, Name: "DeleteAcls", MinVersion: 0, MaxVersion: 3, Class: codec.Pool,
		Handle: a.deleteACLs, Refuse: refuseDeleteACLs,
		EstimateBytes: a.estimateBindings,
		Note:          "out of spec.authorization.acls",
	}
}

func refuseDeleteACLs(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrDeleteACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	failAllFilters(r, request, &failure{code: kerr.TypedErrorForCode(errorCode)}, throttleMs)
}

func failAllFilters(r *codec.Request, request *kmsg.DeleteACLsRequest, problem *failure, throttleMs int32) {
	response := request.ResponseKind().(*kmsg.DeleteACLsResponse)
	response.ThrottleMillis = throttleMs
	for range request.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = problem.code.Code, &problem.message
		response.Results = append(response.Results, result)
	}
	r.Respond(response)
}

// removal is one ACL that a filter matched, and what became of it.
type removal struct {
	auth.Binding
	problem *failure
}

func (a *Admin) deleteACLs(r *codec.Request) {
	request := kmsg.NewPtrDeleteACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if problem := a.aclsDenied(r, auth.OperationAlter); problem != nil {
		failAllFilters(r, request, problem, 0)
		return
	}
	response := request.ResponseKind().(*kmsg.DeleteACLsResponse)
	response.Results = make([]kmsg.DeleteACLsResponseResult, len(request.Filters))
	filters := make([]*auth.Filter, len(request.Filters))
	for i := range request.Filters {
		f := &request.Filters[i]
		response.Results[i] = kmsg.NewDeleteACLsResponseResult()
		var problem *failure
		filters[i], problem = filterOf(r.Version, f.ResourceType, f.ResourceName, f.ResourcePatternType, f.Principal, f.Host, f.Operation, f.PermissionType)
		if problem != nil {
			response.Results[i].ErrorCode, response.Results[i].ErrorMessage = problem.code.Code, &problem.message
		}
	}
	removed := a.removeMatching(func(b *auth.Binding) bool {
		for _, f := range filters {
			if f != nil && f.Matches(b) {
				return true
			}
		}
		return false
	})
	for i, f := range filters {
		for j := range removed {
			if f != nil && f.Matches(&removed[j].Binding) {
				response.Results[i].MatchingACLs = append(response.Results[i].MatchingACLs, matchingACL(&removed[j]))
			}
		}
	}
	r.Respond(response)
}

func (a *Admin) removeMatching(matches func(*auth.Binding) bool) []removal {
	var out []removal
	var changed []*meta.KafkaUser
	for _, account := range a.Users.Accounts() {
		var matched []auth.Binding
		for _, b := range account.Bindings() {
			if matches(&b) {
				matched = append(matched, b)
			}
		}
		if len(matched) == 0 {
			continue
		}
		var removed []auth.Binding
		stored, err := a.changeUser(account.Name, func(resource *meta.KafkaUser) (_ bool, err error) {
			if removed, err = auth.RemoveBindings(resource, matches); err != nil {
				return false, fail(kerr.InvalidRequest, "KafkaUser %s is not in force: %s", resource.Metadata.Name, err)
			}
			return len(removed) > 0, nil
		})
		if err != nil {
			problem := a.userFailure(account.Name, err, kerr.InvalidRequest)
			for _, b := range matched {
				out = append(out, removal{b, problem})
			}
			continue
		}
		changed = append(changed, stored)
		seen := map[auth.Binding]bool{} // the same ACL may be written twice
		for _, b := range removed {
			if !seen[b] {
				seen[b] = true
				out = append(out, removal{Binding: b})
			}
		}
	}
	a.awaitUsers(changed)
	return out
}

func matchingACL(r *removal) kmsg.DeleteACLsResponseResultMatchingACL {
	acl := kmsg.NewDeleteACLsResponseResultMatchingACL()
	if r.problem != nil {
		acl.ErrorCode, acl.ErrorMessage = r.problem.code.Code, &r.problem.message
	}
	acl.ResourceType, acl.ResourceName = kmsg.ACLResourceType(r.Resource.Type), r.Resource.Name
	acl.ResourcePatternType = kmsg.ACLResourcePatternType(r.Resource.Pattern)
	acl.Principal, acl.Host = r.Principal, r.Host
	acl.Operation, acl.PermissionType = kmsg.ACLOperation(r.Operation), kmsg.ACLPermissionType(r.Permission)
	return acl
}
