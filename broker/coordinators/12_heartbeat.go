package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
)

// Heartbeat (key 12), v0 to v4. Kafka: GroupMetadataManager.classicGroupHeartbeat.
//
//   - Group Read. It keeps the session of a member and answers
//     REBALANCE_IN_PROGRESS when the member has to join again. It writes nothing.
//   - v3: group.instance.id, so that a replaced static member learns that it is fenced.
func (c *Coordinators) heartbeatAPI() codec.API {
	return codec.API{
		Key: 12, Name: "Heartbeat", MinVersion: 0, MaxVersion: 4, Class: codec.TwoPhase, Handle: c.heartbeat,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response { return heartbeatResponse(heartbeatCode(refusedCode)) }),
	}
}

func (c *Coordinators) heartbeat(r *codec.Request) {
	request := kmsg.NewPtrHeartbeatRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	if !c.groupAllowed(r, auth.OperationRead, request.Group) {
		r.Respond(heartbeatResponse(kerr.GroupAuthorizationFailed.Code))
		return
	}
	c.submit(request.Group,
		func(m *group.Machine, t *coord.Turn) { r.Respond(heartbeatResponse(m.Heartbeat(t, request))) },
		func(code int16) { r.Respond(heartbeatResponse(heartbeatCode(code))) })
}

// heartbeatCode: a member whose coordinator is loading is told that all is well.
// It would only have asked again, and its session begins anew after the load
// (KafkaApis answers the same).
func heartbeatCode(code int16) int16 {
	if code == kerr.CoordinatorLoadInProgress.Code {
		return 0
	}
	return code
}

func heartbeatResponse(code int16) *kmsg.HeartbeatResponse {
	response := kmsg.NewPtrHeartbeatResponse()
	response.ErrorCode = code
	return response
}
