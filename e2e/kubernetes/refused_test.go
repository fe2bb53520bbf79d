//go:build kubernetes

package kubernetes

import (
	"fmt"
	"strings"
	"testing"
)

// edit is a manifest, or a change of one, and what is to become of it.
type edit struct {
	name string
	// before is the spec that is in force when spec comes; "": there is none.
	kind, before, spec string
	// reason is that of the condition Ready on the broker's side; unread: the file can't
	// be read there.
	reason string
	// says is a part of what the API server answers; "": it takes what kaas refuses, since
	// only a look at more than the object tells.
	says string
}

const unread = "(can't be read)"

var edits = []edit{
	{"no-partitions", "KafkaTopic", "", `{partitions: 0}`, "InvalidPartitionCount", "greater than or equal to 1"},
	{"minus-two", "KafkaTopic", "", `{partitions: -2}`, "InvalidPartitionCount", "greater than or equal to 1"},
	{"overflow", "KafkaTopic", "", `{partitions: 2147483648}`, unread, "2147483647"},
	{"text", "KafkaTopic", "", `{partitions: many}`, unread, "must be of type integer"},
	{"half", "KafkaTopic", "", `{partitions: 1.5}`, unread, "must be of type integer"},
	{"slash", "KafkaTopic", "", `{topicName: a/b}`, "InvalidTopicName", "topicName"},
	{"dot", "KafkaTopic", "", `{topicName: "."}`, "InvalidTopicName", "no names of topics"},
	{"dots", "KafkaTopic", "", `{topicName: ".."}`, "InvalidTopicName", "no names of topics"},
	{"long", "KafkaTopic", "", `{topicName: ` + strings.Repeat("x", 250) + `}`, "InvalidTopicName", "may not be more than 249"},
	{strings.Repeat("long.", 50) + "e", "KafkaTopic", "", `{partitions: 1}`, "InvalidTopicName", "at most 249 characters"},
	{strings.Repeat("n", 249), "KafkaTopic", "", `{partitions: 1}`, "Reconciled", ""},
	{"config-list", "KafkaTopic", "", `{config: [a]}`, unread, "must be of type object"},
	{"config-key", "KafkaTopic", "", `{config: {no.such.key: 1}}`, "InvalidConfig", ""},
	{"config-value", "KafkaTopic", "", `{config: {retention.ms: soon}}`, "InvalidConfig", ""},
	{"shrinks", "KafkaTopic", `{partitions: 3}`, `{partitions: 2}`, "InvalidPartitionCount", "can't be taken away"},
	{"grows", "KafkaTopic", `{partitions: 3}`, `{partitions: 4}`, "Reconciled", ""},
	{"forgets", "KafkaTopic", `{partitions: 3}`, `{}`, "Reconciled", ""},
	{"renamed", "KafkaTopic", `{topicName: Old}`, `{topicName: New}`, "TopicNameImmutable", "immutable"},
	{"named", "KafkaTopic", `{}`, `{topicName: Other}`, "TopicNameImmutable", "immutable"},
	{"named-as-it-is", "KafkaTopic", `{}`, `{topicName: named-as-it-is}`, "Reconciled", ""},
	{"unnamed", "KafkaTopic", `{topicName: Kept}`, `{}`, "TopicNameImmutable", "immutable"},
	{"strimzi", "KafkaTopic", "", `{replicas: 3, partitions: 2, config: {min.insync.replicas: 2, cleanup.policy: "compact,delete", retentionMs: 7200000}}`, "Reconciled", ""},

	{"mechanism", "KafkaUser", "", `{authentication: {type: scram-sha-256}}`, "InvalidSpec", "Unsupported value"},
	{"few-iterations", "KafkaUser", "", `{authentication: {type: scram-sha-512, scram: {salt: AAAA, storedKey: KEY, serverKey: KEY, iterations: 4095}}}`, "InvalidSpec", "greater than or equal to 4096"},
	{"short-key", "KafkaUser", "", `{authentication: {type: scram-sha-512, scram: {salt: AAAA, storedKey: AAAA, serverKey: KEY, iterations: 4096}}}`, "InvalidSpec", "storedKey"},
	{"no-such-operation", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: topic, name: a}, operations: [Reed]}]}}`, "InvalidSpec", "operations"},
	{"kafkas-operation", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: TOPIC, name: a}, operations: [DESCRIBE_CONFIGS]}]}}`, "Reconciled", ""},
	{"no-operation", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: topic, name: a}, operations: []}]}}`, "InvalidSpec", "operations"},
	{"no-resource-name", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: group}, operations: [Read]}]}}`, "InvalidSpec", "resource"},
	{"cluster", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: cluster}, operations: [Alter]}]}}`, "Reconciled", ""},
	{"no-such-cluster", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: cluster, name: mine}, operations: [Alter]}]}}`, "InvalidSpec", "resource"},
	{"misspelt", "KafkaUser", "", `{authorization: {type: simple, acls: [{resource: {type: topic, name: a}, operation: [Read]}]}}`, "InvalidSpec", "operation"},
	{"no-quota", "KafkaUser", "", `{quotas: {producerMaxByteRatePerBroker: 0}}`, "InvalidSpec", "greater than 0"},
	{"textual-quota", "KafkaUser", "", `{quotas: {consumerMaxByteRatePerBroker: "1"}}`, "InvalidSpec", "must be of type number"},
	{"no-such-quota", "KafkaUser", "", `{quotas: {producerByteRate: 1}}`, "InvalidSpec", "unknown field"},

	{"broker-text", "KafkaBrokerConfig", "", `{brokerId: one}`, unread, "must be of type integer"},
	{"broker-key", "KafkaBrokerConfig", "", `{config: {log.dirs: /x}}`, "InvalidConfig", ""},
	{"group-value", "KafkaGroupConfig", "", `{config: {consumer.session.timeout.ms: soon}}`, "InvalidConfig", ""},
	{"group-list", "KafkaGroupConfig", "", `{config: [a]}`, unread, "must be of type object"},
	{"metrics-key", "KafkaClientMetrics", "", `{config: {no.such.key: 1}}`, "InvalidConfig", ""},
	{"metrics-name", "KafkaClientMetrics", "", `{name: [a]}`, unread, "must be of type string"},
}

