package coordinators

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topics of which a request names no partition are in the answer, as with Apache Kafka
// 4.4, but not where the request only asks.
func TestAddPartitionsAnswersTopicsWithoutPartitions(t *testing.T) {
	t.Parallel()
	old := kmsg.NewPtrAddPartitionsToTxnRequest()
	old.Version, old.Topics = 3, []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "none"}, {Topic: "some", Partitions: []int32{0}}}
	r := addResponse(old.Version, addTransactions(old))
	if len(r.Topics) != 2 || r.Topics[0].Topic != "some" || r.Topics[1].Topic != "none" || len(r.Topics[1].Partitions) != 0 || r.Transactions != nil {
		t.Errorf("v3: %+v", r)
	}
	for verify, want := range map[bool]int{false: 1, true: 0} {
		q := kmsg.NewPtrAddPartitionsToTxnRequest()
		q.Version = 5
		q.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: "t", VerifyOnly: verify, Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "none"}}}}
		if r := addResponse(q.Version, addTransactions(q)); len(r.Transactions) != 1 || len(r.Transactions[0].Topics) != want {
			t.Errorf("v5, verify only %v: %+v", verify, r)
		}
	}
}
