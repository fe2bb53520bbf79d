package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/internal/limits"
	"kaas/meta"
)

// recordingStore keeps what was written to it.
type recordingStore struct {
	meta.ResourceStore
	mu      sync.Mutex
	patches []string
	writes  []string // "create NAME", "delete NAME", …
}

func (s *recordingStore) note(what, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, what+" "+name)
}

// taken returns what was written since the last call.
func (s *recordingStore) taken() (writes, patches []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, patches = s.writes, s.patches
	s.writes, s.patches = nil, nil
	return writes, patches
}

func (s *recordingStore) Create(ctx context.Context, object meta.Object) (meta.Object, error) {
	s.note("create", object.Meta().Name)
	return s.ResourceStore.Create(ctx, object)
}

func (s *recordingStore) Update(ctx context.Context, object meta.Object) (meta.Object, error) {
	s.note("update", object.Meta().Name)
	if object.Meta().ResourceVersion == "" {
		return nil, errors.New("an update without the resourceVersion that was read")
	}
	return s.ResourceStore.Update(ctx, object)
}

func (s *recordingStore) Patch(ctx context.Context, kind meta.Kind, name string, patch []byte) (meta.Object, error) {
	s.note("patch", name)
	s.mu.Lock()
	s.patches = append(s.patches, string(patch))
	s.mu.Unlock()
	return s.ResourceStore.Patch(ctx, kind, name, patch)
}

func (s *recordingStore) Delete(ctx context.Context, kind meta.Kind, name, uid string) error {
	s.note("delete", name)
	return s.ResourceStore.Delete(ctx, kind, name, uid)
}

func newRecordingHarness(t *testing.T, o harnessOptions) (*harness, *recordingStore) {
	store := &recordingStore{}
	o.wrap = func(s meta.ResourceStore) meta.ResourceStore { store.ResourceStore = s; return store }
	return newHarness(t, o), store
}

// The overrides of a request stand in spec.config of the resource that is made, as if
// they had been written there; the replication factor is echoed and written nowhere.
func TestCreationMintsTheResource(t *testing.T) {
	t.Parallel()
	h, store := newRecordingHarness(t, harnessOptions{})
	topic := newTopicRequest("orders", 2, "retention.ms", "600000", "cleanupPolicy", "compact,delete", "preallocate", "true", "min.cleanable.dirty.ratio", "0.25",
		"message.timestamp.type", "CreateTime")
	topic.ReplicationFactor = 3
	result := h.create(7, false, topic)[0]
	if result.ErrorCode != 0 || result.ReplicationFactor != 3 || result.NumPartitions != 2 {
		t.Fatalf("%+v", result)
	}
	object, err := h.store.Get(t.Context(), meta.KindTopic, "orders")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(object.(*meta.KafkaTopic).Spec)
	if want := `{"partitions":2,"config":{"cleanup.policy":"compact,delete","message.timestamp.type":"CreateTime","min.cleanable.dirty.ratio":"0.25","preallocate":true,"retention.ms":600000}}`; err != nil || string(spec) != want {
		t.Errorf("%s, want %s, %v", spec, want, err)
	}
	if writes, _ := store.taken(); len(writes) != 1 {
		t.Errorf("one topic took %v", writes)
	}
	// What only validates and what is refused reaches the store with no write.
	for _, request := range []struct {
		validateOnly bool
		topic        kmsg.CreateTopicsRequestTopic
	}{{true, newTopicRequest("fine", 1, "retention.ms", "5")}, {true, newTopicRequest("orders", 1)}, {false, newTopicRequest("bad", 1, "no.such.key", "5")}, {false, newTopicRequest("orders", 1)}, {false, newTopicRequest("a/b", 1)}} {
		h.create(7, request.validateOnly, request.topic)
		if writes, _ := store.taken(); len(writes) != 0 {
			t.Errorf("%s: %v", request.topic.Topic, writes)
		}
	}
}

