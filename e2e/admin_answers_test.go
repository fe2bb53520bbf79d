//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// adminAnswers compares what is refused, in every version that both serve: the codes,
// and the words where kaas has no reason to say it better. Nothing is changed.
func adminAnswers(t *testing.T, brokers [2]*broker) {
	p := newPair(t, brokers, "admin", 2)
	for _, b := range brokers {
		b.createTopic(t, "admin.dot", 1, nil)
		b.createTopic(t, "admin-compacted", 1, map[string]*string{"cleanup.policy": ptr("compact")})
	}
	a := &adminPair{p, servedByBoth(t, p)}
	a.creations(t)
	a.growth(t)
	a.deletions(t)
	a.configs(t)
	a.partitions(t)
	a.acls(t)
	a.internal(t)
	a.descriptions(t)
}

// descriptions: DescribeTopicPartitions and its cursors.
func (a *adminPair) descriptions(t *testing.T) {
	for _, names := range [][]string{{"admin"}, {"missing"}, {"a/b"}, {"."}, {"__transaction_state"}, {"admin", "admin.dot", "missing"}, {"admin.dot", "admin", "admin"}} {
		for _, cursor := range []*kmsg.DescribeTopicPartitionsRequestCursor{nil, {}, {Topic: "missing"}, {Topic: "admin", Partition: -1}, {Topic: "admin", Partition: 1}, {Topic: "admin", Partition: 2}, {Topic: "admin", Partition: 7}, {Topic: "__transaction_state", Partition: 49}} {
			for _, limit := range []int32{-1, 0, 1, 2, 2000} {
				a.each(t, fmt.Sprintf("%q from %+v, %d", names, cursor, limit), func() kmsg.Request {
					request := kmsg.NewPtrDescribeTopicPartitionsRequest()
					for _, name := range names {
						request.Topics = append(request.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
					}
					request.Cursor, request.ResponsePartitionLimit = cursor, limit
					return request
				}, func(response kmsg.Response) {
					for i := range response.(*kmsg.DescribeTopicPartitionsResponse).Topics {
						response.(*kmsg.DescribeTopicPartitionsResponse).Topics[i].TopicID = [16]byte{}
					}
				})
			}
		}
	}
}

type adminPair struct {
	*pair
	versions map[int16][2]int16
}

// servedByBoth are the versions of each key that both sides advertise.
func servedByBoth(t *testing.T, p *pair) map[int16][2]int16 {
	t.Helper()
	common := map[int16][2]int16{}
	for side := range sides {
		request := kmsg.NewPtrApiVersionsRequest()
		request.Version = 0
		for _, key := range exchange(t, p.conns[side], request).(*kmsg.ApiVersionsResponse).ApiKeys {
			least, most := key.MinVersion, key.MaxVersion
			if side == 1 {
				have := common[key.ApiKey]
				least, most = max(least, have[0]), min(most, have[1])
			}
			common[key.ApiKey] = [2]int16{least, most}
		}
	}
	return common
}

// each compares the answers to a request in all versions.
func (a *adminPair) each(t *testing.T, what string, build func() kmsg.Request, even func(kmsg.Response)) {
	t.Helper()
	versions := a.versions[build().Key()]
	for version := versions[0]; version <= versions[1]; version++ {
		var compared [2]string
		for side := range sides {
			request := build()
			request.SetVersion(version)
			response := exchange(t, a.conns[side], request)
			even(response)
			text, err := json.Marshal(response)
			must(t, err)
			compared[side] = string(text)
		}
		mustAgree(t, fmt.Sprintf("%T v%d %s", build(), version, what), compared)
	}
}

func (a *adminPair) creations(t *testing.T) {
	topic := func(name string, partitions int32, replication int16, change ...func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, replication
		for _, c := range change {
			c(&topic)
		}
		return topic
	}
	config := func(key string, value *string) func(*kmsg.CreateTopicsRequestTopic) {
		return func(topic *kmsg.CreateTopicsRequestTopic) {
			topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: value})
		}
	}
	on := func(partition int32, replicas ...int32) func(*kmsg.CreateTopicsRequestTopic) {
		return func(topic *kmsg.CreateTopicsRequestTopic) {
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: replicas})
		}
	}
	for _, topics := range [][]kmsg.CreateTopicsRequestTopic{
		nil, {topic("fine", 3, 1)}, {topic("fine", -1, -1)}, {topic("admin", 1, 1)}, {topic("", 1, 1)}, {topic(".", 1, 1)}, {topic("..", 1, 1)}, {topic("a/b", 1, 1)}, {topic("ü", 1, 1)}, {topic("a b", 1, 1)},
		{topic(strings.Repeat("l", 249), 1, 1)}, {topic(strings.Repeat("l", 250), 1, 1)}, {topic("admin_dot", 1, 1)}, {topic("__cluster_metadata", 1, 1)},
		{topic("zero", 0, 1)}, {topic("minus", -2, 1)}, {topic("many", 1<<31-1, 1)}, {topic("many", 10_001, 1)}, {topic("norep", 1, 0)}, {topic("norep", 1, -2)},
		{topic("twice", 1, 1), topic("twice", 2, 1)},
		{topic("c", 1, 1, config("no.such.key", ptr("1")))}, {topic("c", 1, 1, config("retention.ms", ptr("soon")))}, {topic("c", 1, 1, config("retention.ms", nil))},
		{topic("c", 1, 1, config("retention.ms", ptr("9223372036854775808")))}, {topic("c", 1, 1, config("segment.bytes", ptr("1")))}, {topic("c", 1, 1, config("cleanup.policy", ptr("shred")))},
		{topic("c", 1, 1, config("max.message.bytes", ptr("-1")))}, {topic("c", 1, 1, config("min.cleanable.dirty.ratio", ptr("2")))}, {topic("c", 1, 1, config("message.timestamp.type", ptr("Never")))},
		{topic("c", 1, 1, config("preallocate", ptr("perhaps")))}, {topic("c", 1, 1, config("retention.ms", ptr("5")), config("retention.ms", ptr("6")))},
		{topic("m", 1, -1, on(0, 1))}, {topic("m", -1, 1, on(0, 1))}, {topic("m", -1, -1, on(0, 9))}, {topic("m", -1, -1, on(0, 1), on(0, 1))}, {topic("m", -1, -1, on(1, 1))},
		{topic("m", -1, -1, on(0))}, {topic("m", -1, -1, on(0, 1, 1))}, {topic("m", -1, -1, on(-1, 1))}, {topic("m", -1, -1, on(0, 1), on(1, 1))},
	} {
		a.each(t, fmt.Sprintf("%+v", topics), func() kmsg.Request {
			request := kmsg.NewPtrCreateTopicsRequest()
			request.Topics, request.ValidateOnly, request.TimeoutMillis = topics, true, 10_000
			return request
		}, func(response kmsg.Response) {
			for i := range response.(*kmsg.CreateTopicsResponse).Topics {
				topic := &response.(*kmsg.CreateTopicsResponse).Topics[i]
				topic.Configs, topic.TopicID = nil, [16]byte{} // compared by DescribeConfigs; Kafka gives what only validates an id
				if topic.ErrorMessage != nil && (topic.ErrorCode == 40 || topic.ErrorCode == 44) {
					topic.ErrorMessage = ptr("…") // kaas names the bounds, too
				}
			}
		})
	}
}

