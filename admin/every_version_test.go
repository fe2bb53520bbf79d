package admin

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/internal/bufpool"
)

// versionCase asks one thing of one key. codes are what the answer says, one for each
// thing that was named.
type versionCase struct {
	min, max int16 // the versions that the case was written for
	request  func(h *harness, version int16) kmsg.Request
	codes    func(kmsg.Response) []int16
	want     func(version int16) []int16
	// more looks at what a version has to say beyond its codes.
	more func(version int16, response kmsg.Response) error
}

func always(codes ...int16) func(int16) []int16 { return func(int16) []int16 { return codes } }

func named(prefix string, version int16) string { return fmt.Sprintf("%s-%d", prefix, version) }

// codesOf collects one code of each element.
func codesOf[T any](elements []T, code func(*T) int16) []int16 {
	codes := make([]int16, len(elements))
	for i := range elements {
		codes[i] = code(&elements[i])
	}
	return codes
}

// Every key, in every version that is served: encoded by kmsg, decoded here,
// answered, and the answer decoded to its last byte by kmsg. A key or a version that
// is served and has no case fails.
func TestEveryKeyAndVersion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	cases := everyVersionCases()
	for key, api := range h.apis {
		c, ok := cases[key]
		if !ok || api.MinVersion != c.min || api.MaxVersion != c.max {
			t.Errorf("%s (%d) is served from v%d to v%d; the case here is for v%d to v%d", api.Name, key, api.MinVersion, api.MaxVersion, c.min, c.max)
			continue
		}
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			request := c.request(h, version)
			response := h.call(request, version)
			if got, want := c.codes(response), c.want(version); !slices.Equal(got, want) {
				t.Errorf("%s v%d: %v, want %v: %+v", api.Name, version, got, want, response)
			}
			if c.more != nil {
				if err := c.more(version, response); err != nil {
					t.Errorf("%s v%d: %v", api.Name, version, err)
				}
			}
			h.refusesWhole(api, request, version)
			h.failsOnGarbage(api, request, version)
		}
	}
	for key := range cases {
		if _, ok := h.apis[key]; !ok {
			t.Errorf("there is a case for key %d, which is not served", key)
		}
	}
}

// refusesWhole: the answer of a full pool is a whole one in each version.
func (h *harness) refusesWhole(api codec.API, request kmsg.Request, version int16) {
	h.t.Helper()
	s := h.direct(api, version, request.AppendTo(nil), func(r *codec.Request) { api.Refuse(r, 89, 100) })
	h.decode(s, request, version)
}

// failsOnGarbage: a body cut short closes the connection, and nothing is answered.
func (h *harness) failsOnGarbage(api codec.API, request kmsg.Request, version int16) {
	h.t.Helper()
	body := request.AppendTo(nil)
	for _, cut := range []int{0, len(body) / 2, len(body) - 1} {
		if cut >= len(body) || cut < 0 {
			continue // this version has no body
		}
		if s := h.direct(api, version, body[:cut], api.Handle); s.err == nil || <-s.reply != nil {
			h.t.Errorf("%s v%d: %d of %d bytes were answered", api.Name, version, cut, len(body))
		}
	}
}

// direct runs a request on this goroutine.
func (h *harness) direct(api codec.API, version int16, body []byte, handle func(*codec.Request)) *sink {
	frame := bufpool.Get(len(body))
	copy(frame.B, body)
	s := &sink{reply: make(chan []byte, 1)}
	session := &codec.Session{Principal: h.user, RemoteHost: "127.0.0.1"}
	handle(codec.NewRequest(&api, codec.Header{Key: api.Key, Version: version}, frame.B, frame, session, s, time.Now(), nil))
	return s
}

func everyVersionCases() map[int16]versionCase {
	cases := map[int16]versionCase{}
	topicCases(cases)
	configCases(cases)
	userCases(cases)
	return cases
}

