//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestKafkaTools drives the broker with Apache Kafka's own console tools. Each
// step reads what the tool printed; the steps build on one another.
func TestKafkaTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	s := toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}
	t.Run("versions", s.versions)
	t.Run("topics", s.topics)
	t.Run("console", s.console)
	t.Run("offsets", s.offsets)
	t.Run("groups", s.groups)
	t.Run("group-commands", s.groupCommands)
	t.Run("delete", s.deleteTopic)
}

// TestKafkaPerformanceTools moves real volume with the tools' own load
// generators; the figures are read for plausibility, not judged.
func TestKafkaPerformanceTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	b.createTopic(t, "load", 4, nil)
	const records = 200_000
	bootstrap := []string{"--bootstrap-server", b.address}
	out := kafkaTool(t, nil, "kafka-producer-perf-test", append(bootstrap, "--topic", "load", "--num-records", strconv.Itoa(records),
		"--record-size", "1000", "--throughput", "-1", "--command-property", "acks=all", "compression.type=lz4")...)
	mustContain(t, out, fmt.Sprintf("%d records sent", records))
	var total int64
	for _, end := range b.endOffsets(t, "load") {
		total += end
	}
	if total != records {
		t.Fatalf("%d records lie in the topic, %d were sent", total, records)
	}
	out = kafkaTool(t, nil, "kafka-consumer-perf-test", append(bootstrap, "--topic", "load", "--num-records", strconv.Itoa(records),
		"--group", "load-readers", "--hide-header", "--timeout", "60000")...)
	// start, end, MB, MB/s, records, …
	fields := strings.Split(strings.TrimSpace(out), ", ")
	if len(fields) < 5 || fields[4] != strconv.Itoa(records) {
		t.Fatalf("the consumer did not read %d records:\n%s", records, out)
	}
}

// toolSession is the broker and what all steps share.
type toolSession struct {
	b         *broker
	bootstrap []string
}

const consoleRecords = 3_000

func (s toolSession) tool(t *testing.T, stdin string, name string, arguments ...string) string {
	t.Helper()
	return kafkaTool(t, []byte(stdin), name, append(slices.Clone(s.bootstrap), arguments...)...)
}

// refused runs a tool that must fail and returns all that it printed.
func (s toolSession) refused(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	answer := runTool(t, "", name, append(slices.Clone(s.bootstrap), arguments...)...)
	if answer.Code == 0 {
		t.Fatalf("%s %v should have failed:\n%s", name, arguments, answer.Stdout)
	}
	return answer.Stdout + answer.Stderr
}

func (s toolSession) versions(t *testing.T) {
	out := s.tool(t, "", "kafka-broker-api-versions")
	mustContain(t, out, s.b.address, "Produce(0):", "Fetch(1):", "ApiVersions(18):")
	// The tool marks an answer of the broker that it cannot use.
	for _, name := range []string{"Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator",
		"JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "ApiVersions", "CreateTopics", "DeleteTopics", "InitProducerId"} {
		for line := range strings.Lines(out) {
			if strings.Contains(line, "\t"+name+"(") && (strings.Contains(line, "UNSUPPORTED") || !strings.Contains(line, "usable")) {
				t.Errorf("the tools cannot use this API as it is advertised: %s", strings.TrimSpace(line))
			}
		}
	}
}

func (s toolSession) topics(t *testing.T) {
	mustContain(t, s.tool(t, "", "kafka-topics", "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "1",
		"--config", "retention.ms=86400000"), "Created topic orders.")
	mustContain(t, s.refused(t, "kafka-topics", "--create", "--topic", "orders"), "already exists")
	mustContain(t, s.refused(t, "kafka-topics", "--create", "--topic", "other", "--config", "no.such.key=1"), "no.such.key")
	mustContain(t, s.tool(t, "", "kafka-topics", "--create", "--topic", "orders", "--if-not-exists"), "")
	if out := s.tool(t, "", "kafka-topics", "--list", "--exclude-internal"); strings.TrimSpace(out) != "orders" {
		t.Fatalf("one topic was created; listed:\n%s", out)
	}
	out := s.tool(t, "", "kafka-topics", "--describe", "--topic", "orders")
	mustContain(t, out, "Topic: orders", "TopicId: ", "PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=86400000",
		"Partition: 0", "Partition: 1", "Partition: 2")
	if strings.Contains(out, "Leader: none") || strings.Count(out, "Leader: ") != 3 {
		t.Fatalf("three partitions with leaders should stand here:\n%s", out)
	}
	mustContain(t, s.refused(t, "kafka-topics", "--describe", "--topic", "missing"), "does not exist")
}

