package admin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
)

// asked allows everything but what denied names, and remembers what it was asked.
type asked struct {
	mu        sync.Mutex
	questions []string
	denied    string
}

func (a *asked) Authorize(_, _ string, op auth.Operation, resource auth.ResourceType, name string) bool {
	question := fmt.Sprint(op, " ", resource, " ", name)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.questions, question) {
		a.questions = append(a.questions, question)
	}
	return question != a.denied
}

func (a *asked) taken() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := strings.Join(a.questions, ", ")
	a.questions = nil
	return taken
}

// Each request asks for exactly the rights that it needs, as Kafka's does.
func TestEachRequestAsksForItsRights(t *testing.T) {
	t.Parallel()
	rights := &asked{}
	h := newHarness(t, harnessOptions{overrides: []string{enforce}, authorizer: rights, quotas: true})
	id := h.mustCreate("t", 1)
	h.mustCreateUser("alice", "")
	const cluster = "CLUSTER kafka-cluster"
	describe := func(kind kmsg.ConfigResourceType, name string) func() {
		return func() { h.describe(4, kind, name) }
	}
	alter := func(kind kmsg.ConfigResourceType, name string) func() {
		return func() { h.incremental(1, true, kind, name) }
	}
	replace := func(kind kmsg.ConfigResourceType, name string) func() {
		return func() {
			request := kmsg.NewPtrAlterConfigsRequest()
			request.ValidateOnly, request.Resources = true, []kmsg.AlterConfigsRequestResource{{ResourceType: kind, ResourceName: name}}
			h.call(request, 2)
		}
	}
	call := func(request kmsg.Request, version int16) func() { return func() { h.call(request, version) } }
	growth := kmsg.NewPtrCreatePartitionsRequest()
	growth.ValidateOnly, growth.Topics = true, []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
	records := kmsg.NewPtrDeleteRecordsRequest()
	records.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	byName, byID := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewPtrDeleteTopicsRequest()
	byName.TopicNames, byID.Topics = []string{"missing"}, []kmsg.DeleteTopicsRequestTopic{{TopicID: id}}
	const topic, group, metrics, logger = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBrokerLogger
	for _, test := range []struct {
		what   string
		do     func()
		denied string
		want   string
	}{
		{"CreateTopics", func() { h.create(7, true, newTopicRequest("u", 1)) }, "", "CREATE " + cluster + ", DESCRIBE_CONFIGS TOPIC u"},
		{"CreateTopics", func() { h.create(7, true, newTopicRequest("u", 1)) }, "CREATE " + cluster, "CREATE " + cluster + ", CREATE TOPIC u, DESCRIBE_CONFIGS TOPIC u"},
		{"CreateTopics before its configs", func() { h.create(4, true, newTopicRequest("u", 1)) }, "", "CREATE " + cluster},
		{"DeleteTopics", call(byName, 5), "", "DELETE TOPIC missing"},
		{"DeleteTopics by id", call(byID, 6), "DELETE TOPIC t", "DESCRIBE TOPIC t, DELETE TOPIC t"},
		{"DeleteTopics by id that is hidden", call(byID, 6), "DESCRIBE TOPIC t", "DESCRIBE TOPIC t"},
		{"DeleteRecords", call(records, 2), "", "DELETE TOPIC t"},
		{"CreatePartitions", call(growth, 3), "", "ALTER TOPIC t"},
		{"DescribeConfigs", describe(topic, "t"), "", "DESCRIBE_CONFIGS TOPIC t"},
		{"DescribeConfigs", describe(onBroker, "1"), "", "DESCRIBE_CONFIGS " + cluster},
		{"DescribeConfigs", describe(logger, "1"), "", "DESCRIBE_CONFIGS " + cluster},
		{"DescribeConfigs", describe(group, "g"), "", "DESCRIBE_CONFIGS GROUP g"},
		{"DescribeConfigs", describe(metrics, "m"), "", "DESCRIBE_CONFIGS " + cluster},
		{"IncrementalAlterConfigs", alter(topic, "t"), "", "ALTER_CONFIGS TOPIC t"},
		{"IncrementalAlterConfigs", alter(onBroker, "1"), "", "ALTER_CONFIGS " + cluster},
		{"IncrementalAlterConfigs", alter(logger, "1"), "", "ALTER_CONFIGS " + cluster},
		{"IncrementalAlterConfigs", alter(group, "g"), "", "ALTER_CONFIGS GROUP g"},
		{"IncrementalAlterConfigs", alter(metrics, "m"), "", "ALTER_CONFIGS " + cluster},
		{"AlterConfigs", replace(topic, "t"), "", "ALTER_CONFIGS TOPIC t"},
		{"AlterConfigs", replace(onBroker, "1"), "", "ALTER_CONFIGS " + cluster},
		{"AlterConfigs", replace(group, "g"), "", "ALTER_CONFIGS GROUP g"},
		{"AlterConfigs", replace(metrics, "m"), "", "ALTER_CONFIGS " + cluster},
		{"ListConfigResources", call(kmsg.NewPtrListConfigResourcesRequest(), 1), "", "DESCRIBE_CONFIGS " + cluster},
		{"DescribeAcls", call(anyACL(), 3), "", "DESCRIBE " + cluster},
		{"CreateAcls", func() { h.createACLs(3, "User:nobody TOPIC t LITERAL * READ ALLOW") }, "", "ALTER " + cluster},
		{"DeleteAcls", call(kmsg.NewPtrDeleteACLsRequest(), 3), "", "ALTER " + cluster},
		{"AlterReplicaLogDirs", call(kmsg.NewPtrAlterReplicaLogDirsRequest(), 2), "", "ALTER " + cluster},
		{"DescribeLogDirs", call(kmsg.NewPtrDescribeLogDirsRequest(), 4), "", "DESCRIBE " + cluster},
		{"ElectLeaders", call(kmsg.NewPtrElectLeadersRequest(), 2), "", "ALTER " + cluster},
		{"AlterPartitionReassignments", call(kmsg.NewPtrAlterPartitionAssignmentsRequest(), 0), "", "ALTER " + cluster},
		{"ListPartitionReassignments", call(kmsg.NewPtrListPartitionReassignmentsRequest(), 0), "", "DESCRIBE " + cluster},
		{"DescribeClientQuotas", call(kmsg.NewPtrDescribeClientQuotasRequest(), 1), "", "DESCRIBE_CONFIGS " + cluster},
		{"AlterClientQuotas", func() { h.alterQuotas(1, true, quotaChange("alice", nil)) }, "", "ALTER_CONFIGS " + cluster},
		{"DescribeUserScramCredentials", call(kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), 0), "", "DESCRIBE " + cluster},
		{"AlterUserScramCredentials", func() { h.alterScram(nil, upsertion("nobody", 4096)) }, "", "ALTER " + cluster},
	} {
		rights.taken()
		rights.denied = test.denied
		test.do()
		rights.denied = ""
		if got := rights.taken(); got != test.want {
			t.Errorf("%s asks for %q, not %q", test.what, got, test.want)
		}
	}
	if h.images.Load().Topic("t") == nil {
		t.Error("what was denied is gone")
	}
}
