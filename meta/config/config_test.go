package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func load(t *testing.T, text string, env []string, overrides ...string) (*Broker, []Warning, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadBroker([]string{file}, env, overrides)
}

func TestBadValuesNameKeyValueAndWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"num.partitions=0":                  {"num.partitions", `"0"`, "1 or more"},
		"num.partitions=x":                  {"num.partitions", `"x"`, "1 or more"},
		"num.partitions=2147483648":         {"num.partitions", "1 or more, and at most 2147483647"},
		"log.roll.ms=9223372036854775808":   {"log.roll.ms", "at most 9223372036854775807"},
		"auto.create.topics.enable=yes":     {"auto.create.topics.enable", `"yes"`, "true or false"},
		"compression.type=zip":              {"compression.type", `"zip"`, "only producer"},
		"log.segment.bytes=14":              {"log.segment.bytes", `"14"`, "1048576 or more"},
		"log.cleaner.min.cleanable.ratio=2": {"log.cleaner.min.cleanable.ratio", "0 to 1"},
		"log.cleanup.policy=shred":          {"log.cleanup.policy", `"shred"`, "compact, delete"},
		"log.dirs=a,,b":                     {"log.dirs", "a,,b"},
		"log.dirs=a,a":                      {"log.dirs", "once"},
		"log.dirs=":                         {"log.dirs", "at least one"},
		"listeners=:9092":                   {"listeners", `":9092"`, "NAME://host:port"},
		"listeners=PLAINTEXT://:65536":      {"listeners", "NAME://host:port"},
		"listeners=SSL://:9093":             {"listeners", "SSL", "PLAINTEXT"},
		"listeners=SASL_SSL://:9093":        {"listeners", "SASL_SSL", "not built yet"},
		"sasl.enabled.mechanisms=PLAIN":     {"sasl.enabled.mechanisms", "SCRAM-SHA-512", "not built yet"},
		"super.users=alice":                 {"super.users", "User:name"},
		"listeners=SASL_PLAINTEXT://:9093\nsasl.enabled.mechanisms=":               {"sasl.enabled.mechanisms", "SASL_PLAINTEXT"},
		"listeners=EXTERNAL://:9093":                                               {"listeners", "EXTERNAL", "listener.security.protocol.map"},
		"listeners=CONTROLLER://:9093":                                             {"listeners", "at least one listener"},
		"listeners=PLAINTEXT://:1,PLAINTEXT://:2":                                  {"listeners", "once"},
		"listener.security.protocol.map=A:B":                                       {"listener.security.protocol.map", "SASL_SSL"},
		"advertised.listeners=OTHER://h:1":                                         {"advertised.listeners", "OTHER"},
		"advertised.listeners=PLAINTEXT://0.0.0.0:1":                               {"advertised.listeners", "0.0.0.0"},
		"node.id=1\nbroker.id=2":                                                   {"broker.id", `"2"`, "node.id"},
		"node.id=-1":                                                               {"node.id", "0 or more"},
		"authorizer.class.name=org.x.Y":                                            {"authorizer.class.name", "let everybody in"},
		"offsets.topic.compression.codec=1":                                        {"offsets.topic.compression.codec", "only 0"},
		"http.address=8080":                                                        {"http.address", `"8080"`, "host:port"},
		"log.cleaner.min.compaction.lag.ms=5\nlog.cleaner.max.compaction.lag.ms=2": {"min.compaction.lag.ms", "max.compaction.lag.ms"},
		"group.min.session.timeout.ms=9\ngroup.max.session.timeout.ms=8":           {"group.min.session.timeout.ms", "8"},
	} {
		_, _, err := load(t, text, nil)
		if err == nil {
			t.Errorf("%q: no error", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %q does not contain %q", text, err, w)
			}
		}
	}
	if _, _, err := LoadBroker([]string{"/nonexistent/server.properties"}, nil, nil); err == nil || !strings.Contains(err.Error(), "/nonexistent/server.properties") {
		t.Errorf("missing file: %v", err)
	}
	for _, override := range []string{"a", "=b", ""} {
		if _, _, err := LoadBroker(nil, nil, []string{override}); err == nil || !strings.Contains(err.Error(), "key=value") {
			t.Errorf("override %q: %v", override, err)
		}
	}
}

