//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestConsumerGroupTool uses every action and option of kafka-consumer-groups: of a
// classic group with a static member, of a consumer group, and of one that exists
// only as offsets. Steps build on one another.
func TestConsumerGroupTool(t *testing.T) {
	t.Parallel()
	needJava(t)
	s := groupToolSession{}
	s.b = startBroker(t)
	s.bootstrap = []string{"--bootstrap-server", s.b.address}
	s.b.createTopic(t, "orders", 3, nil)
	s.b.createTopic(t, "other", 1, nil)
	s.produce(t)
	s.commit(t, map[int32]int64{0: 3, 1: 4, 2: 5})
	s.commitOther(t)
	for _, client := range []struct {
		group   string
		options []kgo.Opt
	}{
		{"live-classic", []kgo.Opt{kgo.InstanceID("desk"), kgo.Balancers(kgo.RangeBalancer())}},
		{"live-consumer", []kgo.Opt{kgo.ServerSideBalancer(), kgo.InstanceID("shop")}},
	} {
		s.live = append(s.live, s.b.client(t, append(client.options, kgo.ClientID(client.group+"-client"), kgo.ConsumerGroup(client.group), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())...))
	}
	s.settle(t)
	t.Run("list", s.list)
	t.Run("describe", s.describe)
	t.Run("reset", s.reset)
	t.Run("reset-by-time", s.resetByTime)
	t.Run("reset-by-file", s.resetByFile)
	t.Run("live", s.refusedWhileLive)
	t.Run("delete", s.delete)
	t.Run("formatters", s.formatters)
	t.Run("validate-regex", s.validateRegex)
}

type groupToolSession struct {
	toolSession
	live  []*kgo.Client
	start time.Time // the time of the first record of a partition
}

const (
	groupToolRecords = 10 // in each partition
	// Between two records: many times what the test takes, so "by duration" finds one record.
	groupToolSpacing = 10 * time.Minute
)

func (s *groupToolSession) produce(t *testing.T) {
	t.Helper()
	s.start = time.Now().Add(-groupToolRecords * groupToolSpacing)
	client := s.b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for partition := range int32(3) {
		for i := range groupToolRecords {
			r := &kgo.Record{Topic: "orders", Partition: partition, Value: []byte("v"), Timestamp: s.start.Add(time.Duration(i) * groupToolSpacing)}
			must(t, client.ProduceSync(testContext(t), r).FirstErr())
		}
	}
}

// commit is what a consumer without a membership does.
func (s *groupToolSession) commit(t *testing.T, at map[int32]int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	for partition, offset := range at {
		offsets.Add(kadm.Offset{Topic: "orders", Partition: partition, At: offset, LeaderEpoch: -1, Metadata: "noted"})
	}
	eventually(t, 30*time.Second, func() error {
		response, err := s.b.admin(t).CommitOffsets(testContext(t), "simple", offsets)
		if err != nil {
			return err
		}
		return response.Error()
	})
}

func (s *groupToolSession) commitOther(t *testing.T) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("other", 0, 0, -1)
	response, err := s.b.admin(t).CommitOffsets(testContext(t), "simple", offsets)
	must(t, err)
	must(t, response.Error())
}

// settle waits until both live groups are stable and have all partitions, and
// commits what they have read.
func (s *groupToolSession) settle(t *testing.T) {
	t.Helper()
	eventually(t, 60*time.Second, func() error {
		for _, client := range s.live {
			ctx, cancel := context.WithTimeout(testContext(t), 100*time.Millisecond)
			client.PollFetches(ctx)
			cancel()
			must(t, client.CommitUncommittedOffsets(testContext(t)))
		}
		for _, group := range []string{"live-classic", "live-consumer"} {
			if at := s.committed(t, group); at[0] != groupToolRecords || at[1] != groupToolRecords || at[2] != groupToolRecords {
				return fmt.Errorf("%s is at %v", group, at)
			}
		}
		return nil
	})
}

func (s *groupToolSession) committed(t *testing.T, group string) map[int32]int64 {
	t.Helper()
	offsets, err := s.b.admin(t).FetchOffsets(testContext(t), group)
	must(t, err)
	at := map[int32]int64{}
	for partition, offset := range offsets["orders"] {
		at[partition] = offset.At
	}
	return at
}

func (s *groupToolSession) groups(t *testing.T, arguments ...string) string {
	t.Helper()
	return s.tool(t, "", "kafka-consumer-groups", arguments...)
}

