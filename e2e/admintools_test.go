//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAdminTools drives the broker with Apache Kafka's own admin tools and looks at
// what is left of it: in the tools' output, in the resource files, and both again
// after a restart. Steps build on one another.
func TestAdminTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	s := toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}
	t.Run("topics", s.adminTopics)
	t.Run("topic-configs", s.topicConfigs)
	t.Run("broker-configs", s.brokerConfigs)
	t.Run("group-configs", s.groupConfigs)
	t.Run("delete-records", s.deleteRecords)
	t.Run("log-dirs", s.logDirs)
	t.Run("leaders", s.leaders)
	before := s.manifests(t)
	if code := b.stop(); code != 0 && !targetIsKafka() {
		t.Fatalf("exit code %d", code)
	}
	b.start()
	if after := s.manifests(t); after != before {
		t.Errorf("the restart changed the resources from\n%s\nto\n%s", before, after)
	}
	t.Run("restarted", s.restarted)
}

// manifests is the text of all resource files.
func (s toolSession) manifests(t *testing.T) string {
	t.Helper()
	if targetIsKafka() {
		return ""
	}
	var all strings.Builder
	for _, file := range files(t, filepath.Join(s.b.logDir, "resources"), "*.yaml") {
		content, err := os.ReadFile(file)
		must(t, err)
		all.WriteString("# " + filepath.Base(file) + "\n")
		all.Write(content)
	}
	return all.String()
}

// written asserts lines of one resource file.
func (s toolSession) written(t *testing.T, file string, wanted ...string) {
	t.Helper()
	if targetIsKafka() {
		return
	}
	content, err := os.ReadFile(filepath.Join(s.b.logDir, "resources", file))
	must(t, err)
	mustContain(t, string(content), wanted...)
}

