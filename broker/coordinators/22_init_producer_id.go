package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/txn"
)

// InitProducerId (key 22), v0 to v5. Kafka: KafkaApis.handleInitProducerIdRequest,
// TransactionCoordinator.handleInitProducerId.
//
//   - TransactionalId Write; without one IdempotentWrite on the cluster or Write on any
//     topic (KIP-679).
//   - Without a transactional id every request gets a new producer id with epoch 0,
//     whatever timeout, id and epoch it carries (v3+; KIP-360), except that id and
//     epoch come together or not at all: INVALID_REQUEST.
//   - With one: the empty id is INVALID_REQUEST, a timeout above
//     transaction.max.timeout.ms or not positive INVALID_TRANSACTION_TIMEOUT. An open
//     transaction is aborted first: CONCURRENT_TRANSACTIONS until that is complete.
//   - v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v5: TRANSACTION_ABORTABLE.

func (c *Coordinators) initProducerIDAPI() codec.API {
	return codec.API{
		Key: 22, Name: "InitProducerId", MinVersion: 0, MaxVersion: 5, Class: codec.Pool, DataPlane: true, // the next block of ids may have to reach the disk
		EstimateBytes: codec.SmallEstimate,
		Handle:        c.initProducerID,
		Refuse: func(r *codec.Request, _ int16, throttleMs int32) {
			// The retriable error that producers know here (TransactionManager.InitProducerIdHandler).
			response := initProducerIDRefused(refusedCode)
			response.ThrottleMillis = throttleMs
			r.Respond(response)
		},
	}
}

func initProducerIDRefused(code int16) *kmsg.InitProducerIDResponse {
	response := kmsg.NewPtrInitProducerIDResponse()
	response.ErrorCode, response.ProducerID, response.ProducerEpoch = code, -1, -1
	return response
}

func (c *Coordinators) initProducerID(r *codec.Request) {
	request := kmsg.NewPtrInitProducerIDRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if refused := c.checkInitProducerID(r, request); refused != nil {
		r.Respond(initProducerIDRefused(refused.Code))
		return
	}
	if request.TransactionalID != nil {
		c.initTransactional(r, request, txn.InitRequest{
			TransactionalID: *request.TransactionalID, TimeoutMs: request.TransactionTimeoutMillis,
			ProducerID: request.ProducerID, ProducerEpoch: request.ProducerEpoch, FreshProducerID: -1,
		})
		return
	}
	id, err := c.nextProducerID()
	if err != nil {
		c.logger.Error("no new producer id: the block of ids could not be reserved on disk", "error", err)
		r.Respond(initProducerIDRefused(kerr.CoordinatorNotAvailable.Code))
		return
	}
	response := kmsg.NewPtrInitProducerIDResponse()
	response.ProducerID, response.ProducerEpoch = id, 0
	r.Respond(response)
}

// initTransactional asks the machine, a second time with a fresh producer id when it
// needs one.
func (c *Coordinators) initTransactional(r *codec.Request, request *kmsg.InitProducerIDRequest, init txn.InitRequest) {
	failed := func(code int16) { r.Respond(initProducerIDRefused(fencedFor(request.Version >= 4, code))) }
	c.submitTransaction(init.TransactionalID, func(m *txn.Machine, t *coord.Turn) {
		m.InitProducerID(t, init, func(result txn.InitResult) {
			switch {
			case result.NeedsProducerID:
				c.freshProducerID(func(id int64) {
					init.FreshProducerID = id
					c.initTransactional(r, request, init)
				}, failed)
			case result.Code != 0:
				failed(result.Code)
			default:
				response := kmsg.NewPtrInitProducerIDResponse()
				response.ProducerID, response.ProducerEpoch = result.ProducerID, result.ProducerEpoch
				r.Respond(response)
			}
		})
	}, failed)
}

func (c *Coordinators) checkInitProducerID(r *codec.Request, request *kmsg.InitProducerIDRequest) *kerr.Error {
	if request.TransactionalID != nil {
		if !c.allowed(r, auth.OperationWrite, auth.ResourceTransactionalID, *request.TransactionalID) {
			return kerr.TransactionalIDAuthorizationFailed
		}
	} else if !c.mayWriteIdempotently(r) {
		auth.Denied(c.authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, auth.OperationIdempotentWrite, auth.ResourceCluster, auth.ClusterName)
		return kerr.ClusterAuthorizationFailed
	}
	switch {
	case (request.ProducerID == -1) != (request.ProducerEpoch == -1):
		return kerr.InvalidRequest
	case request.TransactionalID == nil:
		return nil
	case *request.TransactionalID == "":
		return kerr.InvalidRequest
	case request.TransactionTimeoutMillis <= 0 || request.TransactionTimeoutMillis > c.config.TransactionMaxTimeoutMs:
		return kerr.InvalidTransactionTimeout
	}
	return nil
}

// mayWriteIdempotently: IdempotentWrite on the cluster, or, since KIP-679, Write
// on any topic at all, whether it exists or not.
func (c *Coordinators) mayWriteIdempotently(r *codec.Request) bool {
	if c.visible(r, auth.OperationIdempotentWrite, auth.ResourceCluster, auth.ClusterName) {
		return true
	}
	byType, ok := c.authorizer.(auth.ByResourceType)
	return ok && byType.AuthorizeByResourceType(r.Session.Principal, r.Session.RemoteHost, auth.OperationWrite, auth.ResourceTopic)
}