func TestUnknownKeyIsOneWarningThatNamesIt(t *testing.T) {
	t.Parallel()
	_, warnings, err := load(t, "num.partitons=3\nlisteners=PLAINTEXT://:0", []string{"KAFKA_NUM_PARTITONZ=3"}, "what.is.this=1")
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 3 {
		t.Fatalf("%d warnings: %v", len(warnings), warnings)
	}
	for i, key := range []string{"num.partitons", "num.partitonz", "what.is.this"} {
		if !strings.Contains(warnings[i].Message, key) {
			t.Errorf("warning %d: %q does not name %s", i, warnings[i].Message, key)
		}
	}
}

func TestUnknownKeySaysWhatWasMeant(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"num.partitons": "num.partitions", "log.retention.hourz": "log.retention.hours", "auto.create.topics.enabl": "auto.create.topics.enable",
		"cfg.node.id": "node.id", "logdirs": "log.dirs", "retention.ms": "", "what.is.this": "", "x": "",
	} {
		if got := suggestion(name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}

// The file that Kafka's download has for a combined node.
const kraftFile = `
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`

func TestKRaftFileIsTakenWithOneLine(t *testing.T) {
	t.Parallel()
	b, warnings, err := load(t, kraftFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 {
		t.Fatalf("%d warnings: %v", len(warnings), warnings)
	}
	for _, key := range []string{"process.roles", "controller.quorum.bootstrap.servers", "inter.broker.listener.name", "listener CONTROLLER", "offsets.topic.replication.factor"} {
		if !strings.Contains(warnings[0].Message, key) {
			t.Errorf("%q does not name %s", warnings[0].Message, key)
		}
	}
	want := []Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Port: 9092, AdvertisedHost: "localhost", AdvertisedPort: 9092}}
	if !reflect.DeepEqual(b.Listeners, want) {
		t.Errorf("listeners %+v", b.Listeners)
	}
	if !b.IsSet("broker.id") || b.NodeID != 7 || b.NumRecoveryThreadsPerDataDir != 1 || !reflect.DeepEqual(b.LogDirs, []string{"/tmp/kraft-combined-logs"}) {
		t.Errorf("%+v", b)
	}
}

func TestPrecedenceIsFileEnvironmentOverride(t *testing.T) {
	t.Parallel()
	const file = "num.partitions=1\ndefault.replication.factor=1\ngroup.max.size=1\n"
	env := []string{"KAFKA_DEFAULT_REPLICATION_FACTOR=2", "KAFKA_GROUP_MAX_SIZE=2", "PATH=/bin", "CLUSTER_ID=abc"}
	b, _, err := load(t, file, env, "group.max.size = 3")
	if err != nil {
		t.Fatal(err)
	}
	if b.NumPartitions != 1 || b.DefaultReplicationFactor != 2 || b.GroupMaxSize != 3 || b.ClusterID != "abc" {
		t.Errorf("partitions %d, replication %d, group size %d, cluster %q", b.NumPartitions, b.DefaultReplicationFactor, b.GroupMaxSize, b.ClusterID)
	}
}

