//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAdminToolOptions goes through the options of Kafka's admin tools that
// TestAdminTools and TestUserTools have no use for, each with what it must show and
// what it must leave in the resource files.
func TestAdminToolOptions(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t, "super.users=User:ANONYMOUS", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
	u := userSession{toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}, ""}
	u.createUser(t, "alice")
	t.Run("topics", u.topicOptions)
	t.Run("elections", u.elections)
	t.Run("reassignments", u.reassignments)
	t.Run("quotas", u.quotaEntities)
	t.Run("configs", u.configEntities)
	t.Run("acls", u.aclOptions)
	t.Run("log-dirs", u.logDirOptions)
	before := u.standing(t)
	if code := b.stop(); code != 0 && !targetIsKafka() {
		t.Fatalf("exit code %d", code)
	}
	b.start()
	if after := u.standing(t); after != before {
		t.Errorf("before the restart:\n%s\nafter it:\n%s", before, after)
	}
}

// standing is what the tools show of all that the steps have left.
func (u userSession) standing(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	commands := [][]string{
		{"kafka-topics", "--describe", "--exclude-internal"}, {"kafka-acls", "--list"},
		{"kafka-configs", "--describe", "--entity-type", "users"}, {"kafka-configs", "--describe", "--entity-type", "clients"},
		{"kafka-configs", "--describe", "--entity-type", "users", "--entity-type", "clients"}, {"kafka-configs", "--describe", "--entity-type", "ips"},
	}
	if u.b.serves(t, listConfigResources) {
		commands = append(commands, []string{"kafka-configs", "--describe", "--entity-type", "groups"}, []string{"kafka-configs", "--describe", "--entity-type", "client-metrics"})
	}
	for _, command := range commands {
		lines := strings.Split(u.tool(t, "", command[0], command[1:]...), "\n")
		slices.Sort(lines) // the tools print sets
		fmt.Fprintf(&all, "%v\n%s\n", command, strings.Join(lines, "\n"))
	}
	return all.String()
}

func (u userSession) topicOptions(t *testing.T) {
	topics := func(arguments ...string) string { return u.tool(t, "", "kafka-topics", arguments...) }
	topics("--create", "--topic", "plain")
	topics("--create", "--topic", "plain", "--if-not-exists")
	topics("--create", "--topic", "wide", "--partitions", "7", "--config", "min.insync.replicas=1")
	topics("--create", "--topic", "uni.ted", "--replica-assignment", "1,1")
	mustContain(t, u.refused(t, "kafka-topics", "--create", "--topic", "far", "--replica-assignment", "1,5"), "InvalidReplicaAssignmentException")
	if targetIsKafka() { // kaas keeps one copy, whatever is asked for, and says three
		mustContain(t, u.refused(t, "kafka-topics", "--create", "--topic", "three", "--replication-factor", "3"), "InvalidReplicationFactorException")
	}
	mustContain(t, u.refused(t, "kafka-topics", "--create", "--topic", "a/b"), "InvalidTopicException")
	topics("--alter", "--topic", "uni.ted", "--partitions", "4", "--replica-assignment", "1,1,1,1")
	topics("--alter", "--topic", "missing", "--if-exists", "--partitions", "4")
	mustContain(t, u.refused(t, "kafka-topics", "--alter", "--topic", "missing", "--partitions", "4"), "does not exist")
	topics("--delete", "--topic", "missing", "--if-exists")
	if out := strings.Fields(topics("--list", "--topic", "p.*|wide")); !slices.Equal(out, []string{"plain", "wide"}) {
		t.Errorf("listed: %v", out)
	}
	described := topics("--describe", "--topic", "wide", "--partition-size-limit-per-response", "2")
	mustContain(t, described, "PartitionCount: 7", "Partition: 6")
	_, id, _ := strings.Cut(described, "TopicId: ")
	mustContain(t, topics("--describe", "--topic-id", strings.Fields(id)[0]), "Topic: wide", "Partition: 6")
	if out := topics("--describe", "--topic", "missing", "--if-exists"); strings.TrimSpace(out) != "" {
		t.Errorf("described:\n%s", out)
	}
	for option, shown := range map[string]bool{"--under-replicated-partitions": false, "--under-min-isr-partitions": false, "--unavailable-partitions": false, "--at-min-isr-partitions": true} {
		if out := topics("--describe", "--topic", "wide", option); strings.Contains(out, "Topic: wide") != shown {
			t.Errorf("%s:\n%s", option, out)
		}
	}
	u.written(t, "kafkatopic-wide.yaml", "partitions: 7", "min.insync.replicas: 1")
}

