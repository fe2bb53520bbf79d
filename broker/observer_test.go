package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/logstore"
	"kaas/meta"
	"kaas/meta/config"
)

func withResources(m *memoryResources) func(*config.Broker, *Options) {
	return func(_ *config.Broker, o *Options) { o.Resources, o.TopicCreator = m, noCreator{} }
}

type noCreator struct{}

func (noCreator) EnsureTopic(context.Context, string, int32, map[string]string) error {
	return meta.ErrForbidden
}

// served is "name/partitions id" of the image's topics; each is in the view, too.
func (tb *testBroker) served() []string {
	tb.t.Helper()
	var topics []string
	for _, topic := range tb.Images.Load().Topics() {
		topics = append(topics, fmt.Sprintf("%s/%d %d", topic.Name, len(topic.Partitions), topic.ID[0]))
	}
	return topics
}

func (tb *testBroker) awaitServed(want ...string) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := tb.Images.Await(ctx, func(*meta.Image) bool { return slices.Equal(tb.served(), want) }); err != nil {
		tb.t.Fatalf("served %q, want %q", tb.served(), want)
	}
	for _, topic := range tb.Images.Load().Topics() {
		t := tb.topic(topic.Name)
		if t == nil || t != tb.topicByID(topic.ID) {
			tb.t.Fatalf("%s is in the image and not in the view", topic.Name)
		}
		for i := range topic.Partitions {
			p, err := tb.partition(topic.Name, int32(i))
			if err != nil || p.log != tb.Store.Get(topic.Name, int32(i)) || stateOf(p.log) != p || p.removed.Load() {
				tb.t.Fatalf("%s-%d: %+v, %v", topic.Name, i, p, err)
			}
			if topic.Partitions[i].Leader != 1 {
				tb.t.Fatalf("%s-%d: %+v", topic.Name, i, topic.Partitions[i])
			}
		}
	}
}

func TestObserverServesWhatResourcesSay(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("a", 1, 2, nil))
	tb := startBroker(t, withResources(m))
	tb.awaitServed("a/2 1") // Start returns after the first list

	m.put(readyTopic("b", 2, 1, map[string]any{"retention.ms": 1000}), readyTopic("In.Capitals", 3, 1, nil))
	tb.awaitServed("In.Capitals/1 3", "a/2 1", "b/1 2")
	if got := tb.topic("b").config.RetentionMs; got != 1000 {
		t.Errorf("retention.ms %d", got)
	}
	if got := tb.Images.Load().Topic("b").Config; len(got) != 1 || got["retention.ms"] != "1000" {
		t.Errorf("overrides %v", got)
	}

	before, _ := tb.partition("a", 1)
	m.put(readyTopic("a", 1, 3, map[string]any{"maxMessageBytes": 7}))
	tb.awaitServed("In.Capitals/1 3", "a/3 1", "b/1 2")
	after, _ := tb.partition("a", 1)
	if before != after || after.config.Load().MaxMessageBytes != 7 {
		t.Errorf("a growing topic gets other partitions, or not its configuration: %+v", after.config.Load())
	}

	m.remove(meta.TopicResourceName("b"))
	tb.awaitServed("In.Capitals/1 3", "a/3 1")
	await(t, "the log to go", func() bool { return tb.Store.Get("b", 0) == nil })
}

// TestObserverIgnores: nothing of these may take away what is served, or serve
// what was never accepted.
func TestObserverIgnores(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("a", 1, 2, nil))
	tb := startBroker(t, withResources(m))

	pending := readyTopic("pending", 0, 1, nil) // no id yet
	lost := readyTopic("a", 1, 2, nil)          // its status was wiped by an edit
	lost.Status = meta.KafkaTopicStatus{}
	second := readyTopic("a", 0, 0, nil) // a second resource of the same topic
	second.Metadata.Name, second.Spec.TopicName = "other-name", "a"
	m.put(pending, lost, second, readyTopic("mark1", 9, 1, nil))
	tb.awaitServed("a/2 1", "mark1/1 9")

	m.remove("other-name")
	refused := readyTopic("a", 1, 2, map[string]any{"retention.ms": 5})
	refused.Status.Conditions[0].Status = "False"
	wrong := readyTopic("mark1", 9, 1, map[string]any{"retention.ms": "soon"})
	fewer := readyTopic("a", 1, 1, nil)
	m.put(refused, wrong, fewer, readyTopic("mark2", 8, 1, nil))
	tb.awaitServed("a/2 1", "mark1/1 9", "mark2/1 8")
	if got := tb.topic("a").config.RetentionMs; got == 5 {
		t.Error("a configuration that was refused is in force")
	}
	if got := tb.topic("mark1").config; got != tb.Config.TopicDefaults {
		t.Errorf("a wrong value changed the configuration: %+v", got)
	}
}

