//go:build kubernetes

package kubernetes

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is a resource as a tree of JSON values.
type object map[string]any

func (o object) part(path ...string) map[string]any {
	tree := map[string]any(o)
	for _, key := range path {
		tree, _ = tree[key].(map[string]any)
	}
	return tree
}

func (o object) kind() string { text, _ := o["kind"].(string); return text }
func (o object) name() string { text, _ := o.part("metadata")["name"].(string); return text }
func (o object) id() string   { return o.kind() + " " + o.name() }

// parse reads one document.
func parse(t *testing.T, text string) object {
	t.Helper()
	var out object
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// lastApplied is what kubectl's client-side apply leaves.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// meant is the object without what a server sets, and with a Secret's text in the one
// form that a server keeps. Its status stays when asked for.
func (o object) meant(t *testing.T, withStatus bool) object {
	t.Helper()
	raw, err := json.Marshal(o)
	must(t, err)
	var out object
	must(t, json.Unmarshal(raw, &out))
	metadata := out.part("metadata")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "namespace"} {
		delete(metadata, field)
	}
	if annotations := out.part("metadata", "annotations"); annotations != nil {
		if delete(annotations, lastApplied); len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	if !withStatus {
		delete(out, "status")
	}
	if plain, ok := out["stringData"].(map[string]any); ok {
		data, _ := out["data"].(map[string]any)
		if data == nil {
			data = map[string]any{}
		}
		for key, value := range plain {
			data[key] = base64.StdEncoding.EncodeToString([]byte(value.(string)))
		}
		out["data"] = data
		delete(out, "stringData")
	}
	return out
}

// same compares what two sets of objects mean.
func same(t *testing.T, what string, got, want map[string]object, withStatus bool) {
	t.Helper()
	ids := map[string]bool{}
	for id := range got {
		ids[id] = true
	}
	for id := range want {
		ids[id] = true
	}
	var sorted []string
	for id := range ids {
		sorted = append(sorted, id)
	}
	sort.Strings(sorted)
	for _, id := range sorted {
		switch {
		case want[id] == nil:
			t.Errorf("%s: %s is there and should not be", what, id)
		case got[id] == nil:
			t.Errorf("%s: %s is missing", what, id)
		default:
			have, wanted := got[id].meant(t, withStatus), want[id].meant(t, withStatus)
			if !reflect.DeepEqual(have, wanted) {
				haveText, _ := yaml.Marshal(have)
				wantedText, _ := yaml.Marshal(wanted)
				t.Errorf("%s: %s is\n%s\nand should be\n%s", what, id, haveText, wantedText)
			}
		}
	}
}

func objectsOf(t *testing.T, files map[string]string) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, text := range files {
		for _, document := range strings.Split(text, "\n---\n") {
			one := parse(t, document)
			if out[one.id()] != nil {
				t.Fatalf("%s stands in two files", one.id())
			}
			out[one.id()] = one
		}
	}
	return out
}
