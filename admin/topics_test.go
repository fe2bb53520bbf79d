package admin

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/internal/limits"
	"kaas/meta"
)

func TestCreateTopicsRefusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("there", 1)
	h.mustCreate("with.dot", 1)
	manual := func(partitions int32, replication int16, assignments ...[]int32) kmsg.CreateTopicsRequestTopic {
		topic := newTopicRequest("t", partitions)
		topic.ReplicationFactor = replication
		for _, a := range assignments {
			assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			assignment.Partition, assignment.Replicas = a[0], a[1:]
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, assignment)
		}
		return topic
	}
	replication := func(factor int16) kmsg.CreateTopicsRequestTopic { return manual(1, factor) }
	nullConfig := newTopicRequest("t", 1)
	nullConfig.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	for _, test := range []struct {
		topic   kmsg.CreateTopicsRequestTopic
		code    int16
		message string
	}{
		{newTopicRequest("there", 1), 36, "Topic 'there' already exists."},
		{newTopicRequest("", 1), 17, "the empty string is not allowed"},
		{newTopicRequest(".", 1), 17, "'.' is not allowed"},
		{newTopicRequest("..", 1), 17, "'..' is not allowed"},
		{newTopicRequest("a/b", 1), 17, "other than ASCII alphanumerics"},
		{newTopicRequest("ü", 1), 17, "other than ASCII alphanumerics"},
		{newTopicRequest(strings.Repeat("a", 250), 1), 17, "longer than the max allowed length 249"},
		{newTopicRequest("with_dot", 1), 17, "Topic 'with_dot' collides with existing topic: with.dot"},
		{newTopicRequest("__cluster_metadata", 1), 42, "prohibited"},
		{newTopicRequest("t", 0), 37, "invalid non-positive value"},
		{newTopicRequest("t", -2), 37, "invalid non-positive value"},
		{newTopicRequest("t", 1<<31-1), 44, "Excessively large number of partitions per request"},
		{newTopicRequest("t", limits.PartitionsPerRequest+1), 44, "Excessively large number of partitions per request"},
		{replication(0), 38, "Replication factor must be larger than 0"},
		{replication(-2), 38, "Replication factor must be larger than 0"},
		{newTopicRequest("t", 1, "no.such.key", "1"), 40, "no.such.key"},
		{newTopicRequest("t", 1, "retention.ms", "soon"), 40, "retention.ms"},
		{newTopicRequest("t", 1, "retention.ms", "99999999999999999999"), 40, "retention.ms"},
		{nullConfig, 40, "Null value not supported for topic configs: retention.ms"},
		{manual(-1, 1, []int32{0, 1}), 42, "replication factor was not set to -1"},
		{manual(1, -1, []int32{0, 1}), 42, "numPartitions was not set to -1"},
		{manual(-1, -1, []int32{0, 1}, []int32{0, 1}), 39, "Found multiple manual partition assignments for partition 0"},
		{manual(-1, -1, []int32{0}), 39, "empty replica list"},
		{manual(-1, -1, []int32{0, 7}), 39, "includes broker 7, but no such broker is registered"},
		{manual(-1, -1, []int32{0, 1, 1}), 39, "the broker 1 more than once"},
		{manual(-1, -1, []int32{1, 1}), 39, "consecutive 0-based integer sequence"},
	} {
		for _, validateOnly := range []bool{false, true} {
			result := h.create(7, validateOnly, test.topic)
			if len(result) != 1 || result[0].ErrorCode != test.code || !strings.Contains(text(result[0].ErrorMessage), test.message) {
				t.Errorf("%q: %d %s, want %d %s", test.topic.Topic, result[0].ErrorCode, text(result[0].ErrorMessage), test.code, test.message)
			}
			if result[0].NumPartitions != -1 || result[0].ReplicationFactor != -1 || result[0].Configs == nil || len(result[0].Configs) != 0 {
				t.Errorf("%q: %+v", test.topic.Topic, result[0])
			}
		}
	}
	if objects, _, err := h.store.List(t.Context(), meta.KindTopic); err != nil || len(objects) != 2 {
		t.Fatalf("something half-made is left: %d resources, %v", len(objects), err)
	}
}

