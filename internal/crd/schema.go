package crd

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"kaas/meta"
)

// Schema is the part of Kubernetes' structural OpenAPI schema that is used here.
type Schema struct {
	Type        string `json:"type,omitempty"`
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`

	Properties           map[string]*Schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties *Schema            `json:"additionalProperties,omitempty"`
	Items                *Schema            `json:"items,omitempty"`
	AnyOf                []*Schema          `json:"anyOf,omitempty"`

	Enum             []string `json:"enum,omitempty"`
	Pattern          string   `json:"pattern,omitempty"`
	MinLength        *int64   `json:"minLength,omitempty"`
	MaxLength        *int64   `json:"maxLength,omitempty"`
	Minimum          *int64   `json:"minimum,omitempty"`
	Maximum          *int64   `json:"maximum,omitempty"`
	ExclusiveMinimum bool     `json:"exclusiveMinimum,omitempty"`
	MinItems         *int64   `json:"minItems,omitempty"`

	ListType        string   `json:"x-kubernetes-list-type,omitempty"`
	ListMapKeys     []string `json:"x-kubernetes-list-map-keys,omitempty"`
	PreserveUnknown bool     `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	Validations     []Rule   `json:"x-kubernetes-validations,omitempty"`
}

// Rule is a CEL expression over self and, for a change, oldSelf.
type Rule struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

func number(n int64) *int64 { return &n }

// fieldRules says of each field, by its path ("spec.partitions"), what it is for and
// what reflection can't know.
type fieldRules map[string]fieldRule

type fieldRule struct {
	doc string
	// edit completes the schema that the type gave; nil: that is enough. A field of an
	// open type (map[string]any) needs one.
	edit func(*Schema)
}

// reflector turns Go types into schemas and remembers which rules it has used.
type reflector struct {
	rules fieldRules
	used  map[string]bool
}

// structSchema describes a struct by the json tags of its fields.
func (r *reflector) structSchema(t reflect.Type, path string) *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" {
			panic(fmt.Sprintf("BUG: %s.%s has no json name", t, t.Field(i).Name))
		}
		s.Properties[name] = r.field(t.Field(i).Type, strings.TrimPrefix(path+"."+name, "."))
	}
	return s
}

func (r *reflector) field(t reflect.Type, path string) *Schema {
	rule, ok := r.rules[path]
	if !ok {
		panic(fmt.Sprintf("BUG: the field %s (%s) is not described for its CustomResourceDefinition", path, t))
	}
	r.used[path] = true
	s := r.typeSchema(t, path)
	if rule.edit != nil {
		rule.edit(s)
	}
	if s.Type == "" && !s.PreserveUnknown || s.Type == "object" && s.Properties == nil && s.AdditionalProperties == nil {
		panic(fmt.Sprintf("BUG: what the field %s may hold is not described", path))
	}
	s.Description = rule.doc
	return s
}

var (
	timeType      = reflect.TypeFor[time.Time]()
	uuidType      = reflect.TypeFor[meta.UUID]()
	conditionType = reflect.TypeFor[[]meta.Condition]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

func (r *reflector) typeSchema(t reflect.Type, path string) *Schema {
	switch {
	case t == timeType:
		return &Schema{Type: "string", Format: "date-time"}
	case t == uuidType:
		return &Schema{Type: "string", Pattern: "^[A-Za-z0-9_-]{22}$"}
	case t.Implements(marshalerType):
		return &Schema{} // its rule says what it is
	case t == conditionType:
		items := (&reflector{conditionRules, r.used}).structSchema(t.Elem(), "")
		items.Required = []string{"type", "status"}
		return &Schema{Type: "array", Items: items, ListType: "map", ListMapKeys: []string{"type"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return r.typeSchema(t.Elem(), path)
	case reflect.String:
		return &Schema{Type: "string"}
	case reflect.Int32:
		return &Schema{Type: "integer", Format: "int32"}
	case reflect.Int64:
		return &Schema{Type: "integer", Format: "int64"}
	case reflect.Struct:
		return r.structSchema(t, path)
	case reflect.Map:
		s := &Schema{Type: "object"}
		if t.Elem().Kind() != reflect.Interface {
			s.AdditionalProperties = r.typeSchema(t.Elem(), path)
		}
		return s
	}
	panic(fmt.Sprintf("BUG: %s has the type %s, for which there is no schema", path, t))
}

// unused are rules for fields that do not exist any more.
func (r *reflector) unused() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.rules)), func(path string) bool { return r.used[path] })
}
