package coordinators

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/txn"
)

// EndTxn (key 26), v0 to v5. Kafka: KafkaApis.handleEndTxnRequest.
//
//   - TransactionalId Write. The answer comes when the decision is on stable storage;
//     the markers follow. The repetition of the last end is success and writes nothing.
//   - v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v4: TRANSACTION_ABORTABLE;
//     v5: the epoch rises with each end, the answer has what the producer goes on with
//     (KIP-890 part 2).
func (c *Coordinators) endTxnAPI() codec.API {
	return codec.API{
		Key: 26, Name: "EndTxn", MinVersion: 0, MaxVersion: 5, Class: codec.TwoPhase, Handle: c.endTxn,
		EstimateBytes: codec.SmallEstimate,
		Refuse:        refuseWith(func(*codec.Request) kmsg.Response { return endTxnFailed(refusedCode) }),
		Note:          "v5: transactions of version 2",
	}
}

func endTxnFailed(code int16) *kmsg.EndTxnResponse {
	response := kmsg.NewPtrEndTxnResponse()
	response.ErrorCode, response.ProducerID, response.ProducerEpoch = code, -1, -1
	return response
}

func (c *Coordinators) endTxn(r *codec.Request) {
	request := kmsg.NewPtrEndTxnRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	failed := func(code int16) { r.Respond(endTxnFailed(fencedFor(request.Version >= 2, code))) }
	switch {
	case !c.allowed(r, auth.OperationWrite, auth.ResourceTransactionalID, request.TransactionalID):
		failed(kerr.TransactionalIDAuthorizationFailed.Code)
		return
	case request.TransactionalID == "":
		failed(kerr.InvalidRequest.Code)
		return
	}
	end := txn.EndRequest{
		TransactionalID: request.TransactionalID, ProducerID: request.ProducerID, ProducerEpoch: request.ProducerEpoch,
		Commit: request.Commit, FreshProducerID: -1,
	}
	if request.Version >= 5 {
		end.ClientVersion = txn.Version2
	}
	c.end(r, end, failed)
}

// end asks the machine, a second time with a fresh producer id when it needs one.
func (c *Coordinators) end(r *codec.Request, end txn.EndRequest, failed func(code int16)) {
	c.submitTransaction(end.TransactionalID, func(m *txn.Machine, t *coord.Turn) {
		m.EndTransaction(t, end, func(result txn.EndResult) {
			switch {
			case result.NeedsProducerID:
				c.freshProducerID(func(id int64) {
					end.FreshProducerID = id
					c.end(r, end, failed)
				}, failed)
			case result.Code != 0:
				failed(result.Code)
			default:
				response := kmsg.NewPtrEndTxnResponse()
				response.ProducerID, response.ProducerEpoch = result.ProducerID, result.ProducerEpoch
				r.Respond(response)
			}
		})
	}, failed)
}

// freshProducerID gets a producer id on the worker pool: it may wait for the disk.
func (c *Coordinators) freshProducerID(use func(id int64), failed func(code int16)) {
	submitted := c.submitWork(func() {
		id, err := c.nextProducerID()
		if err != nil {
			c.logger.Error("no new producer id: the block of ids could not be reserved on disk", "error", err)
			failed(kerr.CoordinatorNotAvailable.Code)
			return
		}
		use(id)
	})
	if !submitted {
		failed(refusedCode)
	}
}