// rows are the lines of a table with single spaces, without its header and warnings.
func rows(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		if row := strings.Join(strings.Fields(line), " "); row != "" && !slices.Contains([]string{"GROUP", "TOPIC", "Warn:"}, strings.Fields(row)[0]) {
			all = append(all, row)
		}
	}
	slices.Sort(all)
	return all
}

func mustBeRows(t *testing.T, out string, wanted ...string) {
	t.Helper()
	slices.Sort(wanted)
	if got := rows(out); !slices.Equal(got, wanted) {
		t.Errorf("this table should have the rows\n%s\n%s", strings.Join(wanted, "\n"), out)
	}
}

func (s *groupToolSession) list(t *testing.T) {
	mustBeRows(t, s.groups(t, "--list"), "simple", "live-classic", "live-consumer")
	mustBeRows(t, s.groups(t, "--list", "--state", "--type"), "simple Classic Empty", "live-classic Classic Stable", "live-consumer Consumer Stable")
	mustBeRows(t, s.groups(t, "--list", "--state", "stable"), "live-classic Stable", "live-consumer Stable")
	mustBeRows(t, s.groups(t, "--list", "--state", "Empty,Dead"), "simple Empty")
	mustBeRows(t, s.groups(t, "--list", "--state", "PreparingRebalance,CompletingRebalance,Assigning,Reconciling"))
	mustBeRows(t, s.groups(t, "--list", "--type", "consumer"), "live-consumer Consumer")
	mustBeRows(t, s.groups(t, "--list", "--type", "classic", "--state", "stable"), "live-classic Classic Stable")
	mustContain(t, s.refused(t, "kafka-consumer-groups", "--list", "--state", "bogus"), "Invalid state list 'bogus'")
	mustContain(t, s.refused(t, "kafka-consumer-groups", "--list", "--type", "bogus"), "Invalid types list 'bogus'")
}

// member is the id of the live group's only member.
func (s *groupToolSession) member(t *testing.T, group string) string {
	t.Helper()
	out := rows(s.groups(t, "--describe", "--group", group, "--members"))
	if len(out) != 1 {
		t.Fatalf("one member of %s should be shown: %v", group, out)
	}
	return strings.Fields(out[0])[1]
}

func (s *groupToolSession) describe(t *testing.T) {
	classic, consumer := s.member(t, "live-classic"), s.member(t, "live-consumer")
	var live [2][]string
	for i, member := range []string{classic, consumer} {
		group := []string{"live-classic", "live-consumer"}[i]
		var verbose []string
		for partition := range 3 {
			end := fmt.Sprintf("10 10 0 %s /127.0.0.1 %s-client", member, group)
			live[i] = append(live[i], fmt.Sprintf("%s orders %d %s", group, partition, end))
			verbose = append(verbose, fmt.Sprintf("%s orders %d 0 %s", group, partition, end))
		}
		mustBeRows(t, s.groups(t, "--describe", "--group", group), live[i]...)
		mustBeRows(t, s.groups(t, "--describe", "--group", group, "--offsets", "--verbose"), verbose...)
	}
	simple := []string{"simple orders 0 3 10 7 - - -", "simple orders 1 4 10 6 - - -", "simple orders 2 5 10 5 - - -", "simple other 0 0 0 0 - - -"}
	mustBeRows(t, s.groups(t, "--describe", "--all-groups", "--offsets"), slices.Concat(live[0], live[1], simple)...)
	mustContain(t, s.groups(t, "--describe", "--group", "live-classic", "--members"), "#PARTITIONS")
	mustBeRows(t, s.groups(t, "--describe", "--group", "live-classic", "--members", "--verbose"),
		"live-classic "+classic+" desk /127.0.0.1 live-classic-client 3 - orders:0,1,2 - -")
	mustBeRows(t, s.groups(t, "--describe", "--group", "live-consumer", "--members", "--verbose"),
		"live-consumer "+consumer+" shop /127.0.0.1 live-consumer-client 3 2 orders:0,1,2 2 orders:0,1,2")
	mustBeRows(t, s.groups(t, "--describe", "--group", "live-classic", "--state"), "live-classic "+s.b.address+" (1) range Stable 1")
	mustBeRows(t, s.groups(t, "--describe", "--group", "live-classic", "--state", "--verbose"), "live-classic "+s.b.address+" (1) range Stable - - 1")
	mustBeRows(t, s.groups(t, "--describe", "--group", "live-consumer", "--state", "--verbose"), "live-consumer "+s.b.address+" (1) uniform Stable 2 2 1")
	mustBeRows(t, s.groups(t, "--describe", "--group", "simple", "--state"), "simple "+s.b.address+" (1) - Empty 0")
	mustBeRows(t, s.groups(t, "--describe", "--group", "simple", "--group", "live-consumer"), slices.Concat(live[1], simple)...)
}

