package admin

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/quota"
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

// override is the annotation of a user's resource, and how often that was written.
func (h *harness) override(user string) (annotation string, there bool, version string) {
	h.t.Helper()
	object, err := h.store.Get(h.t.Context(), meta.KindUser, user)
	if err != nil {
		h.t.Fatal(err)
	}
	annotation, there = object.Meta().Annotations[meta.QuotaOverrideAnnotation]
	return annotation, there, object.Meta().ResourceVersion
}

// patchUser does what an edit of the file does, and waits until it is in force.
func (h *harness) patchUser(user, patch string) {
	h.t.Helper()
	stored, err := h.store.Patch(h.t.Context(), meta.KindUser, user, []byte(patch))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.admin.Users.Await(h.t.Context(), stored.(*meta.KafkaUser)); err != nil {
		h.t.Fatal(err)
	}
}

// TestQuotaOverrideStandsInTheResource: what AlterClientQuotas sets is an annotation,
// written once for each change, in force with the answer, and there for hands to edit.
func TestQuotaOverrideStandsInTheResource(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{quotas: true})
	h.mustCreateUser("alice", "")
	h.patchUser("alice", `{"metadata":{"annotations":{"mine":"stays"}},"spec":{"quotas":{"producerMaxByteRatePerBroker":1000,"consumerMaxByteRatePerBroker":0.5}}}`)
	client := h.admin.Quotas.Client("alice") // of a live connection
	remove := math.NaN()
	expect := func(annotation, inForce string) {
		t.Helper()
		got, there, _ := h.override("alice")
		if got != annotation || there != (annotation != "") {
			t.Errorf("the annotation is %q (%v), want %q", got, there, annotation)
		}
		if code, got := h.describeQuotas(1, "user=alice"); code != 0 || got != inForce {
			t.Errorf("in force is %q, want %q", got, inForce)
		}
	}
	alter := func(changes map[string]float64) {
		t.Helper()
		if got := h.alterQuotas(1, false, quotaChange("alice", changes)); !equalCodes(got, 0) {
			t.Error(got)
		}
	}
	_, _, before := h.override("alice")
	h.alterQuotas(1, true, quotaChange("alice", map[string]float64{"producer_byte_rate": 1}))
	alter(nil)
	if _, _, after := h.override("alice"); after != before {
		t.Error("what changes nothing was written")
	}
	alter(map[string]float64{"request_percentage": 12.5, "producer_byte_rate": 1 << 40})
	expect("consumer_byte_rate=0.5,producer_byte_rate=1099511627776,request_percentage=12.5", "alice consumer_byte_rate=0.5 producer_byte_rate=1.099511627776e+12 request_percentage=12.5")
	if !client.Counts(quota.Request) {
		t.Error("the answer came before the override was in force")
	}
	_, _, before = h.override("alice")
	alter(map[string]float64{"request_percentage": 12.5})
	if _, _, after := h.override("alice"); after != before {
		t.Error("what is there was written again")
	}
	// One entry that is refused changes nothing of its user.
	refused := quotaChange("alice", map[string]float64{"consumer_byte_rate": remove})
	refused.Ops = append(refused.Ops, kmsg.AlterClientQuotasRequestEntryOp{Key: "producer_byte_rate", Value: -1})
	if got := h.alterQuotas(1, false, refused); !equalCodes(got, 42) {
		t.Error(got)
	}
	h.patchUser("alice", `{"spec":{"quotas":{"producerMaxByteRatePerBroker":3}}}`) // shadowed
	expect("consumer_byte_rate=0.5,producer_byte_rate=1099511627776,request_percentage=12.5", "alice consumer_byte_rate=0.5 producer_byte_rate=1.099511627776e+12 request_percentage=12.5")
	h.patchUser("alice", `{"metadata":{"annotations":{"`+meta.QuotaOverrideAnnotation+`":" consumer_byte_rate = 7 "}}}`) // by hand
	expect(" consumer_byte_rate = 7 ", "alice consumer_byte_rate=7")
	h.patchUser("alice", `{"metadata":{"annotations":{"`+meta.QuotaOverrideAnnotation+`":"consumer_byte_rate=many"}}}`)
	expect("consumer_byte_rate=many", "alice consumer_byte_rate=7") // the last good state
	alter(map[string]float64{"request_percentage": 5})
	expect("consumer_byte_rate=7,request_percentage=5", "alice consumer_byte_rate=7 request_percentage=5")
	h.patchUser("alice", `{"metadata":{"annotations":{"`+meta.QuotaOverrideAnnotation+`":null}}}`) // by hand
	expect("", "alice consumer_byte_rate=0.5 producer_byte_rate=3")
	alter(map[string]float64{"request_percentage": 5, "consumer_byte_rate": remove})
	alter(map[string]float64{"request_percentage": remove, "producer_byte_rate": remove})
	expect("", "alice consumer_byte_rate=0.5 producer_byte_rate=3")
	if object, err := h.store.Get(t.Context(), meta.KindUser, "alice"); err != nil || object.Meta().Annotations["mine"] != "stays" {
		t.Errorf("%+v, %v", object, err)
	}
	// Who comes after the user starts without.
	alter(map[string]float64{"request_percentage": 5})
	if err := h.store.Delete(t.Context(), meta.KindUser, "alice", ""); err != nil {
		t.Fatal(err)
	}
	h.mustCreateUser("alice", "")
	expect("", "")
	if client.Counts(quota.Request) {
		t.Error("the quota outlives its user")
	}
}

