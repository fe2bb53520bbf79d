package policy

import (
	"maps"
	"os"
	"strings"
	"testing"
)

func creation(change map[string]any) map[string]any {
	all := map[string]any{
		"topic": "orders", "principal": "User:alice", "host": "127.0.0.1", "validateOnly": false,
		"labels": map[string]string{}, "annotations": map[string]string{}, "configs": map[string]string{"retention.ms": "5"},
		"partitions": int64(3), "replicationFactor": int64(1),
	}
	maps.Copy(all, change)
	return all
}

func TestPoliciesThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"topic.foo(":                           "create.topic.policy: line 1, column 11: ",
		"true &&\n  nothing == 1":              "create.topic.policy: line 2, column 3: ",
		"partitions == 'x'":                    "create.topic.policy: line 1, column 12: ",
		"partitions + 1":                       "it must say true or false",
		"internal":                             "undeclared reference to 'internal'", // known to another kind
		"topic == " + strings.Repeat("(", 300): "create.topic.policy: line ",
	} {
		if p, err := Compile(CreateTopic, expression); err == nil || p != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", expression, err)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		expression string
		change     map[string]any
		denial     string
	}{
		{"", nil, ""},
		{" \n", nil, ""},
		{"true", nil, ""},
		{"false", nil, "Denied by create.topic.policy."},
		{"partitions <= 2 ? '' : 'At most 2 partitions, not ' + string(partitions) + '.'", nil, "At most 2 partitions, not 3."},
		{"partitions <= 2 ? '' : 'no'", map[string]any{"partitions": int64(2)}, ""},
		{"principal == 'User:alice' && topic.matches('^[a-z.]+$')", nil, ""},
		{"!('retention.ms' in configs) || int(configs['retention.ms']) <= 4", nil, "Denied by create.topic.policy."},
		{"configs['no.such'] == ''", nil, "create.topic.policy can't be evaluated: no such key: no.such"},
		{"int(configs['retention.ms']) / (partitions - 3) == 1", nil, "create.topic.policy can't be evaluated: division by zero"},
		{"dyn(partitions)", nil, "create.topic.policy can't be evaluated: it says 3, which is neither true or false nor a text"},
	} {
		p, err := Compile(CreateTopic, test.expression)
		if err != nil {
			t.Errorf("%s: %v", test.expression, err)
			continue
		}
		if denial := p.Check(t.Context(), creation(test.change)); denial != test.denial {
			t.Errorf("%s: %q, want %q", test.expression, denial, test.denial)
		}
	}
}

// What costs too much is denied, and soon.
func TestCostIsBounded(t *testing.T) {
	t.Parallel()
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1,", 200), ",") + "]"
	p, err := Compile(CreateTopic, numbers+".all(a, "+numbers+".all(b, "+numbers+".all(c, "+numbers+".all(d, a + b + c + d > 0))))")
	if err != nil {
		t.Fatal(err)
	}
	denial := p.Check(t.Context(), creation(nil))
	if !strings.Contains(denial, "can't be evaluated") {
		t.Error(denial)
	}
}

func TestEveryKindKnowsItsNames(t *testing.T) {
	t.Parallel()
	for kind, expression := range map[Kind]string{
		AlterConfig: "resourceType == 'topic' && broker == '' && name == topic && removed.size() == 0 && effective.size() == configs.size()",
		DeleteTopic: "!internal && partitions > 0 && labels.size() + annotations.size() == 0",
	} {
		if _, err := Compile(kind, expression); err != nil {
			t.Error(err)
		}
	}
}

// TestDocumentedPoliciesCompile: whoever copies a policy out of docs/policies.md has one
// that works.
func TestDocumentedPoliciesCompile(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[Kind]int{}
	for line := range strings.Lines(string(document)) {
		for _, kind := range []Kind{CreateTopic, AlterConfig, DeleteTopic} {
			expression, is := strings.CutPrefix(line, kind.Key()+"=")
			if !is {
				continue
			}
			found[kind]++
			if _, err := Compile(kind, expression); err != nil {
				t.Error(err)
			}
		}
	}
	if found[CreateTopic] == 0 || found[AlterConfig] == 0 || found[DeleteTopic] == 0 {
		t.Errorf("policies in the document: %v", found)
	}
}

func BenchmarkCheck(b *testing.B) {
	p, err := Compile(CreateTopic, "principal == 'User:alice' && topic.matches('^[a-z.]+$') && partitions <= 10")
	if err != nil {
		b.Fatal(err)
	}
	variables := creation(nil)
	b.ReportAllocs()
	for b.Loop() {
		if denial := p.Check(b.Context(), variables); denial != "" {
			b.Fatal(denial)
		}
	}
}