func (u userSession) elections(t *testing.T) {
	elect := func(arguments ...string) string {
		return u.tool(t, "", "kafka-leader-election", append([]string{"--election-type"}, arguments...)...)
	}
	elect("preferred", "--all-topic-partitions") // none is in need of one, and none is shown
	mustContain(t, elect("unclean", "--topic", "plain", "--partition", "0"), "Valid replica already elected for partitions plain-0")
	path := filepath.Join(t.TempDir(), "partitions.json")
	must(t, os.WriteFile(path, []byte(`{"partitions":[{"topic":"wide","partition":1},{"topic":"wide","partition":2}]}`), 0o600))
	mustContain(t, elect("preferred", "--path-to-json-file", path), "wide-1", "wide-2")
	mustContain(t, u.refused(t, "kafka-leader-election", "--election-type", "preferred", "--topic", "wide", "--partition", "70"), "UnknownTopicOrPartitionException")
}

func (u userSession) reassignments(t *testing.T) {
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	reassign := func(arguments ...string) string {
		return u.tool(t, "", "kafka-reassign-partitions", arguments...)
	}
	out := reassign("--generate", "--topics-to-move-json-file", file("topics.json", `{"version":1,"topics":[{"topic":"plain"},{"topic":"uni.ted"}]}`), "--broker-list", "1")
	mustContain(t, out, "Current partition replica assignment", "Proposed partition reassignment configuration", `"topic":"uni.ted","partition":3,"replicas":[1]`)
	_, proposed, _ := strings.Cut(out, "Proposed partition reassignment configuration\n")
	plan := file("plan.json", strings.TrimSpace(proposed))
	mustContain(t, reassign("--execute", "--reassignment-json-file", plan, "--throttle", "1000000", "--disallow-replication-factor-change"), "Successfully started partition reassignments for plain-0,uni.ted-0", "Warning: You must run --verify periodically")
	mustContain(t, reassign("--execute", "--reassignment-json-file", plan, "--additional"), "Successfully started partition reassignments for")
	mustContain(t, reassign("--verify", "--reassignment-json-file", plan, "--preserve-throttles"), "Reassignment of partition plain-0 is completed.")
	mustContain(t, reassign("--verify", "--reassignment-json-file", plan), "Reassignment of partition uni.ted-3 is completed.", "Clearing broker-level throttles on broker 1", "Clearing topic-level throttles on topics plain,uni.ted")
	mustContain(t, reassign("--cancel", "--reassignment-json-file", plan), "None of the specified partition reassignments are active.")
	mustContain(t, u.refused(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", file("far.json", `{"version":1,"partitions":[{"topic":"plain","partition":0,"replicas":[1,5]}]}`)), "Unknown broker")
	mustContain(t, u.refused(t, "kafka-reassign-partitions", "--execute", "--reassignment-json-file", file("missing.json", `{"version":1,"partitions":[{"topic":"missing","partition":0,"replicas":[1]}]}`)), "missing")
	if out := u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "plain"); strings.Contains(out, "throttled") {
		t.Errorf("throttles are left:\n%s", out)
	}
}

func (u userSession) quotaEntities(t *testing.T) {
	for _, step := range []struct {
		entity  []string
		config  string
		wanted  string
		removed string
		refused bool // by kaas: quotas belong to a user's resource
	}{
		{[]string{"--entity-type", "users", "--entity-name", "alice"}, "producer_byte_rate=1024", "Quota configs for user-principal 'alice' are producer_byte_rate=1024.0", "", false},
		{[]string{"--entity-type", "clients", "--entity-name", "app"}, "consumer_byte_rate=2048", "Quota configs for client-id 'app' are consumer_byte_rate=2048.0", "", true},
		{[]string{"--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "app"}, "request_percentage=25", "Quota configs for user-principal 'alice', client-id 'app' are request_percentage=25.0", "", true},
		{[]string{"--entity-type", "users", "--entity-default"}, "controller_mutation_rate=5", "Quota configs for the default user-principal are controller_mutation_rate=5.0", "controller_mutation_rate", true},
		{[]string{"--entity-type", "clients", "--entity-default"}, "producer_byte_rate=4096", "Quota configs for the default client-id are producer_byte_rate=4096.0", "producer_byte_rate", true},
		{[]string{"--entity-type", "ips", "--entity-name", "127.0.0.9"}, "connection_creation_rate=7", "Quota configs for IP '127.0.0.9' are connection_creation_rate=7.0", "", true},
		{[]string{"--entity-type", "ips", "--entity-default"}, "connection_creation_rate=70", "Quota configs for the default IP are connection_creation_rate=70.0", "connection_creation_rate", true},
	} {
		configs := func(action string, arguments ...string) string {
			return u.tool(t, "", "kafka-configs", slices.Concat([]string{action}, step.entity, arguments)...)
		}
		if step.refused && !targetIsKafka() {
			out := u.refused(t, "kafka-configs", slices.Concat([]string{"--alter"}, step.entity, []string{"--add-config", step.config})...)
			mustContain(t, out, "InvalidRequestException", "Only one user, by its name, can have quotas, and they stand in its KafkaUser; ")
			if out := configs("--describe"); strings.Contains(out, "Quota configs") {
				t.Errorf("a quota that was refused is there:\n%s", out)
			}
			continue
		}
		mustContain(t, configs("--alter", "--add-config", step.config), "Completed updating ")
		mustContain(t, configs("--describe"), step.wanted)
		if step.removed != "" {
			configs("--alter", "--delete-config", step.removed)
			if out := configs("--describe"); strings.Contains(out, step.removed) {
				t.Errorf("after the deletion of %s:\n%s", step.removed, out)
			}
		}
	}
	mustContain(t, u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "users"), "Quota configs for user-principal 'alice' are producer_byte_rate=1024.0")
	mustContain(t, u.tool(t, "", "kafka-configs", "--describe", "--user", "alice"), "producer_byte_rate=1024.0")
	u.written(t, "alice.yaml", "kaas.io/quota-override: producer_byte_rate=1024\n")
}

func (u userSession) configEntities(t *testing.T) {
	path := filepath.Join(t.TempDir(), "add.properties")
	must(t, os.WriteFile(path, []byte("retention.ms=123456\nsegment.ms=654321\n"), 0o600))
	u.tool(t, "", "kafka-configs", "--alter", "--topic", "wide", "--add-config-file", path)
	mustContain(t, u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "topics"), "retention.ms=123456", "segment.ms=654321", "Dynamic configs for topic plain are:")
	u.written(t, "kafkatopic-wide.yaml", "retention.ms: 123456", "segment.ms: 654321")
	mustContain(t, u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "brokers", "--all"), "All configs for broker 1 are:", "num.io.threads")

	if u.b.serves(t, listConfigResources) {
		u.groupConfigs(t)
		u.clientMetrics(t)
	} else {
		for _, kind := range []string{"groups", "client-metrics"} {
			mustContain(t, u.refused(t, "kafka-configs", "--alter", "--entity-type", kind, "--entity-name", "any", "--add-config", "interval.ms=10000"), "UnsupportedVersionException")
		}
	}
}

