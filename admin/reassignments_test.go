package admin

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
)

func TestElectLeaders(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 2)
	request := kmsg.NewPtrElectLeadersRequest()
	for version := int16(0); version <= 2; version++ {
		request.Topics = nil
		if got := h.call(request, version).(*kmsg.ElectLeadersResponse); got.ErrorCode != 0 || len(got.Topics) != 0 {
			t.Errorf("v%d: %+v", version, got)
		}
		request.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 7}}, {Topic: "missing", Partitions: []int32{0}}}
		got := h.call(request, version).(*kmsg.ElectLeadersResponse)
		if got.Topics[0].Partitions[0].ErrorCode != 84 || text(got.Topics[0].Partitions[1].ErrorMessage) != "No such partition as t-7" || got.Topics[1].Partitions[0].ErrorCode != 3 {
			t.Errorf("v%d: %+v", version, got)
		}
	}
	request.ElectionType = 9
	if got := h.call(request, 2).(*kmsg.ElectLeadersResponse); got.ErrorCode != 42 || got.Topics[0].Partitions[0].ErrorCode != 42 {
		t.Errorf("%+v", got)
	}
}

func TestReassignments(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	h.mustCreate("t", 1)
	for _, test := range []struct {
		topic     string
		partition int32
		replicas  []int32
		code      int16
		message   string
	}{
		{"t", 0, []int32{1}, 0, "<null>"},
		{"t", 0, nil, 85, "<null>"},
		{"t", 0, []int32{}, 39, "empty replica list"},
		{"t", 0, []int32{9}, 39, "includes broker 9, but no such broker is registered"},
		{"t", 0, []int32{1, 1}, 39, "the broker 1 more than once"},
		{"t", 9, []int32{1}, 3, "Unable to find partition t:9."},
		{"missing", 0, nil, 3, "Unable to find a topic named missing."},
	} {
		for version := int16(0); version <= 1; version++ {
			request := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			request.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: test.topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: test.partition, Replicas: test.replicas}}}}
			got := h.call(request, version).(*kmsg.AlterPartitionAssignmentsResponse)
			if one := got.Topics[0].Partitions[0]; got.ErrorCode != 0 || one.ErrorCode != test.code || !strings.Contains(text(one.ErrorMessage), test.message) {
				t.Errorf("%+v: %+v %s", test, one, text(one.ErrorMessage))
			}
		}
	}
	if got := h.call(kmsg.NewPtrListPartitionReassignmentsRequest(), 0).(*kmsg.ListPartitionReassignmentsResponse); got.ErrorCode != 0 || len(got.Topics) != 0 {
		t.Errorf("%+v", got)
	}
	denied := newHarness(t, harnessOptions{authorizer: denier(func(auth.Operation, auth.ResourceType, string) bool { return true })})
	if got := denied.call(kmsg.NewPtrListPartitionReassignmentsRequest(), 0).(*kmsg.ListPartitionReassignmentsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := denied.call(kmsg.NewPtrAlterPartitionAssignmentsRequest(), 1).(*kmsg.AlterPartitionAssignmentsResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
	if got := denied.call(kmsg.NewPtrElectLeadersRequest(), 2).(*kmsg.ElectLeadersResponse); got.ErrorCode != 31 {
		t.Errorf("%+v", got)
	}
}
