package filestore

import (
	"encoding/json"
	"reflect"
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
