package admin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/meta"
)

const (
	groupType   = kmsg.ConfigResourceTypeGroupConfig
	metricsType = kmsg.ConfigResourceTypeClientMetrics
)

// The rows are what Apache Kafka 4.4.0 answers. Where kaas refuses on purpose (it
// serves no share and streams groups), the row says so.
func TestGroupAndMetricsConfigs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	for _, row := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		op      operation
		code    int16
		message string
	}{
		{groupType, "", operation{"consumer.session.timeout.ms", opSet, "50000"}, 42, "Default group resources are not allowed."},
		{groupType, "g", operation{"consumer.session.timeout.ms", opSet, "50000"}, 0, ""},
		{groupType, "g", operation{"consumer.session.timeout.ms", opSet, "1"}, 40, "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{groupType, "g", operation{"consumer.session.timeout.ms", opSet, "99999999"}, 40, "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{groupType, "g", operation{"consumer.session.timeout.ms", opSet, "99999999999"}, 40, "consumer.session.timeout.ms"},
		{groupType, "g", operation{"consumer.session.timeout.ms", opSet, "x"}, 40, "consumer.session.timeout.ms"},
		{groupType, "g", operation{"consumer.heartbeat.interval.ms", opSet, "50001"}, 40, "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive."},
		{groupType, "g", operation{"consumer.heartbeat.interval.ms", opSet, "6000"}, 0, ""},
		{groupType, "g", operation{"nope", opSet, "1"}, 40, "Unknown group config name: nope"},
		{groupType, "g", operation{"consumer.assignment.interval.ms", opSet, "2000"}, 0, ""},
		{groupType, "g", operation{"consumer.assignment.interval.ms", opSet, "-1"}, 40, "consumer.assignment.interval.ms"},
		{groupType, "g", operation{"consumer.assignor.offload.enable", opSet, "maybe"}, 40, "true or false"},
		{groupType, "g", operation{"consumer.session.timeout.ms", opAppend, "5"}, 40, "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST."},
		{groupType, "g", operation{"nope", opDelete, "-"}, 0, ""},
		{groupType, "g", operation{"consumer.assignment.interval.ms", opDelete, "-"}, 0, ""},
		{groupType, "g", operation{"consumer.session.timeout.ms", opSet, "-"}, 42, "Null value not supported for : consumer.session.timeout.ms"},
		{groupType, "a/b", operation{"consumer.session.timeout.ms", opSet, "50000"}, 0, ""},
		{groupType, "g", operation{"share.session.timeout.ms", opSet, "50000"}, 40, "share groups are not served"},     // Kafka: taken
		{groupType, "g", operation{"streams.session.timeout.ms", opSet, "50000"}, 40, "streams groups are not served"}, // Kafka: taken
		{metricsType, "", operation{"interval.ms", opSet, "1000"}, 42, "Subscription name can't be empty"},
		{metricsType, "m", operation{"interval.ms", opSet, "100"}, 0, ""},
		{metricsType, "m", operation{"interval.ms", opSet, "99"}, 42, "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"},
		{metricsType, "m", operation{"interval.ms", opSet, "3600001"}, 42, "Invalid value 3600001 for interval.ms, interval must be between 100 and 3600000 (1 hour)"},
		{metricsType, "m", operation{"interval.ms", opSet, "x"}, 40, "interval.ms"},
		{metricsType, "m", operation{"match", opSet, "foo=x"}, 40, "Illegal client matching pattern: foo=x"},
		{metricsType, "m", operation{"match", opSet, "client_id=("}, 40, "Illegal client matching pattern: client_id=("},
		{metricsType, "m", operation{"match", opSet, "client_id"}, 40, "Illegal client matching pattern: client_id"},
		{metricsType, "m", operation{"match", opSet, "client_id=a=b"}, 40, "Illegal client matching pattern: client_id=a=b"},
		{metricsType, "m", operation{"match", opSet, "client_id=a,client_software_name=b"}, 0, ""},
		{metricsType, "m", operation{"metrics", opSet, "*"}, 0, ""},
		{metricsType, "m", operation{"metrics", opAppend, "d"}, 40, "Can't APPEND to key metrics because its type is not LIST."},
		{metricsType, "m", operation{"metrics", opSubtract, "d"}, 40, "Can't SUBTRACT to key metrics because its type is not LIST."},
		{metricsType, "m", operation{"nope", opSet, "1"}, 42, "Unknown client metrics configuration: nope"},
		{metricsType, strings.Repeat("n", 300), operation{"interval.ms", opSet, "1000"}, 0, ""},
	} {
		code, message := h.incremental(1, false, row.kind, row.name, row.op)
		if code != row.code || !strings.Contains(message, row.message) {
			t.Errorf("%d %.20q %v: %d %q, want %d %q", row.kind, row.name, row.op, code, message, row.code, row.message)
		}
	}
	if got, want := fmt.Sprint(h.images.Load().GroupConfig("g")), "map[consumer.heartbeat.interval.ms:6000 consumer.session.timeout.ms:50000]"; got != want {
		t.Errorf("in force: %s, want %s", got, want)
	}
	if h.images.Load().GroupConfig("other") != nil {
		t.Error("a group without a configuration has one")
	}
	wantList := "32/a/b 32/g 16/m 16/" + strings.Repeat("n", 300) + " 8/1 4/1"
	if got := h.listConfigResources(1); got != wantList {
		t.Errorf("%s, want %s", got, wantList)
	}
	object, err := h.store.Get(t.Context(), meta.KindGroupConfig, "g")
	if err != nil || fmt.Sprint(object.(*meta.KafkaConfig).Spec.Config) != "map[consumer.heartbeat.interval.ms:6000 consumer.session.timeout.ms:50000]" {
		t.Errorf("%+v, %v", object, err)
	}
	// Both of a pair, one bad: nothing of it.
	if code, _ := h.incremental(1, false, groupType, "g", operation{"consumer.session.timeout.ms", opSet, "46000"}, operation{"nope", opSet, "1"}); code != 40 {
		t.Error(code)
	}
	if code, _ := h.incremental(1, true, groupType, "new", operation{"consumer.session.timeout.ms", opSet, "46000"}); code != 0 || h.images.Load().GroupConfig("new") != nil {
		t.Error("validate_only was carried out", code)
	}
	if code, _ := h.incremental(1, false, groupType, "g", operation{"consumer.heartbeat.interval.ms", opDelete, "-"}, operation{"consumer.session.timeout.ms", opDelete, "-"}); code != 0 {
		t.Error(code)
	}
	if got := h.listConfigResources(1, 32); got != "32/a/b" {
		t.Error(got)
	}
	if _, err := h.store.Get(t.Context(), meta.KindGroupConfig, "g"); err == nil {
		t.Error("nothing is set, and the resource stays")
	}
}