func TestEnvironmentMapping(t *testing.T) {
	t.Parallel()
	got := fromEnvironment([]string{
		"KAFKA_LOG_DIRS=/d", "KAFKA_A__B_C___D=x=y", "KAFKA_HEAP_OPTS=-Xmx1G", "KAFKA_OPTS=-D", "KAFKA_JVM_PERFORMANCE_OPTS=-XX",
		"KAFKA_JMX_PORT=1", "KAFKA_LOG4J_LOGGERS=a", "KAFKA_SERVICE_HOST=10.0.0.1", "KAFKA_SERVICE_PORT_CLIENTS=9092", "KAFKA_PORT=tcp://10.0.0.1:9092",
		"KAFKA_PORT_9092_TCP_ADDR=10.0.0.1", "KAFKA_=", "LOG_DIR=/x", "KAFKA_GC_LOG_OPTS=",
	})
	want := map[string]string{"log.dirs": "/d", "a_b.c-d": "x=y"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNothingSet(t *testing.T) {
	t.Parallel()
	b, warnings, err := LoadBroker(nil, nil, nil)
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	if want := []Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Port: 9092}}; !reflect.DeepEqual(b.Listeners, want) {
		t.Errorf("listeners %+v", b.Listeners)
	}
	if !reflect.DeepEqual(b.LogDirs, []string{"./kaas-data"}) || b.HTTPAddress != "127.0.0.1:8080" || b.NodeID != 1 || !b.AutoCreateTopicsEnable {
		t.Errorf("%+v", b)
	}
	d := b.TopicDefaults
	if !d.CleanupDelete || d.CleanupCompact || d.RetentionMs != 604800000 || d.SegmentMs != 604800000 || d.FlushMessages != 1 ||
		d.MaxMessageBytes != 1048588 || d.CompressionType != "producer" || d.LogAppendTime || d.MinCleanableDirtyRatio != 0.5 {
		t.Errorf("%+v", d)
	}
}

func TestTopicDefaultsFollowTheStrongestSynonym(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"log.retention.hours=2":                                              7_200_000,
		"log.retention.hours=2\nlog.retention.minutes=3":                     180_000,
		"log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4": 4,
		"log.retention.hours=-1":                                             -1,
		"log.retention.ms=-1":                                                -1,
		"":                                                                   604_800_000,
	} {
		b, _, err := load(t, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b.TopicDefaults.RetentionMs != want {
			t.Errorf("%q: retention %d, want %d", text, b.TopicDefaults.RetentionMs, want)
		}
	}
}