func (u userSession) groupConfigs(t *testing.T) {
	groups := func(action string, arguments ...string) []string {
		return slices.Concat([]string{action, "--entity-type", "groups", "--entity-name", "clerks"}, arguments)
	}
	u.tool(t, "", "kafka-configs", groups("--alter", "--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")...)
	mustContain(t, u.tool(t, "", "kafka-configs", groups("--describe")...), "consumer.session.timeout.ms=50000", "consumer.heartbeat.interval.ms=6000")
	mustContain(t, u.refused(t, "kafka-configs", groups("--alter", "--add-config", "consumer.session.timeout.ms=1")...), "consumer.session.timeout.ms")
	u.tool(t, "", "kafka-configs", groups("--alter", "--delete-config", "consumer.heartbeat.interval.ms")...)
	if out := u.tool(t, "", "kafka-configs", groups("--describe")...); strings.Contains(out, "heartbeat.interval.ms=6000") || !strings.Contains(out, "consumer.session.timeout.ms=50000") {
		t.Errorf("after the deletion:\n%s", out)
	}
}

func (u userSession) clientMetrics(t *testing.T) {
	metrics := func(action string, arguments ...string) []string {
		return slices.Concat([]string{action, "--entity-type", "client-metrics", "--entity-name", "watch"}, arguments)
	}
	u.tool(t, "", "kafka-configs", metrics("--alter", "--add-config", "metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.],interval.ms=10000,match=[client_id=app.*]")...)
	mustContain(t, u.tool(t, "", "kafka-configs", metrics("--describe")...), "interval.ms=10000", "match=client_id=app.*", "metrics=org.apache.kafka.producer.,org.apache.kafka.consumer.")
	mustContain(t, u.refused(t, "kafka-configs", metrics("--alter", "--add-config", "interval.ms=5")...), "interval.ms")
}

