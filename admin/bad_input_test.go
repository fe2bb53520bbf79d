package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/limits"
	"kaas/meta"
)

// resourcesText is all that is stored, to see that nothing changed.
func (h *harness) resourcesText() string {
	h.t.Helper()
	var out strings.Builder
	for _, kind := range []meta.Kind{meta.KindTopic, meta.KindUser, meta.KindBrokerConfig, meta.KindGroupConfig, meta.KindClientMetrics} {
		objects, _, err := h.store.List(h.t.Context(), kind)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, object := range objects {
			fmt.Fprintln(&out, kind, object.Meta().Name, object.Meta().ResourceVersion)
		}
	}
	return out.String()
}

// A request without anything in it, and with null where a version has it, is answered
// whole and changes nothing, in every version of every key.
func TestEmptyAndNullLists(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 1)
	before := h.resourcesText()
	for key, api := range h.apis {
		for version := api.MinVersion; version <= api.MaxVersion; version++ {
			request := kmsg.RequestForKey(key)
			h.call(request, version)
			switch r := request.(type) {
			case *kmsg.DescribeConfigsRequest:
				for _, keys := range [][]string{nil, {}} { // both mean all
					resource := kmsg.NewDescribeConfigsRequestResource()
					resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, "t", keys
					r.Resources = []kmsg.DescribeConfigsRequestResource{resource}
					if got := h.call(r, version).(*kmsg.DescribeConfigsResponse); len(got.Resources[0].Configs) < 30 {
						t.Errorf("v%d, keys %v: %d configs", version, keys, len(got.Resources[0].Configs))
					}
				}
			case *kmsg.ElectLeadersRequest: // null is all partitions, none of which needs one
				r.Topics = nil
				if got := h.call(r, version).(*kmsg.ElectLeadersResponse); got.ErrorCode != 0 {
					t.Errorf("v%d: %+v", version, got)
				}
			case *kmsg.CreateTopicsRequest:
				topic := newTopicRequest(fmt.Sprint("empty-configs-", version), 1)
				topic.Configs, topic.ReplicaAssignment = nil, nil
				r.Topics, r.ValidateOnly, r.TimeoutMillis = append(r.Topics, topic), true, 20_000
				if version == 0 {
					continue // it has no validate_only
				}
				if got := h.call(r, version).(*kmsg.CreateTopicsResponse); got.Topics[0].ErrorCode != 0 {
					t.Errorf("v%d: %+v", version, got)
				}
			}
		}
	}
	if after := h.resourcesText(); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

// Each row is refused with Kafka's code and a text that names what is wrong, and
// leaves nothing behind. (Names and counts of new topics: TestCreateTopicsRefusals.)
func TestBadInputLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("with.dot", 1)
	h.mustCreate("t", 3)
	before := h.resourcesText()
	// Within one request: the collision is with the other new one.
	results := h.create(7, false, newTopicRequest("x.y", 1), newTopicRequest("x_y", 1), newTopicRequest("with_dot", 1), newTopicRequest("twice", 1), newTopicRequest("twice", 2))
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Topic, " ", r.ErrorCode))
	}
	if want := []string{"x.y 0", "x_y 17", "with_dot 17", "twice 42"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if object, err := h.store.Get(t.Context(), meta.KindTopic, "x.y"); err != nil || h.store.Delete(t.Context(), meta.KindTopic, "x.y", object.Meta().UID) != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		count   int32
		code    int16
		message string
	}{
		{0, 37, "The topic t currently has 3 partition(s); 0 would not be an increase."}, {-1, 37, "3"}, {3, 37, "3"}, {2, 37, "3"},
		{1<<31 - 1, 44, ""}, {limits.PartitionsPerRequest + 4, 44, ""},
	} {
		request := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "t", row.count
		request.Topics, request.TimeoutMillis = append(request.Topics, topic), 1000
		result := h.call(request, 3).(*kmsg.CreatePartitionsResponse).Topics[0]
		if result.ErrorCode != row.code || !strings.Contains(text(result.ErrorMessage), row.message) || text(result.ErrorMessage) == "" {
			t.Errorf("%d partitions: %d %s, want %d", row.count, result.ErrorCode, text(result.ErrorMessage), row.code)
		}
	}
	for _, row := range []struct{ key, value string }{
		{"retention.ms", "9223372036854775808"}, {"retention.ms", "-9223372036854775809"}, {"max.message.bytes", "2147483648"}, {"max.message.bytes", "-1"},
		{"segment.bytes", "99999999999999999999999"}, {"min.cleanable.dirty.ratio", "1e309"}, {"min.cleanable.dirty.ratio", "NaN"}, {"flush.messages", "1.5"},
	} {
		code, message := h.incremental(1, false, kmsg.ConfigResourceTypeTopic, "t", operation{row.key, opSet, row.value})
		if code != 40 || !strings.Contains(message, row.key) || !strings.Contains(message, row.value) {
			t.Errorf("%s=%s: %d %s", row.key, row.value, code, message)
		}
	}
	for _, kind := range []kmsg.ConfigResourceType{0, 1, 3, 64, 127, -1} {
		if code, message := h.incremental(1, false, kind, "t", operation{"retention.ms", opSet, "1"}); code != 42 || !strings.Contains(message, fmt.Sprint(int8(kind))) {
			t.Errorf("type %d: %d %s", kind, code, message)
		}
	}
	h.settle("x.y")
	if after := h.resourcesText(); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

// settle waits until a topic is served no more.
func (h *harness) settle(name string) {
	h.t.Helper()
	if err := h.images.Await(h.t.Context(), func(image *meta.Image) bool { return image.Topic(name) == nil }); err != nil {
		h.t.Fatal(err)
	}
}
