package coordinators

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/txn"
)

// DescribeTransactions (key 65), v0. Kafka: KafkaApis.handleDescribeTransactionsRequest.
//
//   - TransactionalId Describe for each; topics that the client may not describe are
//     left out. An unknown id is TRANSACTIONAL_ID_NOT_FOUND, the empty one
//     INVALID_REQUEST.
func (c *Coordinators) describeTransactionsAPI() codec.API {
	return codec.API{
		Key: 65, Name: "DescribeTransactions", MinVersion: 0, MaxVersion: 0, Class: codec.TwoPhase, Handle: c.describeTransactions,
		Refuse: refuseWith(func(r *codec.Request) kmsg.Response {
			request := kmsg.NewPtrDescribeTransactionsRequest()
			if !decodeGroupRequest(r, request) {
				return nil
			}
			response := kmsg.NewPtrDescribeTransactionsResponse()
			for _, id := range request.TransactionalIDs {
				response.TransactionStates = append(response.TransactionStates, describedFailed(id, refusedCode))
			}
			return response
		}),
	}
}

type describedTransaction = kmsg.DescribeTransactionsResponseTransactionState

func describedFailed(id string, code int16) describedTransaction {
	state := kmsg.NewDescribeTransactionsResponseTransactionState()
	state.TransactionalID, state.ErrorCode = id, code
	return state
}

func (c *Coordinators) describeTransactions(r *codec.Request) {
	request := kmsg.NewPtrDescribeTransactionsRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	session := *r.Session // read here, on the loop that owns it
	response := kmsg.NewPtrDescribeTransactionsResponse()
	response.TransactionStates = make([]describedTransaction, len(request.TransactionalIDs))
	all := newGather(len(request.TransactionalIDs), func() { r.Respond(response) })
	for i, id := range request.TransactionalIDs {
		done := func(state describedTransaction) {
			state.Topics = slices.DeleteFunc(state.Topics, func(t kmsg.DescribeTransactionsResponseTransactionStateTopic) bool {
				return !c.authorizer.Authorize(session.Principal, session.RemoteHost, auth.OperationDescribe, auth.ResourceTopic, t.Topic)
			})
			all.part(func() { response.TransactionStates[i] = state })
		}
		switch {
		case !c.allowed(r, auth.OperationDescribe, auth.ResourceTransactionalID, id):
			done(describedFailed(id, kerr.TransactionalIDAuthorizationFailed.Code))
		case id == "":
			done(describedFailed(id, kerr.InvalidRequest.Code))
		default:
			c.submitTransaction(id,
				func(m *txn.Machine, t *coord.Turn) { m.Describe(t, id, done) },
				func(code int16) { done(describedFailed(id, code)) })
		}
	}
}
