package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// SyncGroup (key 14), v0 to v5. Kafka: GroupMetadataManager.classicGroupSync.
//
//   - Group Read. The leader brings the assignment, everybody is answered when it is
//     on stable storage; in a stable group the member gets the assignment that it has.
//   - v3: group.instance.id; v5: protocol type and name are checked (KIP-559).
//   - The assignment is never null: Java decodes it as bytes.
func (c *Coordinators) syncGroupAPI() codec.API {
	return codec.API{
		Key: 14, Name: "SyncGroup", MinVersion: 0, MaxVersion: 5, Class: codec.TwoPhase, Handle: c.syncGroup,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response { return group.SyncError(syncGroupCode(refusedCode)) }),
	}
}

func (c *Coordinators) syncGroup(r *codec.Request) {
	request := kmsg.NewPtrSyncGroupRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(group.SyncError(kerr.GroupAuthorizationFailed.Code))
		return
	}
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) {
			m.SyncGroup(t, request, func(response *kmsg.SyncGroupResponse) { r.Respond(response) })
		},
		func(code int16) { r.Respond(group.SyncError(syncGroupCode(code))) })
}

// syncGroupCode: a member that syncs while the coordinator is loading has to join
// again, since what was not recorded of its rebalance is gone (KafkaApis answers
// the same).
func syncGroupCode(code int16) int16 {
	if code == kerr.CoordinatorLoadInProgress.Code {
		return kerr.RebalanceInProgress.Code
	}
	return code
}