func (a *adminPair) growth(t *testing.T) {
	to := func(name string, count int32, brokers ...[]int32) kmsg.CreatePartitionsRequestTopic {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = name, count
		for _, replicas := range brokers {
			topic.Assignment = append(topic.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		return topic
	}
	for _, topics := range [][]kmsg.CreatePartitionsRequestTopic{
		nil, {to("admin", 3)}, {to("admin", 2)}, {to("admin", 1)}, {to("admin", 0)}, {to("admin", -1)}, {to("admin", 1<<31-1)}, {to("admin", 10_003)}, {to("missing", 3)}, {to("", 3)}, {to("a/b", 3)},
		{to("admin", 3), to("admin", 4)}, {to("admin", 3, []int32{1})}, {to("admin", 3, []int32{9})}, {to("admin", 4, []int32{1})}, {to("admin", 3, []int32{1, 1})}, {to("admin", 3, []int32{})},
		{to("admin", 3, []int32{1}, []int32{1})},
	} {
		a.each(t, fmt.Sprintf("%+v", topics), func() kmsg.Request {
			request := kmsg.NewPtrCreatePartitionsRequest()
			request.Topics, request.ValidateOnly, request.TimeoutMillis = topics, true, 10_000
			return request
		}, func(kmsg.Response) {})
	}
}

func (a *adminPair) deletions(t *testing.T) {
	missing := ptr("missing")
	for _, names := range [][]string{{}, {"missing"}, {""}, {"a/b"}, {"missing", "missing"}, {"admin", "admin"}} {
		a.each(t, fmt.Sprintf("%q", names), func() kmsg.Request {
			request := kmsg.NewPtrDeleteTopicsRequest()
			request.TopicNames, request.TimeoutMillis = names, 10_000
			for _, name := range names {
				request.Topics = append(request.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &name})
			}
			return request
		}, func(kmsg.Response) {})
	}
	for _, topics := range [][]kmsg.DeleteTopicsRequestTopic{{{}}, {{TopicID: [16]byte{9}}}, {{Topic: missing, TopicID: [16]byte{9}}}, {{TopicID: [16]byte{9}}, {TopicID: [16]byte{9}}}, {{}, {}}} {
		a.each(t, fmt.Sprintf("%+v", topics), func() kmsg.Request {
			request := kmsg.NewPtrDeleteTopicsRequest()
			request.Topics, request.TimeoutMillis = topics, 10_000
			return request
		}, func(kmsg.Response) {})
	}
}

func (a *adminPair) configs(t *testing.T) {
	const topic = kmsg.ConfigResourceTypeTopic
	for _, resource := range []kmsg.DescribeConfigsRequestResource{
		{ResourceType: topic, ResourceName: "missing"}, {ResourceType: topic, ResourceName: "a/b"}, {ResourceType: topic}, {ResourceType: 0, ResourceName: "x"}, {ResourceType: 1, ResourceName: "x"}, {ResourceType: 99, ResourceName: "x"},
		{ResourceType: -1, ResourceName: "x"},
		{ResourceType: 4, ResourceName: "9"}, {ResourceType: 4, ResourceName: "x"}, {ResourceType: 8, ResourceName: "9"}, {ResourceType: 8}, {ResourceType: 16}, {ResourceType: 32},
		{ResourceType: topic, ResourceName: "admin", ConfigNames: []string{"no.such.key"}}, {ResourceType: topic, ResourceName: "admin-compacted", ConfigNames: []string{"cleanup.policy", "retention.ms"}},
		{ResourceType: topic, ResourceName: "admin-compacted"},
	} {
		a.each(t, fmt.Sprintf("%+v", resource), func() kmsg.Request {
			request := kmsg.NewPtrDescribeConfigsRequest()
			request.IncludeSynonyms, request.Resources = true, []kmsg.DescribeConfigsRequestResource{resource}
			return request
		}, func(response kmsg.Response) {
			for _, r := range response.(*kmsg.DescribeConfigsResponse).Resources {
				slices.SortFunc(r.Configs, func(x, y kmsg.DescribeConfigsResponseResourceConfig) int { return strings.Compare(x.Name, y.Name) })
			}
			for i := range response.(*kmsg.DescribeConfigsResponse).Resources {
				r := &response.(*kmsg.DescribeConfigsResponse).Resources[i]
				r.Configs = slices.DeleteFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool {
					return c.Name == "flush.messages" || c.Name == "min.insync.replicas" // kaas has one copy, and flushes it
				})
				if r.ErrorCode == 42 && r.ResourceType.String() == "UNKNOWN" {
					r.ErrorMessage = nil // kaas names the type
				}
			}
		})
	}
	set := func(key string, value *string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
		return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Value: value}
	}
	op := func(key string, op kmsg.IncrementalAlterConfigOp, value *string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
		return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: op, Value: value}
	}
	for _, r := range []kmsg.IncrementalAlterConfigsRequestResource{
		{ResourceType: topic, ResourceName: "admin"}, {ResourceType: topic, ResourceName: "missing"}, {ResourceType: topic}, {ResourceType: 0, ResourceName: "x"}, {ResourceType: 1, ResourceName: "x"}, {ResourceType: 99, ResourceName: "x"},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("no.such.key", ptr("1"))}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("retention.ms", ptr("soon"))}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("retention.ms", ptr("5")), set("retention.ms", ptr("6"))}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("retention.ms", 2, ptr("5"))}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", 2, ptr("compact"))}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", 3, ptr("delete,compact"))}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("cleanup.policy", 2, nil)}},
		{ResourceType: topic, ResourceName: "admin", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("no.such.key", 1, nil)}},
		{ResourceType: 16, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("interval.ms", ptr("100"))}},
		{ResourceType: 32, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("consumer.session.timeout.ms", ptr("50000"))}},
		{ResourceType: 32, ResourceName: "g", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("no.such.key", ptr("50000"))}},
		{ResourceType: 16, ResourceName: "g", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("no.such.key", ptr("50000"))}},
		{ResourceType: 8, ResourceName: "1", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("root", ptr("LOUD"))}},
		{ResourceType: 8, ResourceName: "1", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{op("root", 2, ptr("INFO"))}},
		{ResourceType: 8, ResourceName: "9", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{set("root", ptr("INFO"))}},
	} {
		a.each(t, fmt.Sprintf("%+v", r), func() kmsg.Request {
			request := kmsg.NewPtrIncrementalAlterConfigsRequest()
			request.ValidateOnly, request.Resources = true, []kmsg.IncrementalAlterConfigsRequestResource{r}
			return request
		}, func(response kmsg.Response) { withoutWords(response) })
		a.each(t, fmt.Sprintf("%+v", r), func() kmsg.Request {
			request := kmsg.NewPtrAlterConfigsRequest()
			whole := kmsg.AlterConfigsRequestResource{ResourceType: r.ResourceType, ResourceName: r.ResourceName}
			for _, c := range r.Configs {
				whole.Configs = append(whole.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: c.Name, Value: c.Value})
			}
			request.ValidateOnly, request.Resources = true, []kmsg.AlterConfigsRequestResource{whole}
			return request
		}, func(response kmsg.Response) { withoutWords(response) })
	}
}

