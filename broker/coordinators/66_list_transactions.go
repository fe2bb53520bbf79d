package coordinators

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/txn"
)

// ListTransactions (key 66), v0 to v2. Kafka: KafkaApis.handleListTransactionsRequest.
//
//   - All transactional ids whose coordinator is this broker, by name, with
//     TransactionalId Describe; filters by state (a name that nobody knows is returned
//     and matches nothing) and producer id; v1: by duration (KIP-994); v2: by a
//     pattern of the id, RE2 syntax, matched whole (KIP-1152), INVALID_REGULAR_EXPRESSION.
//   - While a shard is loading, the reply is COORDINATOR_LOAD_IN_PROGRESS.
func (c *Coordinators) listTransactionsAPI() codec.API {
	return codec.API{
		Key: 66, Name: "ListTransactions", MinVersion: 0, MaxVersion: 2, Class: codec.TwoPhase, Handle: c.listTransactions,
		Refuse: refuseWith(func(*codec.Request) kmsg.Response { return listTransactionsFailed(refusedCode) }),
	}
}

func listTransactionsFailed(code int16) *kmsg.ListTransactionsResponse {
	response := kmsg.NewPtrListTransactionsResponse()
	response.ErrorCode = code
	return response
}

func (c *Coordinators) listTransactions(r *codec.Request) {
	request := kmsg.NewPtrListTransactionsRequest()
	if !decodeGroupRequest(r, request) {
		return
	}
	response := kmsg.NewPtrListTransactionsResponse()
	filter := txn.Filter{ProducerIDs: request.ProducerIDFilters, StatesGiven: len(request.StateFilters) > 0, DurationMs: -1}
	if request.Version >= 1 {
		filter.DurationMs = request.DurationFilterMillis
	}
	for _, name := range request.StateFilters {
		if state, known := txn.StateNamed(name); known {
			filter.States = append(filter.States, state)
		} else {
			response.UnknownStateFilters = append(response.UnknownStateFilters, name)
		}
	}
	if request.TransactionalIDPattern != nil && *request.TransactionalIDPattern != "" {
		pattern, err := regexp.Compile(`^(?:` + *request.TransactionalIDPattern + `)$`)
		if err != nil {
			r.Respond(listTransactionsFailed(kerr.InvalidRegularExpression.Code))
			return
		}
		filter.Pattern = pattern
	}
	session := *r.Session // read here, on the loop that owns it
	shards := c.transactions.Shards()
	all := newGather(len(shards), func() {
		if response.ErrorCode != 0 {
			response.TransactionStates = nil
		}
		response.TransactionStates = slices.DeleteFunc(response.TransactionStates, func(x kmsg.ListTransactionsResponseTransactionState) bool {
			return !c.authorizer.Authorize(session.Principal, session.RemoteHost, auth.OperationDescribe, auth.ResourceTransactionalID, x.TransactionalID)
		})
		slices.SortFunc(response.TransactionStates, func(a, b kmsg.ListTransactionsResponseTransactionState) int {
			return cmp.Compare(a.TransactionalID, b.TransactionalID)
		})
		r.Respond(response)
	})
	for _, shard := range shards {
		done := func(states []kmsg.ListTransactionsResponseTransactionState, err error) {
			all.part(func() {
				response.TransactionStates = append(response.TransactionStates, states...)
				if err != nil && !isNotCoordinator(err) {
					response.ErrorCode = txn.ErrorCode(err)
				}
			})
		}
		c.transactions.Submit(shard, coord.Event[*txn.Machine]{
			Run:     func(m *txn.Machine, t *coord.Turn) { m.List(t, filter, done) },
			Refused: func(err error) { done(nil, err) },
		})
	}
}