func TestCreateTopicsEveryVersion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{"num.partitions=3", "log.retention.ms=777"}})
	for version := int16(0); version <= 7; version++ {
		name := "Version." + string(rune('a'+version)) // no resource name: the hashed one is used
		topic := newTopicRequest(name, -1, "retentionMs", "1234567")
		topic.ReplicationFactor = -1
		result := h.create(version, false, topic, newTopicRequest("bad/", 1))
		if len(result) != 2 || result[0].Topic != name || result[0].ErrorCode != 0 || result[1].ErrorCode != 17 {
			t.Fatalf("v%d: %+v", version, result)
		}
		served := h.images.Load().Topic(name)
		if served == nil || len(served.Partitions) != 3 || served.Config["retention.ms"] != "1234567" {
			t.Fatalf("v%d: %+v", version, served)
		}
		if version >= 7 && result[0].TopicID != served.ID {
			t.Errorf("v%d: id %v, served %v", version, result[0].TopicID, served.ID)
		}
		if version >= 5 {
			sources := map[string]string{}
			for _, entry := range result[0].Configs {
				sources[entry.Name] = text(entry.Value) + "/" + string(rune('0'+entry.Source))
			}
			if result[0].NumPartitions != 3 || result[0].ReplicationFactor != 1 || sources["retention.ms"] != "1234567/1" || sources["cleanup.policy"] != "delete/5" {
				t.Errorf("v%d: %+v %v", version, result[0], sources)
			}
		}
		resource, err := h.store.Get(t.Context(), meta.KindTopic, meta.TopicResourceName(name))
		if err != nil {
			t.Fatal(err)
		}
		if topic := resource.(*meta.KafkaTopic); topic.Spec.TopicName != name || *topic.Spec.Partitions != 3 {
			t.Errorf("v%d: %+v", version, topic)
		}
	}
	if twice := h.create(7, false, newTopicRequest("d", 1), newTopicRequest("d", 1)); len(twice) != 1 || twice[0].ErrorCode != 42 {
		t.Errorf("%+v", twice)
	}
	if pair := h.create(7, false, newTopicRequest("p.q", 1), newTopicRequest("p_q", 1)); pair[0].ErrorCode != 0 || pair[1].ErrorCode != 17 {
		t.Errorf("%+v", pair)
	}
}

// When the wait ends first the topic is created, with the zero id; and a topic
// that nobody serves does not hold a worker.
func TestCreateTopicsWaitEndsFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{notServing: true, overrides: []string{"admin.workers=1"}})
	long := kmsg.NewPtrCreateTopicsRequest()
	long.Topics, long.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{newTopicRequest("slow", 1)}, 60_000
	waiting := h.submit(long, 7)
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics, request.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{newTopicRequest("t", 2)}, 0
	result := h.call(request, 7).(*kmsg.CreateTopicsResponse).Topics[0]
	if result.ErrorCode != 0 || meta.UUID(result.TopicID) != meta.ZeroUUID || result.NumPartitions != 2 {
		t.Fatalf("%+v", result)
	}
	h.serve()
	if result := h.decode(waiting, long, 7).(*kmsg.CreateTopicsResponse).Topics[0]; result.ErrorCode != 0 || meta.UUID(result.TopicID) == meta.ZeroUUID {
		t.Fatalf("%+v", result)
	}
}

// A resource that the reconciler refuses is an error, and nothing is left of it.
func TestCreateTopicsRefusedByReconciler(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	// A manifest that claims the name but is itself refused, so that no topic of
	// that name is served.
	older := meta.NewKafkaTopic("claimed")
	older.Metadata.Name = "an-older-one"
	older.Spec.TopicName = "claimed"
	older.Spec.Config = map[string]any{"no.such": 1}
	created, err := h.store.Create(t.Context(), older)
	if err != nil {
		t.Fatal(err)
	}
	// Within one millisecond they are of one age, and then the topic's own name is first.
	for !time.Now().Truncate(time.Millisecond).After(created.Meta().CreationTimestamp) {
		runtime.Gosched()
	}
	result := h.create(7, false, newTopicRequest("claimed", 1))[0]
	if result.ErrorCode != 36 || !strings.Contains(text(result.ErrorMessage), "older") {
		t.Fatalf("%d %s", result.ErrorCode, text(result.ErrorMessage))
	}
	if _, err := h.store.Get(t.Context(), meta.KindTopic, "claimed"); !errors.Is(err, meta.ErrNotFound) {
		t.Fatal(err)
	}
}

