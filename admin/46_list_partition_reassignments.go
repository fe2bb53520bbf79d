package admin

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// ListPartitionReassignments, key 46, v0 (KIP-455): on one broker none is ever
// under way.
func (a *Admin) listPartitionReassignmentsAPI() codec.API {
	return codec.API{
		Key: 46, Name: "ListPartitionReassignments", MinVersion: 0, MaxVersion: 0, Class: codec.Pool,
		Handle: a.listPartitionReassignments, Refuse: refuseListPartitionReassignments,
		Note: "none is ever under way on one broker",
	}
}

func refuseListPartitionReassignments(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrListPartitionReassignmentsRequest(), func(request *kmsg.ListPartitionReassignmentsRequest, response *kmsg.ListPartitionReassignmentsResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) listPartitionReassignments(r *codec.Request) {
	request := kmsg.NewPtrListPartitionReassignmentsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	if !a.allowedCluster(r, auth.OperationDescribe) {
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		response.ErrorMessage = kmsg.StringPtr("Cluster authorization failed.")
	}
	r.Respond(response)
}
