package meta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
)

func TestUUIDText(t *testing.T) {
	t.Parallel()
	seen := make(map[UUID]bool)
	for range 1000 {
		id := NewUUID()
		text := id.String()
		if len(text) != 22 || text[0] == '-' || id.IsZero() || seen[id] || id[6]>>4 != 4 || id[8]>>6 != 2 {
			t.Fatalf("%s", text)
		}
		seen[id] = true
		if back, err := ParseUUID(text); err != nil || back != id {
			t.Fatal(back, err)
		}
	}
	for _, bad := range []string{"", "short", strings.Repeat("A", 21), strings.Repeat("A", 23), strings.Repeat("+", 22), "AAAAAAAAAAAAAAAAAAAAA="} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("%q was parsed", bad)
		}
	}
	var status KafkaTopicStatus
	if err := json.Unmarshal([]byte(`{"topicId":""}`), &status); err != nil || !status.TopicID.IsZero() {
		t.Error(err)
	}
	if raw, err := json.Marshal(KafkaTopicStatus{}); err != nil || string(raw) != "{}" {
		t.Errorf("%s %v", raw, err)
	}
}

func TestTopicNames(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "A.b_c-1", strings.Repeat("x", 249), "...", "__consumer_offsets"} {
		if err := ValidateTopicName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", strings.Repeat("x", 250), "a/b", "a b", "ä", "a\x00", "a:b"} {
		if err := ValidateTopicName(bad); err == nil || !strings.HasPrefix(err.Error(), "Topic name is invalid: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if !TopicNamesCollide("a.b_c", "a_b.c") || TopicNamesCollide("a.b", "a-b") {
		t.Error("collisions")
	}
}

func TestResourceNames(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{
		"a": true, "a-1.b": true, "0": true, strings.Repeat("x", 249): true, "a.b.c": true,
		"A": false, "a_b": false, ".a": false, "a.": false, "a..b": false, "-a": false, "a-": false, "a-.b": false, "...": false,
		"kaas-topic-0011223344556677": false, // looks like a hash: it must not take the place of one
	} {
		got := TopicResourceName(name)
		if plain != (got == name) || !IsResourceName(got) {
			t.Errorf("%q: %q", name, got)
		}
		if !plain && (len(got) != len("kaas-topic-")+16 || !strings.HasPrefix(got, "kaas-topic-")) {
			t.Errorf("%q: %q", name, got)
		}
		topic := NewKafkaTopic(name)
		if topic.KafkaName() != name || plain != (topic.Spec.TopicName == "") {
			t.Errorf("%+v", topic)
		}
	}
	// The first 8 bytes of SHA-256.
	if got := TopicResourceName("Orders"); got != "kaas-topic-b7e8acdd522e6190" {
		t.Error(got)
	}
}

func TestConfigOverrides(t *testing.T) {
	t.Parallel()
	topic := &KafkaTopic{}
	raw := `{"retentionMs": 9223372036854775807, "cleanup.policy": ["compact", "delete"], "preallocate": true, "x.y": "text", "minInsyncReplicas": 2, "gone": null}`
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&topic.Spec.Config); err != nil {
		t.Fatal(err)
	}
	got, err := topic.ConfigOverrides()
	want := map[string]string{"retention.ms": "9223372036854775807", "cleanup.policy": "compact,delete", "preallocate": "true", "x.y": "text", "min.insync.replicas": "2"}
	if err != nil || !maps.Equal(got, want) {
		t.Fatal(got, err)
	}
	for _, bad := range []map[string]any{
		{"retention.ms": 1, "retentionMs": 2},
		{"a": map[string]any{}},
		{"a": []any{map[string]any{}}},
	} {
		topic.Spec.Config = bad
		if _, err := topic.ConfigOverrides(); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

func TestCopiesAreDeep(t *testing.T) {
	t.Parallel()
	partitions := int32(1)
	topic := NewKafkaTopic("A")
	topic.Metadata.Labels = map[string]string{"a": "1"}
	topic.Spec.Partitions = &partitions
	topic.Spec.Config = map[string]any{"list": []any{"x"}}
	topic.Status = KafkaTopicStatus{Config: map[string]string{"a": "1"}, Conditions: []Condition{{Type: ConditionReady}}}
	before, _ := json.Marshal(topic)
	c := topic.Copy()
	c.Metadata.Labels["a"], *c.Spec.Partitions = "2", 2
	c.Spec.Config["list"].([]any)[0] = "y"
	c.Status.Config["a"], c.Status.Conditions[0].Type = "2", "Other"
	if after, _ := json.Marshal(topic); string(after) != string(before) {
		t.Errorf("%s\n%s", before, after)
	}
}

func TestInForce(t *testing.T) {
	t.Parallel()
	topic := NewKafkaTopic("a")
	if _, ok := topic.InForce(); ok || topic.Ready() {
		t.Error("in force without status")
	}
	topic.Status = KafkaTopicStatus{TopicID: NewUUID(), TopicName: "a", PartitionCount: 2, Config: map[string]string{"x": "1"},
		Conditions: []Condition{{Type: ConditionReady, Status: "False"}}}
	topic.Spec.TopicName = "renamed"
	if got, ok := topic.InForce(); !ok || got.Name != "a" || got.Config["x"] != "1" || topic.Ready() {
		t.Errorf("%+v", got)
	}
}

func TestImageIsImmutable(t *testing.T) {
	t.Parallel()
	a, b := &Topic{Name: "a", ID: NewUUID()}, &Topic{Name: "b", ID: NewUUID()}
	first := NewImage("c", 1, 1, nil, []*Topic{b, a})
	again := &Topic{Name: "a", ID: NewUUID()}
	second := first.WithTopics([]*Topic{again, {Name: "c"}}, []string{"b", "missing"})
	if first.Topic("a") != a || first.TopicByID(b.ID) != b || len(first.Topics()) != 2 || first.Topics()[0] != a {
		t.Error("the first image changed")
	}
	if second.Topic("a") != again || second.TopicByID(a.ID) != nil || second.TopicByID(again.ID) != again || second.Topic("b") != nil ||
		len(second.Topics()) != 2 || second.TopicByID(ZeroUUID) != nil {
		t.Errorf("%+v", second)
	}
	if third := second.WithBrokers([]BrokerInfo{{ID: 7}}, 7); third.Topic("a") != again || third.ControllerID != 7 || second.ControllerID != 1 {
		t.Errorf("%+v", third)
	}
}

func TestAwaitSeesEveryStore(t *testing.T) {
	t.Parallel()
	var images Images
	if images.Load() == nil {
		t.Fatal("nil image")
	}
	var group sync.WaitGroup
	for i := range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			want := fmt.Sprint("t", i)
			if err := images.Await(context.Background(), func(image *Image) bool { return image.Topic(want) != nil }); err != nil {
				t.Error(err)
			}
		}()
	}
	for i := range 50 {
		images.Store(images.Load().WithTopics([]*Topic{{Name: fmt.Sprint("t", i)}}, nil))
	}
	group.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := images.Await(ctx, func(*Image) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := images.Await(ctx, func(*Image) bool { return true }); err != nil {
		t.Error(err)
	}
}

// Produce and fetch look topics up by bytes of a frame.
func TestLookupsDoNotAllocate(t *testing.T) {
	id := NewUUID()
	var images Images
	images.Store(NewImage("c", 1, 1, nil, []*Topic{{Name: "topic", ID: id}}))
	name := []byte("topic")
	if n := testing.AllocsPerRun(100, func() {
		image := images.Load()
		if image.TopicBytes(name) == nil || image.TopicByID(id) == nil {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
