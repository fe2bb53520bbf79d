package admin

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/internal/vfs"
	"kaas/logstore"
	"kaas/meta"
)

func (h *harness) describe(version int16, kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	h.t.Helper()
	request := kmsg.NewPtrDescribeConfigsRequest()
	request.IncludeSynonyms, request.IncludeDocumentation = true, true
	request.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: keys}}
	return h.call(request, version).(*kmsg.DescribeConfigsResponse).Resources[0]
}

func (h *harness) overrides(name string) map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for _, entry := range h.describe(4, kmsg.ConfigResourceTypeTopic, name).Configs {
		if entry.Source == kmsg.ConfigSourceDynamicTopicConfig {
			out[entry.Name] = text(entry.Value)
		}
	}
	return out
}

type operation struct {
	key   string
	op    int8
	value string // "-" is null
}

const (
	opSet int8 = iota
	opDelete
	opAppend
	opSubtract
)

func (h *harness) incremental(version int16, validateOnly bool, kind kmsg.ConfigResourceType, name string, operations ...operation) (int16, string) {
	h.t.Helper()
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.ValidateOnly = validateOnly
	resource := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
	for _, o := range operations {
		entry := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: o.key, Op: kmsg.IncrementalAlterConfigOp(o.op)}
		if o.value != "-" {
			entry.Value = &o.value
		}
		resource.Configs = append(resource.Configs, entry)
	}
	request.Resources = append(request.Resources, resource)
	result := h.call(request, version).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
	return result.ErrorCode, text(result.ErrorMessage)
}

func TestIncrementalAlterConfigs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 1, "retention.ms", "1000000")
	const topic = kmsg.ConfigResourceTypeTopic
	for _, step := range []struct {
		operations []operation
		code       int16
		message    string
		after      string // key=value, sorted by key; empty: as before
	}{
		{[]operation{{"segment.ms", opSet, "700000"}, {"maxMessageBytes", opSet, "200000"}}, 0, "", "max.message.bytes=200000 retention.ms=1000000 segment.ms=700000"},
		{[]operation{{"max.message.bytes", opDelete, "-"}, {"segmentMs", opDelete, ""}}, 0, "", "retention.ms=1000000"},
		{[]operation{{"no.such.key", opDelete, "-"}}, 0, "", ""},
		{[]operation{{"cleanup.policy", opAppend, "compact,delete"}}, 0, "", "cleanup.policy=delete,compact retention.ms=1000000"},
		{[]operation{{"cleanup.policy", opSubtract, "delete"}}, 0, "", "cleanup.policy=compact retention.ms=1000000"},
		{[]operation{{"retention.ms", opSet, "-"}}, 0, "", "cleanup.policy=compact"},
		{[]operation{{"retention.ms", opAppend, "1"}}, 40, "Can't APPEND to key retention.ms because its type is not LIST.", ""},
		{[]operation{{"retention.ms", opSubtract, "1"}}, 40, "Can't SUBTRACT to key retention.ms", ""},
		{[]operation{{"no.such.key", opAppend, "1"}}, 40, "no.such.key", ""},
		{[]operation{{"cleanup.policy", opAppend, "-"}}, 42, "Null value", ""},
		{[]operation{{"cleanup.policy", opAppend, "shred"}}, 40, "shred", ""},
		{[]operation{{"segment.ms", opSet, "700000"}, {"no.such.key", opSet, "1"}}, 40, "no.such.key", ""},
		{[]operation{{"segment.ms", opSet, "never"}}, 40, "segment.ms", ""},
		{[]operation{{"segment.ms", opSet, "99999999999999999999"}}, 40, "segment.ms", ""},
		{[]operation{{"segment.ms", opSet, "1000"}, {"segmentMs", opSet, "2000"}}, 42, "duplicate config keys", ""},
		{[]operation{{"segment.ms", 9, "1"}}, 42, "Unknown operation 9", ""},
		{nil, 0, "", ""},
	} {
		before := h.overrides("t")
		for version := int16(1); version >= 0; version-- {
			code, message := h.incremental(version, version == 1 && step.code != 0, topic, "t", step.operations...)
			if code != step.code || !strings.Contains(message, step.message) {
				t.Errorf("%v: %d %s", step.operations, code, message)
			}
		}
		want := before
		if step.after != "" {
			want = map[string]string{}
			for pair := range strings.FieldsSeq(step.after) {
				key, value, _ := strings.Cut(pair, "=")
				want[key] = value
			}
		}
		if got := h.overrides("t"); !maps.Equal(got, want) {
			t.Errorf("after %v: %v, want %v", step.operations, got, want)
		}
	}
	before := h.overrides("t")
	if code, message := h.incremental(1, true, topic, "t", operation{"segment.ms", opSet, "800000"}); code != 0 || !maps.Equal(h.overrides("t"), before) {
		t.Errorf("validate_only: %d %s", code, message)
	}
	if code, message := h.incremental(1, false, topic, "missing", operation{"segment.ms", opSet, "1"}); code != 3 || message != "The topic 'missing' does not exist." {
		t.Errorf("%d %s", code, message)
	}
	if code, message := h.incremental(1, false, topic, "", operation{"segment.ms", opSet, "1"}); code != 42 || message != "Default topic resources are not allowed." {
		t.Errorf("%d %s", code, message)
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: topic, ResourceName: "t"}, {ResourceType: topic, ResourceName: "t"}}
	for _, result := range h.call(request, 1).(*kmsg.IncrementalAlterConfigsResponse).Resources {
		if result.ErrorCode != 42 || text(result.ErrorMessage) != "Each resource must appear at most once." {
			t.Errorf("%+v", result)
		}
	}
}

