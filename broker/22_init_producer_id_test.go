package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestInitProducerIDRefused needs no log store: no producer id is spent on what is
// refused.
func TestInitProducerIDRefused(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf("t", 1, 1))
	open := b.Authorizer
	id, empty := "txn", ""
	for _, c := range []struct {
		name       string
		id         *string
		timeoutMs  int32
		producerID int64
		epoch      int16
		deny       deny
		want       *kerr.Error
	}{
		{"no transaction log yet", &id, 900_000, -1, -1, nil, kerr.NotCoordinator},
		{"timeout above the maximum", &id, 900_001, -1, -1, nil, kerr.InvalidTransactionTimeout},
		{"timeout 0", &id, 0, -1, -1, nil, kerr.InvalidTransactionTimeout},
		{"timeout -1", &id, -1, -1, -1, nil, kerr.InvalidTransactionTimeout},
		{"empty id", &empty, 60_000, -1, -1, nil, kerr.InvalidRequest},
		{"id without epoch", nil, 60_000, 5, -1, nil, kerr.InvalidRequest},
		{"epoch without id", nil, 60_000, -1, 0, nil, kerr.InvalidRequest},
		{"not authorized for the id", &id, 60_000, -1, -1, deny{"WRITE TRANSACTIONAL_ID txn": true}, kerr.TransactionalIDAuthorizationFailed},
		{"not authorized to write anywhere", nil, 60_000, -1, -1, deny{"IDEMPOTENT_WRITE CLUSTER kafka-cluster": true, "WRITE TOPIC t": true}, kerr.ClusterAuthorizationFailed},
	} {
		b.Authorizer = open
		if c.deny != nil {
			b.Authorizer = c.deny
		}
		for version := int16(0); version <= 5; version++ {
			if version < 3 && (c.producerID != -1 || c.epoch != -1) {
				continue
			}
			request := kmsg.NewPtrInitProducerIDRequest()
			request.Version, request.TransactionalID, request.TransactionTimeoutMillis = version, c.id, c.timeoutMs
			request.ProducerID, request.ProducerEpoch = c.producerID, c.epoch
			response := call[*kmsg.InitProducerIDResponse](t, b, testSession(), request)
			if response.ErrorCode != c.want.Code || response.ProducerID != -1 || response.ProducerEpoch != -1 {
				t.Errorf("%s, v%d: %+v", c.name, version, response)
			}
		}
	}
}

// TestInitProducerIDs: every request without a transactional id gets another id,
// epoch 0, whatever else it carries; over a restart, too.
func TestInitProducerIDs(t *testing.T) {
	t.Parallel()
	tb := startBroker(t, nil)
	seen := map[int64]bool{}
	ask := func(version int16, timeoutMs int32, producerID int64, epoch int16) {
		t.Helper()
		request := kmsg.NewPtrInitProducerIDRequest()
		request.Version, request.TransactionTimeoutMillis, request.ProducerID, request.ProducerEpoch = version, timeoutMs, producerID, epoch
		response := tb.request(request).(*kmsg.InitProducerIDResponse)
		if response.ErrorCode != 0 || response.ProducerID < 0 || response.ProducerEpoch != 0 || seen[response.ProducerID] {
			t.Errorf("v%d: %+v, seen %v", version, response, seen)
		}
		seen[response.ProducerID] = true
	}
	for version := int16(0); version <= 5; version++ {
		ask(version, 60_000, -1, -1)
		ask(version, -1, -1, -1)
	}
	ask(4, 1<<31-1, 5, 3)
	tb.options.Authorizer = deny{"IDEMPOTENT_WRITE CLUSTER kafka-cluster": true} // Write on any topic will do
	tb.restart()
	tb.createTopic("t", 1, nil)
	ask(4, 60_000, -1, -1)
}