// resets plans a reset and then executes it: the first prints what the second does,
// and changes nothing.
func (s *groupToolSession) resets(t *testing.T, wanted map[int32]int64, arguments ...string) {
	t.Helper()
	s.commit(t, map[int32]int64{0: 3, 1: 4, 2: 5})
	arguments = append([]string{"--reset-offsets", "--group", "simple"}, arguments...)
	var lines []string
	for partition, offset := range wanted {
		lines = append(lines, fmt.Sprintf("simple orders %d %d", partition, offset))
	}
	for _, dry := range [][]string{{"--dry-run"}, nil} {
		mustBeRows(t, s.groups(t, append(arguments, dry...)...), lines...)
		if at := s.committed(t, "simple"); !maps.Equal(at, map[int32]int64{0: 3, 1: 4, 2: 5}) {
			t.Errorf("%v was only planned: %v", arguments, at)
		}
	}
	mustBeRows(t, s.groups(t, append(arguments, "--execute")...), lines...)
	expected := map[int32]int64{0: 3, 1: 4, 2: 5}
	maps.Copy(expected, wanted)
	if at := s.committed(t, "simple"); !maps.Equal(at, expected) {
		t.Errorf("%v executed: %v, wanted %v", arguments, at, expected)
	}
}

func (s *groupToolSession) reset(t *testing.T) {
	s.resets(t, map[int32]int64{0: 0, 1: 0, 2: 0}, "--topic", "orders", "--to-earliest")
	s.resets(t, map[int32]int64{0: 10, 1: 10, 2: 10}, "--topic", "orders", "--to-latest")
	s.resets(t, map[int32]int64{1: 7, 2: 7}, "--topic", "orders:1,2", "--to-offset", "7")
	s.resets(t, map[int32]int64{0: 10}, "--topic", "orders:0", "--to-offset", "999") // as far as there is
	s.resets(t, map[int32]int64{0: 5, 1: 6, 2: 7}, "--topic", "orders", "--shift-by", "2")
	s.resets(t, map[int32]int64{0: 0, 1: 0, 2: 1}, "--topic", "orders", "--shift-by", "-4")
	s.resets(t, map[int32]int64{0: 3, 1: 4, 2: 5}, "--topic", "orders", "--to-current")
	// All topics are those with offsets.
	mustBeRows(t, s.groups(t, "--reset-offsets", "--group", "simple", "--all-topics", "--to-earliest"),
		"simple orders 0 0", "simple orders 1 0", "simple orders 2 0", "simple other 0 0")
}

func (s *groupToolSession) resetByTime(t *testing.T) {
	at := func(i int) string {
		return s.start.Add(time.Duration(i)*groupToolSpacing - time.Minute).UTC().Format("2006-01-02T15:04:05.000")
	}
	s.resets(t, map[int32]int64{0: 4, 1: 4, 2: 4}, "--topic", "orders", "--to-datetime", at(4)+"Z")
	s.resets(t, map[int32]int64{0: 10, 1: 10, 2: 10}, "--topic", "orders", "--to-datetime", at(50)+"Z")
	// Record 2 is 80 minutes old, record 1 is 90.
	s.resets(t, map[int32]int64{0: 2, 1: 2, 2: 2}, "--topic", "orders", "--by-duration", "PT85M")
}

func (s *groupToolSession) resetByFile(t *testing.T) {
	s.commit(t, map[int32]int64{0: 3, 1: 4, 2: 5})
	exported := s.groups(t, "--reset-offsets", "--group", "simple", "--topic", "orders", "--to-current", "--export", "--dry-run")
	lines := strings.Fields(exported)
	slices.Sort(lines)
	if !slices.Equal(lines, []string{"orders,0,3", "orders,1,4", "orders,2,5"}) {
		t.Fatalf("the exported plan:\n%s", exported)
	}
	path := filepath.Join(t.TempDir(), "offsets.csv")
	must(t, os.WriteFile(path, []byte("orders,0,9\norders,2,1\n"), 0o600))
	s.resets(t, map[int32]int64{0: 9, 2: 1}, "--from-file", path)
}

