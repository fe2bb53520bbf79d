package admin

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// DescribeAcls, key 29, v0 to v3.
//
// Answers what is in force, one resource with all its ACLs together. Without an
// authorizer: SECURITY_DISABLED, as Kafka answers; in dev mode an empty list.
//
//	v0     literal patterns only
//	v1     pattern types (KIP-290)
//	v2     flexible
//	v3     user resource type
func (a *Admin) describeACLsAPI() codec.API {
	return codec.API{
		Key: 29, Name: "DescribeAcls", MinVersion: 0, MaxVersion: 3, Class: codec.Pool,
		Handle: a.describeACLs, Refuse: refuseDescribeACLs,
		EstimateBytes: a.estimateBindings,
		Note:          "the ACLs of all KafkaUsers that are in force; empty in dev mode",
	}
}

func refuseDescribeACLs(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrDescribeACLsRequest(), func(request *kmsg.DescribeACLsRequest, response *kmsg.DescribeACLsResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) describeACLs(r *codec.Request) {
	request := kmsg.NewPtrDescribeACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeACLsResponse)
	problem := a.aclsDenied(r, auth.OperationDescribe)
	var filter *auth.Filter
	if problem == nil {
		filter, problem = filterOf(r.Version, request.ResourceType, request.ResourceName, request.ResourcePatternType, request.Principal, request.Host,
			request.Operation, request.PermissionType)
	}
	if problem != nil {
		response.ErrorCode, response.ErrorMessage = problem.code.Code, &problem.message
		r.Respond(response)
		return
	}
	response.ErrorMessage = kmsg.StringPtr("") // as Kafka
	at := map[auth.Resource]int{}
	for _, account := range a.Users.Accounts() {
		for _, b := range account.Bindings() {
			if !filter.Matches(&b) {
				continue
			}
			i, seen := at[b.Resource]
			if !seen {
				i = len(response.Resources)
				at[b.Resource] = i
				resource := kmsg.NewDescribeACLsResponseResource()
				resource.ResourceType, resource.ResourceName = kmsg.ACLResourceType(b.Resource.Type), b.Resource.Name
				resource.ResourcePatternType = kmsg.ACLResourcePatternType(b.Resource.Pattern)
				response.Resources = append(response.Resources, resource)
			}
			acl := kmsg.NewDescribeACLsResponseResourceACL()
			acl.Principal, acl.Host = b.Principal, b.Host
			acl.Operation, acl.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
			response.Resources[i].ACLs = append(response.Resources[i].ACLs, acl)
		}
	}
	r.Respond(response)
}
