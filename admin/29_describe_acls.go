package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// DescribeAcls, key 29, v0 to v3.
//
// Without an authorizer: SECURITY_DISABLED, as Kafka answers; in dev mode an
// empty list.
//
//	v1     pattern types (KIP-290)
//	v2     flexible
//	v3     user resource type
func (a *Admin) describeACLsAPI() codec.API {
	return codec.API{
		Key: 29, Name: "DescribeAcls", MinVersion: 0, MaxVersion: 3, Class: codec.Pool,
		Handle: a.describeACLs, Refuse: refuseDescribeACLs,
		Note: "SECURITY_DISABLED; empty in dev mode",
	}
}

func refuseDescribeACLs(r *codec.Request, errorCode int16, throttleMs int32) {
	request := kmsg.NewPtrDescribeACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeACLsResponse)
	response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	r.Respond(response)
}

func (a *Admin) describeACLs(r *codec.Request) {
	request := kmsg.NewPtrDescribeACLsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeACLsResponse)
	switch {
	case !a.allowedCluster(r, auth.OperationDescribe):
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		response.ErrorMessage = kmsg.StringPtr("Cluster authorization failed.")
	case a.DropTopic == nil:
		response.ErrorCode = kerr.SecurityDisabled.Code
		response.ErrorMessage = kmsg.StringPtr("No Authorizer is configured on the broker")
	}
	r.Respond(response)
}
