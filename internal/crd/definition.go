package crd

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"

	"kaas/meta"
)

// definition is an apiextensions.k8s.io/v1 CustomResourceDefinition.
type definition struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       definitionSpec `json:"spec"`
}

type definitionSpec struct {
	Group    string    `json:"group"`
	Scope    string    `json:"scope"`
	Names    names     `json:"names"`
	Versions []version `json:"versions"`
}

type names struct {
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind"`
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular"`
	ShortNames []string `json:"shortNames"`
	Categories []string `json:"categories"`
}

type version struct {
	Name         string         `json:"name"`
	Served       bool           `json:"served"`
	Storage      bool           `json:"storage"`
	Subresources map[string]any `json:"subresources"`
	Columns      []column       `json:"additionalPrinterColumns"`
	Schema       struct {
		Root *Schema `json:"openAPIV3Schema"`
	} `json:"schema"`
}

type column struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	JSONPath    string `json:"jsonPath"`
	Priority    int    `json:"priority,omitempty"` // 1: kubectl get -o wide only
}

// resourceKind is one kind of kaas.io.
type resourceKind struct {
	object       any // its Go type
	kind         meta.Kind
	plural       string
	short        string
	doc          string
	rules        fieldRules
	validations  []Rule   // over the whole resource
	columns      []column // behind NAME, before READY and AGE
	specRequired []string
}

const generated = "# Written by make generate from the Go types; do not edit.\n"

// Files are the definitions, by their path in the repository.
func Files() map[string][]byte {
	files := map[string][]byte{}
	for i := range kinds {
		text, err := yaml.Marshal(kinds[i].definition())
		if err != nil {
			panic(fmt.Sprintf("BUG: %s: %v", kinds[i].kind, err))
		}
		group, _, _ := strings.Cut(meta.APIVersion, "/")
		files["deploy/crds/"+group+"_"+kinds[i].plural+".yaml"] = bytes.Join([][]byte{[]byte(generated), text}, nil)
	}
	return files
}

// SchemaOf is the schema of a kind, for tests.
func SchemaOf(kind meta.Kind) *Schema {
	for i := range kinds {
		if kinds[i].kind == kind {
			return kinds[i].schema()
		}
	}
	return nil
}

func (k *resourceKind) schema() *Schema {
	r := &reflector{k.rules, map[string]bool{}}
	t := reflect.TypeOf(k.object)
	root := &Schema{Type: "object", Description: k.doc, Validations: k.validations, Properties: map[string]*Schema{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
	}}
	for name, doc := range map[string]string{"Spec": "What is wanted.", "Status": "What is in force. Written by kaas."} {
		field, ok := t.FieldByName(name)
		if !ok {
			panic(fmt.Sprintf("BUG: %s has no %s", t, name))
		}
		part := strings.ToLower(name)
		root.Properties[part] = r.structSchema(field.Type, part)
		root.Properties[part].Description = doc
	}
	root.Properties["spec"].Required = k.specRequired
	if unused := r.unused(); len(unused) > 0 {
		panic(fmt.Sprintf("BUG: %s has no field %s", k.kind, unused))
	}
	return root
}

func (k *resourceKind) definition() *definition {
	group, name, _ := strings.Cut(meta.APIVersion, "/")
	v := version{Name: name, Served: true, Storage: true, Subresources: map[string]any{"status": map[string]any{}}}
	v.Columns = append(append(v.Columns, k.columns...),
		column{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`, Description: "Whether the spec is in force."},
		column{Name: "Reason", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`, Priority: 1},
		column{Name: "Message", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].message`, Priority: 1},
		column{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"})
	v.Schema.Root = k.schema()
	return &definition{
		APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition",
		Metadata: map[string]any{"name": k.plural + "." + group},
		Spec: definitionSpec{
			Group: group, Scope: "Namespaced", Versions: []version{v},
			Names: names{
				Kind: string(k.kind), ListKind: string(k.kind) + "List", Plural: k.plural,
				Singular: strings.ToLower(string(k.kind)), ShortNames: []string{k.short}, Categories: []string{"kaas"},
			},
		},
	}
}