// Of a broker nothing can be set while it runs; what is not set can be removed.
// A manifest written with camelCase keys keeps its form.
func TestAlterKeepsTheKeysForm(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	topic := meta.NewKafkaTopic("camel")
	one := int32(1)
	topic.Spec.Partitions, topic.Spec.Config = &one, map[string]any{"retentionMs": 5, "segmentMs": 700000}
	if _, err := h.store.Create(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if err := h.images.Await(t.Context(), func(i *meta.Image) bool { return i.Topic("camel") != nil }); err != nil {
		t.Fatal(err)
	}
	if code, message := h.incremental(1, false, kmsg.ConfigResourceTypeTopic, "camel", operation{"retention.ms", opSet, "6"}, operation{"segment.ms", opDelete, "-"}); code != 0 {
		t.Fatalf("%d %s", code, message)
	}
	object, err := h.store.Get(t.Context(), meta.KindTopic, "camel")
	if err != nil {
		t.Fatal(err)
	}
	config := object.(*meta.KafkaTopic).Spec.Config
	if len(config) != 1 || config["retentionMs"] == nil || h.overrides("camel")["retention.ms"] != "6" {
		t.Errorf("%v %v", config, h.overrides("camel"))
	}
}

func TestAlterConfigsReplaces(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 1, "retention.ms", "1000000", "segment.ms", "700000")
	alter := func(version int16, validateOnly bool, kind kmsg.ConfigResourceType, name string, pairs ...string) (int16, string) {
		request := kmsg.NewPtrAlterConfigsRequest()
		request.ValidateOnly = validateOnly
		resource := kmsg.AlterConfigsRequestResource{ResourceType: kind, ResourceName: name}
		for i := 0; i < len(pairs); i += 2 {
			entry := kmsg.AlterConfigsRequestResourceConfig{Name: pairs[i]}
			if pairs[i+1] != "-" {
				entry.Value = &pairs[i+1]
			}
			resource.Configs = append(resource.Configs, entry)
		}
		// The first of several entries for one resource counts.
		request.Resources = []kmsg.AlterConfigsRequestResource{resource, {ResourceType: kind, ResourceName: name}}
		results := h.call(request, version).(*kmsg.AlterConfigsResponse).Resources
		if len(results) != 1 {
			t.Errorf("%d results", len(results))
		}
		return results[0].ErrorCode, text(results[0].ErrorMessage)
	}
	const topic = kmsg.ConfigResourceTypeTopic
	for version := int16(0); version <= 2; version++ {
		value := string(rune('5'+version)) + "00000"
		if code, message := alter(version, false, topic, "t", "retention.bytes", value); code != 0 || !maps.Equal(h.overrides("t"), map[string]string{"retention.bytes": value}) {
			t.Errorf("v%d: %d %s %v", version, code, message, h.overrides("t"))
		}
	}
	for _, test := range []struct {
		pairs   []string
		code    int16
		message string
	}{
		{[]string{"no.such", "1"}, 40, "no.such"},
		{[]string{"retention.ms", "x"}, 40, "retention.ms"},
		{[]string{"retention.ms", "-"}, 42, "Null value not supported"},
		{[]string{"retention.ms", "1", "retentionMs", "2"}, 42, "duplicate config keys"},
	} {
		if code, message := alter(2, false, topic, "t", test.pairs...); code != test.code || !strings.Contains(message, test.message) {
			t.Errorf("%v: %d %s", test.pairs, code, message)
		}
	}
	if code, _ := alter(2, true, topic, "t"); code != 0 || len(h.overrides("t")) != 1 {
		t.Errorf("%d %v", code, h.overrides("t"))
	}
	if code, _ := alter(2, false, topic, "t"); code != 0 || len(h.overrides("t")) != 0 {
		t.Errorf("%d %v", code, h.overrides("t"))
	}
	for kind, want := range map[kmsg.ConfigResourceType]int16{8: 42, 99: 42, 0: 42} {
		if code, message := alter(2, false, kind, "x"); code != want {
			t.Errorf("type %d: %d %s", kind, code, message)
		}
	}
	if code, message := alter(2, false, kmsg.ConfigResourceTypeBroker, "1", "node.id", "3"); code != 42 || !strings.Contains(message, "node.id") {
		t.Errorf("%d %s", code, message)
	}
}