// TestQuotasWithoutAResource last until the user gets one.
func TestQuotasWithoutAResource(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{quotas: true})
	if got := h.alterQuotas(1, false, quotaChange("bob", map[string]float64{"request_percentage": 5})); !equalCodes(got, 0) {
		t.Error(got)
	}
	if _, got := h.describeQuotas(1); got != "bob request_percentage=5" {
		t.Error(got)
	}
	h.mustCreateUser("bob", "")
	if _, got := h.describeQuotas(1); got != "" {
		t.Error(got)
	}
}

// contendedUsers lets somebody else write before each patch of a user, some times.
type contendedUsers struct {
	meta.ResourceStore
	times atomic.Int32
	err   error // instead of every patch
}

func (c *contendedUsers) Patch(ctx context.Context, kind meta.Kind, name string, patch []byte) (meta.Object, error) {
	if c.err != nil {
		return nil, c.err
	}
	if n := c.times.Add(-1); n >= 0 {
		if _, err := c.ResourceStore.Patch(ctx, kind, name, []byte(fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n))); err != nil {
			return nil, err
		}
	}
	return c.ResourceStore.Patch(ctx, kind, name, patch)
}

func TestQuotaPatchesAreRepeated(t *testing.T) {
	t.Parallel()
	store := &contendedUsers{}
	h := newHarness(t, harnessOptions{quotas: true, wrap: func(inner meta.ResourceStore) meta.ResourceStore {
		store.ResourceStore = inner
		return store
	}})
	h.mustCreateUser("alice", "")
	for times, want := range map[int32]int16{3: 0, limits.AdminConflictRetries + 5: -1} {
		store.times.Store(times)
		if got := h.alterQuotas(1, false, quotaChange("alice", map[string]float64{"request_percentage": float64(times)})); !equalCodes(got, want) {
			t.Errorf("%d conflicts: %v, want %d", times, got, want)
		}
	}
	if got, _, _ := h.override("alice"); got != "request_percentage=3" {
		t.Error(got)
	}
	for err, want := range map[error]int16{meta.ErrForbidden: 31, &meta.DeniedError{Message: "no"}: 44, meta.ErrInvalid: 42, meta.ErrUnavailable: -1} {
		store.err = err
		if got := h.alterQuotas(1, false, quotaChange("alice", map[string]float64{"request_percentage": 1})); !equalCodes(got, want) {
			t.Errorf("%v: %v, want %d", err, got, want)
		}
	}
}

// TestWhoCanHaveNoQuota: the refusal names who was to have one.
func TestWhoCanHaveNoQuota(t *testing.T) {
	t.Parallel()
	name, empty := "app", ""
	for want, entity := range map[string][]kmsg.AlterClientQuotasRequestEntryEntity{
		"client-id app":                       {{Type: "client-id", Name: &name}},
		"the default user":                    {{Type: "user"}},
		"user app with the default client-id": {{Type: "user", Name: &name}, {Type: "client-id"}},
		"the ip without a name":               {{Type: "ip", Name: &empty}},
		"an entity without a type":            {},
	} {
		if got := entityText(entity); got != want {
			t.Errorf("%+v: %q, want %q", entity, got, want)
		}
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
