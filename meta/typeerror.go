package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// ExplainType says what is wrong with a value of another type than its field has, in
// the words of the manifest and not in Go's. raw is the JSON that was read.
func ExplainType(raw json.RawMessage, err error) error {
	var moment *time.ParseError
	if errors.As(err, &moment) {
		return fmt.Errorf("metadata.creationTimestamp is %q, a time such as 2026-01-31T12:00:00Z is needed", moment.Value)
	}
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		if text, ok := strings.CutPrefix(err.Error(), "json: "); ok {
			return errors.New(text)
		}
		return err
	}
	field := wrong.Field
	if field == "" {
		field = "it"
	}
	if in, key := badText(raw, wrong); in != nil { // an element of a mapping of texts: the decoder names the mapping
		field, wrong.Field, raw = field+"."+key, key, in
	}
	return fmt.Errorf("%s is %s, %s is needed", field, valueAt(raw, wrong), wanted(wrong))
}

// at is the value of a field, nil when it is not found (in a list).
func at(raw json.RawMessage, field string) json.RawMessage {
	for _, name := range strings.Split(field, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return nil
		}
		raw = fields[name]
	}
	return raw
}

// badText is the mapping, and its first key, that has no text where only texts may be.
func badText(raw json.RawMessage, wrong *json.UnmarshalTypeError) (in json.RawMessage, key string) {
	var texts map[string]json.RawMessage
	in = at(raw, wrong.Field)
	if wrong.Type.Kind() != reflect.String || wrong.Value == "object" || json.Unmarshal(in, &texts) != nil {
		return nil, ""
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if !strings.HasPrefix(string(texts[key]), `"`) {
			return in, key
		}
	}
	return nil, ""
}

// valueAt is the text of the value, or what kind of value it is when it can't be
// found (in a list) or is long.
func valueAt(raw json.RawMessage, wrong *json.UnmarshalTypeError) string {
	const longest = 60
	raw = at(raw, wrong.Field)
	kind, number, isNumber := strings.Cut(wrong.Value, " ")
	switch {
	case raw != nil && len(raw) <= longest:
		return string(raw)
	case isNumber:
		return number
	case kind == "object":
		return "a mapping"
	case kind == "array":
		return "a list"
	}
	return "a " + kind
}

func wanted(wrong *json.UnmarshalTypeError) string {
	switch wrong.Type.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		largest := int64(math.MaxInt64)
		if wrong.Type.Kind() == reflect.Int32 {
			largest = math.MaxInt32
		}
		if strings.HasPrefix(wrong.Value, "number") {
			return fmt.Sprintf("a whole number of at most %d", largest)
		}
		return "a number"
	case reflect.String:
		return "a text (in quotes)"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	return "a mapping"
}