func TestDeleteTopics(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	for version := int16(0); version <= 6; version++ {
		name := "v" + string(rune('0'+version))
		h.mustCreate(name, 1)
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TimeoutMillis = 20_000
		if version < 6 {
			request.TopicNames = []string{name, "missing"}
		} else {
			request.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &name}, {Topic: kmsg.StringPtr("missing")}}
		}
		topics := h.call(request, version).(*kmsg.DeleteTopicsResponse).Topics
		if len(topics) != 2 || topics[0].ErrorCode != 0 || topics[1].ErrorCode != 3 || text(topics[0].Topic) != name {
			t.Fatalf("v%d: %+v", version, topics)
		}
		if h.images.Load().Topic(name) != nil {
			t.Errorf("v%d: still served after the reply", version)
		}
	}
	ids := func(topics ...kmsg.DeleteTopicsRequestTopic) []kmsg.DeleteTopicsResponseTopic {
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TimeoutMillis, request.Topics = 20_000, topics
		return h.call(request, 6).(*kmsg.DeleteTopicsResponse).Topics
	}
	id := h.mustCreate("by-id", 1)
	name := "by-id"
	for _, test := range []struct {
		topics []kmsg.DeleteTopicsRequestTopic
		code   int16
	}{
		{[]kmsg.DeleteTopicsRequestTopic{{Topic: &name, TopicID: id}}, 42},
		{[]kmsg.DeleteTopicsRequestTopic{{}}, 42},
		{[]kmsg.DeleteTopicsRequestTopic{{TopicID: meta.NewUUID()}}, 100},
		{[]kmsg.DeleteTopicsRequestTopic{{TopicID: id}, {TopicID: id}}, 42},
		{[]kmsg.DeleteTopicsRequestTopic{{TopicID: id}, {Topic: &name}}, 42},
		{[]kmsg.DeleteTopicsRequestTopic{{Topic: &name}, {Topic: &name}}, 42},
	} {
		if got := ids(test.topics...); len(got) != 1 || got[0].ErrorCode != test.code {
			t.Errorf("%+v: %+v", test.topics, got)
		}
		if h.images.Load().Topic(name) == nil {
			t.Fatalf("%+v deleted the topic", test.topics)
		}
	}
	if got := ids(kmsg.DeleteTopicsRequestTopic{}, kmsg.DeleteTopicsRequestTopic{}); len(got) != 2 || got[0].ErrorCode != 42 || got[1].ErrorCode != 42 {
		t.Errorf("%+v", got)
	}
	if got := ids(kmsg.DeleteTopicsRequestTopic{TopicID: id}); len(got) != 1 || got[0].ErrorCode != 0 || text(got[0].Topic) != name {
		t.Errorf("%+v", got)
	}
	if again := h.mustCreate(name, 1); again == id {
		t.Error("the id was used again")
	}
}