func (h *harness) listConfigResources(version int16, types ...int8) string {
	h.t.Helper()
	request := kmsg.NewPtrListConfigResourcesRequest()
	request.ResourceTypes = types
	response := h.decode(h.submit(request, version), request, version).(*kmsg.ListConfigResourcesResponse)
	if response.ErrorCode != 0 {
		return fmt.Sprint(response.ErrorCode)
	}
	var all []string
	for _, resource := range response.ConfigResources {
		kind := resource.Type
		if version == 0 {
			kind = int8(metricsType)
		}
		all = append(all, fmt.Sprintf("%d/%s", kind, resource.Name))
	}
	return strings.Join(all, " ")
}

func TestListConfigResources(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 1)
	h.incremental(1, false, metricsType, "m", operation{"interval.ms", opSet, "1000"})
	for _, row := range []struct {
		version int16
		types   []int8
		want    string
	}{
		{0, nil, "16/m"}, {1, nil, "16/m 8/1 4/1 2/t"}, {1, []int8{2}, "2/t"}, {1, []int8{4, 8, 2, 16, 32}, "16/m 8/1 4/1 2/t"},
		{1, []int8{32, 32}, ""}, {1, []int8{1}, "35"}, {1, []int8{64}, "35"}, {1, []int8{16, 0}, "35"},
	} {
		if got := h.listConfigResources(row.version, row.types...); got != row.want {
			t.Errorf("v%d %v: %s, want %s", row.version, row.types, got, row.want)
		}
	}
	denied := newHarness(t, harnessOptions{authorizer: denier(func(auth.Operation, auth.ResourceType, string) bool { return true })})
	if got := denied.listConfigResources(1); got != "31" {
		t.Error(got)
	}
	for kind, want := range map[kmsg.ConfigResourceType]int16{groupType: 30, metricsType: 31} {
		if got := denied.describe(4, kind, "x"); got.ErrorCode != want {
			t.Errorf("%d: %+v", kind, got)
		}
		if code, _ := denied.incremental(1, false, kind, "x", operation{"interval.ms", opSet, "1000"}); code != want {
			t.Errorf("%d: %d", kind, code)
		}
	}
	dev := newHarness(t, harnessOptions{dev: true})
	if code, message := dev.incremental(1, false, groupType, "x", operation{"consumer.session.timeout.ms", opSet, "50000"}); code != 31 || message != meta.ForbiddenInDevMode {
		t.Error(code, message)
	}
}