func TestDescribeConfigs(t *testing.T) {
	t.Parallel()
	level := new(slog.LevelVar)
	h := newHarness(t, harnessOptions{level: level, overrides: []string{"log.retention.ms=777000"}})
	h.mustCreate("t", 1, "segment.ms", "700000")
	for version := int16(0); version <= 4; version++ {
		entries := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
		result := h.describe(version, kmsg.ConfigResourceTypeTopic, "t", "segment.ms", "retention.ms", "no.such")
		for _, entry := range result.Configs {
			entries[entry.Name] = entry
		}
		if len(entries) != 2 || result.ErrorCode != 0 {
			t.Fatalf("v%d: %+v", version, result)
		}
		segment, retention := entries["segment.ms"], entries["retention.ms"]
		if text(segment.Value) != "700000" || text(retention.Value) != "777000" || segment.ReadOnly || segment.IsSensitive {
			t.Errorf("v%d: %+v", version, entries)
		}
		if version == 0 && (segment.IsDefault || retention.IsDefault) {
			t.Errorf("v0: is_default of what is set: %+v", entries)
		}
		if version >= 1 && (segment.Source != 1 || len(segment.ConfigSynonyms) < 1 || segment.ConfigSynonyms[0].Name != "segment.ms") {
			t.Errorf("v%d: %+v", version, segment)
		}
		if version >= 3 && (segment.ConfigType != kmsg.ConfigTypeLong || text(segment.Documentation) == "<null>") {
			t.Errorf("v%d: %+v", version, segment)
		}
	}
	if all := h.describe(4, kmsg.ConfigResourceTypeTopic, "t"); len(all.Configs) < 30 {
		t.Errorf("%d keys", len(all.Configs))
	}
	for _, test := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		code    int16
		message string
	}{
		{2, "missing", 3, ""},
		{2, "a/b", 17, "other than ASCII"},
		{2, "", 17, "empty string"},
		{4, "9", 42, "Unexpected broker id, expected 1 or empty string, but received 9"},
		{4, "abc", 42, "Broker id must be an integer, but it is: abc"},
		{8, "9", 42, "Unexpected broker id, expected 1 but received 9"},
		{8, "", 42, "must not be empty"},
		{99, "x", 42, "Unknown resource type 99"}, {0, "x", 42, ""},
		{4, "1", 0, ""}, {4, "", 0, ""}, {8, "1", 0, ""},
	} {
		if got := h.describe(4, test.kind, test.name); got.ErrorCode != test.code || !strings.Contains(text(got.ErrorMessage), test.message) {
			t.Errorf("%d %q: %d %s", test.kind, test.name, got.ErrorCode, text(got.ErrorMessage))
		}
	}
	// The log level is shown and changes.
	if code, message := h.incremental(1, false, kmsg.ConfigResourceTypeBrokerLogger, "1", operation{"root", opSet, "DEBUG"}); code != 0 || level.Level() != slog.LevelDebug {
		t.Errorf("%d %s", code, message)
	}
	if got := h.describe(4, kmsg.ConfigResourceTypeBrokerLogger, "1").Configs; len(got) != 1 || got[0].Name != "root" || text(got[0].Value) != "DEBUG" {
		t.Errorf("%+v", got)
	}
	for _, bad := range []operation{{"root", opSet, "LOUD"}, {"kafka.server", opSet, "DEBUG"}, {"root", opDelete, "-"}} {
		if code, _ := h.incremental(1, false, kmsg.ConfigResourceTypeBrokerLogger, "1", bad); code == 0 {
			t.Errorf("%v was accepted", bad)
		}
	}
}

