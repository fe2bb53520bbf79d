package auth

import (
	"maps"
	"strings"
	"testing"

	"kaas/meta"
)

func TestParseQuotaOverride(t *testing.T) {
	t.Parallel()
	user := userFrom(t, "u", `{}`)
	if got, err := ParseQuotaOverride(user); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	parse := func(text string) (map[string]float64, error) {
		user.Metadata.Annotations = map[string]string{meta.QuotaOverrideAnnotation: text}
		return ParseQuotaOverride(user)
	}
	for text, want := range map[string]map[string]float64{
		"producer_byte_rate=1":                                  {QuotaProducerByteRate: 1},
		" request_percentage = 12.5 , consumer_byte_rate=1e6\n": {QuotaRequestPercentage: 12.5, QuotaConsumerByteRate: 1e6},
	} {
		if got, err := parse(text); err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "key=value", "producer_byte_rate": "key=value", "producer_byte_rate=1,": "key=value", `{"producer_byte_rate":1}`: "key=value",
		"producerByteRate=1": "known are", "=1": "known are", "producer_byte_rate=": "no number", "producer_byte_rate=many": "no number", "producer_byte_rate=1e999": "no number",
		"producer_byte_rate=0": "above 0", "producer_byte_rate=-1": "above 0", "producer_byte_rate=NaN": "above 0", "producer_byte_rate=+Inf": "above 0",
		"producer_byte_rate=1,producer_byte_rate=1": "twice", strings.Repeat("x", 1<<20): "key=value", strings.Repeat("x", 1<<20) + "=1": "known are",
	} {
		got, err := parse(text)
		if got != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), meta.QuotaOverrideAnnotation) || len(err.Error()) > 400 {
			t.Errorf("%.100q: %v, %.500v", text, got, err)
		}
	}
	for _, values := range []map[string]float64{{QuotaProducerByteRate: 1<<62 + 1<<12, QuotaConsumerByteRate: 0.1, QuotaRequestPercentage: 1e-300}, {QuotaRequestPercentage: 1.7976931348623157e308}} {
		if got, err := parse(FormatQuotaOverride(values)); err != nil || !maps.Equal(got, values) {
			t.Errorf("%v became %v, %v", values, got, err)
		}
	}
}

// TestDirectoryFollowsQuotaOverrides: an edit of the annotation does not count as one of
// spec, and is in force all the same.
func TestDirectoryFollowsQuotaOverrides(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first, err := store.Create(t.Context(), userFrom(t, "alice", strings.Replace(allowAll, `{"auth`, `{"quotas":{"requestPercentage":5},"auth`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	d := startDirectory(t, store)
	patch := func(text string) {
		t.Helper()
		stored, err := store.Patch(t.Context(), meta.KindUser, "alice", []byte(text))
		awaited(t, d, stored, err)
	}
	annotate := func(value string) {
		t.Helper()
		patch(`{"metadata":{"annotations":{"` + meta.QuotaOverrideAnnotation + `":` + value + `}}}`)
	}
	expect := func(want map[string]float64) {
		t.Helper()
		alice := d.Account("alice")
		if got := alice.QuotasInForce(); !maps.Equal(got, want) || len(alice.ACLs) != 2 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	annotate(`"producer_byte_rate=7"`)
	expect(map[string]float64{QuotaProducerByteRate: 7})
	patch(`{"spec":{"quotas":{"requestPercentage":6}}}`)
	expect(map[string]float64{QuotaProducerByteRate: 7})
	annotate(`""`)
	expect(map[string]float64{QuotaProducerByteRate: 7})
	annotate(`null`)
	expect(map[string]float64{QuotaRequestPercentage: 6})
	annotate(`"producer_byte_rate=7"`)
	annotate(`"nonsense"`)
	expect(map[string]float64{QuotaProducerByteRate: 7})
	patch(`{"spec":{"quotas":{"requestPercentage":8}}}`) // is taken, beside the nonsense
	expect(map[string]float64{QuotaProducerByteRate: 7})
	if again := startDirectory(t, store).Account("alice"); again.QuotasInForce()[QuotaRequestPercentage] != 8 || len(again.ACLs) != 2 {
		t.Errorf("after a start with a bad override: %+v", again.User)
	}
	annotate(`null`)
	expect(map[string]float64{QuotaRequestPercentage: 8})
	annotate(`"consumer_byte_rate=9"`)
	patch(`{"spec":{"quotas":{"requestPercentage":-1}}}`) // a spec that is refused
	expect(map[string]float64{QuotaConsumerByteRate: 9})
	annotate(`"consumer_byte_rate=10"`)
	expect(map[string]float64{QuotaConsumerByteRate: 10})
	annotate(`null`)
	expect(map[string]float64{QuotaRequestPercentage: 8})

	// Who waits for an edit is not held up by a later one.
	annotated := func(value, version string) observation {
		m := first.(*meta.KafkaUser).Metadata
		m.Annotations, m.ResourceVersion = map[string]string{meta.QuotaOverrideAnnotation: value}, version
		return observe(&m)
	}
	for i, tc := range []struct {
		have, wanted observation
		want         bool
	}{
		{annotated("b", "12"), annotated("a", "9"), true}, {annotated("b", "9"), annotated("a", "12"), false},
		{annotated("a", "9"), annotated("a", "12"), true}, {annotated("b", "x"), annotated("a", "x"), false},
		{observation{"u", 2, "", "1"}, observation{"u", 3, "", "1"}, false}, {observation{"u", 4, "b", "1"}, observation{"u", 3, "", "2"}, true},
		{observation{"v", 1, "", "3"}, observation{"u", 3, "", "1"}, true}, {observation{"v", 3, "", "1"}, observation{"u", 1, "", "3"}, false},
		{observation{"v", 3, "", "x"}, observation{"u", 1, "", "3"}, true},
	} {
		if got := tc.have.shows(tc.wanted); got != tc.want {
			t.Errorf("%d: %v", i, got)
		}
	}
}
