package filestore

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Golden cases: testdata/patch/*.txt holds a document, a line "--- status" or
// "--- spec" with the change as JSON, and the expected text.
func TestPatchDocument(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/patch/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(string(content), "=====\n")
			if len(parts) != 3 {
				t.Fatalf("%d parts, want document, change and result", len(parts))
			}
			key, raw, _ := strings.Cut(strings.TrimSpace(parts[1]), " ")
			change := blockChange{key: key}
			if key == "status" {
				change.replace = json.RawMessage(raw)
			} else if err := decodeJSON([]byte(raw), &change.merge); err != nil {
				t.Fatal(err)
			}
			got, err := patchDocument(parts[0], []blockChange{change})
			if err != nil {
				t.Fatal(err)
			}
			if got != parts[2] {
				if os.Getenv("KAAS_GENERATE") != "" {
					parts[2] = got
					write(t, file, strings.Join(parts, "=====\n"))
				}
				t.Errorf("got:\n%s\nwant:\n%s", got, parts[2])
			}
		})
	}
}

func TestSplitDocumentsJoinsAgain(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "a: 1", "---\na: 1\n---\nb: 2", "# x\n---\n---\n\n--- # y\nz: 1\r\n---\r\n", "---x: 1\n----\n"} {
		if got := strings.Join(splitDocuments(text), ""); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Whatever the document, a patched one means what it must, and all lines of
// other blocks are still there.
func FuzzPatchDocument(f *testing.F) {
	for _, seed := range []string{
		handWritten, manifestOf("a", "  partitions: 1\n"), "{apiVersion: kaas.io/v1alpha1, kind: KafkaTopic, metadata: {name: a}}",
		"---\napiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: &m\n  name: a\nspec:\n  x: *m\nstatus:\n  a: 1\n# end\n...\n",
		"  apiVersion: kaas.io/v1alpha1\n  kind: KafkaTopic\n  metadata: {name: a}\n  status: 'x'\n  spec:\n    config: {a: [1, 2]}\n",
		"apiVersion: kaas.io/v1alpha1\r\nkind: KafkaTopic\r\nmetadata:\r\n  name: a\r\nspec: null\r\n",
		"{\"apiVersion\":\"kaas.io/v1alpha1\",\"kind\":\"KafkaTopic\",\"metadata\":{\"name\":\"a\"},\"status\":\"}\\\"{\", \"spec\":{}}",
		"? apiVersion\n: kaas.io/v1alpha1\n? kind\n: KafkaTopic\nmetadata:\n  name: a\nspec:\n  config:\n    x: |\n      status:\n      - a\n    y: >-\n     folded\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object, _, err := parseManifest(text)
		if err != nil || object == nil {
			return
		}
		before, err := manifestTree(text)
		if err != nil {
			return
		}
		status := json.RawMessage(`{"topicId":"x","conditions":[{"type":"Ready","message":"a: b # c"}]}`)
		patched, err := patchDocument(text, []blockChange{
			{key: "spec", merge: map[string]any{"config": map[string]any{"retention.ms": json.Number("7"), "no": "yes"}}},
			{key: "status", replace: status},
		})
		if err != nil {
			return // too odd, and said so
		}
		after, err := manifestTree(patched)
		if err != nil {
			t.Fatalf("%q became what can't be read: %v\n%s", text, err, patched)
		}
		spec := treeAt(after, "spec", "config")
		if treeAt(after, "status")["topicId"] != "x" || spec["retention.ms"] != json.Number("7") || spec["no"] != "yes" {
			t.Fatalf("%q became\n%s", text, patched)
		}
		for key := range before {
			if _, ok := after[key]; !ok {
				t.Fatalf("%q lost %s:\n%s", text, key, patched)
			}
		}
	})
}