func topicCases(cases map[int16]versionCase) {
	cases[19] = versionCase{0, 7, func(_ *harness, v int16) kmsg.Request {
		request := kmsg.NewPtrCreateTopicsRequest()
		request.TimeoutMillis = 20_000
		request.Topics = append(request.Topics, newTopicRequest(named("create", v), 2, "retention.ms", "777"), newTopicRequest("a/b", 1))
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.CreateTopicsResponse).Topics, func(t *kmsg.CreateTopicsResponseTopic) int16 { return t.ErrorCode })
	}, always(0, 17), func(v int16, r kmsg.Response) error {
		topic := r.(*kmsg.CreateTopicsResponse).Topics[0]
		switch {
		case v >= 7 == (topic.TopicID == [16]byte{}), v >= 5 != (topic.NumPartitions == 2), v >= 5 == (len(topic.Configs) == 0):
			return fmt.Errorf("%+v", topic)
		case v >= 1 == (text(r.(*kmsg.CreateTopicsResponse).Topics[1].ErrorMessage) == "<null>"):
			return fmt.Errorf("the message of a refusal: %+v", r)
		}
		return nil
	}}
	cases[20] = versionCase{0, 6, func(h *harness, v int16) kmsg.Request {
		id := h.mustCreate(named("delete", v), 1)
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.TimeoutMillis = 20_000
		request.TopicNames = []string{named("delete", v), "missing"}
		gone, missing := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
		gone.TopicID, missing.Topic = id, kmsg.StringPtr("missing")
		request.Topics = append(request.Topics, gone, missing)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.DeleteTopicsResponse).Topics, func(t *kmsg.DeleteTopicsResponseTopic) int16 { return t.ErrorCode })
	}, always(0, 3), func(v int16, r kmsg.Response) error {
		if topic := r.(*kmsg.DeleteTopicsResponse).Topics[0]; text(topic.Topic) != named("delete", v) {
			return fmt.Errorf("%+v", topic)
		}
		return nil
	}}
	cases[21] = versionCase{0, 2, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrDeleteRecordsRequest()
		topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		partition.Offset = -1
		topic.Topic, topic.Partitions = "missing", append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions, func(p *kmsg.DeleteRecordsResponseTopicPartition) int16 { return p.ErrorCode })
	}, always(3), nil}
	cases[37] = versionCase{0, 3, func(h *harness, v int16) kmsg.Request {
		h.mustCreate(named("grow", v), 1)
		request := kmsg.NewPtrCreatePartitionsRequest()
		request.TimeoutMillis = 20_000
		for _, name := range []string{named("grow", v), "missing"} {
			topic := kmsg.NewCreatePartitionsRequestTopic()
			topic.Topic, topic.Count = name, 2
			request.Topics = append(request.Topics, topic)
		}
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.CreatePartitionsResponse).Topics, func(t *kmsg.CreatePartitionsResponseTopic) int16 { return t.ErrorCode })
	}, always(0, 3), nil}
	cases[34] = versionCase{1, 2, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrAlterReplicaLogDirsRequest()
		dir, topic := kmsg.NewAlterReplicaLogDirsRequestDir(), kmsg.NewAlterReplicaLogDirsRequestDirTopic()
		topic.Topic, topic.Partitions = "missing", []int32{0}
		dir.Dir, dir.Topics = "/no/such/directory", append(dir.Topics, topic)
		request.Dirs = append(request.Dirs, dir)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.AlterReplicaLogDirsResponse).Topics[0].Partitions, func(p *kmsg.AlterReplicaLogDirsResponseTopicPartition) int16 { return p.ErrorCode })
	}, always(57), nil}
	cases[35] = versionCase{1, 5, func(*harness, int16) kmsg.Request { return kmsg.NewPtrDescribeLogDirsRequest() }, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.DescribeLogDirsResponse).Dirs, func(d *kmsg.DescribeLogDirsResponseDir) int16 { return d.ErrorCode })
	}, always(0), nil}
	cases[43] = versionCase{0, 2, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrElectLeadersRequest()
		topic := kmsg.NewElectLeadersRequestTopic()
		topic.Topic, topic.Partitions = "missing", []int32{0}
		request.Topics = append(request.Topics, topic)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.ElectLeadersResponse).Topics[0].Partitions, func(p *kmsg.ElectLeadersResponseTopicPartition) int16 { return p.ErrorCode })
	}, always(3), nil}
	cases[45] = versionCase{0, 1, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		topic, partition := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		partition.Replicas = []int32{1}
		topic.Topic, topic.Partitions = "missing", append(topic.Partitions, partition)
		request.Topics = append(request.Topics, topic)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions, func(p *kmsg.AlterPartitionAssignmentsResponseTopicPartition) int16 { return p.ErrorCode })
	}, always(3), nil}
	cases[46] = versionCase{0, 0, func(*harness, int16) kmsg.Request { return kmsg.NewPtrListPartitionReassignmentsRequest() }, func(r kmsg.Response) []int16 {
		return []int16{r.(*kmsg.ListPartitionReassignmentsResponse).ErrorCode}
	}, always(0), nil}
}

