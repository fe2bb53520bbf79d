package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/meta"
)

// FindCoordinator (key 10), v0 to v6. Kafka: KafkaApis.handleFindCoordinatorRequest.
//
//   - v0: groups only; v1: key types, throttle time, message; v4: many keys in one
//     request (KIP-699), one answer each; v6: share keys (KIP-932).
//   - The internal topic of the key type is created at first need. Kafka answers
//     COORDINATOR_NOT_AVAILABLE until it is there; here the reply waits for it on
//     the worker pool, for as long as the broker's package firstuse lets it.
//   - The coordinator's address is on the listener that the client came by.
//   - Share keys: share groups are off, so INVALID_REQUEST as Kafka answers with the
//     share coordinator switched off.
//   - Error messages as Kafka 4.4 writes them: up to v3 the error's own, also the
//     word NONE for success; from v4 the empty string, except for an unknown key type.

// Key types (Kafka: CoordinatorType).
const (
	coordinatorGroup       = int8(0)
	coordinatorTransaction = int8(1)
	coordinatorShare       = int8(2)
)

func (c *Coordinators) findCoordinatorAPI() codec.API {
	return codec.API{
		Key: 10, Name: "FindCoordinator", MinVersion: 0, MaxVersion: 6, Class: codec.TwoPhase,
		Handle: c.offLoopWhenLarge(c.findCoordinator),
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrFindCoordinatorRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			response := kmsg.NewPtrFindCoordinatorResponse()
			response.ErrorCode, response.NodeID, response.Port = kerr.CoordinatorNotAvailable.Code, -1, -1
			for _, key := range request.CoordinatorKeys {
				coordinator := kmsg.NewFindCoordinatorResponseCoordinator()
				coordinator.Key, coordinator.NodeID, coordinator.Port, coordinator.ErrorCode = key, -1, -1, kerr.CoordinatorNotAvailable.Code
				response.Coordinators = append(response.Coordinators, coordinator)
			}
			return response
		}),
		Note: "group and transaction keys, batches; share keys are refused",
	}
}

func (c *Coordinators) findCoordinator(r *codec.Request) {
	request := kmsg.NewPtrFindCoordinatorRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if request.Version < 4 {
		request.CoordinatorKeys = []string{request.CoordinatorKey}
	}
	topic := coordinatorTopic(request.CoordinatorType)
	if topic != "" && c.images.Load().Topic(topic) == nil && c.anyKeyAllowed(r, request) &&
		c.submitWork(func() {
			c.createTopic(topic)
			r.Respond(c.findCoordinatorResponse(r, request))
		}) {
		return
	}
	r.Respond(c.findCoordinatorResponse(r, request))
}

// coordinatorTopic is the internal topic whose partition leaders coordinate keys
// of the type, "" when there is none.
func coordinatorTopic(keyType int8) string {
	switch keyType {
	case coordinatorGroup:
		return meta.ConsumerOffsetsTopic
	case coordinatorTransaction:
		return meta.TransactionStateTopic
	}
	return ""
}

func (c *Coordinators) anyKeyAllowed(r *codec.Request, request *kmsg.FindCoordinatorRequest) bool {
	for _, key := range request.CoordinatorKeys {
		if c.checkCoordinatorKey(r, request.CoordinatorType, key) == nil {
			return true
		}
	}
	return false
}

func (c *Coordinators) checkCoordinatorKey(r *codec.Request, keyType int8, key string) *kerr.Error {
	switch keyType {
	case coordinatorGroup:
		if !c.allowed(r, auth.OperationDescribe, auth.ResourceGroup, key) {
			return kerr.GroupAuthorizationFailed
		}
	case coordinatorTransaction:
		if !c.allowed(r, auth.OperationDescribe, auth.ResourceTransactionalID, key) {
			return kerr.TransactionalIDAuthorizationFailed
		}
	default:
		return kerr.InvalidRequest
	}
	return nil
}

func (c *Coordinators) findCoordinatorResponse(r *codec.Request, request *kmsg.FindCoordinatorRequest) *kmsg.FindCoordinatorResponse {
	response := kmsg.NewPtrFindCoordinatorResponse()
	for _, key := range request.CoordinatorKeys {
		response.Coordinators = append(response.Coordinators, c.coordinatorOf(r, request.CoordinatorType, key))
	}
	if request.Version < 4 {
		first := &response.Coordinators[0]
		response.ErrorCode, response.NodeID, response.Host, response.Port = first.ErrorCode, first.NodeID, first.Host, first.Port
		message := "NONE"
		if err := kerr.TypedErrorForCode(first.ErrorCode); err != nil {
			message = err.Description
		}
		response.ErrorMessage = &message
	}
	return response
}

func (c *Coordinators) coordinatorOf(r *codec.Request, keyType int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	coordinator := kmsg.NewFindCoordinatorResponseCoordinator()
	coordinator.Key, coordinator.NodeID, coordinator.Port = key, -1, -1
	message := ""
	coordinator.ErrorMessage = &message
	if refused := c.checkCoordinatorKey(r, keyType, key); refused != nil {
		coordinator.ErrorCode = refused.Code
		if keyType < coordinatorGroup || keyType > coordinatorShare {
			message = refused.Description
		}
		return coordinator
	}
	node, endpoint, ok := c.coordinatorNode(r.Session, coordinatorTopic(keyType), key)
	if !ok {
		coordinator.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return coordinator
	}
	coordinator.NodeID, coordinator.Host, coordinator.Port = node, endpoint.Host, endpoint.Port
	return coordinator
}

// coordinatorNode is the leader of the partition of the internal topic that the
// key hashes to.
func (c *Coordinators) coordinatorNode(session *codec.Session, topicName, key string) (node int32, endpoint meta.Endpoint, ok bool) {
	image := c.images.Load()
	topic := image.Topic(topicName)
	if topic == nil || len(topic.Partitions) == 0 {
		return 0, meta.Endpoint{}, false
	}
	leader := topic.Partitions[coord.PartitionFor(key, int32(len(topic.Partitions)))].Leader
	for i := range image.Brokers {
		if image.Brokers[i].ID == leader {
			endpoint, ok = c.endpoint(session, image, &image.Brokers[i])
			return leader, endpoint, ok
		}
	}
	return 0, meta.Endpoint{}, false
}
