package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Type is the type of a value, in the words of Kafka's ConfigDef.Type.
type Type string

// The types of Kafka's ConfigDef that occur among the keys below.
const (
	Boolean  Type = "BOOLEAN"
	String   Type = "STRING"
	Short    Type = "SHORT"
	Int      Type = "INT"
	Long     Type = "LONG"
	Double   Type = "DOUBLE"
	List     Type = "LIST"
	Class    Type = "CLASS"
	Password Type = "PASSWORD"
)

// Standing says what kaas does with a key.
type Standing uint8

const (
	// Honoured keys act as Kafka's documentation says.
	Honoured Standing = iota
	// Fixed keys are accepted at the values in Key.Only, which describe what
	// kaas does anyway; every other value is refused with Key.Why.
	Fixed
	// NoEffect keys are accepted at any value of their type and change nothing.
	NoEffect
	// Later keys change nothing yet: what they steer is not built.
	Later
	// Refused keys are an error at any value but the empty one and those in
	// Key.Only, because ignoring them in silence would be dangerous.
	Refused
)

func (s Standing) String() string {
	return [...]string{"honoured", "fixed", "no effect", "later", "refused"}[s]
}

// Synonym is a broker key whose value is the default of a topic key. The
// first one of a list that is set wins.
type Synonym struct {
	Name string
	// UnitMs converts the synonym's unit (hours, minutes) to milliseconds;
	// 0 means that both keys have the same unit.
	UnitMs int64
}

// Key is one row of the tables.
type Key struct {
	Name string
	Type Type
	// Default is the value in force when nobody sets the key. NullDefault
	// means that there is none (Kafka's null).
	Default     string
	NullDefault bool
	// KafkaDefault is Apache Kafka's default where it differs from Default.
	KafkaDefault string
	Doc          string
	// Synonyms of a topic key are broker keys; of a broker key, other broker
	// keys that stand in for it. In order of precedence after the key itself.
	Synonyms []Synonym
	// Dynamic: Kafka lets it change while the broker runs.
	Dynamic bool
	// AtStart: Dynamic in Kafka, but kaas reads it once, when the broker starts.
	AtStart  bool
	Standing Standing
	// Only lists the accepted values of a Fixed key, and those of a Refused
	// key that ask for nothing.
	Only []string
	// Why is the reason behind Fixed, NoEffect, Later and Refused.
	Why string
	// OwnKey marks a key that Apache Kafka does not have.
	OwnKey bool
	// Internal keys are left out of DescribeConfigs, as in Kafka.
	Internal bool
	check    check
}

// Sensitive values are never shown.
func (k *Key) Sensitive() bool { return k.Type == Password }

// Allowed says in words which values the key takes.
func (k *Key) Allowed() string {
	if k.Standing == Fixed {
		return "only " + strings.Join(k.Only, " or ")
	}
	if k.check.allowed != "" {
		return k.check.allowed
	}
	switch k.Type {
	case Boolean:
		return "true or false"
	case Short:
		return "an integer of 16 bits"
	case Int:
		return "an integer of 32 bits"
	case Long:
		return "an integer of 64 bits"
	case Double:
		return "a number"
	case List:
		return "a comma-separated list"
	}
	return "a string"
}

// Validate reports whether value is one that the key takes. The error names
// the key, the value and what is allowed.
func (k *Key) Validate(value string) error {
	_, err := k.parse(value)
	return err
}

// ValueError is the error of a value that its key does not take.
type ValueError struct {
	Key, Value, Allowed, Why string
}

func (e *ValueError) Error() string {
	s := fmt.Sprintf("invalid value %q for configuration %s: allowed is %s", e.Value, e.Key, e.Allowed)
	if e.Why != "" {
		s += " (" + e.Why + ")"
	}
	return s
}

func (k *Key) bad(value string) error {
	if k.Sensitive() {
		value = "[hidden]"
	}
	allowed := k.Allowed()
	if bits := integerBits[k.Type]; bits != 0 {
		// The words of a row give its smallest value; the largest is its type's.
		if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, bits); errors.Is(err, strconv.ErrRange) && n > 0 {
			allowed += fmt.Sprintf(", and at most %d", n)
		}
	}
	e := &ValueError{Key: k.Name, Value: value, Allowed: allowed, Why: k.noNumber(strings.TrimSpace(value))}
	if k.Standing == Fixed || k.Standing == Refused {
		e.Why = k.Why // elsewhere it says why the key has no effect, not why the value is bad
	}
	return e
}

// units are the endings of names that say what a number counts, where a value with a
// unit of its own (7d, 1GB) is a likely slip.
var units = map[string]string{
	"ms": "milliseconds", "secs": "seconds", "seconds": "seconds", "minutes": "minutes", "hours": "hours", "bytes": "bytes",
}

// noNumber says why a value is none that a key of numbers can take; "" when it is.
func (k *Key) noNumber(value string) string {
	if integerBits[k.Type] == 0 && k.Type != Double {
		return ""
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		if _, err := strconv.ParseInt(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) || k.Type == Double {
			return ""
		}
		return "it is not a whole number"
	}
	if unit := units[k.Name[strings.LastIndexByte(k.Name, '.')+1:]]; unit != "" {
		return "it is not a number of " + unit
	}
	return "it is not a number"
}

