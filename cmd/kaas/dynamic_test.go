package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta/config"
	"kaas/obs"
)

// configured is a broker in this process with a client of it.
type configured struct {
	*server
	t      *testing.T
	client *kgo.Client
}

func startConfigured(t *testing.T, overrides ...string) *configured {
	t.Helper()
	cfg, _, err := config.LoadBroker(nil, nil, append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "http.address="}, overrides...))
	if err != nil {
		t.Fatal(err)
	}
	s, err := startWith(t.Context(), cfg, obs.Discard(), new(slog.LevelVar), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &configured{server: s, t: t}
	c.client, err = kgo.NewClient(kgo.SeedBrokers(s.network.Addrs()["PLAINTEXT"].String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.end)
	return c
}

// end stops the broker; it may be called again.
func (c *configured) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c.client.Close()
	if err := c.stop(ctx); err != nil {
		c.t.Error(err)
	}
}

// ask sends a request to the broker itself.
func ask[R kmsg.Response](c *configured, request kmsg.Request) R {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	response, err := c.client.Broker(int(c.config.NodeID)).RetriableRequest(ctx, request)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.(R)
}

// alter sets a key, or removes it with "", by IncrementalAlterConfigs and returns the error code.
func (c *configured) alter(kind kmsg.ConfigResourceType, name, key, value string) int16 {
	c.t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	entry := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	entry.Name, entry.Value = key, kmsg.StringPtr(value)
	if value == "" {
		entry.Op, entry.Value = kmsg.IncrementalAlterConfigOpDelete, nil
	}
	resource.Configs = append(resource.Configs, entry)
	request.Resources = append(request.Resources, resource)
	return ask[*kmsg.IncrementalAlterConfigsResponse](c, request).Resources[0].ErrorCode
}

