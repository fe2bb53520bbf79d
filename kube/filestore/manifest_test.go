package filestore

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The test cases of RFC 7386, appendix A, as far as both sides are objects at the root,
// which resources are; and the difference of two trees is the patch between them.
func TestMergePatchAsTheRFCSays(t *testing.T) {
	t.Parallel()
	tree := func(text string) map[string]any {
		var value map[string]any
		if err := decodeJSON([]byte(text), &value); err != nil {
			t.Fatal(text, err)
		}
		return value
	}
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got := mergePatch(tree(c[0]), tree(c[1]))
		if !reflect.DeepEqual(got, any(tree(c[2]))) {
			text, _ := json.Marshal(got)
			t.Errorf("%s patched by %s is %s, want %s", c[0], c[1], text, c[2])
		}
		if c[0] == `{"e":null}` {
			continue // a null that is kept can't be said by a patch
		}
		patch := diffPatch(tree(c[0]), tree(c[2]))
		if again := mergePatch(tree(c[0]), patch); !reflect.DeepEqual(again, any(tree(c[2]))) {
			t.Errorf("the difference of %s and %s is %v, which leads to %v", c[0], c[2], patch, again)
		}
	}
}

// What a value of the wrong type is told says the field and the value, not Go's types.
func TestTypeErrorsAreInWords(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"spec: {partitions: two}":                         `KafkaTopic: spec.partitions is "two", a number is needed`,
		"spec: {partitions: 1.5}":                         "KafkaTopic: spec.partitions is 1.5, a whole number of at most 2147483647 is needed",
		"spec: {partitions: 3000000000}":                  "KafkaTopic: spec.partitions is 3000000000, a whole number of at most 2147483647 is needed",
		"spec: {partitions: [1]}":                         "KafkaTopic: spec.partitions is [1], a number is needed",
		"spec: {replicas: true}":                          "KafkaTopic: spec.replicas is true, a number is needed",
		"spec: {topicName: 7}":                            "KafkaTopic: spec.topicName is 7, a text (in quotes) is needed",
		"spec: {config: [a]}":                             `KafkaTopic: spec.config is ["a"], a mapping is needed`,
		"spec: none":                                      `KafkaTopic: spec is "none", a mapping is needed`,
		"spec: [" + strings.Repeat("a, ", 40) + "]":       "KafkaTopic: spec is a list, a mapping is needed",
		"metadata: {name: a, labels: {b: 1}}":             "KafkaTopic: metadata.labels.b is 1, a text (in quotes) is needed",
		"metadata: {name: a, creationTimestamp: tuesday}": `KafkaTopic: metadata.creationTimestamp is "tuesday", a time such as 2026-01-31T12:00:00Z is needed`,
		"spec: {a: b: c}":                                 "YAML: line 2: did not find expected ',' or '}'",
	} {
		text := "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\n" + spec + "\n"
		if !strings.HasPrefix(spec, "metadata") {
			text += "metadata: {name: a}\n"
		}
		if _, _, err := parseManifest(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", spec, err)
		}
	}
	const user = "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata: {name: a}\nspec: {authorization: [1]}\n"
	if _, _, err := parseManifest(user); err == nil || err.Error() != "KafkaUser: spec.authorization is [1], a mapping is needed" {
		t.Error(err)
	}
	const good = "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: a}\n"
	want := `document 2: KafkaTopic: spec.partitions is "two", a number is needed; until that is mended, what changed in the other documents of the file is not taken either`
	if _, err := parseFile(good + "---\n" + good + "spec: {partitions: two}\n"); err == nil || err.Error() != want {
		t.Error(err)
	}
}