func TestObserverOutlivesTheResourceStore(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("a", 1, 1, nil), readyTopic("b", 2, 1, nil))
	tb := startBroker(t, withResources(m))
	tb.awaitServed("a/1 1", "b/1 2")

	lists := m.listed()
	m.breakWatches(meta.ErrUnavailable)
	await(t, "a few attempts", func() bool { return m.listed() >= lists+3 })
	tb.awaitServed("a/1 1", "b/1 2")
	// Meanwhile b was deleted and c came.
	m.mu.Lock()
	delete(m.topics, "b")
	m.topics["c"] = readyTopic("c", 3, 1, nil)
	m.revision += 2
	m.listErr = nil
	m.mu.Unlock()
	tb.awaitServed("a/1 1", "c/1 3")
	await(t, "the log of b to go", func() bool { return tb.Store.Get("b", 0) == nil })
}

// TestObserverRecreatedTopic: a topic that is deleted and made anew is another one,
// with another id and an empty log, also when both are seen at once.
func TestObserverRecreatedTopic(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("a", 1, 1, nil))
	tb := startBroker(t, withResources(m))
	old, _ := tb.partition("a", 0)
	m.mu.Lock()
	m.revision += 2
	gone := m.topics["a"]
	m.topics["a"] = readyTopic("a", 2, 2, nil)
	m.send(meta.Event{Type: meta.Deleted, Object: gone})
	m.send(meta.Event{Type: meta.Added, Object: m.topics["a"].Copy()})
	m.mu.Unlock()
	tb.awaitServed("a/2 2")
	if !old.removed.Load() {
		t.Error("who parks on the old partition is not told")
	}
	if p, _ := tb.partition("a", 0); p == old || p.log == old.log || p.log.TopicID() != [16]byte{2} {
		t.Errorf("%+v", p)
	}
	if tb.topicByID(meta.UUID{1}) != nil {
		t.Error("the old id is still served")
	}
}

// TestObserverHooks: in the promised order, each once.
func TestObserverHooks(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("a", 1, 1, nil))
	calls := make(chan string, 100)
	tb := newStoppedBroker(t, withResources(m))
	tb.prepare = func(b *Broker) {
		b.hooks.partitionAdded = append(b.hooks.partitionAdded, func(p *partitionState) {
			calls <- fmt.Sprintf("added %s-%d served=%v", p.topicName, p.index, b.topicByID(p.topicID) != nil)
		})
		b.hooks.partitionRemoved = append(b.hooks.partitionRemoved, func(p *partitionState) {
			calls <- fmt.Sprintf("removed %s-%d flag=%v served=%v log=%v", p.topicName, p.index, p.removed.Load(),
				b.topicByID(p.topicID) != nil, b.Store.Get(p.topicName, p.index) == p.log)
		})
		b.hooks.topicRemoved = append(b.hooks.topicRemoved, func(name string, id meta.UUID) { calls <- fmt.Sprintf("topic %s %d", name, id[0]) })
		b.hooks.topicsLoaded = append(b.hooks.topicsLoaded, func() { calls <- "loaded" })
	}
	tb.start()
	m.put(readyTopic("a", 1, 2, nil))
	tb.awaitServed("a/2 1")
	m.put(readyTopic("a", 1, 2, map[string]any{"retention.ms": 5}))
	m.remove("a")
	tb.awaitServed()
	tb.shutdown()
	close(calls)
	var got []string
	for call := range calls {
		got = append(got, call)
	}
	want := []string{
		"added a-0 served=false", "loaded", "added a-1 served=true",
		"removed a-0 flag=true served=false log=true", "removed a-1 flag=true served=false log=true", "topic a 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("hooks ran as\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestObserverSetsStrayDirectoriesAside(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("kept", 1, 1, nil), readyTopic("gone", 2, 1, nil), readyTopic("lost-status", 3, 1, nil))
	tb := startBroker(t, withResources(m))
	tb.awaitServed("gone/1 2", "kept/1 1", "lost-status/1 3")
	tb.shutdown()
	m.mu.Lock()
	delete(m.topics, "gone")
	m.topics["lost-status"].Status = meta.KafkaTopicStatus{}
	m.mu.Unlock()
	tb.restart()
	tb.awaitServed("kept/1 1")
	if got := directories(t, tb.dir); !slices.Equal(got, []string{"gone-0 stray", "kept-0", "lost-status-0"}) {
		t.Errorf("directories %q", got)
	}

	// Not a single resource: they are missing, not deleted. Nothing is touched.
	tb.shutdown()
	m.mu.Lock()
	clear(m.topics)
	m.mu.Unlock()
	tb.restart()
	tb.awaitServed()
	if got := directories(t, tb.dir); !slices.Equal(got, []string{"gone-0 stray", "kept-0", "lost-status-0"}) {
		t.Errorf("directories %q", got)
	}
}