func configCases(cases map[int16]versionCase) {
	cases[32] = versionCase{0, 4, func(h *harness, v int16) kmsg.Request {
		h.mustCreate(named("describe", v), 1, "retention.ms", "777")
		request := kmsg.NewPtrDescribeConfigsRequest()
		request.IncludeSynonyms, request.IncludeDocumentation = true, true
		for _, name := range []string{named("describe", v), "missing"} {
			resource := kmsg.NewDescribeConfigsRequestResource()
			resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{"retention.ms"}
			request.Resources = append(request.Resources, resource)
		}
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.DescribeConfigsResponse).Resources, func(r *kmsg.DescribeConfigsResponseResource) int16 { return r.ErrorCode })
	}, always(0, 3), func(v int16, r kmsg.Response) error {
		entry := r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs[0]
		if text(entry.Value) != "777" || v >= 1 != (entry.Source == kmsg.ConfigSourceDynamicTopicConfig) || v >= 1 == (len(entry.ConfigSynonyms) == 0) ||
			v >= 3 != (entry.ConfigType == kmsg.ConfigTypeLong) || v >= 3 == (text(entry.Documentation) == "<null>") {
			return fmt.Errorf("%+v", entry)
		}
		return nil
	}}
	cases[33] = versionCase{0, 2, func(h *harness, v int16) kmsg.Request {
		h.mustCreate(named("alter", v), 1)
		request := kmsg.NewPtrAlterConfigsRequest()
		for _, name := range []string{named("alter", v), "missing"} {
			resource, entry := kmsg.NewAlterConfigsRequestResource(), kmsg.NewAlterConfigsRequestResourceConfig()
			entry.Name, entry.Value = "retention.ms", kmsg.StringPtr("777")
			resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, name, append(resource.Configs, entry)
			request.Resources = append(request.Resources, resource)
		}
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.AlterConfigsResponse).Resources, func(r *kmsg.AlterConfigsResponseResource) int16 { return r.ErrorCode })
	}, always(0, 3), nil}
	cases[44] = versionCase{0, 1, func(h *harness, v int16) kmsg.Request {
		h.mustCreate(named("increment", v), 1)
		request := kmsg.NewPtrIncrementalAlterConfigsRequest()
		for _, name := range []string{named("increment", v), "missing"} {
			resource, entry := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			entry.Name, entry.Value = "retention.ms", kmsg.StringPtr("777")
			resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeTopic, name, append(resource.Configs, entry)
			request.Resources = append(request.Resources, resource)
		}
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.IncrementalAlterConfigsResponse).Resources, func(r *kmsg.IncrementalAlterConfigsResponseResource) int16 { return r.ErrorCode })
	}, always(0, 3), nil}
	cases[74] = versionCase{0, 1, func(*harness, int16) kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() }, func(r kmsg.Response) []int16 {
		return []int16{r.(*kmsg.ListConfigResourcesResponse).ErrorCode}
	}, always(0), nil}
}

func userCases(cases map[int16]versionCase) {
	cases[29] = versionCase{0, 3, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrDescribeACLsRequest()
		request.ResourceType, request.ResourcePatternType, request.Operation, request.PermissionType = 1, 1, 1, 1
		return request
	}, func(r kmsg.Response) []int16 { return []int16{r.(*kmsg.DescribeACLsResponse).ErrorCode} }, always(54), nil}
	cases[30] = versionCase{0, 3, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrCreateACLsRequest()
		acl := kmsg.NewCreateACLsRequestCreation()
		acl.ResourceType, acl.ResourceName, acl.ResourcePatternType, acl.Principal, acl.Host, acl.Operation, acl.PermissionType = 2, "t", 3, "User:u", "*", 3, 3
		request.Creations = append(request.Creations, acl)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.CreateACLsResponse).Results, func(r *kmsg.CreateACLsResponseResult) int16 { return r.ErrorCode })
	}, always(54), nil}
	cases[31] = versionCase{0, 3, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrDeleteACLsRequest()
		filter := kmsg.NewDeleteACLsRequestFilter()
		filter.ResourceType, filter.ResourcePatternType, filter.Operation, filter.PermissionType = 1, 1, 1, 1
		request.Filters = append(request.Filters, filter)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.DeleteACLsResponse).Results, func(r *kmsg.DeleteACLsResponseResult) int16 { return r.ErrorCode })
	}, always(54), nil}
	cases[48] = versionCase{0, 1, func(*harness, int16) kmsg.Request { return kmsg.NewPtrDescribeClientQuotasRequest() }, func(r kmsg.Response) []int16 {
		return []int16{r.(*kmsg.DescribeClientQuotasResponse).ErrorCode}
	}, always(0), nil}
	cases[49] = versionCase{0, 1, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrAlterClientQuotasRequest()
		entry, entity, op := kmsg.NewAlterClientQuotasRequestEntry(), kmsg.NewAlterClientQuotasRequestEntryEntity(), kmsg.NewAlterClientQuotasRequestEntryOp()
		entity.Type, entity.Name = "user", kmsg.StringPtr("u")
		op.Key, op.Value = "producer_byte_rate", 1000
		entry.Entity, entry.Ops = append(entry.Entity, entity), append(entry.Ops, op)
		request.Entries = append(request.Entries, entry)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.AlterClientQuotasResponse).Entries, func(e *kmsg.AlterClientQuotasResponseEntry) int16 { return e.ErrorCode })
	}, always(35), nil}
	cases[50] = versionCase{0, 0, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
		user := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		user.Name = "nobody"
		request.Users = append(request.Users, user)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.DescribeUserSCRAMCredentialsResponse).Results, func(r *kmsg.DescribeUserSCRAMCredentialsResponseResult) int16 { return r.ErrorCode })
	}, always(91), nil}
	cases[51] = versionCase{0, 0, func(*harness, int16) kmsg.Request {
		request := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		upsertion := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		upsertion.Name, upsertion.Mechanism, upsertion.Iterations, upsertion.Salt, upsertion.SaltedPassword = "nobody", 2, 8192, []byte("salt"), make([]byte, 64)
		request.Upsertions = append(request.Upsertions, upsertion)
		return request
	}, func(r kmsg.Response) []int16 {
		return codesOf(r.(*kmsg.AlterUserSCRAMCredentialsResponse).Results, func(r *kmsg.AlterUserSCRAMCredentialsResponseResult) int16 { return r.ErrorCode })
	}, always(91), nil}
}