// A store that is away: each request says so in the code that is its own, and
// nothing is half-done.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	away := &awayStore{}
	h := newHarness(t, harnessOptions{wrap: func(s meta.ResourceStore) meta.ResourceStore { away.ResourceStore = s; return away }})
	h.mustCreate("t", 1)
	away.isAway.Store(true)
	if got := h.create(7, false, newTopicRequest("u", 1))[0]; got.ErrorCode != -1 || !strings.Contains(text(got.ErrorMessage), "the disk is full") {
		t.Errorf("%+v", got)
	}
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.TopicNames = []string{"t"}
	if got := h.call(deletion, 5).(*kmsg.DeleteTopicsResponse).Topics[0]; got.ErrorCode != 42 || !strings.Contains(text(got.ErrorMessage), "the disk is full") {
		t.Errorf("%+v", got)
	}
	partitions := kmsg.NewPtrCreatePartitionsRequest()
	partitions.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
	if got := h.call(partitions, 3).(*kmsg.CreatePartitionsResponse).Topics[0]; got.ErrorCode != -1 {
		t.Errorf("%+v", got)
	}
	if code, _ := h.incremental(1, false, kmsg.ConfigResourceTypeTopic, "t", operation{"segment.ms", opSet, "1"}); code != -1 {
		t.Error(code)
	}
	away.isAway.Store(false)
	away.forbidden.Store(true) // Kubernetes' RBAC says no
	if got := h.create(7, false, newTopicRequest("u", 1))[0]; got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	away.forbidden.Store(false)
	h.mustCreate("u", 1)
	if topic := h.images.Load().Topic("t"); topic == nil || len(topic.Partitions) != 1 || len(topic.Config) != 0 {
		t.Errorf("%+v", topic)
	}
}

// A change by someone else in between is met by trying again.
func TestConflictsAreRetried(t *testing.T) {
	t.Parallel()
	away := &awayStore{}
	h := newHarness(t, harnessOptions{wrap: func(s meta.ResourceStore) meta.ResourceStore { away.ResourceStore = s; return away }})
	h.mustCreate("t", 1)
	away.conflicts.Store(3)
	if code, message := h.incremental(1, false, kmsg.ConfigResourceTypeTopic, "t", operation{"segment.ms", opSet, "700000"}); code != 0 || h.overrides("t")["segment.ms"] != "700000" {
		t.Errorf("%d %s", code, message)
	}
	away.conflicts.Store(limits.AdminConflictRetries + 1)
	if code, _ := h.incremental(1, false, kmsg.ConfigResourceTypeTopic, "t", operation{"segment.ms", opSet, "800000"}); code != -1 {
		t.Error(code)
	}
}

func TestDeletionSwitchedOff(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{"delete.topic.enable=false"}})
	h.mustCreate("kept", 1)
	for version, want := range map[int16]int16{1: 42, 2: 42, 3: 73, 5: 73} {
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TopicNames = []string{"kept"}
		if got := h.call(request, version).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; got != want {
			t.Errorf("v%d: %d, want %d", version, got, want)
		}
	}
	if h.images.Load().Topic("kept") == nil {
		t.Error("deleted all the same")
	}
}

func TestCreatePartitions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 2)
	h.mustCreate("__consumer_offsets", 1)
	grow := func(version int16, validateOnly bool, topics ...kmsg.CreatePartitionsRequestTopic) []kmsg.CreatePartitionsResponseTopic {
		request := kmsg.NewPtrCreatePartitionsRequest()
		request.Topics, request.TimeoutMillis, request.ValidateOnly = topics, 20_000, validateOnly
		return h.call(request, version).(*kmsg.CreatePartitionsResponse).Topics
	}
	to := func(name string, count int32, brokers ...[]int32) kmsg.CreatePartitionsRequestTopic {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, count
		for _, replicas := range brokers {
			topic.Assignment = append(topic.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		return topic
	}
	for _, test := range []struct {
		topic   kmsg.CreatePartitionsRequestTopic
		code    int16
		message string
	}{
		{to("t", 2), 37, "Topic already has 2 partition(s)."},
		{to("t", 1), 37, "1 would not be an increase"},
		{to("t", -5), 37, "-5 would not be an increase"},
		{to("missing", 5), 3, "<null>"},
		{to("t", 1<<31-1), 44, "Excessively large"},
		{to("t", 4, []int32{1}), 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."},
		{to("t", 3, []int32{9}), 39, "no such broker"},
		{to("__consumer_offsets", 5), 42, "internal topic __consumer_offsets"},
	} {
		got := grow(3, false, test.topic)
		if len(got) != 1 || got[0].ErrorCode != test.code || !strings.Contains(text(got[0].ErrorMessage), test.message) {
			t.Errorf("%+v: %d %s", test.topic, got[0].ErrorCode, text(got[0].ErrorMessage))
		}
	}
	if got := grow(3, true, to("t", 9)); got[0].ErrorCode != 0 || len(h.images.Load().Topic("t").Partitions) != 2 {
		t.Errorf("%+v", got)
	}
	if got := grow(3, false, to("t", 4), to("t", 5)); len(got) != 1 || got[0].ErrorCode != 42 {
		t.Errorf("%+v", got)
	}
	for version := int16(0); version <= 3; version++ {
		count := int32(3 + version)
		got := grow(version, false, to("t", count, []int32{1}), to("__consumer_offsets", 60))
		if len(got) != 2 || got[0].ErrorCode != 0 || got[1].ErrorCode != 42 || len(h.images.Load().Topic("t").Partitions) != int(count) {
			t.Errorf("v%d: %+v", version, got)
		}
	}
}

func TestInternalPartitionsWithTheUnsafeSwitch(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{"controller.unstable.allow.internal.coordinator.partition.increase=true"}})
	h.mustCreate("__transaction_state", 1)
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.TimeoutMillis = 20_000
	request.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "__transaction_state", Count: 3}}
	if got := h.call(request, 3).(*kmsg.CreatePartitionsResponse).Topics[0]; got.ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	if !h.images.Load().Topic("__transaction_state").Internal {
		t.Error("not marked internal")
	}
}