// partitions: what is asked about the places and leaders of partitions.
func (a *adminPair) partitions(t *testing.T) {
	nothing := func(kmsg.Response) {}
	for _, name := range []string{"admin", "missing", "", "admin-compacted"} {
		for _, partition := range []int32{0, 7, -1} {
			for _, offset := range []int64{0, -1, -2, 5} {
				if name == "admin" && partition == 0 && offset == 0 {
					continue // the same in both, and changes something
				}
				a.each(t, fmt.Sprint(name, "-", partition, " before ", offset), func() kmsg.Request {
					request := kmsg.NewPtrDeleteRecordsRequest()
					request.TimeoutMillis = 2_000
					request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
					return request
				}, nothing)
			}
			for election := int8(0); election <= 2; election++ {
				a.each(t, fmt.Sprint(name, "-", partition, " by ", election), func() kmsg.Request {
					request := kmsg.NewPtrElectLeadersRequest()
					request.ElectionType, request.TimeoutMillis = election, 2_000
					request.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{partition}}}
					return request
				}, nothing)
			}
			for _, replicas := range [][]int32{nil, {}, {1}, {9}, {1, 1}, {-1}} {
				a.each(t, fmt.Sprint(name, "-", partition, " to ", replicas), func() kmsg.Request {
					request := kmsg.NewPtrAlterPartitionAssignmentsRequest()
					request.TimeoutMillis = 2_000
					request.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: partition, Replicas: replicas}}}}
					return request
				}, nothing)
			}
			for _, dir := range []string{"", "relative", "/no/such/directory"} {
				a.each(t, fmt.Sprint(name, "-", partition, " to ", dir), func() kmsg.Request {
					request := kmsg.NewPtrAlterReplicaLogDirsRequest()
					request.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: dir, Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: name, Partitions: []int32{partition}}}}}
					return request
				}, nothing)
			}
			a.each(t, fmt.Sprint(name, "-", partition), func() kmsg.Request {
				request := kmsg.NewPtrListPartitionReassignmentsRequest()
				request.TimeoutMillis = 2_000
				request.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{{Topic: name, Partitions: []int32{partition}}}
				return request
			}, nothing)
		}
	}
}

