package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/magiconair/properties"
)

// Warning is one line for the operator about settings that do nothing.
type Warning struct {
	// Keys are the keys that the line is about, sorted.
	Keys []string
	// Message names them and says why they do nothing.
	Message string
}

// LoadBroker reads properties files (in order), then the KAFKA_ variables of
// env (as os.Environ returns it), then overrides ("key=value"); what comes
// later wins. The error of a bad value names the key, the value and what is
// allowed; nothing has been touched then.
func LoadBroker(files, env, overrides []string) (*Broker, []Warning, error) {
	raw := make(map[string]string)
	for _, file := range files {
		if err := readProperties(file, raw); err != nil {
			return nil, nil, err
		}
	}
	maps.Copy(raw, fromEnvironment(env))
	for _, o := range overrides {
		name, value, ok := strings.Cut(o, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, nil, fmt.Errorf("invalid override %q: allowed is key=value", o)
		}
		raw[name] = strings.TrimSpace(value)
	}
	b, warnings, err := build(raw)
	if err != nil {
		return nil, nil, err
	}
	b.ClusterID = lookup(env, "CLUSTER_ID")
	return b, warnings, nil
}

// DefaultBroker is the configuration when nothing is set: a new one each time.
func DefaultBroker() *Broker {
	b := *defaultBroker()
	b.dynamic = &dynamicState{}
	return &b
}

var defaultBroker = sync.OnceValue(func() *Broker {
	b, _, err := build(nil)
	if err != nil {
		panic("the defaults of the broker's keys do not pass their own checks: " + err.Error())
	}
	return b
})

// readProperties adds the keys of a Java properties file. References ${…} are
// not expanded, as in Kafka, whose config providers are not built.
func readProperties(file string, into map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	parsed, err := loader.LoadBytes(text)
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", file, err)
	}
	maps.Copy(into, parsed.Map())
	return nil
}

// build types and checks raw settings.
func build(raw map[string]string) (*Broker, []Warning, error) {
	b := &Broker{set: make(map[string]string, len(raw)), dynamic: &dynamicState{}}
	var unknown []Warning
	without := make(map[string][]string) // reason -> keys
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		k := BrokerKey(name)
		if k == nil {
			if why, ok := InertKey(name); ok {
				without[why] = append(without[why], name)
			} else {
				message := fmt.Sprintf("unknown configuration key %s: it has no effect", name)
				if meant := suggestion(name); meant != "" {
					message += fmt.Sprintf(" (did you mean %s?)", meant)
				}
				unknown = append(unknown, Warning{[]string{name}, message})
			}
			continue
		}
		if _, err := k.parse(raw[name]); err != nil {
			return nil, nil, err
		}
		if name == "broker.id" && strings.TrimSpace(raw[name]) == "-1" {
			continue // Kafka's way to say that it is not set
		}
		b.set[name] = strings.TrimSpace(raw[name])
		if k.Standing == NoEffect || k.Standing == Later {
			without[k.Why] = append(without[k.Why], name)
		}
	}
	if err := b.fill(); err != nil {
		return nil, nil, err
	}
	dropped, err := b.fillListeners()
	if err != nil {
		return nil, nil, err
	}
	if err := b.checkSecurity(); err != nil {
		return nil, nil, err
	}
	if len(dropped) > 0 {
		const why = "kaas has no KRaft quorum"
		without[why] = append(without[why], dropped...)
	}
	return b, slices.Concat(unknown, withoutEffect(without), b.securityWarnings()), nil
}

// withoutEffect makes the one line about keys that change nothing.
func withoutEffect(without map[string][]string) []Warning {
	if len(without) == 0 {
		return nil
	}
	var parts, keys []string
	for _, why := range slices.Sorted(maps.Keys(without)) {
		parts = append(parts, strings.Join(without[why], ", ")+" ("+why+")")
		keys = append(keys, without[why]...)
	}
	slices.Sort(keys)
	return []Warning{{keys, "accepted without effect: " + strings.Join(parts, "; ")}}
}

var brokerFields = sync.OnceValue(func() map[string]int { return fields(reflect.TypeFor[Broker]()) })