// An alteration is one merge patch with numbers as numbers, and null for what is
// removed; what is refused, only validated or no change is none.
func TestAlterationIsOnePatch(t *testing.T) {
	t.Parallel()
	h, store := newRecordingHarness(t, harnessOptions{})
	h.mustCreate("t", 1, "segment.ms", "700000")
	store.taken()
	for i, test := range []struct {
		validateOnly bool
		operations   []operation
		patch        string // of spec.config; "" is no write
	}{
		{false, []operation{{"retention.ms", opSet, "777"}, {"maxMessageBytes", opSet, "2000"}, {"segment.ms", opDelete, "-"}, {"cleanup.policy", opAppend, "compact"}},
			`{"cleanup.policy":"delete,compact","max.message.bytes":2000,"retention.ms":777,"segment.ms":null}`},
		{false, []operation{{"retention.ms", opSet, "777"}}, ""},
		{false, []operation{{"retention.ms", opSet, "-"}}, `{"retention.ms":null}`},
		{true, []operation{{"retention.ms", opSet, "5"}}, ""},
		{false, []operation{{"retention.ms", opSet, "5"}, {"no.such.key", opSet, "5"}}, ""},
		{false, []operation{{"retention.ms", opSet, "5"}, {"flush.ms", opAppend, "5"}}, ""},
	} {
		h.incremental(1, test.validateOnly, kmsg.ConfigResourceTypeTopic, "t", test.operations...)
		writes, patches := store.taken()
		if test.patch == "" {
			if len(writes) != 0 {
				t.Errorf("%d: %v", i, writes)
			}
			continue
		}
		var got struct {
			Metadata struct{ ResourceVersion string }
			Spec     struct{ Config json.RawMessage }
		}
		if len(writes) != 1 || len(patches) != 1 || json.Unmarshal([]byte(patches[0]), &got) != nil || string(got.Spec.Config) != test.patch || got.Metadata.ResourceVersion == "" {
			t.Errorf("%d: %v %v, want %s", i, writes, patches, test.patch)
		}
	}
	// Growing is a patch, too; a decrease is refused before there is one.
	for count, want := range map[int32]int{1: 0, 3: 1} {
		request := kmsg.NewPtrCreatePartitionsRequest()
		request.TimeoutMillis, request.Topics = 20_000, []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: count}}
		h.call(request, 3)
		if writes, patches := store.taken(); len(writes) != want || want == 1 && !strings.Contains(patches[0], `"spec":{"partitions":3}`) {
			t.Errorf("%d: %v %v", count, writes, patches)
		}
	}
}

// Who may not do it changes nothing: the store is not asked.
func TestDeniedWritesNothing(t *testing.T) {
	t.Parallel()
	var all bool
	h, store := newRecordingHarness(t, harnessOptions{overrides: []string{enforce}, authorizer: denier(func(auth.Operation, auth.ResourceType, string) bool { return all })})
	h.mustCreate("t", 1)
	h.mustCreateUser("alice", "")
	if _, err := store.ResourceStore.Patch(t.Context(), meta.KindUser, "alice", []byte(`{"spec":{"authorization":{"type":"simple","acls":[{"resource":{"type":"topic","name":"t"},"operations":["Read"]}]}}}`)); err != nil {
		t.Fatal(err)
	}
	store.taken()
	all = true
	h.create(7, false, newTopicRequest("u", 1))
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.TopicNames = []string{"t"}
	h.call(deletion, 5)
	growth := kmsg.NewPtrCreatePartitionsRequest()
	growth.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
	h.call(growth, 3)
	h.incremental(1, false, kmsg.ConfigResourceTypeTopic, "t", operation{"segment.ms", opSet, "700000"})
	h.incremental(1, false, kmsg.ConfigResourceTypeBroker, "", operation{"log.retention.ms", opSet, "700000"})
	h.incremental(1, false, kmsg.ConfigResourceTypeGroupConfig, "g", operation{"consumer.session.timeout.ms", opSet, "50000"})
	whole := kmsg.NewPtrAlterConfigsRequest()
	whole.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}
	h.call(whole, 2)
	h.createACLs(3, "User:alice TOPIC t LITERAL * WRITE ALLOW")
	removal := kmsg.NewPtrDeleteACLsRequest()
	removal.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	h.call(removal, 3)
	h.alterScram(nil, upsertion("alice", 4096))
	if writes, _ := store.taken(); len(writes) != 0 {
		t.Error(writes)
	}
}

// The gate of ACL requests comes before the writer: denied is denied in dev mode, too.
func TestACLGateComesFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{dev: true, authorizer: denier(func(auth.Operation, auth.ResourceType, string) bool { return true })})
	if got := h.call(anyACL(), 3).(*kmsg.DescribeACLsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := h.createACLs(3, "User:alice TOPIC t LITERAL * READ ALLOW"); !equalCodes(got, 31) {
		t.Error(got)
	}
	removal := kmsg.NewPtrDeleteACLsRequest()
	removal.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	if got := h.call(removal, 3).(*kmsg.DeleteACLsResponse).Results; len(got) != 1 || got[0].ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
}