// TestCleanerFollowsDynamicConfig: what IncrementalAlterConfigs has answered is in force, at once and after a restart.
func TestCleanerFollowsDynamicConfig(t *testing.T) {
	t.Parallel()
	overrides := []string{"log.dirs=" + t.TempDir(), "log.cleaner.backoff.ms=900"}
	c := startConfigured(t, overrides...)
	want := c.store.CleanerConfig()
	if want.Threads != 1 || want.BackoffMs != 900 || want.Disabled {
		t.Fatalf("%+v", want)
	}
	want.Threads, want.BackoffMs, want.DedupeBufferBytes, want.IOBufferBytes, want.LoadFactor, want.IOMaxBytesPerSecond = 3, 1, 4<<20, 65536, 0.5, 1e6
	for _, set := range [][3]string{
		{"", "log.cleaner.threads", "3"}, {"", "log.cleaner.backoff.ms", "0"}, {"", "log.cleaner.dedupe.buffer.size", "4194304"},
		{"", "log.cleaner.io.buffer.size", "65536"}, {"", "log.cleaner.io.buffer.load.factor", "0.5"}, {"", "log.cleaner.io.max.bytes.per.second", "1000000"},
	} {
		if code := c.alter(kmsg.ConfigResourceTypeBroker, set[0], set[1], set[2]); code != 0 {
			t.Errorf("%v: code %d", set, code)
		}
	}
	if code := c.alter(kmsg.ConfigResourceTypeBroker, "", "log.cleaner.threads", "0"); code == 0 {
		t.Error("no cleaner threads are taken")
	}
	if got := c.store.CleanerConfig(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	c.end()
	c = startConfigured(t, overrides...)
	if got := c.store.CleanerConfig(); got != want {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	if code := c.alter(kmsg.ConfigResourceTypeBroker, "", "log.cleaner.backoff.ms", ""); code != 0 || c.store.CleanerConfig().BackoffMs != 900 {
		t.Errorf("code %d, %+v", code, c.store.CleanerConfig())
	}
}

// TestMovesFollowDynamicConfig: a move stands still at replica.alter.log.dirs.io.max.bytes.per.second=0, after a restart too,
// and ends when that is removed.
func TestMovesFollowDynamicConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dirs := "log.dirs=" + filepath.Join(dir, "a") + "," + filepath.Join(dir, "b")
	c := startConfigured(t, dirs)
	const rate = "replica.alter.log.dirs.io.max.bytes.per.second"
	if code := c.alter(kmsg.ConfigResourceTypeBroker, "1", rate, "0"); code != 0 {
		t.Fatalf("code %d", code)
	}
	if created := ask[*kmsg.CreateTopicsResponse](c, creationOf("data")); created.Topics[0].ErrorCode != 0 {
		t.Fatalf("%+v", created)
	}
	put := func() {
		if err := c.client.ProduceSync(t.Context(), &kgo.Record{Topic: "data", Value: make([]byte, 1000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put()
	p := c.store.Get("data", 0)
	from, to := p.Dir(), c.store.Dirs()[0]
	if from == to {
		to = c.store.Dirs()[1]
	}
	request := kmsg.NewPtrAlterReplicaLogDirsRequest()
	target, topic := kmsg.NewAlterReplicaLogDirsRequestDir(), kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	topic.Topic, topic.Partitions = "data", []int32{0}
	target.Dir, target.Topics = to, append(target.Topics, topic)
	request.Dirs = append(request.Dirs, target)
	if moved := ask[*kmsg.AlterReplicaLogDirsResponse](c, request); moved.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("%+v", moved)
	}
	standsStill := func() {
		t.Helper()
		for range 20 {
			put()
			if future, _, _ := p.Future(); future != to || p.Dir() != from {
				t.Fatalf("it lies in %s and is moved to %q", p.Dir(), future)
			}
		}
	}
	standsStill()
	c.end()
	c = startConfigured(t, dirs)
	p = c.store.Get("data", 0)
	standsStill()
	if code := c.alter(kmsg.ConfigResourceTypeBroker, "1", rate, ""); code != 0 {
		t.Fatalf("code %d", code)
	}
	eventually(t, func() bool { return p.Dir() == to })
}

// TestConsumerGroupsFollowTheirConfig: what is set for one group by IncrementalAlterConfigs holds for its members: the
// interval that they are told, and the time that they may be silent.
func TestConsumerGroupsFollowTheirConfig(t *testing.T) {
	t.Parallel()
	c := startConfigured(t, "log.dirs="+t.TempDir(), "group.consumer.min.session.timeout.ms=1", "group.consumer.min.heartbeat.interval.ms=1")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = "g", []string{"g"}
	join := func(group string) (answer *kmsg.ConsumerGroupHeartbeatResponse) {
		request := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		request.Group, request.MemberID, request.RebalanceTimeoutMillis = group, "m", 60_000
		request.SubscribedTopicNames, request.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		eventually(t, func() bool {
			ask[*kmsg.FindCoordinatorResponse](c, find)
			answer = ask[*kmsg.ConsumerGroupHeartbeatResponse](c, request)
			return answer.ErrorCode == 0
		})
		return answer
	}
	members := func(group string) int {
		request := kmsg.NewPtrConsumerGroupDescribeRequest()
		request.Groups = []string{group}
		described := ask[*kmsg.ConsumerGroupDescribeResponse](c, request).Groups[0]
		if described.ErrorCode != 0 {
			t.Fatalf("%+v", described)
		}
		return len(described.Members)
	}
	if answer := join("g"); answer.HeartbeatIntervalMillis != 5_000 {
		t.Errorf("%+v", answer)
	}
	join("other")
	for _, set := range [][2]string{{"consumer.heartbeat.interval.ms", "40"}, {"consumer.session.timeout.ms", "50"}} {
		if code := c.alter(kmsg.ConfigResourceTypeGroupConfig, "g", set[0], set[1]); code != 0 {
			t.Fatalf("%v: code %d", set, code)
		}
	}
	if answer := join("g"); answer.HeartbeatIntervalMillis != 40 {
		t.Errorf("%+v", answer)
	}
	eventually(t, func() bool { return members("g") == 0 })
	if n := members("other"); n != 1 {
		t.Errorf("a group without configuration has %d members", n)
	}
}

// TestTopicFileThatComesBack: a topic whose file was taken away while no broker ran is what it was when the file is put
// back while one runs.
func TestTopicFileThatComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startConfigured(t, "log.dirs="+dir)
	for _, topic := range []string{"data", "kept"} {
		if created := ask[*kmsg.CreateTopicsResponse](c, creationOf(topic)); created.Topics[0].ErrorCode != 0 {
			t.Fatalf("%+v", created)
		}
	}
	if err := c.client.ProduceSync(t.Context(), &kgo.Record{Topic: "data", Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	id, _ := c.existingTopicID("data")
	c.end()
	file := filepath.Join(dir, "resources", "kafkatopic-data.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c = startConfigured(t, "log.dirs="+dir)
	strays := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "data-0.*-stray"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if c.store.Get("data", 0) != nil || strays() != 1 {
		t.Fatalf("%d were set aside", strays())
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		topic := c.images.Load().Topic("data")
		return topic != nil && topic.ID == id
	})
	if p := c.store.Get("data", 0); p.LogEndOffset() != 1 || p.TopicID() != id || strays() != 0 {
		t.Errorf("it has %d records, and %d are aside", p.LogEndOffset(), strays())
	}
}
