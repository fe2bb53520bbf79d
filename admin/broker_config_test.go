package admin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/meta"
)

// described is one key of a resource as DescribeConfigs shows it: value, source,
// read-only, chain.
func (h *harness) described(kind kmsg.ConfigResourceType, name, key string) string {
	h.t.Helper()
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	request.Resources, request.IncludeSynonyms = append(request.Resources, resource), true
	result := h.call(request, 4).(*kmsg.DescribeConfigsResponse).Resources[0]
	if result.ErrorCode != 0 {
		return fmt.Sprintf("error %d %s", result.ErrorCode, text(result.ErrorMessage))
	}
	for _, entry := range result.Configs {
		if entry.Name != key {
			continue
		}
		var chain []string
		for _, synonym := range entry.ConfigSynonyms {
			chain = append(chain, fmt.Sprintf("%d:%s=%s", synonym.Source, synonym.Name, text(synonym.Value)))
		}
		return fmt.Sprintf("%s %d %v [%s]", text(entry.Value), entry.Source, entry.ReadOnly, strings.Join(chain, " "))
	}
	return "not there"
}

const (
	onTopic  = kmsg.ConfigResourceTypeTopic
	onBroker = kmsg.ConfigResourceTypeBroker
)

// alterBrokerTo is AlterConfigs of one key, only validated.
func (h *harness) alterBrokerTo(name, key, value string) (int16, string) {
	h.t.Helper()
	request := kmsg.NewPtrAlterConfigsRequest()
	request.ValidateOnly = true
	request.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: onBroker, ResourceName: name,
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: key, Value: &value}}}}
	result := h.call(request, 2).(*kmsg.AlterConfigsResponse).Resources[0]
	return result.ErrorCode, text(result.ErrorMessage)
}

// The words and codes are those of Apache Kafka 4.4.
func TestBrokerConfigRefusals(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	for _, name := range []string{"1", ""} {
		for _, bad := range []struct {
			key, value, want string
		}{
			{"broker.rack", "x", "Cannot update these configs dynamically: [broker.rack]"},
			{"log.retention.hours", "3", "Cannot update these configs dynamically: [log.retention.hours]"},
			{"num.network.threads", "3", "Cannot update these configs dynamically: [num.network.threads]"},
			{"ssl.keystore.location", "x", "Cannot update these configs dynamically: [ssl.keystore.location]"},
			{"no.such.key", "x", "Unknown broker config name: no.such.key"},
			{"log.retention.ms", "abc", `invalid value "abc" for configuration log.retention.ms`},
			{"max.connections", "99999999999", `invalid value "99999999999"`},
			{"compression.type", "gzip", "only producer"},
		} {
			code, message := h.incremental(1, false, onBroker, name, operation{"log.retention.ms", opDelete, "-"}, operation{bad.key + "", opSet, bad.value})
			if bad.key == "log.retention.ms" {
				code, message = h.incremental(1, false, onBroker, name, operation{bad.key, opSet, bad.value})
			}
			wantCode := int16(42)
			if bad.key == "no.such.key" {
				wantCode = 40 // Kafka keeps it
			}
			if code != wantCode || !strings.Contains(message, bad.want) {
				t.Errorf("%s: %d %s", bad.key, code, message)
			}
		}
		// What is not set can be removed: kafka-reassign-partitions does it.
		if code, message := h.incremental(1, false, onBroker, name, operation{"leader.replication.throttled.rate", opDelete, "-"}); code != 0 {
			t.Errorf("%d %s", code, message)
		}
		if code, message := h.incremental(1, false, onBroker, name, operation{"log.retention.ms", opAppend, "1"}); code != 40 || !strings.Contains(message, "not LIST") {
			t.Errorf("%d %s", code, message)
		}
		if code, message := h.incremental(1, true, onBroker, name, operation{"log.retention.ms", opSet, "-"}); code != 42 || !strings.Contains(message, "Null value not supported") {
			t.Errorf("null: %d %s", code, message)
		}
		for _, key := range []string{"broker.rack", "log.retention.ms"} {
			if code, message := h.alterBrokerTo(name, key, "x"); code != 42 {
				t.Errorf("AlterConfigs %s: %d %s", key, code, message)
			}
		}
		if code, _ := h.incremental(1, true, onBroker, name, operation{"log.retention.ms", opSet, "1000"}); code != 0 {
			t.Error("validate_only:", code)
		}
	}
	for name, want := range map[string]string{"9": "Unexpected broker id, expected 1, but received 9", "abc": "Node id must be an integer, but it is: abc"} {
		if code, message := h.incremental(1, false, onBroker, name, operation{"x", opSet, "1"}); code != 42 || message != want {
			t.Errorf("%d %s", code, message)
		}
	}
	if objects, _, err := h.store.List(t.Context(), meta.KindBrokerConfig); err != nil || len(objects) != 0 {
		t.Errorf("%d resources were written: %v", len(objects), err)
	}
}