// writingRequests asks for one change of each kind and returns the answers, by what
// was asked for.
func (h *harness) writingRequests() map[string]string {
	h.t.Helper()
	answers := map[string]string{}
	note := func(what string, code int16, message string) { answers[what] = fmt.Sprint(code, " ", message) }
	created := h.create(7, false, newTopicRequest("u", 1))[0]
	note("CreateTopics", created.ErrorCode, text(created.ErrorMessage))
	deletion := kmsg.NewPtrDeleteTopicsRequest()
	deletion.TopicNames = []string{"t"}
	deleted := h.call(deletion, 5).(*kmsg.DeleteTopicsResponse).Topics[0]
	note("DeleteTopics", deleted.ErrorCode, text(deleted.ErrorMessage))
	growth := kmsg.NewPtrCreatePartitionsRequest()
	growth.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 3}}
	grown := h.call(growth, 3).(*kmsg.CreatePartitionsResponse).Topics[0]
	note("CreatePartitions", grown.ErrorCode, text(grown.ErrorMessage))
	for what, kind := range map[string]kmsg.ConfigResourceType{"topic": kmsg.ConfigResourceTypeTopic, "group": kmsg.ConfigResourceTypeGroupConfig} {
		key, value := "segment.ms", "700000"
		if what == "group" {
			key, value = "consumer.session.timeout.ms", "50000"
		}
		code, message := h.incremental(1, false, kind, "t", operation{key, opSet, value})
		note("IncrementalAlterConfigs of a "+what, code, message)
	}
	code, message := h.incremental(1, false, kmsg.ConfigResourceTypeBroker, "", operation{"log.retention.ms", opSet, "700000"})
	note("IncrementalAlterConfigs of a broker", code, message)
	value := "700000"
	whole := kmsg.NewPtrAlterConfigsRequest()
	whole.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: &value}}}}
	replaced := h.call(whole, 2).(*kmsg.AlterConfigsResponse).Resources[0]
	note("AlterConfigs", replaced.ErrorCode, text(replaced.ErrorMessage))
	acls := kmsg.NewPtrCreateACLsRequest()
	acls.Creations = []kmsg.CreateACLsRequestCreation{acl("User:alice TOPIC t LITERAL * WRITE ALLOW")}
	added := h.call(acls, 3).(*kmsg.CreateACLsResponse).Results[0]
	note("CreateAcls", added.ErrorCode, text(added.ErrorMessage))
	removal := kmsg.NewPtrDeleteACLsRequest()
	removal.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	removed := h.call(removal, 3).(*kmsg.DeleteACLsResponse).Results[0]
	if removed.ErrorCode == 0 && len(removed.MatchingACLs) == 1 {
		removed.ErrorCode, removed.ErrorMessage = removed.MatchingACLs[0].ErrorCode, removed.MatchingACLs[0].ErrorMessage
	}
	note("DeleteAcls", removed.ErrorCode, text(removed.ErrorMessage))
	scram := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	scram.Upsertions = append(scram.Upsertions, upsertion("alice", 4096))
	altered := h.call(scram, 0).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0]
	note("AlterUserScramCredentials", altered.ErrorCode, text(altered.ErrorMessage))
	return answers
}

// What the store refuses, by its reasons: nothing changes, and each request says so in
// the code that is its own.
func TestStoreRefuses(t *testing.T) {
	t.Parallel()
	away := &awayStore{}
	h := newHarness(t, harnessOptions{overrides: []string{enforce}, wrap: func(s meta.ResourceStore) meta.ResourceStore { away.ResourceStore = s; return away }})
	h.mustCreate("t", 1)
	h.mustCreateUser("alice", "")
	if got := h.createACLs(3, "User:alice TOPIC t LITERAL * READ ALLOW"); !equalCodes(got, 0) {
		t.Fatal(got)
	}
	before := h.resourcesText()
	for _, refusal := range []struct {
		err           error
		code          int16
		deletionsCode int16
		message       string
	}{
		{fmt.Errorf("the disk is full: %w", meta.ErrUnavailable), -1, 42, "the disk is full"},
		{fmt.Errorf("kafkatopics.kaas.io is forbidden: %w", meta.ErrForbidden), 31, 42, "is forbidden"}, // Kubernetes' RBAC
		{&meta.DeniedError{Message: "Ask the platform team."}, 44, 44, "Ask the platform team."},        // an admission policy
	} {
		away.refuse.Store(&refusal.err)
		for what, answer := range h.writingRequests() {
			want := refusal.code
			if what == "DeleteTopics" {
				want = refusal.deletionsCode
			}
			if !strings.HasPrefix(answer, fmt.Sprint(want, " ")) || !strings.Contains(answer, refusal.message) {
				t.Errorf("%s, when %v: %s, want %d", what, refusal.err, answer, want)
			}
			if want == 44 && answer != "44 "+refusal.message {
				t.Errorf("%s: the policy's message is %q", what, answer)
			}
		}
		away.refuse.Store(nil)
		if after := h.resourcesText(); after != before {
			t.Errorf("when %v something changed:\n%s\n%s", refusal.err, before, after)
		}
	}
}