// What was set aside is served again when its topic is there with the same id, while the
// broker runs and at a start; with another id it stays where it is.
func TestObserverBringsStraysBack(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	m.put(readyTopic("kept", 1, 1, nil), readyTopic("gone", 2, 2, nil))
	tb := startBroker(t, withResources(m))
	tb.awaitServed("gone/2 2", "kept/1 1")
	if _, err := tb.Store.Get("gone", 1).Append(testBatch("x"), logstore.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	withoutGone := func() {
		t.Helper()
		tb.shutdown()
		m.mu.Lock()
		delete(m.topics, "gone")
		m.mu.Unlock()
		tb.restart()
		tb.awaitServed("kept/1 1")
		if got := directories(t, tb.dir); !slices.Equal(got, []string{"gone-0 stray", "gone-1 stray", "kept-0"}) {
			t.Fatalf("directories %q", got)
		}
	}
	served := func(id byte, end int64, want ...string) {
		t.Helper()
		tb.awaitServed(fmt.Sprintf("gone/2 %d", id), "kept/1 1")
		if got := tb.Store.Get("gone", 1).LogEndOffset(); got != end {
			t.Errorf("the log ends at %d, want %d", got, end)
		}
		if got := directories(t, tb.dir); !slices.Equal(got, want) {
			t.Errorf("directories %q, want %q", got, want)
		}
	}
	back := []string{"gone-0", "gone-1", "kept-0"}
	withoutGone()
	m.put(readyTopic("gone", 2, 2, nil))
	served(2, 1, back...)

	withoutGone()
	tb.shutdown()
	m.put(readyTopic("gone", 2, 2, nil))
	tb.restart()
	served(2, 1, back...)

	withoutGone()
	both := []string{"gone-0", "gone-0 stray", "gone-1", "gone-1 stray", "kept-0"}
	m.put(readyTopic("gone", 3, 2, nil))
	served(3, 0, both...)
	m.put(readyTopic("gone", 2, 2, nil)) // and with the old one at last
	served(2, 1, both...)
}

// historyResources also tell what a list does not show.
type historyResources struct {
	*memoryResources
	unreadable int
	deleted    meta.UUID
}

func (h *historyResources) Unreadable() int                { return h.unreadable }
func (h *historyResources) TopicDeleted(id meta.UUID) bool { return id == h.deleted }

// While a resource file can't be read, it may hold the topic of any directory. What
// is known as deleted goes all the same, and nothing of a topic that lives.
func TestObserverAsksBeforeItSetsAside(t *testing.T) {
	t.Parallel()
	h := &historyResources{memoryResources: newMemoryResources(), unreadable: 1}
	h.put(readyTopic("kept", 1, 1, nil), readyTopic("gone", 2, 1, nil), readyTopic("deleted", 3, 1, nil))
	tb := startBroker(t, func(_ *config.Broker, o *Options) { o.Resources, o.TopicCreator = h, noCreator{} })
	tb.awaitServed("deleted/1 3", "gone/1 2", "kept/1 1")
	restart := func(want ...string) {
		t.Helper()
		tb.restart()
		tb.awaitServed("kept/1 1")
		if tb.Store.Get("deleted", 0) != nil {
			t.Error("a deleted topic's data is there")
		}
		left := slices.DeleteFunc(directories(t, tb.dir), func(name string) bool { return strings.HasSuffix(name, "-delete") })
		if !slices.Equal(left, want) {
			t.Errorf("directories %q, want %q", left, want)
		}
		tb.shutdown()
	}
	tb.shutdown()
	h.deleted = h.topics["deleted"].Status.TopicID
	delete(h.topics, "gone")
	delete(h.topics, "deleted")
	restart("gone-0", "kept-0")
	h.unreadable = 0
	h.deleted = h.topics["kept"].Status.TopicID // whatever a store says
	restart("gone-0 stray", "kept-0")
}

// directories are those of partitions, "stray" said apart.
func directories(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		name, stray := strings.CutSuffix(entry.Name(), "-stray")
		if stray {
			name, _, _ = strings.Cut(name, ".")
			name += " stray"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestDevModeTopics: they are made and dropped in memory.
func TestDevModeTopics(t *testing.T) {
	t.Parallel()
	tb := startBroker(t, nil)
	ctx := context.Background()
	for name, overrides := range map[string]map[string]string{"in valid": nil, "fine": {"no.such.key": "1"}} {
		if err := tb.TopicCreator.EnsureTopic(ctx, name, 1, overrides); !errors.Is(err, meta.ErrInvalid) {
			t.Errorf("%s %v: error %v", name, overrides, err)
		}
	}
	if err := tb.DropTopic(ctx, "missing"); !errors.Is(err, meta.ErrNotFound) {
		t.Errorf("drop of a missing topic: %v", err)
	}
	topic := tb.createTopic("t", -1, map[string]string{"cleanup.policy": "compact"})
	if len(topic.Partitions) != int(tb.Config.NumPartitions) || topic.ID.IsZero() || !tb.topic("t").config.CleanupCompact {
		t.Errorf("%+v", topic)
	}
	if again := tb.createTopic("t", 5, nil); again.ID != topic.ID {
		t.Error("a topic that exists is made again")
	}
	if err := tb.DropTopic(ctx, "t"); err != nil || tb.Images.Load().Topic("t") != nil || tb.topic("t") != nil {
		t.Errorf("dropped: %v", err)
	}
	if second := tb.createTopic("t", 1, nil); second.ID == topic.ID {
		t.Error("a recreated topic has the old id")
	}
	tb.shutdown()
	if err := tb.TopicCreator.EnsureTopic(ctx, "late", 1, nil); !errors.Is(err, errObserverStopped) {
		t.Errorf("a topic after Close: %v", err)
	}
}

// TestObserverPartitionThatCannotBeServed: the others of its topic are, it has no
// leader, and it comes when the disk lets it.
func TestObserverPartitionThatCannotBeServed(t *testing.T) {
	t.Parallel()
	m := newMemoryResources()
	tb := startBroker(t, withResources(m))
	obstacle := filepath.Join(tb.dir, "t-1")
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.put(readyTopic("t", 1, 3, nil))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := tb.Images.Await(ctx, func(image *meta.Image) bool { return image.Topic("t") != nil }); err != nil {
		t.Fatal(err)
	}
	var leaders []int32
	for _, p := range tb.Images.Load().Topic("t").Partitions {
		leaders = append(leaders, p.Leader)
	}
	if !slices.Equal(leaders, []int32{1, -1, 1}) {
		t.Errorf("leaders %v", leaders)
	}
	for i, want := range []*kerr.Error{nil, kerr.KafkaStorageError, nil, kerr.UnknownTopicOrPartition} {
		if _, err := tb.partition("t", int32(i)); err != want {
			t.Errorf("partition %d: %v, want %v", i, err, want)
		}
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	m.put(readyTopic("t", 1, 3, nil)) // instead of waiting for the next attempt
	if err := tb.Images.Await(ctx, func(image *meta.Image) bool { return image.Topic("t").Partitions[1].Leader == 1 }); err != nil {
		t.Fatal(err)
	}
	tb.awaitServed("t/3 1")
}

// New defaults of the broker act on topics that do not override them, without a
// restart and without a change of their resources.
func TestTopicDefaultsChange(t *testing.T) {
	t.Parallel()
	resources := newMemoryResources()
	resources.put(readyTopic("plain", 1, 1, nil), readyTopic("own", 2, 1, map[string]any{"retention.ms": "5"}))
	tb := startBroker(t, withResources(resources))
	tb.awaitServed("own/1 2", "plain/1 1")
	if err := tb.Config.SetDynamic(map[string]string{"log.retention.ms": "7", "message.max.bytes": "100"}, nil); err != nil {
		t.Fatal(err)
	}
	tb.TopicDefaultsChanged()
	for name, want := range map[string][2]int64{"plain": {7, 100}, "own": {5, 100}} {
		p, err := tb.partition(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "new defaults of "+name, func() bool {
			now := p.config.Load()
			return now.RetentionMs == want[0] && int64(now.MaxMessageBytes) == want[1]
		})
	}
}