func TestBrokerConfigsChange(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{"log.retention.ms=5000"}})
	h.mustCreate("t", 1)
	set := func(name string, operations ...operation) {
		t.Helper()
		if code, message := h.incremental(1, false, onBroker, name, operations...); code != 0 {
			t.Fatalf("%s: %d %s", name, code, message)
		}
	}
	expect := func(kind kmsg.ConfigResourceType, name, key, want string) {
		t.Helper()
		if got := h.described(kind, name, key); got != want {
			t.Errorf("%s %s: %s, want %s", name, key, got, want)
		}
	}
	const below = "4:log.retention.ms=5000 5:log.retention.hours=168"
	expect(onBroker, "1", "log.retention.ms", "5000 4 false ["+below+"]")
	set("", operation{"log.retention.ms", opSet, "7000"}, operation{"leader.replication.throttled.rate", opSet, "10"})
	expect(onBroker, "1", "log.retention.ms", "7000 3 false [3:log.retention.ms=7000 "+below+"]")
	expect(onTopic, "t", "retention.ms", "7000 3 false [3:log.retention.ms=7000 "+below+"]")
	set("1", operation{"log.retention.ms", opSet, "9000"}, operation{"log.cleanup.policy", opAppend, "compact"})
	expect(onBroker, "1", "log.retention.ms", "9000 2 false [2:log.retention.ms=9000 3:log.retention.ms=7000 "+below+"]")
	expect(onTopic, "t", "retention.ms", "9000 2 false [2:log.retention.ms=9000 3:log.retention.ms=7000 "+below+"]")
	expect(onTopic, "t", "cleanup.policy", "delete,compact 2 false [2:log.cleanup.policy=delete,compact 5:log.cleanup.policy=delete]")
	expect(onBroker, "", "log.retention.ms", "7000 3 false [3:log.retention.ms=7000]")
	expect(onBroker, "", "leader.replication.throttled.rate", "10 3 false [3:leader.replication.throttled.rate=10]")
	expect(onBroker, "", "log.cleanup.policy", "not there")
	expect(onBroker, "1", "leader.replication.throttled.rate", "10 3 false [3:leader.replication.throttled.rate=10]")
	const rate = "replica.alter.log.dirs.io.max.bytes.per.second" // by kafka-reassign-partitions --replica-alter-log-dirs-throttle
	expect(onBroker, "1", rate, "not there")
	set("1", operation{rate, opSet, "11"})
	expect(onBroker, "1", rate, "11 2 false [2:"+rate+"=11]")
	set("1", operation{rate, opDelete, "-"})
	expect(onBroker, "1", "node.id", "1 5 true [5:node.id=1]")
	expect(onBroker, "1", "num.network.threads", "3 5 true [5:num.network.threads=3]")

	// AlterConfigs replaces all of them.
	request := kmsg.NewPtrAlterConfigsRequest()
	resource := kmsg.NewAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = onBroker, "1"
	entry := kmsg.NewAlterConfigsRequestResourceConfig()
	entry.Name, entry.Value = "segmentMs", kmsg.StringPtr("1")
	entry.Name = "log.roll.ms"
	resource.Configs = append(resource.Configs, entry)
	request.Resources = append(request.Resources, resource)
	if result := h.call(request, 2).(*kmsg.AlterConfigsResponse).Resources[0]; result.ErrorCode != 0 {
		t.Fatalf("%d %s", result.ErrorCode, text(result.ErrorMessage))
	}
	expect(onBroker, "1", "log.retention.ms", "7000 3 false [3:log.retention.ms=7000 "+below+"]")
	expect(onTopic, "t", "segment.ms", "1 2 false [2:log.roll.ms=1 5:log.roll.hours=168]")

	set("", operation{"log.retention.ms", opDelete, "-"}, operation{"leader.replication.throttled.rate", opDelete, "-"})
	expect(onTopic, "t", "retention.ms", "5000 4 false ["+below+"]")
	object, err := h.store.Get(t.Context(), meta.KindBrokerConfig, "broker-1")
	if err != nil {
		t.Fatal(err)
	}
	stored := object.(*meta.KafkaBrokerConfig)
	if len(stored.Spec.Config) != 1 || *stored.Spec.BrokerID != 1 {
		t.Errorf("%+v", stored.Spec)
	}
}
