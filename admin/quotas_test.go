package admin

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/meta"
)

// quotaChange is one entry of AlterClientQuotas; NaN removes a key.
func quotaChange(user string, changes map[string]float64) kmsg.AlterClientQuotasRequestEntry {
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entry.Entity = []kmsg.AlterClientQuotasRequestEntryEntity{{Type: "user", Name: &user}}
	for key, value := range changes {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		if op.Key, op.Value = key, value; math.IsNaN(value) {
			op.Value, op.Remove = 0, true
		}
		entry.Ops = append(entry.Ops, op)
	}
	return entry
}

func (h *harness) alterQuotas(version int16, validateOnly bool, entries ...kmsg.AlterClientQuotasRequestEntry) []int16 {
	h.t.Helper()
	request := kmsg.NewPtrAlterClientQuotasRequest()
	request.Entries, request.ValidateOnly = entries, validateOnly
	var codes []int16
	for i, entry := range h.call(request, version).(*kmsg.AlterClientQuotasResponse).Entries {
		if len(entry.Entity) != len(entries[i].Entity) {
			h.t.Errorf("%+v", entry)
		}
		codes = append(codes, entry.ErrorCode)
	}
	return codes
}

// describeQuotas takes components as "type", "type=name" or "type!" (the default).
func (h *harness) describeQuotas(version int16, components ...string) (code int16, quotas string) {
	h.t.Helper()
	request := kmsg.NewPtrDescribeClientQuotasRequest()
	for _, text := range components {
		c := kmsg.NewDescribeClientQuotasRequestComponent()
		kind, name, exact := strings.Cut(text, "=")
		c.EntityType, c.MatchType = strings.TrimSuffix(kind, "!"), quotaMatchAnything
		switch {
		case exact:
			c.MatchType, c.Match = quotaMatchExact, &name
		case strings.HasSuffix(kind, "!"):
			c.MatchType = quotaMatchDefault
		}
		request.Components = append(request.Components, c)
	}
	response := h.call(request, version).(*kmsg.DescribeClientQuotasResponse)
	var out []string
	for _, entry := range response.Entries {
		text := *entry.Entity[0].Name
		for _, value := range entry.Values {
			text += fmt.Sprintf(" %s=%v", value.Key, value.Value)
		}
		out = append(out, text)
	}
	return response.ErrorCode, strings.Join(out, "; ")
}

