package broker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
)

// testBroker is a whole broker in this process: a log store in a temporary
// directory, topics in memory (dev mode) or in the given resources, a network on a
// free port. It may be stopped and started again on the same directory.
type testBroker struct {
	*Broker
	t       testing.TB
	dir     string
	address string
	config  *config.Broker
	options Options
	// prepare, when set, changes the broker before it starts (hooks).
	prepare func(*Broker)
	stopped bool
	stop    func()
}

// testListener hands the store's news to the broker, which is made after it.
type testListener struct{ broker atomic.Pointer[Broker] }

func (l *testListener) Advanced(p *logstore.Partition) {
	if b := l.broker.Load(); b != nil {
		b.Advanced(p)
	}
}

func (l *testListener) Failed(p *logstore.Partition, err error) {
	if b := l.broker.Load(); b != nil {
		b.Failed(p, err)
	}
}

// startBroker starts a broker with the defaults, changed by change.
func startBroker(t testing.TB, change func(*config.Broker, *Options)) *testBroker {
	t.Helper()
	tb := newStoppedBroker(t, change)
	tb.start()
	return tb
}

// newStoppedBroker is a broker that start starts.
func newStoppedBroker(t testing.TB, change func(*config.Broker, *Options)) *testBroker {
	t.Helper()
	cfg := *config.DefaultBroker()
	cfg.NodeID = 1
	cfg.GroupInitialRebalanceDelayMs = 0
	tb := &testBroker{t: t, dir: t.TempDir(), config: &cfg, stopped: true}
	tb.options = Options{Images: &meta.Images{}, Config: &cfg, Logger: slog.New(slog.NewTextHandler(testLog{t}, nil)), Pool: goPool{}}
	if change != nil {
		change(&cfg, &tb.options)
	}
	t.Cleanup(tb.shutdown)
	return tb
}

// testLog writes to the test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) { l.t.Logf("%s", p); return len(p), nil }

func (tb *testBroker) start() {
	tb.t.Helper()
	listener := &testListener{}
	store, err := logstore.Open(context.Background(), logstore.Options{Dirs: []string{tb.dir}, Logger: tb.options.Logger, BrokerID: 1, Listener: listener})
	if err != nil {
		tb.t.Fatal(err)
	}
	tb.options.Store = store
	b, err := New(tb.options)
	if err != nil {
		tb.t.Fatal(err)
	}
	if tb.prepare != nil {
		tb.prepare(b)
	}
	listener.broker.Store(b)
	registry, err := codec.NewRegistry(b.APIs()...)
	if err != nil {
		tb.t.Fatal(err)
	}
	b.SetRegistry(registry)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.Start(ctx); err != nil {
		tb.t.Fatal(err)
	}
	network := listen(tb.t, b, tb.options.Logger)
	tb.Broker, tb.address, tb.stopped = b, network.Addrs()["PLAINTEXT"].String(), false
	tb.stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for what, err := range map[string]error{"network": network.Close(ctx), "broker": closeBroker(b), "store": store.Close(ctx)} {
			if err != nil {
				tb.t.Errorf("close of the %s: %v", what, err)
			}
		}
	}
}

func closeBroker(b *Broker) error { b.Close(); return nil }

func (tb *testBroker) shutdown() {
	if !tb.stopped {
		tb.stopped = true
		tb.stop()
	}
}

// restart stops and starts the broker on the same directory. In dev mode topics
// are gone, as they are there.
func (tb *testBroker) restart() {
	tb.t.Helper()
	tb.shutdown()
	tb.options.Images = &meta.Images{}
	tb.start()
}

func (tb *testBroker) dial() *rawConn { return dialRaw(tb.t, tb.address) }

// createTopic makes a topic in dev mode.
func (tb *testBroker) createTopic(name string, partitions int32, overrides map[string]string) *meta.Topic {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := tb.TopicCreator.EnsureTopic(ctx, name, partitions, overrides); err != nil {
		tb.t.Fatal(err)
	}
	return tb.Images.Load().Topic(name)
}

// request sends one request on a connection of its own and returns the reply.
func (tb *testBroker) request(request kmsg.Request) kmsg.Response {
	tb.t.Helper()
	c := tb.dial()
	defer func() { _ = c.Close() }()
	c.send(request, 1)
	return c.receive(request, 1)
}

// memoryResources is a meta.ResourceStore that tests write: only what the observer
// uses is there.
type memoryResources struct {
	meta.ResourceStore

	mu       sync.Mutex
	topics   map[string]*meta.KafkaTopic // mu
	revision int                         // mu
	listErr  error                       // mu
	lists    int                         // mu: how often List was called
	watches  []chan meta.Event           // mu
}

func newMemoryResources() *memoryResources {
	return &memoryResources{topics: map[string]*meta.KafkaTopic{}}
}

func (m *memoryResources) List(context.Context, meta.Kind) ([]meta.Object, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lists++
	if m.listErr != nil {
		return nil, "", m.listErr
	}
	var objects []meta.Object
	for _, topic := range m.topics {
		objects = append(objects, topic.Copy())
	}
	return objects, strconv.Itoa(m.revision), nil
}

// Watch sends what happens after the present; a change between List and Watch
// cannot happen in these tests.
func (m *memoryResources) Watch(ctx context.Context, _ meta.Kind, revision string) (<-chan meta.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision != strconv.Itoa(m.revision) {
		return nil, meta.ErrGone
	}
	events := make(chan meta.Event, 1000)
	m.watches = append(m.watches, events)
	context.AfterFunc(ctx, func() { m.endWatch(events) })
	return events, nil
}

func (m *memoryResources) endWatch(events chan meta.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.watches, events); i >= 0 {
		m.watches = slices.Delete(m.watches, i, i+1)
		close(events)
	}
}

// breakWatches ends all watches, as a store does whose watcher fell behind.
func (m *memoryResources) breakWatches(listErr error) {
	m.mu.Lock()
	watches := slices.Clone(m.watches)
	m.listErr = listErr
	m.mu.Unlock()
	for _, events := range watches {
		m.endWatch(events)
	}
}

// put creates or changes topics, in one go.
func (m *memoryResources) put(topics ...*meta.KafkaTopic) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, topic := range topics {
		m.revision++
		kind := meta.Modified
		if m.topics[topic.Metadata.Name] == nil {
			kind = meta.Added
		}
		m.topics[topic.Metadata.Name] = topic
		m.send(meta.Event{Type: kind, Object: topic.Copy(), Revision: strconv.Itoa(m.revision)})
	}
}

func (m *memoryResources) remove(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	topic := m.topics[name]
	delete(m.topics, name)
	m.send(meta.Event{Type: meta.Deleted, Object: topic, Revision: strconv.Itoa(m.revision)})
}

// send is called with mu held.
func (m *memoryResources) send(event meta.Event) {
	for _, events := range m.watches {
		events <- event
	}
}

func (m *memoryResources) listed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lists
}

// readyTopic is a reconciled resource.
func readyTopic(name string, id byte, partitions int32, overrides map[string]any) *meta.KafkaTopic {
	topic := meta.NewKafkaTopic(name)
	topic.Metadata.UID = fmt.Sprintf("uid-%d", id)
	topic.Spec.Config = overrides
	topic.Status = meta.KafkaTopicStatus{TopicID: meta.UUID{id}, TopicName: name, PartitionCount: partitions,
		Conditions: []meta.Condition{{Type: meta.ConditionReady, Status: "True"}}}
	// The reconciler copies what it accepts.
	if accepted, err := topic.ConfigOverrides(); err == nil {
		topic.Status.Config = accepted
	}
	return topic
}
