package config

import (
	"slices"
	"strings"
)

// Source is where a value comes from, with the numbers of DescribeConfigs
// (Kafka's DescribeConfigsResponse.ConfigSource).
type Source int8

// The sources that kaas knows.
const (
	SourceTopic          Source = 1 // DYNAMIC_TOPIC_CONFIG
	SourceDynamicBroker  Source = 2 // DYNAMIC_BROKER_CONFIG
	SourceDynamicCluster Source = 3 // DYNAMIC_DEFAULT_BROKER_CONFIG
	SourceStaticBroker   Source = 4 // STATIC_BROKER_CONFIG
	SourceDefault        Source = 5 // DEFAULT_CONFIG
	SourceClientMetrics  Source = 7 // DYNAMIC_CLIENT_METRICS_CONFIG
	SourceGroup          Source = 8 // DYNAMIC_GROUP_CONFIG
)

// Value is one link of a synonym chain.
type Value struct {
	Name, Value string
	Source      Source
}

// Entry is one key as DescribeConfigs shows it.
type Entry struct {
	Key      *Key
	Value    string
	Null     bool // Value is null, also for sensitive keys
	Source   Source
	ReadOnly bool
	Synonyms []Value // strongest first
}

// TypeCode is the type's number in DescribeConfigs
// (DescribeConfigsResponse.ConfigType).
func (t Type) TypeCode() int8 {
	switch t {
	case Boolean:
		return 1
	case String:
		return 2
	case Int:
		return 3
	case Short:
		return 4
	case Long:
		return 5
	case Double:
		return 6
	case List:
		return 7
	case Class:
		return 8
	case Password:
		return 9
	}
	panic("config: no code for type " + string(t))
}

// IsSet reports whether a file, the environment or an override sets the key.
func (b *Broker) IsSet(name string) bool {
	_, ok := b.set[name]
	return ok
}

// DescribeTopic returns what is in force for a topic with these overrides, by
// name. As in Kafka, the chain of a key is that of its first synonym.
func (b *Broker) DescribeTopic(overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(topicKeys))
	for _, k := range TopicKeys() {
		value, isSet := overrides[k.Name]
		if k.Internal && !isSet {
			continue
		}
		e := Entry{Key: k, Source: SourceDefault}
		if isSet {
			e.Synonyms = append(e.Synonyms, Value{k.Name, value, SourceTopic})
		}
		if len(k.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, b.chain(k.Synonyms[0].Name)...)
		}
		var ok bool
		if e.Value = value; !isSet {
			e.Value, _, ok = b.topicDefault(k)
			e.Null = !ok
		}
		if len(e.Synonyms) > 0 {
			e.Source = e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// Describe returns what is in force for every broker key with a row, and what is
// set of the others, by name.
func (b *Broker) Describe() []Entry {
	entries := make([]Entry, 0, len(brokerKeys))
	for _, k := range BrokerKeys() {
		if k.Internal && !b.IsSet(k.Name) {
			continue
		}
		entries = append(entries, b.describe(k))
	}
	for name, k := range dynamicOnlyIndex() {
		if _, ok := b.layers().get(name); ok {
			entries = append(entries, b.describe(k))
		}
	}
	slices.SortFunc(entries, func(x, y Entry) int { return strings.Compare(x.Key.Name, y.Key.Name) })
	return entries
}

func (b *Broker) describe(k *Key) Entry {
	e := Entry{Key: k, Source: SourceDefault, ReadOnly: !k.Changeable(), Synonyms: b.chain(k.Name)}
	value, ok := b.get(k.Name)
	if !ok && !k.NullDefault {
		value, ok = k.Default, true
	}
	e.Value, e.Null = value, !ok
	if k.Sensitive() {
		e.Value, e.Null = "", true
	}
	if len(e.Synonyms) > 0 {
		e.Source = e.Synonyms[0].Source
	}
	return e
}

// chain is what a broker key adds to a synonym chain: all that is set for it and
// for its own synonyms, layer by layer, then the defaults. Nothing, unless the key
// itself has a value: Kafka drops what stands before the key's own name
// (ConfigHelper.configSynonyms).
func (b *Broker) chain(name string) []Value {
	names := []string{name}
	k := BrokerKey(name)
	if k != nil {
		for _, s := range k.Synonyms {
			if strings.HasPrefix(s.Name, "log.") && s.Name != "log.dir" { // Kafka's DynamicBrokerConfig.brokerConfigSynonyms
				names = append(names, s.Name)
			}
		}
	}
	var out []Value
	current := b.layers()
	for _, layer := range []struct {
		values map[string]string
		source Source
	}{{current.broker, SourceDynamicBroker}, {current.cluster, SourceDynamicCluster}, {b.set, SourceStaticBroker}} {
		for _, n := range names {
			if value, ok := layer.values[n]; ok {
				out = append(out, Value{n, value, layer.source})
			}
		}
	}
	for _, n := range names {
		if k := BrokerKey(n); k != nil && !k.NullDefault {
			out = append(out, Value{n, k.Default, SourceDefault})
		}
	}
	own := slices.IndexFunc(out, func(v Value) bool { return v.Name == name })
	if own < 0 {
		return nil
	}
	return out[own:]
}
