package admin

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta"
	"kaas/policy"
)

func mustCompile(t *testing.T, kind policy.Kind, expression string) Policy {
	t.Helper()
	p, err := policy.Compile(kind, expression)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCreateTopicPolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{policies: Policies{CreateTopic: mustCompile(t, policy.CreateTopic,
		`partitions > 3 ? "At most 3 partitions." : "retention.ms" in configs && principal == "" ? "No." : topic.startsWith("x") && replicationFactor != 2 ? "x needs 2." : ""`)}})
	for _, validateOnly := range []bool{true, false} {
		for version := range int16(8) {
			if version == 0 && validateOnly {
				continue // not in v0
			}
			results := h.create(version, validateOnly, newTopicRequest("many", 4), newTopicRequest("x", 1), newTopicRequest("good", -1))
			for i, want := range []struct {
				code    int16
				message string
			}{{44, "At most 3 partitions."}, {44, "x needs 2."}} {
				if got := results[i]; got.ErrorCode != want.code || version > 0 && text(got.ErrorMessage) != want.message {
					t.Errorf("v%d: %d %s", version, got.ErrorCode, text(got.ErrorMessage))
				}
			}
			if got := results[2].ErrorCode; got != 0 && got != 36 {
				t.Errorf("v%d: %d", version, got)
			}
		}
	}
	// What is wrong by itself is said first.
	if got := h.create(7, false, newTopicRequest("a/b", 4))[0].ErrorCode; got != 17 {
		t.Error(got)
	}
	if h.images.Load().Topic("many") != nil || h.images.Load().Topic("good") == nil {
		t.Error("what was denied is there, or what was not is missing")
	}
	// Auto-creation has no principal; internal topics are not asked about.
	creator := h.admin.TopicCreator()
	if err := creator.EnsureTopic(t.Context(), "auto", 1, map[string]string{"retention.ms": "1"}); !errors.Is(err, meta.ErrInvalid) || !strings.Contains(err.Error(), "No.") {
		t.Error(err)
	}
	if err := creator.EnsureTopic(t.Context(), meta.ConsumerOffsetsTopic, 50, nil); err != nil {
		t.Error(err)
	}
}

func TestAlterConfigPolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{policies: Policies{AlterConfig: mustCompile(t, policy.AlterConfig,
		`resourceType == "broker" ? (broker == "" && name == "" ? "Not for all." : "")
		: resourceType in ["group", "client_metrics"] ? (name == "free" && topic == "" && broker == "" && effective.size() == 1 ? "" : resourceType + " " + name + " stays.")
		: name != topic ? "Another name."
		: "retention.ms" in configs && int(configs["retention.ms"]) < 1000 ? "Too short for " + topic + "."
		: "segment.ms" in removed ? "segment.ms stays." : effective.size() < 3 ? "" : "Too many."`)}})
	h.mustCreate("t", 1)
	for _, validateOnly := range []bool{true, false} {
		for _, test := range []struct {
			operations []operation
			code       int16
			message    string
		}{
			{[]operation{{"retention.ms", opSet, "5"}}, 44, "Too short for t."},
			{[]operation{{"segmentMs", opDelete, "-"}}, 44, "segment.ms stays."},
			{[]operation{{"retention.ms", opSet, "x"}}, 40, "invalid value"},
			{[]operation{{"retention.ms", opSet, "5000"}, {"retention.bytes", opSet, "5000"}}, 0, ""},
			{[]operation{{"retention.ms", opSet, "6000"}, {"retention.bytes", opSet, "6000"}, {"flush.ms", opSet, "6000"}}, 44, "Too many."},
		} {
			code, message := h.incremental(1, validateOnly, onTopic, "t", test.operations...)
			if code != test.code || !strings.Contains(message, test.message) {
				t.Errorf("%v: %d %s", test.operations, code, message)
			}
		}
		if code, message := h.incremental(1, validateOnly, onBroker, "", operation{"log.retention.ms", opSet, "5"}); code != 44 || message != "Not for all." {
			t.Errorf("%d %s", code, message)
		}
		if code, _ := h.incremental(1, validateOnly, onBroker, "1", operation{"log.retention.ms", opSet, "5"}); code != 0 {
			t.Error(code)
		}
	}
	if got := h.overrides("t"); len(got) != 2 || got["retention.ms"] != "5000" {
		t.Error(got)
	}
	for _, test := range []struct {
		kind       kmsg.ConfigResourceType
		what       string
		key, value string
	}{{kmsg.ConfigResourceTypeGroupConfig, "group", "consumer.session.timeout.ms", "50000"}, {kmsg.ConfigResourceTypeClientMetrics, "client_metrics", "interval.ms", "1000"}} {
		for _, validateOnly := range []bool{true, false} {
			if code, message := h.incremental(1, validateOnly, test.kind, "kept", operation{test.key, opSet, test.value}); code != 44 || message != test.what+" kept stays." {
				t.Errorf("%s: %d %s", test.what, code, message)
			}
			if code, message := h.incremental(1, validateOnly, test.kind, "free", operation{test.key, opSet, test.value}); code != 0 {
				t.Errorf("%s: %d %s", test.what, code, message)
			}
		}
		if code, message := h.incremental(1, false, test.kind, "free", operation{test.key, opDelete, "-"}); code != 44 { // nothing would be left
			t.Errorf("%s: %d %s", test.what, code, message)
		}
	}
}

// protectedByLabel is the ready-made policy of docs/policies.md.
const protectedByLabel = `"kaas.io/protected" in labels && labels["kaas.io/protected"] == "true" ? "Topic " + topic + " is protected: remove its label kaas.io/protected first." : ""`

func TestDeleteTopicPolicy(t *testing.T) {
	t.Parallel()
	if document, err := os.ReadFile("../docs/policies.md"); err != nil || !strings.Contains(string(document), "delete.topic.policy="+protectedByLabel+"\n") {
		t.Errorf("docs/policies.md says another one: %v", err)
	}
	h := newHarness(t, harnessOptions{policies: Policies{DeleteTopic: mustCompile(t, policy.DeleteTopic, protectedByLabel)}})
	h.mustCreate("free", 1)
	h.mustCreate("kept", 1)
	label := func(value string) {
		t.Helper()
		if _, err := h.store.Patch(t.Context(), meta.KindTopic, "kept", []byte(`{"metadata":{"labels":{"kaas.io/protected":`+value+`}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	label(`"true"`)
	for version := range int16(7) {
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TimeoutMillis, request.TopicNames = 20_000, []string{"kept"}
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = kmsg.StringPtr("kept")
		request.Topics = append(request.Topics, topic)
		result := h.call(request, version).(*kmsg.DeleteTopicsResponse).Topics[0]
		if result.ErrorCode != 44 || version >= 5 && !strings.Contains(text(result.ErrorMessage), "Topic kept is protected") {
			t.Errorf("v%d: %d %s", version, result.ErrorCode, text(result.ErrorMessage))
		}
	}
	label("null")
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis, request.TopicNames = 20_000, []string{"free", "kept"}
	for _, result := range h.call(request, 5).(*kmsg.DeleteTopicsResponse).Topics {
		if result.ErrorCode != 0 {
			t.Errorf("%s: %d %s", text(result.Topic), result.ErrorCode, text(result.ErrorMessage))
		}
	}
}
