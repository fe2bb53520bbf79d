package coordinators

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/auth"
	"kaas/codec"
	"kaas/coord"
	"kaas/group"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/txn"
)

// Topic is one topic that the broker serves, at one moment.
type Topic interface {
	Name() string
	ID() meta.UUID
	Partitions() int
	// Log of a partition. Errors: UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR.
	Log(partition int32) (*logstore.Partition, *kerr.Error)
}

// Topics finds what the broker serves, lock-free; nil: nothing of that name or id.
type Topics interface {
	Topic(name string) Topic
	TopicByID(id meta.UUID) Topic
}

// Options are what Coordinators are made of; all must be given.
type Options struct {
	Config     *config.Broker
	Authorizer auth.Authorizer
	Images     *meta.Images
	Topics     Topics
	// NextProducerID returns one that nobody ever had; it may wait for the disk.
	NextProducerID func() (int64, error)
	// Submit runs a function on the worker pool. It never blocks; false: the pool is
	// full, and the function is not run.
	Submit func(func()) bool
	// CreateTopic has an internal topic made and waits for it, for a bounded time.
	CreateTopic func(name string)
	// Endpoint is where the client of the session finds a broker; false: nowhere.
	Endpoint func(session *codec.Session, image *meta.Image, broker *meta.BrokerInfo) (meta.Endpoint, bool)
	Logger   *slog.Logger
	Clock    func() time.Time
}

// Coordinators are the group and transaction coordinators of one broker. The fields
// are immutable.
type Coordinators struct {
	config         *config.Broker
	authorizer     auth.Authorizer
	images         *meta.Images
	topics         Topics
	nextProducerID func() (int64, error)
	submitWork     func(func()) bool
	createTopic    func(name string)
	endpoint       func(*codec.Session, *meta.Image, *meta.BrokerInfo) (meta.Endpoint, bool)
	logger         *slog.Logger
	clock          func() time.Time

	counters     counters
	groups       *coord.Runtime[*group.Machine]
	transactions *coord.Runtime[*txn.Machine]

	// transactionLogs are the logs of the shards of transactions, by partition: int32 to
	// *logstore.Partition.
	transactionLogs sync.Map
	// topicsLoaded: a topic that is not served now does not exist.
	topicsLoaded atomic.Bool
}

// New makes coordinators that lead no shard yet.
func New(o Options) *Coordinators {
	c := &Coordinators{
		config: o.Config, authorizer: o.Authorizer, images: o.Images, topics: o.Topics,
		nextProducerID: o.NextProducerID, submitWork: o.Submit, createTopic: o.CreateTopic, endpoint: o.Endpoint, logger: o.Logger, clock: o.Clock,
	}
	c.groups, c.transactions = c.newGroups(o.Clock), c.newTransactions(o.Clock)
	return c
}

// APIs are the API keys of this package.
func (c *Coordinators) APIs() []codec.API {
	return []codec.API{
		c.findCoordinatorAPI(),
		c.offsetCommitAPI(), c.offsetFetchAPI(), c.joinGroupAPI(), c.heartbeatAPI(), c.leaveGroupAPI(), c.syncGroupAPI(),
		c.describeGroupsAPI(), c.listGroupsAPI(), c.deleteGroupsAPI(), c.offsetDeleteAPI(),
		c.consumerGroupHeartbeatAPI(), c.consumerGroupDescribeAPI(),
		c.initProducerIDAPI(), c.addPartitionsToTxnAPI(), c.addOffsetsToTxnAPI(), c.endTxnAPI(), c.writeTxnMarkersAPI(),
		c.txnOffsetCommitAPI(), c.describeProducersAPI(), c.describeTransactionsAPI(), c.listTransactionsAPI(),
	}
}

// PartitionAdded is told before the partition is served.
func (c *Coordinators) PartitionAdded(topic string, partition int32, log *logstore.Partition) {
	switch topic {
	case meta.ConsumerOffsetsTopic:
		c.groups.Load(partition, &shardLog{log: log})
	case meta.TransactionStateTopic:
		c.transactionLogs.Store(partition, log)
		c.transactions.Load(partition, &shardLog{log: log})
	}
}

// PartitionRemoved is told when the partition is not served any more and its log
// still there.
func (c *Coordinators) PartitionRemoved(topic string, partition int32) {
	switch topic {
	case meta.ConsumerOffsetsTopic:
		c.groups.Unload(partition)
	case meta.TransactionStateTopic:
		c.transactions.Unload(partition)
		c.transactionLogs.Delete(partition)
	}
}

// TopicRemoved is told after PartitionRemoved of all partitions.
func (c *Coordinators) TopicRemoved(name string, id meta.UUID) {
	topics := map[string][16]byte{name: id}
	c.tellGroups(func(m *group.Machine, t *coord.Turn) { m.TopicsDeleted(t, topics) })
}

// TopicsLoaded is told once, after the first complete list of topics is served.
func (c *Coordinators) TopicsLoaded() {
	c.topicsLoaded.Store(true)
	// A topic may have been deleted and made anew while this broker was down.
	c.tellGroups(func(m *group.Machine, t *coord.Turn) { m.TopicsReplaced(t, c.topicIDOf) })
}

func (c *Coordinators) topicIDOf(name string) [16]byte {
	if t := c.topics.Topic(name); t != nil {
		return t.ID()
	}
	return [16]byte{}
}

// allowed asks the authorizer whether the client of r may do operation.
func (c *Coordinators) allowed(r *codec.Request, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return c.visible(r, operation, resource, name) || auth.Denied(c.authorizer, r.API.Name, r.Session.Principal, r.Session.RemoteHost, operation, resource, name)
}

// visible is allowed for what the request does not depend on: a denial is not told.
func (c *Coordinators) visible(r *codec.Request, operation auth.Operation, resource auth.ResourceType, name string) bool {
	return c.authorizer.Authorize(r.Session.Principal, r.Session.RemoteHost, operation, resource, name)
}

// isNotCoordinator: the shard moved away while it was asked; what it had is listed
// by its new coordinator.
func isNotCoordinator(err error) bool { return errors.Is(err, coord.ErrNotCoordinator) }

// offLoopWhenLarge runs a handler that only reads on the worker pool when the request
// is so large that it would hold up the other connections of the loop, or here when
// the pool is full: what it costs is bounded by limits.RequestMemoryBytes.
func (c *Coordinators) offLoopWhenLarge(handle func(*codec.Request)) func(*codec.Request) {
	return func(r *codec.Request) {
		if len(r.Body) > limits.InlineBodyBytes && c.submitWork(codec.Guarded(r, c.logger, handle)) {
			return
		}
		handle(r)
	}
}
