package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// InitProducerId (key 22), v0 to v5. Kafka: KafkaApis.handleInitProducerIdRequest.
//
//   - Without a transactional id every request gets a new producer id with epoch 0,
//     whatever timeout, id and epoch it carries (v3+; KIP-360), except that id and
//     epoch come together or not at all: INVALID_REQUEST.
//   - With one: the empty id is INVALID_REQUEST, a timeout above
//     transaction.max.timeout.ms or not positive INVALID_TRANSACTION_TIMEOUT.
//     Everything else is UNSUPPORTED_VERSION, see ledger.go: it ends the producer
//     at once with a message that says what it is, where a retriable error would
//     keep it trying for ever.
//   - v4 and v5 say the same as v3; Kafka uses them to know clients that understand
//     PRODUCER_FENCED and TRANSACTION_ABORTABLE.

func (c *Coordinators) initProducerIDAPI() codec.API {
	return codec.API{
		Key: 22, Name: "InitProducerId", MinVersion: 0, MaxVersion: 5, Class: codec.Pool, // the next block of ids may have to reach the disk
		EstimateBytes: smallEstimate,
		Handle:        c.initProducerID,
		Refuse: func(r *codec.Request, _ int16, throttleMs int32) {
			// The retriable error that producers know here (TransactionManager.InitProducerIdHandler).
			response := initProducerIDRefused(kerr.CoordinatorLoadInProgress)
			response.ThrottleMillis = throttleMs
			r.Respond(response)
		},
		Note: "idempotent producers; transactional ids are not served yet",
	}
}

func initProducerIDRefused(err *kerr.Error) *kmsg.InitProducerIDResponse {
	response := kmsg.NewPtrInitProducerIDResponse()
	response.ErrorCode, response.ProducerID, response.ProducerEpoch = err.Code, -1, -1
	return response
}

func (c *Coordinators) initProducerID(r *codec.Request) {
	request := kmsg.NewPtrInitProducerIDRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	if refused := c.checkInitProducerID(r, request); refused != nil {
		r.Respond(initProducerIDRefused(refused))
		return
	}
	id, err := c.nextProducerID()
	if err != nil {
		c.logger.Error("no new producer id: the block of ids could not be reserved on disk", "error", err)
		r.Respond(initProducerIDRefused(kerr.CoordinatorNotAvailable))
		return
	}
	response := kmsg.NewPtrInitProducerIDResponse()
	response.ProducerID, response.ProducerEpoch = id, 0
	r.Respond(response)
}

func (c *Coordinators) checkInitProducerID(r *codec.Request, request *kmsg.InitProducerIDRequest) *kerr.Error {
	if request.TransactionalID != nil {
		if !c.allowed(r, auth.OperationWrite, auth.ResourceTransactionalID, *request.TransactionalID) {
			return kerr.TransactionalIDAuthorizationFailed
		}
	} else if !c.mayWriteIdempotently(r) {
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
	return kerr.UnsupportedVersion
}

// mayWriteIdempotently: IdempotentWrite on the cluster, or, since KIP-679, Write
// on any topic at all.
func (c *Coordinators) mayWriteIdempotently(r *codec.Request) bool {
	if c.allowed(r, auth.OperationIdempotentWrite, auth.ResourceCluster, auth.ClusterName) {
		return true
	}
	for _, topic := range c.images.Load().Topics() {
		if c.allowed(r, auth.OperationWrite, auth.ResourceTopic, topic.Name) {
			return true
		}
	}
	return false
}