func TestConfigsDenied(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{authorizer: denier(func(op auth.Operation, _ auth.ResourceType, _ string) bool {
		return op != auth.OperationCreate
	})})
	created := h.create(7, false, newTopicRequest("t", 1))[0]
	if created.ErrorCode != 0 || created.ConfigErrorCode != 29 || created.NumPartitions != -1 || len(created.Configs) != 0 {
		t.Errorf("%+v", created)
	}
	for _, name := range []string{"t", "missing"} {
		if got := h.describe(4, kmsg.ConfigResourceTypeTopic, name); got.ErrorCode != 29 {
			t.Errorf("%s: %+v", name, got)
		}
		if code, _ := h.incremental(1, false, kmsg.ConfigResourceTypeTopic, name, operation{"segment.ms", opSet, "1"}); code != 29 {
			t.Errorf("%s: %d", name, code)
		}
	}
	if got := h.describe(4, kmsg.ConfigResourceTypeBroker, "1"); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if code, _ := h.incremental(1, false, kmsg.ConfigResourceTypeBroker, "1", operation{"x", opSet, "1"}); code != 31 {
		t.Error(code)
	}
	if got := h.call(kmsg.NewPtrDescribeLogDirsRequest(), 5).(*kmsg.DescribeLogDirsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := h.call(kmsg.NewPtrDescribeACLsRequest(), 3).(*kmsg.DescribeACLsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
}

func TestACLsAreDisabled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	for version := int16(0); version <= 3; version++ {
		if got := h.call(kmsg.NewPtrDescribeACLsRequest(), version).(*kmsg.DescribeACLsResponse); got.ErrorCode != 54 {
			t.Errorf("v%d: %+v", version, got)
		}
	}
}

// The requests about data, on a real log store in memory.
func TestDeleteRecordsAndLogDirs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	store, err := logstore.Open(t.Context(), logstore.Options{Dirs: []string{"/data"}, InMemory: true, Logger: testLogger(t), FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now, and a store that is not given time leaves its work.
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h.admin.Logs = store
	id := h.mustCreate("t", 2)
	compacted := h.mustCreate("compacted", 1, "cleanup.policy", "compact")
	h.mustCreate("elsewhere", 1)
	for _, p := range []struct {
		topic string
		id    meta.UUID
		index int32
	}{{"t", id, 0}, {"t", id, 1}, {"compacted", compacted, 0}} {
		if _, err := store.Ensure(p.topic, p.id, p.index, logstore.DefaultConfig()); err != nil {
			t.Fatal(err)
		}
	}
	purge := func(version int16, topic string, partition int32, offset int64) (int16, int64) {
		request := kmsg.NewPtrDeleteRecordsRequest()
		request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: 99}, {Partition: partition, Offset: offset}}}}
		results := h.call(request, version).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions
		if len(results) != 1 {
			t.Errorf("%d results", len(results))
		}
		return results[0].ErrorCode, results[0].LowWatermark
	}
	for _, test := range []struct {
		topic     string
		partition int32
		offset    int64
		code      int16
		low       int64
	}{
		{"t", 0, -1, 0, 0}, {"t", 0, 0, 0, 0}, {"t", 0, 1, 1, -1}, {"t", 0, -2, 1, -1},
		{"t", 2, 0, 3, -1}, {"t", -1, 0, 3, -1}, {"missing", 0, 0, 3, -1}, {"compacted", 0, -1, 44, -1}, {"elsewhere", 0, 0, 6, -1},
	} {
		for version := int16(0); version <= 2; version++ {
			if code, low := purge(version, test.topic, test.partition, test.offset); code != test.code || low != test.low {
				t.Errorf("%+v: %d %d", test, code, low)
			}
		}
	}
	dirs := func(version int16, topics []kmsg.DescribeLogDirsRequestTopic) []kmsg.DescribeLogDirsResponseDir {
		request := kmsg.NewPtrDescribeLogDirsRequest()
		request.Topics = topics
		return h.call(request, version).(*kmsg.DescribeLogDirsResponse).Dirs
	}
	for version := int16(1); version <= 5; version++ {
		all := dirs(version, nil)
		if len(all) != 1 || all[0].Dir != "/data" || len(all[0].Topics) != 2 || all[0].Topics[1].Topic != "t" || len(all[0].Topics[1].Partitions) != 2 {
			t.Errorf("v%d: %+v", version, all)
		}
		if none := dirs(version, []kmsg.DescribeLogDirsRequestTopic{}); len(none) != 1 || len(none[0].Topics) != 0 {
			t.Errorf("v%d: %+v", version, none)
		}
		if some := dirs(version, []kmsg.DescribeLogDirsRequestTopic{{Topic: "t", Partitions: []int32{1, 5}}, {Topic: "missing", Partitions: []int32{0}}}); len(some[0].Topics) != 1 || len(some[0].Topics[0].Partitions) != 1 {
			t.Errorf("v%d: %+v", version, some)
		}
	}
}
