package coordinators

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/coord"
	"kaas/internal/vfs"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/txn"
)

// servedTopics serves nothing before served is set, as a broker that starts.
type servedTopics struct {
	store  *logstore.Store
	served atomic.Bool
}

func (s *servedTopics) Topic(name string) Topic {
	if !s.served.Load() || s.store.Get(name, 0) == nil {
		return nil
	}
	return servedTopic{s.store, name}
}

func (s *servedTopics) TopicByID(meta.UUID) Topic { return nil }

type servedTopic struct {
	store *logstore.Store
	name  string
}

func (s servedTopic) Name() string    { return s.name }
func (s servedTopic) ID() meta.UUID   { return meta.UUID{1} }
func (s servedTopic) Partitions() int { return 1 }
func (s servedTopic) Log(partition int32) (*logstore.Partition, *kerr.Error) {
	return s.store.Get(s.name, partition), nil
}

// newTransactionCoordinator leads partition 0 of __transaction_state in store.
func newTransactionCoordinator(t *testing.T, topics *servedTopics) *Coordinators {
	t.Helper()
	broker, _, err := config.LoadBroker(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Config: broker, Topics: topics, Images: &meta.Images{}, Logger: slog.New(slog.DiscardHandler), Clock: time.Now})
	c.PartitionAdded(meta.TransactionStateTopic, 0, topics.store.Get(meta.TransactionStateTopic, 0))
	return c
}

// ask runs on the machine and waits for the answer.
func ask[T any](t *testing.T, c *Coordinators, run func(m *txn.Machine, turn *coord.Turn, done func(T))) (answer T) {
	t.Helper()
	answers := make(chan T, 1)
	eventually(t, "the shard answers", func() bool {
		refused := make(chan error, 1)
		c.transactions.Submit(0, coord.Event[*txn.Machine]{
			Run:     func(m *txn.Machine, turn *coord.Turn) { run(m, turn, func(a T) { answers <- a }) },
			Refused: func(err error) { refused <- err },
		})
		select {
		case answer = <-answers:
			return true
		case <-refused:
			return false // it is still loading
		}
	})
	return answer
}

func stateOf(t *testing.T, c *Coordinators) string {
	t.Helper()
	return ask(t, c, func(m *txn.Machine, turn *coord.Turn, done func(string)) {
		m.Describe(turn, "id", func(r kmsg.DescribeTransactionsResponseTransactionState) { done(r.State) })
	})
}

// A shard is loaded before its topic is in the broker's view. What it finds
// prepared then is ended all the same, once the partitions are served.
func TestPreparedTransactionsOfAStartAreEnded(t *testing.T) {
	t.Parallel()
	store, err := logstore.Open(context.Background(), logstore.Options{Dirs: []string{"/data"}, FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	for _, topic := range []string{meta.TransactionStateTopic, "data"} {
		if _, err := store.Ensure(topic, [16]byte{1}, 0, logstore.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
	}
	before := newTransactionCoordinator(t, &servedTopics{store: store})
	producer := ask(t, before, func(m *txn.Machine, turn *coord.Turn, done func(txn.InitResult)) {
		m.InitProducerID(turn, txn.InitRequest{TransactionalID: "id", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1, FreshProducerID: 7}, done)
	})
	code := ask(t, before, func(m *txn.Machine, turn *coord.Turn, done func(int16)) {
		m.AddPartitions(turn, txn.AddRequest{TransactionalID: "id", ProducerID: 7, ProducerEpoch: producer.ProducerEpoch,
			Partitions: []TopicPartition{{Topic: "data"}}, ClientVersion: txn.Version2}, done)
	})
	end := ask(t, before, func(m *txn.Machine, turn *coord.Turn, done func(txn.EndResult)) {
		m.EndTransaction(turn, txn.EndRequest{TransactionalID: "id", ProducerID: 7, ProducerEpoch: producer.ProducerEpoch, Commit: true, ClientVersion: txn.Version2}, done)
	})
	if producer.Code != 0 || code != 0 || end.Code != 0 || stateOf(t, before) != "PrepareCommit" {
		t.Fatalf("init %+v, add %d, end %+v, state %s", producer, code, end, stateOf(t, before))
	}
	before.transactions.Unload(0)

	topics := &servedTopics{store: store}
	after := newTransactionCoordinator(t, topics)
	if state := stateOf(t, after); state != "PrepareCommit" {
		t.Fatalf("state %s while its partitions are not served", state)
	}
	topics.served.Store(true)
	after.topicsLoaded.Store(true)
	eventually(t, "the transaction is complete", func() bool { return stateOf(t, after) == "CompleteCommit" })
	if got := store.Get("data", 0).LogEndOffset(); got != 1 {
		t.Errorf("%d records in the partition, one marker is wanted", got)
	}
	after.transactions.Unload(0)
}