func (a *adminPair) acls(t *testing.T) {
	good := kmsg.CreateACLsRequestCreation{ResourceType: 2, ResourceName: "t", ResourcePatternType: 3, Principal: "User:u", Host: "*", Operation: 3, PermissionType: 3}
	// Not asked: what Kafka closes the connection on (UNKNOWN) or answers with -1 (ANY and MATCH), and an empty type of
	// principal, which Kafka takes.
	for _, change := range []func(*kmsg.CreateACLsRequestCreation){
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourceName = "" },
		func(c *kmsg.CreateACLsRequestCreation) { c.ResourceType = 4 }, func(c *kmsg.CreateACLsRequestCreation) { c.Principal = "u" },
		func(c *kmsg.CreateACLsRequestCreation) { c.Host = "" },
	} {
		bad := good
		change(&bad)
		a.each(t, fmt.Sprintf("%+v", bad), func() kmsg.Request {
			request := kmsg.NewPtrCreateACLsRequest()
			request.Creations = []kmsg.CreateACLsRequestCreation{bad}
			return request
		}, func(kmsg.Response) {})
	}
	// More than Kafka's controller takes at once. (v1 is as the others, and the answer is long.)
	many := a.versions[30]
	a.versions[30] = [2]int16{many[1], many[1]}
	a.each(t, "10,001 new ones", func() kmsg.Request {
		request := kmsg.NewPtrCreateACLsRequest()
		for i := range 10_001 {
			next := good
			next.ResourceName = fmt.Sprint("t", i)
			request.Creations = append(request.Creations, next)
		}
		return request
	}, func(response kmsg.Response) {
		r := response.(*kmsg.CreateACLsResponse)
		for i := range r.Results {
			r.Results[i].ErrorMessage = nil // kaas says how many
		}
		r.Results = slices.CompactFunc(r.Results, func(x, y kmsg.CreateACLsResponseResult) bool { return x.ErrorCode == y.ErrorCode })
	})
	a.versions[30] = many
	for _, filter := range []kmsg.DeleteACLsRequestFilter{
		{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}, {ResourceType: 2, ResourcePatternType: 2, ResourceName: ptr("t"), Operation: 1, PermissionType: 1},
	} {
		a.each(t, fmt.Sprintf("%+v", filter), func() kmsg.Request {
			request := kmsg.NewPtrDescribeACLsRequest()
			request.ResourceType, request.ResourcePatternType, request.ResourceName, request.Operation, request.PermissionType = filter.ResourceType, filter.ResourcePatternType, filter.ResourceName, filter.Operation, filter.PermissionType
			return request
		}, func(kmsg.Response) {})
		a.each(t, fmt.Sprintf("%+v", filter), func() kmsg.Request {
			request := kmsg.NewPtrDeleteACLsRequest()
			request.Filters = []kmsg.DeleteACLsRequestFilter{filter}
			return request
		}, func(kmsg.Response) {})
	}
}