func TestDevModeRefuses(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{dev: true})
	var log bytes.Buffer // written before each answer
	h.admin.Logger = slog.New(slog.NewTextHandler(&log, nil))
	defer func() {
		if !strings.Contains(log.String(), "level=INFO") || !strings.Contains(log.String(), "the broker runs with --dev") {
			t.Errorf("the log does not say why: %q", log.String())
		}
	}()
	h.images.Store(h.images.Load().WithTopics([]*meta.Topic{{Name: "auto", ID: meta.NewUUID(), Partitions: make([]meta.PartitionInfo, 1)}}, nil))
	refused := func(what string, code int16, message *string) {
		t.Helper()
		if code != 31 || text(message) != "broker is not running in cluster mode" {
			t.Errorf("%s: %d %s", what, code, text(message))
		}
	}
	for _, validateOnly := range []bool{false, true} {
		got := h.create(7, validateOnly, newTopicRequest("t", 1))[0]
		refused("CreateTopics", got.ErrorCode, got.ErrorMessage)
	}
	partitions := kmsg.NewPtrCreatePartitionsRequest()
	partitions.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "auto", Count: 3}}
	grown := h.call(partitions, 3).(*kmsg.CreatePartitionsResponse).Topics[0]
	refused("CreatePartitions", grown.ErrorCode, grown.ErrorMessage)
	value := "1"
	incremental := kmsg.NewPtrIncrementalAlterConfigsRequest()
	incremental.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "auto",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &value}}}}
	altered := h.call(incremental, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	refused("IncrementalAlterConfigs", altered.ErrorCode, altered.ErrorMessage)
	whole := kmsg.NewPtrAlterConfigsRequest()
	whole.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "auto"}}
	replaced := h.call(whole, 2).(*kmsg.AlterConfigsResponse).Resources[0]
	refused("AlterConfigs", replaced.ErrorCode, replaced.ErrorMessage)
	if acls := h.call(anyACL(), 3).(*kmsg.DescribeACLsResponse); acls.ErrorCode != 0 || len(acls.Resources) != 0 {
		t.Errorf("%+v", acls)
	}
	// Deletion runs in the registry only.
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis, request.TopicNames = 20_000, []string{"auto", "missing"}
	topics := h.call(request, 5).(*kmsg.DeleteTopicsResponse).Topics
	if topics[0].ErrorCode != 0 || topics[1].ErrorCode != 3 || h.images.Load().Topic("auto") != nil {
		t.Errorf("%+v", topics)
	}
}