func TestClientQuotas(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{quotas: true})
	h.mustCreateUser("alice", "")
	stored, err := h.store.Patch(t.Context(), meta.KindUser, "alice", []byte(`{"spec":{"quotas":{"producerMaxByteRatePerBroker":1000,"requestPercentage":12.5}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.admin.Users.Await(t.Context(), stored.(*meta.KafkaUser)); err != nil {
		t.Fatal(err)
	}
	remove := math.NaN()
	for version := int16(0); version <= 1; version++ {
		expect := func(want string, components ...string) {
			t.Helper()
			if code, got := h.describeQuotas(version, components...); code != 0 || got != want {
				t.Errorf("v%d %v: %d %q, want %q", version, components, code, got, want)
			}
		}
		expect("alice producer_byte_rate=1000 request_percentage=12.5")
		if got := h.alterQuotas(version, true, quotaChange("alice", map[string]float64{"producer_byte_rate": 1})); !equalCodes(got, 0) {
			t.Error(got)
		}
		expect("alice producer_byte_rate=1000 request_percentage=12.5", "user")
		if got := h.alterQuotas(version, false, quotaChange("alice", map[string]float64{"producer_byte_rate": 2000, "consumer_byte_rate": 7, "request_percentage": remove}),
			quotaChange("Bob", map[string]float64{"request_percentage": 0.5})); !equalCodes(got, 0, 0) {
			t.Error(got)
		}
		expect("Bob request_percentage=0.5; alice consumer_byte_rate=7 producer_byte_rate=2000", "user")
		expect("Bob request_percentage=0.5", "user=Bob")
		expect("", "user=nobody")
		expect("", "user!")
		expect("", "client-id=x")
		expect("", "user", "client-id")
		if got := h.alterQuotas(version, false, quotaChange("alice", map[string]float64{"producer_byte_rate": remove, "consumer_byte_rate": remove}),
			quotaChange("Bob", map[string]float64{"request_percentage": remove, "producer_byte_rate": remove})); !equalCodes(got, 0, 0) {
			t.Error(got)
		}
		expect("alice producer_byte_rate=1000 request_percentage=12.5") // the resource counts again
	}
}

func TestClientQuotasRefuse(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{quotas: true})
	name := "alice"
	entity := func(entities ...kmsg.AlterClientQuotasRequestEntryEntity) kmsg.AlterClientQuotasRequestEntry {
		return kmsg.AlterClientQuotasRequestEntry{Entity: entities, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: "producer_byte_rate", Value: 1}}}
	}
	twice := quotaChange("alice", map[string]float64{"producer_byte_rate": 1})
	twice.Ops = append(twice.Ops, twice.Ops[0])
	for i, tc := range []struct {
		entry kmsg.AlterClientQuotasRequestEntry
		want  int16
	}{
		{entity(), 42},
		{entity(kmsg.AlterClientQuotasRequestEntryEntity{Type: "user"}), 42},
		{entity(kmsg.AlterClientQuotasRequestEntryEntity{Type: "client-id", Name: &name}), 42},
		{entity(kmsg.AlterClientQuotasRequestEntryEntity{Type: "user", Name: &name}, kmsg.AlterClientQuotasRequestEntryEntity{Type: "client-id", Name: &name}), 42},
		{quotaChange("", map[string]float64{"producer_byte_rate": 1}), 42},
		{quotaChange("alice", map[string]float64{"controller_mutation_rate": 1}), 40},
		{quotaChange("alice", map[string]float64{"nope": math.NaN()}), 40},
		{quotaChange("alice", map[string]float64{"producer_byte_rate": 0}), 42},
		{quotaChange("alice", map[string]float64{"producer_byte_rate": -1}), 42},
		{quotaChange("alice", map[string]float64{"producer_byte_rate": 1.5}), 42},
		{quotaChange("alice", map[string]float64{"consumer_byte_rate": math.Inf(1)}), 42},
		{quotaChange("alice", map[string]float64{"consumer_byte_rate": 1e300}), 42},
		{quotaChange("alice", map[string]float64{"request_percentage": 0}), 42},
		{twice, 42},
	} {
		if got := h.alterQuotas(1, false, tc.entry, quotaChange("bob", map[string]float64{"request_percentage": 1.5})); !equalCodes(got, tc.want, 0) {
			t.Errorf("%d: %v", i, got)
		}
	}
	if got := h.alterQuotas(1, false, quotaChange("alice", nil), quotaChange("alice", nil)); !equalCodes(got, 42, 42) {
		t.Error(got)
	}
	if _, got := h.describeQuotas(1); got != "bob request_percentage=1.5" {
		t.Error(got)
	}
	for want, filters := range map[int16][][]string{
		42: {{"user", "user"}, {""}, {"user", "ip"}, {"ip=x", "client-id!"}},
		35: {{"planet"}, {"planet=earth"}, {"User"}, {"user", "planet!"}},
	} {
		for _, components := range filters {
			if code, quotas := h.describeQuotas(1, components...); code != want || quotas != "" {
				t.Errorf("%q: %d %s", components, code, quotas)
			}
		}
	}
	request := kmsg.NewPtrDescribeClientQuotasRequest()
	request.Components = []kmsg.DescribeClientQuotasRequestComponent{{EntityType: "user", MatchType: quotaMatchExact}}
	if got := h.call(request, 1).(*kmsg.DescribeClientQuotasResponse); got.ErrorCode != 42 {
		t.Errorf("%+v", got)
	}
	request.Components[0].MatchType = 9
	if got := h.call(request, 1).(*kmsg.DescribeClientQuotasResponse); got.ErrorCode != 42 {
		t.Errorf("%+v", got)
	}
	denied := newHarness(t, harnessOptions{quotas: true, authorizer: denier(func(auth.Operation, auth.ResourceType, string) bool { return true })})
	if code, _ := denied.describeQuotas(1); code != 31 {
		t.Error(code)
	}
	if got := denied.alterQuotas(0, false, quotaChange("alice", nil), entity()); !equalCodes(got, 31, 31) {
		t.Error(got)
	}
	disabled := newHarness(t, harnessOptions{})
	if code, got := disabled.describeQuotas(1, "user"); code != 0 || got != "" {
		t.Error(code, got)
	}
	if got := disabled.alterQuotas(1, false, quotaChange("alice", map[string]float64{"request_percentage": 1.5})); !equalCodes(got, 35) {
		t.Error(got)
	}
}