// An override stands before what it shadows, down to the default.
func TestSynonymChain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{overrides: []string{"log.retention.ms=777000"}})
	h.mustCreate("t", 1, "segment.ms", "700000", "retention.ms", "5")
	for version := int16(1); version <= 4; version++ {
		got := map[string]string{}
		for _, entry := range h.describe(version, kmsg.ConfigResourceTypeTopic, "t", "segment.ms", "retention.ms", "max.message.bytes").Configs {
			chain := text(entry.Value) + " from " + entry.Source.String()
			for _, synonym := range entry.ConfigSynonyms {
				chain += fmt.Sprintf(", %s=%s %s", synonym.Name, text(synonym.Value), synonym.Source)
			}
			got[entry.Name] = chain
		}
		for key, want := range map[string]string{
			"segment.ms":        "700000 from DYNAMIC_TOPIC_CONFIG, segment.ms=700000 DYNAMIC_TOPIC_CONFIG", // as Kafka: log.roll.ms has no default
			"retention.ms":      "5 from DYNAMIC_TOPIC_CONFIG, retention.ms=5 DYNAMIC_TOPIC_CONFIG, log.retention.ms=777000 STATIC_BROKER_CONFIG, log.retention.hours=168 DEFAULT_CONFIG",
			"max.message.bytes": "1048588 from DEFAULT_CONFIG, message.max.bytes=1048588 DEFAULT_CONFIG",
		} {
			if got[key] != want {
				t.Errorf("v%d %s: %s, want %s", version, key, got[key], want)
			}
		}
	}
}

// All ACLs of a request about one user are one update, with the resourceVersion that
// was read (the store here refuses one without).
func TestACLChangeIsOneUpdate(t *testing.T) {
	t.Parallel()
	h, store := newRecordingHarness(t, harnessOptions{overrides: []string{enforce}})
	h.mustCreateUser("alice", "")
	store.taken()
	if got := h.createACLs(3, "User:alice TOPIC t LITERAL * READ ALLOW", "User:alice TOPIC t LITERAL * WRITE ALLOW", "User:alice GROUP g PREFIXED * READ DENY"); !equalCodes(got, 0, 0, 0) {
		t.Fatal(got)
	}
	if writes, _ := store.taken(); len(writes) != 1 || writes[0] != "update alice" {
		t.Error(writes)
	}
	removal := kmsg.NewPtrDeleteACLsRequest()
	for range 2 {
		removal.Filters = append(removal.Filters, kmsg.DeleteACLsRequestFilter{ResourceType: 1, ResourcePatternType: 1, Operation: kmsg.ACLOperationRead, PermissionType: 1})
	}
	h.call(removal, 3)
	if writes, _ := store.taken(); len(writes) != 1 || writes[0] != "update alice" {
		t.Error(writes)
	}
}

// A broker holds so many partitions and no more, whoever asks.
func TestPartitionsOfABrokerAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("small", 1)
	full := &meta.Topic{Name: "full", ID: meta.NewUUID(), Partitions: make([]meta.PartitionInfo, limits.MaxPartitionsPerBroker-2)}
	h.images.Store(h.images.Load().WithTopics([]*meta.Topic{full}, nil))
	want := fmt.Sprintf("The broker would have %d partitions, at most %d.", limits.MaxPartitionsPerBroker+1, limits.MaxPartitionsPerBroker)
	if got := h.create(7, false, newTopicRequest("more", 2))[0]; got.ErrorCode != 37 || text(got.ErrorMessage) != want {
		t.Errorf("%+v", got)
	}
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.TimeoutMillis, request.Topics = 20_000, []kmsg.CreatePartitionsRequestTopic{{Topic: "small", Count: 3}}
	if got := h.call(request, 3).(*kmsg.CreatePartitionsResponse).Topics[0]; got.ErrorCode != 37 || text(got.ErrorMessage) != want {
		t.Errorf("%+v", got)
	}
	h.mustCreate("one", 1) // there is room for this one
}