// internal: what may be done to a topic that brokers make for themselves. (That its
// partitions can't be increased is kaas' own, KAFKA-20029.)
func (a *adminPair) internal(t *testing.T) {
	const name = "__share_group_state" // no other test has a use for it
	once := func(what string, build func() kmsg.Request, even func(kmsg.Response)) {
		t.Helper()
		key := build().Key()
		all := a.versions[key]
		a.versions[key] = [2]int16{all[1], all[1]}
		a.each(t, what+" "+name, build, even)
		a.versions[key] = all
	}
	creation := func() kmsg.Request {
		request := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		request.Topics, request.TimeoutMillis = append(request.Topics, topic), 10_000
		return request
	}
	created := func(response kmsg.Response) {
		topic := &response.(*kmsg.CreateTopicsResponse).Topics[0]
		topic.Configs, topic.TopicID = nil, [16]byte{}
	}
	once("creation of", creation, created)
	once("another creation of", creation, created)
	for _, op := range []kmsg.IncrementalAlterConfigOp{kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete} {
		once("configs of", func() kmsg.Request {
			request := kmsg.NewPtrIncrementalAlterConfigsRequest()
			request.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Op: op, Value: ptr("700000000")}}}}
			return request
		}, func(kmsg.Response) {})
	}
	once("deletion of", func() kmsg.Request {
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.Topics, request.TimeoutMillis = []kmsg.DeleteTopicsRequestTopic{{Topic: ptr(name)}}, 10_000
		return request
	}, func(response kmsg.Response) {
		response.(*kmsg.DeleteTopicsResponse).Topics[0].TopicID = [16]byte{}
	})
}