// fill stores every plain key in its field and derives the topic defaults.
func (b *Broker) fill() error {
	if err := b.shareNodeID(); err != nil {
		return err
	}
	structure := reflect.ValueOf(b).Elem()
	for name, i := range brokerFields() {
		k := BrokerKey(name)
		value, ok := b.value(k)
		if !ok {
			continue // null: the field's zero value
		}
		parsed, err := k.parse(value)
		if err != nil {
			return err
		}
		assign(structure.Field(i), parsed)
	}
	dirs, _ := b.value(BrokerKey("log.dirs"))
	b.LogDirs = splitList(dirs)
	for i, dir := range b.LogDirs {
		if dir == "" || slices.Contains(b.LogDirs[:i], dir) {
			return &ValueError{Key: "log.dirs", Value: dirs, Allowed: "a list of directories, each named once"}
		}
	}
	if len(b.LogDirs) == 0 {
		return &ValueError{Key: "log.dirs", Value: dirs, Allowed: "at least one directory"}
	}
	if b.GroupMinSessionTimeoutMs > b.GroupMaxSessionTimeoutMs {
		return &ValueError{Key: "group.min.session.timeout.ms", Value: fmt.Sprint(b.GroupMinSessionTimeoutMs),
			Allowed: fmt.Sprintf("at most group.max.session.timeout.ms, %d", b.GroupMaxSessionTimeoutMs)}
	}
	return b.fillTopicDefaults()
}

// shareNodeID: both names of the id must agree where both are set; where one
// is, it sets the other (Kafka's KafkaConfig.populateSynonyms).
func (b *Broker) shareNodeID() error {
	node, nodeSet := b.set["node.id"]
	broker, brokerSet := b.set["broker.id"]
	switch {
	case nodeSet && brokerSet && node != broker:
		return &ValueError{Key: "broker.id", Value: broker, Allowed: "the value of node.id, " + node}
	case nodeSet:
		b.set["broker.id"] = node
	case brokerSet:
		b.set["node.id"] = broker
	}
	return nil
}

func (b *Broker) fillTopicDefaults() error {
	for i := range topicKeys {
		k := &topicKeys[i]
		value, _, ok := b.topicDefault(k)
		if !ok {
			continue
		}
		parsed, err := k.parse(value)
		if err != nil {
			return err
		}
		b.TopicDefaults.set(k.Name, parsed)
	}
	return b.TopicDefaults.check()
}

// value is what is in force for a broker key: its own setting, that of a
// synonym, its default. ok is false for null.
func (b *Broker) value(k *Key) (value string, ok bool) {
	if value, ok = b.get(k.Name); ok {
		return value, true
	}
	for _, s := range k.Synonyms {
		if value, ok = b.get(s.Name); ok {
			return convert(value, s.UnitMs), true
		}
	}
	if !k.NullDefault {
		return k.Default, true
	}
	for _, s := range k.Synonyms {
		if row := BrokerKey(s.Name); row != nil && !row.NullDefault {
			return convert(row.Default, s.UnitMs), true
		}
	}
	return "", false
}

// get is what is set for a broker key itself: while the broker runs, else before.
func (b *Broker) get(name string) (string, bool) {
	if value, ok := b.layers().get(name); ok {
		return value, true
	}
	value, ok := b.set[name]
	return value, ok
}

// topicDefault is what a topic key has without an override, and whether a
// broker key set it.
func (b *Broker) topicDefault(k *Key) (value string, set, ok bool) {
	for _, s := range k.Synonyms {
		if value, set := b.get(s.Name); set {
			return convert(value, s.UnitMs), true, true
		}
	}
	return k.Default, false, !k.NullDefault
}

// convert multiplies a value in hours or minutes; -1 keeps its meaning.
func convert(value string, unitMs int64) string {
	if unitMs == 0 || strings.HasPrefix(value, "-") {
		return value
	}
	parsed, err := (&Key{Type: Long}).parse(value)
	if err != nil {
		return value // was checked by its own row before
	}
	return fmt.Sprint(parsed.(int64) * unitMs)
}