func (s *groupToolSession) refusedWhileLive(t *testing.T) {
	for _, group := range []string{"live-classic", "live-consumer"} {
		mustContain(t, s.groups(t, "--reset-offsets", "--group", group, "--topic", "orders", "--to-earliest", "--execute"), "Assignments can only be reset if the group '"+group+"' is inactive, but the current state is Stable")
		out := s.groups(t, "--delete-offsets", "--group", group, "--topic", "orders")
		mustContain(t, out, "Encountered some partition-level error", "GroupSubscribedToTopicException")
		mustContain(t, s.groups(t, "--delete", "--group", group), "GroupNotEmptyException")
		if at := s.committed(t, group); at[0] != groupToolRecords {
			t.Errorf("%s is at %v", group, at)
		}
	}
}

// formatters prints the coordinator's topic with Kafka's own readers of it.
func (s *groupToolSession) formatters(t *testing.T) {
	print := func(formatter string) []map[string]any {
		t.Helper()
		out := s.tool(t, "", "kafka-console-consumer", "--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "3000", "--formatter", "org.apache.kafka.tools.consumer."+formatter)
		var all []map[string]any
		for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
			var one map[string]any
			must(t, decoder.Decode(&one))
			all = append(all, one)
		}
		return all
	}
	text := func(v any) string { return fmt.Sprint(v) } // maps are printed in the order of their keys
	last := map[string]string{}                         // by key, the last value that is no tombstone
	for _, record := range print("OffsetsMessageFormatter") {
		if record["value"] == nil {
			continue
		}
		data := record["value"].(map[string]any)["data"].(map[string]any)
		delete(data, "commitTimestamp")
		delete(data, "topicId")
		last[text(record["key"])] = text(record["value"])
	}
	if got, want := last["map[data:map[group:simple partition:2 topic:orders] type:1]"], "map[data:map[leaderEpoch:-1 metadata: offset:1] version:4]"; got != want {
		t.Errorf("the last commit of the group simple is %q, not %q, in %v", got, want, last)
	}
	states := map[string]string{}
	for _, record := range print("GroupMetadataMessageFormatter") {
		states[text(record["key"])] += text(record["value"]) + "\n"
	}
	mustContain(t, states["map[data:map[group:live-classic] type:2]"], "protocolType:consumer", "protocol:range", "generation:1", "groupInstanceId:desk", "clientId:live-classic-client", "clientHost:/127.0.0.1")
}

func (s *groupToolSession) delete(t *testing.T) {
	for _, client := range s.live {
		client.Close()
	}
	admin := s.b.admin(t)
	// Static members stay until their session ends, or an operator removes them.
	for group, instance := range map[string]string{"live-classic": "desk", "live-consumer": "shop"} {
		left, err := admin.LeaveGroup(testContext(t), kadm.LeaveGroup(group).InstanceIDs(instance))
		must(t, err)
		if err := left.Error(); err != nil && left[instance].Err.Error() != "UNKNOWN_MEMBER_ID: The coordinator is not aware of this member." {
			t.Errorf("%s: %v", group, err)
		}
	}
	mustContain(t, s.groups(t, "--delete-offsets", "--group", "live-consumer", "--topic", "orders:0,1"), "Request succeeded for deleting offsets")
	if at := s.committed(t, "live-consumer"); !maps.Equal(at, map[int32]int64{2: 10}) {
		t.Errorf("after the deletion of two offsets: %v", at)
	}
	out := s.groups(t, "--delete-offsets", "--group", "simple", "--topic", "other")
	if !slices.Contains(rows(out), "other 0 Successful") {
		t.Errorf("the deletion:\n%s", out)
	}
	mustContain(t, s.groups(t, "--delete", "--group", "simple", "--group", "nobody"), "'nobody' could not be deleted", "GroupIdNotFoundException", "simple")
	mustBeRows(t, s.groups(t, "--list"), "live-classic", "live-consumer")
	mustContain(t, s.groups(t, "--delete", "--all-groups"), "was successful")
	mustBeRows(t, s.groups(t, "--list"))
	if at := s.committed(t, "live-classic"); len(at) != 0 {
		t.Errorf("a deleted group is at %v", at)
	}
}

// validateRegex asks no broker, but says what a broker must take; what kaas takes is
// in TestAnswersAsKafka.
func (s *groupToolSession) validateRegex(t *testing.T) {
	for regex, valid := range map[string]bool{"a.*": true, "a(": false, "(?!a)b": false, `\pL+`: true} {
		answer := runTool(t, "", "kafka-consumer-groups", "--validate-regex", regex)
		if strings.Contains(answer.Stdout, "is valid") != valid {
			t.Errorf("%s: %+v", regex, answer)
		}
	}
}