func (e *edit) manifest(spec string) string {
	key := strings.Repeat("A", 85) + "A==" // 64 bytes
	return fmt.Sprintf("apiVersion: kaas.io/v1alpha1\nkind: %s\nmetadata:\n  name: %s\nspec: %s\n", e.kind, e.name, strings.ReplaceAll(spec, "KEY", key))
}

func (e *edit) file() string { return e.name[:min(len(e.name), 100)] + ".yaml" }

// settled waits until the broker has judged the file and returns the reason.
func (b *broker) settled(e *edit, text string) string {
	b.t.Helper()
	var reason string
	eventually(b.t, e.name+" is judged", func() bool {
		now := b.files()[e.file()]
		if now == text {
			if strings.Contains(b.log.String(), "/"+e.file()+`","error"`) {
				reason = unread
			}
			return reason != ""
		}
		for _, condition := range asList(parse(b.t, now).part("status")["conditions"]) {
			if object(condition)["type"] == "Ready" {
				reason, _ = condition["reason"].(string)
			}
		}
		return reason != ""
	})
	return reason
}

func asList(value any) []map[string]any {
	list, _ := value.([]any)
	var out []map[string]any
	for _, item := range list {
		if tree, ok := item.(map[string]any); ok {
			out = append(out, tree)
		}
	}
	return out
}

// What kaas refuses the API server refuses, too, where a schema can say it; and it
// refuses nothing that kaas takes.
func TestBothJudgeAlike(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.run("create", "namespace", "judged")
	b := startBroker(t, nil)
	for i := range edits {
		e := &edits[i]
		if e.before != "" {
			b.write(e.file(), e.manifest(e.before))
			if reason := b.settled(e, e.manifest(e.before)); reason != "Reconciled" {
				t.Fatalf("%s: %s", e.name, reason)
			}
			// The API server learns what is in force as it would from an operator.
			dir := saveTo(t, map[string]string{"a.yaml": b.files()[e.file()]})
			c.run("apply", "-n", "judged", "-f", dir)
			c.run("apply", "-n", "judged", "--server-side", "--subresource=status", "--field-manager=kaas", "-f", dir)
		}
	}
	for i := range edits {
		e := &edits[i]
		text := e.manifest(e.spec)
		b.write(e.file(), text)
		if reason := b.settled(e, text); reason != e.reason {
			t.Errorf("%s: kaas says %s, want %s", e.name, reason, e.reason)
		}
		dir := saveTo(t, map[string]string{"a.yaml": text})
		out, err := c.try(t.Context(), "apply", "-n", "judged", "-f", dir)
		if (err == nil) != (e.says == "") || !strings.Contains(out, e.says) {
			t.Errorf("%s: the API server says %v, want %q:\n%s", e.name, err, e.says, out)
		}
	}
}