func (s toolSession) adminTopics(t *testing.T) {
	mustContain(t, s.tool(t, "", "kafka-topics", "--create", "--topic", "Orders_1", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=600000", "--config", "cleanup.policy=delete"), "Created topic Orders_1.")
	mustContain(t, s.tool(t, "", "kafka-topics", "--create", "--topic", "assigned", "--replica-assignment", "1,1,1"), "Created topic assigned.")
	mustContain(t, s.tool(t, "", "kafka-topics", "--alter", "--topic", "Orders_1", "--partitions", "5"), "")
	mustContain(t, s.refused(t, "kafka-topics", "--alter", "--topic", "Orders_1", "--partitions", "4"), "would not be an increase")
	out := s.tool(t, "", "kafka-topics", "--describe", "--topics-with-overrides")
	mustContain(t, out, "Topic: Orders_1", "PartitionCount: 5", "retention.ms=600000")
	if strings.Contains(out, "assigned") && !targetIsKafka() { // Kafka 4.4 gives each topic min.insync.replicas
		t.Errorf("a topic without overrides is listed:\n%s", out)
	}
	if out := s.tool(t, "", "kafka-topics", "--describe", "--unavailable-partitions"); strings.TrimSpace(out) != "" {
		t.Errorf("unavailable:\n%s", out)
	}
	s.written(t, "kafkatopic-assigned.yaml", "partitions: 3", "partitionCount: 3")
}

func (s toolSession) topicConfigs(t *testing.T) {
	orders := []string{"--entity-type", "topics", "--entity-name", "Orders_1"}
	alter := func(arguments ...string) []string {
		return append(append([]string{"--alter"}, orders...), arguments...)
	}
	mustContain(t, s.tool(t, "", "kafka-configs", alter("--add-config", "max.message.bytes=200000,cleanup.policy=[compact,delete]", "--delete-config", "retention.ms")...), "Completed updating config for topic Orders_1.")
	mustContain(t, s.refused(t, "kafka-configs", alter("--add-config", "no.such.key=1")...), "no.such.key")
	mustContain(t, s.refused(t, "kafka-configs", alter("--add-config", "retention.ms=soon")...), "retention.ms")
	mustContain(t, s.tool(t, "", "kafka-configs", append([]string{"--describe"}, orders...)...),
		"max.message.bytes=200000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=200000, DEFAULT_CONFIG:message.max.bytes=1048588}", "cleanup.policy=compact,delete")
	mustContain(t, s.tool(t, "", "kafka-configs", append([]string{"--describe", "--all"}, orders...)...), "retention.ms=604800000", "segment.bytes=1073741824")
}

func (s toolSession) brokerConfigs(t *testing.T) {
	one, all := []string{"--entity-type", "brokers", "--entity-name", "1"}, []string{"--entity-type", "brokers", "--entity-default"}
	mustContain(t, s.tool(t, "", "kafka-configs", append(all, "--alter", "--add-config", "log.retention.ms=7200000,leader.replication.throttled.rate=1000")...), "Completed updating default config for brokers")
	mustContain(t, s.tool(t, "", "kafka-configs", append(one, "--alter", "--add-config", "log.retention.ms=3600000")...), "Completed updating config for broker 1.")
	mustContain(t, s.refused(t, "kafka-configs", append(one, "--alter", "--add-config", "broker.rack=x")...), "Cannot update these configs dynamically: [broker.rack]")
	s.brokerConfigsStand(t)
	s.written(t, "kafkabrokerconfig-all-brokers.yaml", "log.retention.ms: 7200000")
	s.written(t, "kafkabrokerconfig-broker-1.yaml", "brokerId: 1", "log.retention.ms: 3600000")
}

func (s toolSession) brokerConfigsStand(t *testing.T) {
	t.Helper()
	mustContain(t, s.tool(t, "", "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1"),
		"synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=3600000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7200000, DEFAULT_CONFIG:log.retention.hours=168}")
	mustContain(t, s.tool(t, "", "kafka-configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", "assigned"),
		"retention.ms=3600000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=3600000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7200000, DEFAULT_CONFIG:log.retention.hours=168}")
}

func (s toolSession) groupConfigs(t *testing.T) {
	group := []string{"--entity-type", "groups", "--entity-name", "billing"}
	mustContain(t, s.tool(t, "", "kafka-configs", append(group, "--alter", "--add-config", "consumer.session.timeout.ms=50000")...), "Completed updating config for group billing.")
	mustContain(t, s.refused(t, "kafka-configs", append(group, "--alter", "--add-config", "consumer.session.timeout.ms=1")...), "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.")
	metrics := []string{"--entity-type", "client-metrics", "--entity-name", "slow"}
	mustContain(t, s.tool(t, "", "kafka-configs", append(metrics, "--alter", "--add-config", "interval.ms=1000,metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.]")...), "Completed updating config for client-metric slow.")
	s.groupConfigsStand(t)
	s.written(t, "kafkagroupconfig-billing.yaml", "consumer.session.timeout.ms: 50000")
	s.written(t, "kafkaclientmetrics-slow.yaml", "interval.ms: 1000")
}

func (s toolSession) groupConfigsStand(t *testing.T) {
	t.Helper()
	mustContain(t, s.tool(t, "", "kafka-configs", "--describe", "--entity-type", "groups"), "Dynamic configs for group billing are:",
		"consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}")
	mustContain(t, s.tool(t, "", "kafka-configs", "--describe", "--entity-type", "client-metrics"), "Dynamic configs for client-metric slow are:",
		"interval.ms=1000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=1000}")
}

func (s toolSession) deleteRecords(t *testing.T) {
	s.tool(t, strings.Repeat("line\n", 10), "kafka-console-producer", "--topic", "assigned")
	offsets := filepath.Join(t.TempDir(), "offsets.json")
	for _, step := range []struct{ offset, want string }{{"0", "partition: assigned-0\tlow_watermark: 0"}, {"-1", "low_watermark: "}} {
		must(t, os.WriteFile(offsets, []byte(`{"version":1,"partitions":[{"topic":"assigned","partition":0,"offset":`+step.offset+`}]}`), 0o600))
		mustContain(t, s.tool(t, "", "kafka-delete-records", "--offset-json-file", offsets), step.want)
	}
	must(t, os.WriteFile(offsets, []byte(`{"version":1,"partitions":[{"topic":"assigned","partition":0,"offset":999999}]}`), 0o600))
	answer := runTool(t, "", "kafka-delete-records", append(slices.Clone(s.bootstrap), "--offset-json-file", offsets)...)
	mustContain(t, answer.Stdout+answer.Stderr, "OffsetOutOfRangeException")
}

func (s toolSession) logDirs(t *testing.T) {
	out := s.tool(t, "", "kafka-log-dirs", "--describe", "--topic-list", "assigned,Orders_1", "--broker-list", "1")
	mustContain(t, out, `"broker":1`, `"error":null`, `"logDir":"`, `"partition":"assigned-2"`, `"partition":"Orders_1-4"`, `"offsetLag":0`, `"isFuture":false`)
}

func (s toolSession) leaders(t *testing.T) {
	mustContain(t, s.tool(t, "", "kafka-leader-election", "--election-type", "preferred", "--topic", "assigned", "--partition", "0"), "assigned-0")
	plan := filepath.Join(t.TempDir(), "plan.json")
	must(t, os.WriteFile(plan, []byte(`{"version":1,"partitions":[{"topic":"assigned","partition":1,"replicas":[1]}]}`), 0o600))
	mustContain(t, s.tool(t, "", "kafka-reassign-partitions", "--reassignment-json-file", plan, "--execute"), "Successfully started partition reassignment for assigned-1")
	mustContain(t, s.tool(t, "", "kafka-reassign-partitions", "--reassignment-json-file", plan, "--verify"), "Reassignment of partition assigned-1 is completed.", "Clearing broker-level throttles")
	mustContain(t, s.tool(t, "", "kafka-reassign-partitions", "--list"), "No partition reassignments found.")
}

func (s toolSession) restarted(t *testing.T) {
	s.groupConfigsStand(t)
	out := s.tool(t, "", "kafka-topics", "--describe")
	mustContain(t, out, "Topic: Orders_1", "PartitionCount: 5", "max.message.bytes=200000", "Topic: assigned", "PartitionCount: 3")
	s.brokerConfigsStand(t)
	mustContain(t, s.tool(t, "", "kafka-configs", "--alter", "--entity-type", "brokers", "--entity-name", "1", "--delete-config", "log.retention.ms"), "Completed updating config for broker 1.")
	mustContain(t, s.tool(t, "", "kafka-configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", "assigned"), "retention.ms=7200000")
	s.tool(t, "", "kafka-topics", "--delete", "--topic", "Orders_.*,assigned")
	if out := strings.TrimSpace(s.tool(t, "", "kafka-topics", "--list", "--exclude-internal")); out != "" {
		t.Errorf("topics are left:\n%s", out)
	}
	if left := s.manifests(t); strings.Contains(left, "kind: KafkaTopic") {
		t.Errorf("resources are left:\n%s", left)
	}
}