var integerBits = map[Type]int{Short: 16, Int: 32, Long: 64}

// parse returns bool, string, int64, float64 or []string. Values are trimmed
// as Kafka's ConfigDef.parseType trims them.
func (k *Key) parse(value string) (any, error) {
	trimmed := strings.TrimSpace(value)
	parsed, ok := k.parseType(trimmed)
	if !ok || (k.check.ok != nil && !k.check.ok(parsed)) {
		return nil, k.bad(value)
	}
	switch k.Standing {
	case Fixed:
		if !slices.Contains(k.Only, canonical(parsed)) {
			return nil, k.bad(value)
		}
	case Refused:
		if trimmed != "" && !slices.Contains(k.Only, trimmed) {
			return nil, &ValueError{Key: k.Name, Value: value, Allowed: "not to set it", Why: k.Why}
		}
	}
	return parsed, nil
}

func (k *Key) parseType(value string) (any, bool) {
	switch k.Type {
	case Boolean:
		switch strings.ToLower(value) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
		return nil, false
	case Short, Int, Long:
		n, err := strconv.ParseInt(value, 10, integerBits[k.Type])
		return n, err == nil
	case Double:
		f, err := strconv.ParseFloat(value, 64)
		return f, err == nil && !math.IsNaN(f)
	case List:
		return splitList(value), true
	}
	return value, true
}

// splitList splits at commas with blanks around them; "" is the empty list.
func splitList(value string) []string {
	if value = strings.TrimSpace(value); value == "" {
		return nil
	}
	parts := strings.Split(value, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// canonical renders a parsed value as Kafka's ConfigDef.convertToString does.
func canonical(parsed any) string {
	switch v := parsed.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return formatDouble(v)
	case []string:
		return strings.Join(v, ",")
	}
	return parsed.(string)
}

// formatDouble renders as Java's Double.toString where the two agree on
// notation: at least one digit after the point.
func formatDouble(f float64) string {
	if f == math.MaxFloat64 {
		return "1.7976931348623157E308"
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// check restricts the values of a type; the zero check takes them all.
type check struct {
	ok      func(parsed any) bool
	allowed string
}

func between(low, high int64) check {
	words := fmt.Sprintf("%d to %d", low, high)
	switch high {
	case math.MaxInt16, math.MaxInt32, math.MaxInt64:
		words = fmt.Sprintf("%d or more", low)
	}
	return check{func(p any) bool { n := p.(int64); return n >= low && n <= high }, words}
}

func atLeast(low int64) check { return between(low, math.MaxInt64) }

func ratio(low, high float64) check {
	return check{
		func(p any) bool { f := p.(float64); return f >= low && f <= high },
		fmt.Sprintf("%g to %g", low, high),
	}
}

func oneOf(values ...string) check {
	return check{
		func(p any) bool { return slices.Contains(values, p.(string)) },
		"one of " + strings.Join(values, ", "),
	}
}

// someOf takes lists of known elements. The empty list is one of them, as in
// Kafka: cleanup.policy= keeps everything.
func someOf(values ...string) check {
	return check{func(p any) bool {
		for _, e := range p.([]string) {
			if !slices.Contains(values, e) {
				return false
			}
		}
		return true
	}, "a list of " + strings.Join(values, ", ")}
}

// oneOfFold is oneOf without regard to case.
func oneOfFold(values ...string) check {
	return check{
		func(p any) bool {
			return slices.ContainsFunc(values, func(v string) bool { return strings.EqualFold(v, p.(string)) })
		},
		"one of " + strings.Join(values, ", "),
	}
}

// listOf is someOf without the empty list.
func listOf(values ...string) check {
	some := someOf(values...)
	return check{func(p any) bool { return len(p.([]string)) > 0 && some.ok(p) }, "one or more of " + strings.Join(values, ", ")}
}

func index(keys []Key) map[string]*Key {
	m := make(map[string]*Key, len(keys))
	for i := range keys {
		m[keys[i].Name] = &keys[i]
	}
	return m
}

func sorted(keys []Key) []*Key {
	out := make([]*Key, len(keys))
	for i := range keys {
		out[i] = &keys[i]
	}
	slices.SortFunc(out, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	return out
}

var (
	topicIndex   = sync.OnceValue(func() map[string]*Key { return index(topicKeys) })
	brokerIndex  = sync.OnceValue(func() map[string]*Key { return index(brokerKeys) })
	topicSorted  = sync.OnceValue(func() []*Key { return sorted(topicKeys) })
	brokerSorted = sync.OnceValue(func() []*Key { return sorted(brokerKeys) })
)

// TopicKeys returns every topic key of Kafka 4.4, sorted by name. The rows
// are shared and must not be written.
func TopicKeys() []*Key { return topicSorted() }

// BrokerKeys returns every broker key that has a row of its own, sorted by
// name. Keys of which kaas only knows that they have no effect are not among
// them, see [InertKey].
func BrokerKeys() []*Key { return brokerSorted() }

// TopicKey returns the row of a topic key, or nil.
func TopicKey(name string) *Key { return topicIndex()[name] }

// BrokerKey returns the row of a broker key, or nil.
func BrokerKey(name string) *Key { return brokerIndex()[name] }
