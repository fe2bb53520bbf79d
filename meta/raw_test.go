package meta

import (
	"encoding/json"
	"testing"
)

func TestRawIsCanonical(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Raw{
		`null`: "", ` {} `: `{}`, `{"a":1,"b":[{"c":"x y"},null,true]}`: `{"a":1,"b":[{"c":"x y"},null,true]}`,
		`{"b": 2, "a": {"d": 1.50, "c": []}}`: `{"a":{"c":[],"d":1.50},"b":2}`,
		`{"a":[{"z":1},{"y":{"q":1,"p":2}}]}`: `{"a":[{"z":1},{"y":{"p":2,"q":1}}]}`,
		`{"a":1,"a":2}`:                       `{"a":2}`,
		`{"a":"\u0041<"}`:                     `{"a":"A\u003c"}`,
		`{"a":"ü"}`:                           `{"a":"ü"}`,
		`{"\u0061":1}`:                        `{"a":1}`,
		`{"big":12345678901234567890}`:        `{"big":12345678901234567890}`,
	} {
		var got Raw
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
		var again Raw
		if err := json.Unmarshal([]byte(got), &again); got != "" && (err != nil || again != got) {
			t.Errorf("%s: not stable: %s, %v", text, again, err)
		}
	}
	for _, text := range []string{`1`, `"x"`, `[]`, `{`, ``} {
		var got Raw
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func FuzzRaw(f *testing.F) {
	for _, seed := range []string{`{"b":1,"a":[{},{"x":"\n"}]}`, `{"a":{"a":{"a":"<"}}}`, `{"":"","x":1e5}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got Raw
		var tree any
		if json.Unmarshal(text, &got) != nil || got == "" {
			return
		}
		if err := json.Unmarshal([]byte(got), &tree); err != nil {
			t.Fatal(err)
		}
		var again Raw
		if err := again.UnmarshalJSON([]byte(got)); err != nil || again != got {
			t.Errorf("%q becomes %q, then %q: %v", text, got, again, err)
		}
	})
}