// Sources, chains and what is hidden, as Apache Kafka 4.4.0 shows them.
func TestDescribeGroupAndMetricsConfigs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	show := func(kind kmsg.ConfigResourceType, name string, keys ...string) string {
		result := h.describe(4, kind, name, keys...)
		if result.ErrorCode != 0 {
			return fmt.Sprint(result.ErrorCode, " ", text(result.ErrorMessage))
		}
		var out []string
		for _, entry := range result.Configs {
			var chain []string
			for _, synonym := range entry.ConfigSynonyms {
				chain = append(chain, fmt.Sprintf("%s=%s %d", synonym.Name, text(synonym.Value), synonym.Source))
			}
			out = append(out, fmt.Sprintf("%s=%s %d %v [%s]", entry.Name, text(entry.Value), entry.Source, entry.ReadOnly, strings.Join(chain, ", ")))
		}
		return strings.Join(out, "; ")
	}
	for _, row := range []struct{ got, want string }{
		{show(groupType, ""), "42 Group name must not be empty"},
		{show(metricsType, ""), "42 Client metrics subscription name must not be empty"},
		{show(groupType, "g", "consumer.session.timeout.ms", "nope"), "consumer.session.timeout.ms=45000 5 false [group.consumer.session.timeout.ms=45000 5]"},
		{show(groupType, "g", "share.isolation.level"), "share.isolation.level=read_uncommitted 5 true [share.isolation.level=read_uncommitted 5]"},
		{show(groupType, "g", "consumer.assignor.offload.enable"), ""},
		{show(metricsType, "m"), "interval.ms=300000 5 false []; match= 5 false []; metrics= 5 false []"},
	} {
		if row.got != row.want {
			t.Errorf("%s\nwant %s", row.got, row.want)
		}
	}
	h.incremental(1, false, groupType, "g", operation{"consumer.session.timeout.ms", opSet, "50000"}, operation{"consumer.assignor.offload.enable", opSet, "true"})
	h.incremental(1, false, metricsType, "m", operation{"interval.ms", opSet, "1000"})
	for _, row := range []struct{ got, want string }{
		{show(groupType, "g", "consumer.session.timeout.ms"), "consumer.session.timeout.ms=50000 8 false [consumer.session.timeout.ms=50000 8, group.consumer.session.timeout.ms=45000 5]"},
		{show(groupType, "g", "consumer.assignor.offload.enable"), "consumer.assignor.offload.enable=true 8 false [consumer.assignor.offload.enable=true 8, group.consumer.assignor.offload.enable=true 5]"},
		{show(metricsType, "m"), "interval.ms=1000 7 false [interval.ms=1000 7]; match= 5 false []; metrics= 5 false []"},
	} {
		if row.got != row.want {
			t.Errorf("%s\nwant %s", row.got, row.want)
		}
	}
	if got := len(h.describe(4, groupType, "other").Configs); got != 21 {
		t.Errorf("%d keys, Kafka shows 21", got)
	}
}