func (u userSession) aclOptions(t *testing.T) {
	acls := func(arguments ...string) string { return u.tool(t, "", "kafka-acls", arguments...) }
	alice := []string{"--allow-principal", "User:alice"}
	add := func(arguments ...string) { acls(slices.Concat([]string{"--add"}, alice, arguments)...) }
	add("--producer", "--topic", "plain", "--transactional-id", "t1", "--idempotent")
	add("--operation", "Describe", "--operation", "Alter", "--cluster")
	add("--operation", "All", "--group", "*")
	add("--consumer", "--topic", "pre", "--group", "pre", "--resource-pattern-type", "prefixed", "--allow-host", "10.1.1.1")
	acls("--add", "--deny-principal", "User:alice", "--operation", "Write", "--topic", "plain")
	list := func(arguments ...string) string { return acls(append([]string{"--list"}, arguments...)...) }
	mustContain(t, list("--transactional-id", "t1"), "operation=WRITE", "operation=DESCRIBE")
	mustContain(t, list("--cluster"), "operation=IDEMPOTENT_WRITE", "operation=ALTER", "operation=DESCRIBE")
	mustContain(t, list("--topic", "plain"), "operation=CREATE, permissionType=ALLOW", "operation=WRITE, permissionType=DENY")
	mustContain(t, list("--principal", "User:alice"), "name=pre, patternType=PREFIXED", "host=10.1.1.1", "name=*, patternType=LITERAL")
	if out := list("--principal", "User:bob"); strings.Contains(out, "permissionType") {
		t.Errorf("bob has no rights:\n%s", out)
	}
	mustContain(t, list("--topic", "pretty", "--resource-pattern-type", "match"), "name=pre, patternType=PREFIXED")
	if out := list("--topic", "pretty", "--resource-pattern-type", "literal"); strings.Contains(out, "PREFIXED") {
		t.Errorf("literal:\n%s", out)
	}
	acls("--remove", "--force", "--allow-principal", "User:alice", "--operation", "Alter", "--cluster")
	acls("--remove", "--force", "--group", "*")
	if out := list("--cluster"); strings.Contains(out, "operation=ALTER,") || !strings.Contains(out, "operation=DESCRIBE") {
		t.Errorf("after the removal of one:\n%s", out)
	}
	if out := list("--group", "*"); strings.Contains(out, "name=*") {
		t.Errorf("after the removal of all:\n%s", out)
	}
	u.written(t, "alice.yaml", "name: t1", "patternType: prefix")
}

func (u userSession) logDirOptions(t *testing.T) {
	all := u.tool(t, "", "kafka-log-dirs", "--describe")
	mustContain(t, all, `"version":1`, `"partition":"wide-6"`, `"partition":"plain-0"`)
	one := u.tool(t, "", "kafka-log-dirs", "--describe", "--topic-list", "plain")
	if strings.Contains(one, "wide-6") || !strings.Contains(one, `"partition":"plain-0"`) {
		t.Errorf("of one topic:\n%s", one)
	}
	mustContain(t, u.refused(t, "kafka-log-dirs", "--describe", "--broker-list", "1,9"), "9")
	mustContain(t, u.tool(t, "", "kafka-broker-api-versions"), "usable: ")
}