func TestDeniedWrites(t *testing.T) {
	t.Parallel()
	// Everything may be described; nothing may be changed.
	h := newHarness(t, harnessOptions{authorizer: denier(func(op auth.Operation, _ auth.ResourceType, name string) bool {
		return name != "mine" && op != auth.OperationDescribe && !(op == auth.OperationCreate && name == "created")
	})})
	id := h.mustCreate("created", 1)
	if got := h.create(7, false, newTopicRequest("t", 1), newTopicRequest("mine", 1)); got[0].ErrorCode != 29 || got[1].ErrorCode != 0 {
		t.Errorf("%+v", got)
	}
	// Create is allowed, DescribeConfigs is not: no counts and configs (KIP-525).
	h2 := h.create(7, true, newTopicRequest("mine2", 1))
	if h2[0].ErrorCode != 29 {
		t.Errorf("%+v", h2)
	}
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: id}, {Topic: kmsg.StringPtr("missing")}}
	if got := h.call(deletion, 6).(*kmsg.DeleteTopicsResponse).Topics; got[0].ErrorCode != 29 || text(got[0].Topic) != "created" || got[1].ErrorCode != 29 {
		t.Errorf("no existence leak and the name of what may be described: %+v", got)
	}
	partitions := kmsg.NewPtrCreatePartitionsRequest()
	partitions.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "created", Count: 3}, {Topic: "missing", Count: 3}}
	if got := h.call(partitions, 3).(*kmsg.CreatePartitionsResponse).Topics; got[0].ErrorCode != 29 || got[1].ErrorCode != 29 {
		t.Errorf("%+v", got)
	}
	records := kmsg.NewPtrDeleteRecordsRequest()
	records.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "created", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	if got := h.call(records, 2).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]; got.ErrorCode != 29 || got.LowWatermark != -1 {
		t.Errorf("%+v", got)
	}
}

// A store that hangs fills the pool; then requests are refused at once, with a
// throttle, and the pool recovers.
func TestPoolIsBounded(t *testing.T) {
	t.Parallel()
	var hanging *hangingStore
	h := newHarness(t, harnessOptions{overrides: []string{"admin.workers=2", "admin.queue.size=3"}, wrap: func(s meta.ResourceStore) meta.ResourceStore {
		hanging = &hangingStore{ResourceStore: s, release: make(chan struct{})}
		return hanging
	}})
	var waiting []*sink
	request := func(i int) *kmsg.CreateTopicsRequest {
		request := kmsg.NewPtrCreateTopicsRequest()
		request.TimeoutMillis = 20_000
		request.Topics = []kmsg.CreateTopicsRequestTopic{newTopicRequest("t"+string(rune('a'+i)), 1)}
		return request
	}
	for i := range 5 {
		waiting = append(waiting, h.submit(request(i), 7))
	}
	refused := h.call(request(5), 7).(*kmsg.CreateTopicsResponse)
	if refused.Topics[0].ErrorCode != 89 || refused.ThrottleMillis != 100 || refused.Topics[0].Topic != "tf" {
		t.Fatalf("%+v", refused)
	}
	if at := hanging.entered.Load(); at > 2 {
		t.Errorf("%d requests run, 2 may", at)
	}
	close(hanging.release)
	for i, s := range waiting {
		if got := h.decode(s, request(i), 7).(*kmsg.CreateTopicsResponse).Topics[0]; got.ErrorCode != 0 {
			t.Errorf("%+v", got)
		}
	}
	h.mustCreate("after", 1)
}

func TestEnsureTopic(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{"num.partitions=4"}})
	creator := h.admin.TopicCreator()
	for range 2 {
		if err := creator.EnsureTopic(t.Context(), "auto", -1, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.images.Load().Topic("auto"); len(got.Partitions) != 4 {
		t.Fatalf("%+v", got)
	}
	if err := creator.EnsureTopic(t.Context(), "__consumer_offsets", 50, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	if got := h.images.Load().Topic("__consumer_offsets"); !got.Internal || len(got.Partitions) != 50 || got.Config["cleanup.policy"] != "compact" {
		t.Fatalf("%+v", got)
	}
	started := time.Now()
	for _, bad := range []string{"a/b", "", strings.Repeat("x", 300)} {
		if err := creator.EnsureTopic(t.Context(), bad, 1, nil); !errors.Is(err, meta.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := creator.EnsureTopic(t.Context(), "refused", 1, map[string]string{"no.such": "1"}); !errors.Is(err, meta.ErrInvalid) {
		t.Errorf("%v", err)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("a refusal took %v", took)
	}
}