func TestListenersMayBeMany(t *testing.T) {
	t.Parallel()
	b, _, err := load(t, `
listeners=INTERNAL://127.0.0.1:0, external://[::1]:9094
listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT
advertised.listeners=EXTERNAL://kafka.example.org:443
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Listener{{Name: "INTERNAL", Protocol: "PLAINTEXT", Host: "127.0.0.1"},
		{Name: "EXTERNAL", Protocol: "PLAINTEXT", Host: "::1", Port: 9094, AdvertisedHost: "kafka.example.org", AdvertisedPort: 443}}
	if !reflect.DeepEqual(b.Listeners, want) {
		t.Errorf("%+v", b.Listeners)
	}
}

func TestParseTopic(t *testing.T) {
	t.Parallel()
	topic, err := ParseTopic(nil, map[string]string{"cleanup.policy": "compact, delete", "retention.ms": " 5 ", "message.timestamp.type": "LogAppendTime",
		"segment.bytes": "1048576", "internal.segment.bytes": "100", "min.insync.replicas": "3", "flush.messages": "9223372036854775807"})
	if err != nil {
		t.Fatal(err)
	}
	if !topic.CleanupCompact || !topic.CleanupDelete || topic.RetentionMs != 5 || !topic.LogAppendTime || topic.SegmentBytes != 100 {
		t.Errorf("%+v", topic)
	}
	if topic, err := ParseTopic(nil, map[string]string{"cleanup.policy": ""}); err != nil || topic.CleanupCompact || topic.CleanupDelete {
		t.Errorf("empty policy: %+v %v", topic, err)
	}
	for key, value := range map[string]string{"retention.ms": "-2", "nope": "1", "segment.bytes": "1", "remote.storage.enable": "true",
		"cleanup.policy": "delete,", "preallocate": "1", "min.cleanable.dirty.ratio": "NaN", "max.message.bytes": "99999999999", "compression.gzip.level": "0"} {
		_, err := ParseTopic(nil, map[string]string{key: value})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	if _, err := ParseTopic(nil, map[string]string{"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}); err == nil {
		t.Error("min.compaction.lag.ms above max.compaction.lag.ms is taken")
	}
}

func TestDescribeTopicChainsAreKafkas(t *testing.T) {
	t.Parallel()
	b, _, err := load(t, "log.segment.bytes=2000000\nlog.retention.minutes=500", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Entry{}
	for _, e := range b.DescribeTopic(map[string]string{"retention.bytes": "7"}) {
		got[e.Key.Name] = e
	}
	for name, want := range map[string]struct {
		value    string
		source   Source
		synonyms []Value
	}{
		"retention.bytes":       {"7", SourceTopic, []Value{{"retention.bytes", "7", SourceTopic}, {"log.retention.bytes", "-1", SourceDefault}}},
		"segment.bytes":         {"2000000", SourceStaticBroker, []Value{{"log.segment.bytes", "2000000", SourceStaticBroker}, {"log.segment.bytes", "1073741824", SourceDefault}}},
		"retention.ms":          {"30000000", SourceDefault, nil},
		"segment.ms":            {"604800000", SourceDefault, nil},
		"max.message.bytes":     {"1048588", SourceDefault, []Value{{"message.max.bytes", "1048588", SourceDefault}}},
		"remote.storage.enable": {"false", SourceDefault, nil},
	} {
		e := got[name]
		if e.Value != want.value || e.Source != want.source || !reflect.DeepEqual(e.Synonyms, want.synonyms) {
			t.Errorf("%s: %q from %d, %v", name, e.Value, e.Source, e.Synonyms)
		}
	}
	if _, ok := got["internal.segment.bytes"]; ok {
		t.Error("an internal key is described")
	}
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	b, warnings, err := load(t, "listeners=PLAINTEXT://:1,APPS://:2\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,APPS:SASL_PLAINTEXT\n"+
		"super.users=User:CN=a,OU=b; User:root;\nauthorizer.class.name="+StandardAuthorizer, nil)
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	if got := b.SuperUserList(); len(got) != 2 || got[0] != "User:CN=a,OU=b" || got[1] != "User:root" {
		t.Errorf("%q", got)
	}
	if !b.EnforcesACLs() || !b.Authenticates() || b.Listeners[0].Authenticates() || !b.Listeners[1].Authenticates() {
		t.Errorf("%+v", b.Listeners)
	}
	_, warnings, err = load(t, "super.users=User:root", nil)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Message, "not enforced") {
		t.Error(err, warnings)
	}
}

// A value that is no number is told so, with the unit that the number would have.
func TestWhatIsNoNumberIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key   *Key
		value string
		want  string
	}{
		{BrokerKey("num.partitions"), "abc", "it is not a number"},
		{BrokerKey("num.partitions"), "1.5", "it is not a whole number"},
		{BrokerKey("num.partitions"), "0", ""},
		{BrokerKey("num.partitions"), "3000000000", ""},
		{BrokerKey("log.retention.hours"), "7d", "it is not a number of hours"},
		{BrokerKey("log.cleaner.min.cleanable.ratio"), "half", "it is not a number"},
		{BrokerKey("log.cleaner.min.cleanable.ratio"), "2", ""},
		{BrokerKey("delete.topic.enable"), "maybe", ""},
		{TopicKey("retention.ms"), "7d", "it is not a number of milliseconds"},
		{TopicKey("retention.bytes"), "1GB", "it is not a number of bytes"},
	} {
		err := c.key.Validate(c.value)
		if err == nil {
			t.Errorf("%s=%s is taken", c.key.Name, c.value)
			continue
		}
		if told := strings.Contains(err.Error(), "("+c.want+")"); told != (c.want != "") || c.want == "" && strings.Contains(err.Error(), "number of") {
			t.Errorf("%s=%s: %v", c.key.Name, c.value, err)
		}
	}
}