// console produces keyed records in two codecs and reads them back in a group.
func (s toolSession) console(t *testing.T) {
	var input strings.Builder
	var want []string
	for i := range consoleRecords {
		line := fmt.Sprintf("key-%d:record number %d, ünïcödé", i%97, i)
		want = append(want, line)
		input.WriteString(line + "\n")
	}
	lines := strings.SplitAfter(input.String(), "\n")
	half := consoleRecords / 2
	for i, codec := range []string{"none", "zstd"} {
		s.tool(t, strings.Join(lines[i*half:(i+1)*half], ""), "kafka-console-producer", "--topic", "orders", "--compression-codec", codec,
			"--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
	}
	out := s.tool(t, "", "kafka-console-consumer", "--topic", "orders", "--group", "clerks", "--from-beginning",
		"--max-messages", strconv.Itoa(consoleRecords), "--timeout-ms", "60000",
		"--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	// Records of one key stay in order; keys are spread over partitions.
	byKey := func(a, b string) int { return strings.Compare(a[:strings.Index(a, ":")], b[:strings.Index(b, ":")]) }
	slices.SortStableFunc(got, byKey)
	slices.SortStableFunc(want, byKey)
	if !slices.Equal(got, want) {
		t.Fatalf("%d records were produced; other %d came back, or in another order within a key", len(want), len(got))
	}
	// The same through the read of one partition, without a group.
	out = s.tool(t, "", "kafka-console-consumer", "--topic", "orders", "--partition", "1", "--offset", "0", "--max-messages", "10", "--timeout-ms", "60000")
	if n := strings.Count(out, "\n"); n != 10 {
		t.Fatalf("ten records of partition 1 were asked for, %d came:\n%s", n, out)
	}
}

func (s toolSession) offsets(t *testing.T) {
	sum := func(arguments ...string) (total, partitions int) {
		t.Helper()
		out := s.tool(t, "", "kafka-get-offsets", append([]string{"--topic", "orders"}, arguments...)...)
		for line := range strings.Lines(out) {
			parts := strings.Split(strings.TrimSpace(line), ":")
			if len(parts) != 3 || parts[0] != "orders" {
				t.Fatalf("not topic:partition:offset: %q", line)
			}
			offset, err := strconv.Atoi(parts[2])
			must(t, err)
			total += offset
			partitions++
		}
		return total, partitions
	}
	if total, partitions := sum(); total != consoleRecords || partitions != 3 {
		t.Fatalf("end offsets: %d in %d partitions", total, partitions)
	}
	if total, partitions := sum("--time", "earliest"); total != 0 || partitions != 3 {
		t.Fatalf("earliest offsets: %d in %d partitions", total, partitions)
	}
	// A time before the first record finds the first record of each partition.
	if total, partitions := sum("--time", "1000"); total != 0 || partitions != 3 {
		t.Fatalf("offsets by time: %d in %d partitions", total, partitions)
	}
	if total, _ := sum("--time", "max-timestamp"); total <= 0 || total >= consoleRecords {
		t.Fatalf("offsets of the largest timestamps: %d", total)
	}
}

func (s toolSession) groups(t *testing.T) {
	out := s.tool(t, "", "kafka-consumer-groups", "--list")
	if !slices.Contains(strings.Fields(out), "clerks") {
		t.Fatalf("the group clerks is not listed:\n%s", out)
	}
	out = s.tool(t, "", "kafka-consumer-groups", "--describe", "--group", "clerks")
	rows, total := 0, 0
	for line := range strings.Lines(out) {
		// GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
		if f := strings.Fields(line); len(f) > 5 && f[0] == "clerks" {
			rows++
			current, err := strconv.Atoi(f[3])
			must(t, err)
			total += current
			if f[1] != "orders" || f[3] != f[4] || f[5] != "0" {
				t.Errorf("the group has read all there is; its row says %q", strings.TrimSpace(line))
			}
		}
	}
	if rows != 3 || total != consoleRecords {
		t.Fatalf("three rows that add up to %d should stand here:\n%s", consoleRecords, out)
	}
	mustContain(t, s.tool(t, "", "kafka-consumer-groups", "--describe", "--group", "clerks", "--state"), "Empty")
	mustContain(t, s.tool(t, "", "kafka-consumer-groups", "--list", "--state"), "clerks", "Empty")
	// The tool ends with 0 here and says it in words.
	mustContain(t, s.tool(t, "", "kafka-consumer-groups", "--describe", "--group", "nobody"), "Group nobody not found")
}

// groupCommands changes a group's offsets from outside, as an operator does.
func (s toolSession) groupCommands(t *testing.T) {
	out := s.tool(t, "", "kafka-consumer-groups", "--group", "clerks", "--topic", "orders:0", "--reset-offsets", "--to-earliest", "--execute")
	mustContain(t, out, "clerks", "orders")
	committed, err := s.b.admin(t).FetchOffsets(testContext(t), "clerks")
	must(t, err)
	if at, _ := committed.Lookup("orders", 0); at.At != 0 {
		t.Fatalf("partition 0 was reset to its begin; %d is committed", at.At)
	}
	if at, _ := committed.Lookup("orders", 1); at.At == 0 {
		t.Fatal("partition 1 was not to be reset")
	}
	mustContain(t, s.tool(t, "", "kafka-consumer-groups", "--delete", "--group", "clerks"), "was successful")
	out = s.tool(t, "", "kafka-consumer-groups", "--list")
	if slices.Contains(strings.Fields(out), "clerks") {
		t.Fatalf("the group was deleted and is still listed:\n%s", out)
	}
}

func (s toolSession) deleteTopic(t *testing.T) {
	s.tool(t, "", "kafka-topics", "--delete", "--topic", "orders")
	out := s.tool(t, "", "kafka-topics", "--list", "--exclude-internal")
	if strings.TrimSpace(out) != "" {
		t.Fatalf("the topic was deleted; listed:\n%s", out)
	}
	mustContain(t, s.refused(t, "kafka-topics", "--delete", "--topic", "orders"), "does not exist")
}
