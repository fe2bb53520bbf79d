package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// NamedKeys are the keys of configurations that have a name: those of groups and
// of client metrics.
type NamedKeys struct {
	// Unknown is what Kafka says of a key that is not among them.
	Unknown string
	keys    []Key
	source  Source
	// NoName and AlterNoName are what Kafka says of the empty name.
	NoName, AlterNoName string
	// NoLists: Kafka takes no key for a list when it comes to APPEND and SUBTRACT.
	NoLists bool
	// across checks what one key alone can't; values are parsed.
	across func(b *Broker, parsed map[string]any) error
}

// GroupKeys are Kafka's GroupConfig. Configurations of share and streams groups are
// shown and not taken: kaas does not serve those groups.
var GroupKeys = &NamedKeys{Unknown: "Unknown group config name", keys: groupKeys, source: SourceGroup,
	NoName: "Group name must not be empty", AlterNoName: "Default group resources are not allowed.", across: checkGroup}

// ClientMetricsKeys are Kafka's ClientMetricsConfigs (KIP-714).
var ClientMetricsKeys = &NamedKeys{Unknown: "Unknown client metrics configuration", keys: clientMetricsKeys, source: SourceClientMetrics,
	NoName: "Client metrics subscription name must not be empty", AlterNoName: "Subscription name can't be empty", NoLists: true, across: checkClientMetrics}

// Key returns the row of that name, or nil.
func (n *NamedKeys) Key(name string) *Key {
	for i := range n.keys {
		if n.keys[i].Name == name {
			return &n.keys[i]
		}
	}
	return nil
}

// Keys returns all rows by name.
func (n *NamedKeys) Keys() []*Key { return sorted(n.keys) }

// RequestError is the error of a value for which Kafka answers INVALID_REQUEST.
type RequestError struct{ text string }

func (e *RequestError) Error() string { return e.text }

// Check refuses values of one name. The error names the key, the value and what is
// allowed, and is the text for INVALID_CONFIG, or for INVALID_REQUEST if it is a
// RequestError.
func (n *NamedKeys) Check(b *Broker, values map[string]string) error {
	parsed := make(map[string]any, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		k := n.Key(name)
		if k == nil {
			if n == ClientMetricsKeys {
				return &RequestError{n.Unknown + ": " + name}
			}
			return fmt.Errorf("%s: %s", n.Unknown, name)
		}
		value, err := k.parse(values[name])
		if err != nil {
			return err
		}
		parsed[name] = value
	}
	return n.across(b, parsed)
}

// Describe returns what is in force for a name with these overrides.
func (n *NamedKeys) Describe(b *Broker, overrides map[string]string) []Entry {
	entries := make([]Entry, 0, len(n.keys))
	for _, k := range n.Keys() {
		value, isSet := overrides[k.Name]
		if k.Internal && !isSet {
			continue
		}
		e := Entry{Key: k, Source: SourceDefault, Value: k.Default, ReadOnly: k.Standing == Refused}
		if isSet {
			e.Synonyms = append(e.Synonyms, Value{k.Name, value, n.source})
		}
		switch {
		case len(k.Synonyms) > 0 && BrokerKey(k.Synonyms[0].Name) != nil:
			e.Synonyms = append(e.Synonyms, b.chain(k.Synonyms[0].Name)...)
		case len(k.Synonyms) > 0: // a key without effect: what it is set to is no default of anything
			e.Synonyms = append(e.Synonyms, Value{k.Synonyms[0].Name, k.Default, SourceDefault})
		case n == GroupKeys:
			e.Synonyms = append(e.Synonyms, Value{k.Name, k.Default, SourceDefault})
		}
		if len(e.Synonyms) > 0 {
			e.Value, e.Source = e.Synonyms[0].Value, e.Synonyms[0].Source
		}
		entries = append(entries, e)
	}
	return entries
}

// checkGroup holds Kafka's GroupConfig.validateValues for the keys that are taken.
func checkGroup(b *Broker, parsed map[string]any) error {
	if b == nil {
		b = defaultBroker()
	}
	for _, rule := range []struct{ key, low, high string }{
		{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
		{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
		{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	} {
		value, ok := parsed[rule.key].(int64)
		if low, high := b.integer(rule.low), b.integer(rule.high); ok && (value < low || value > high) {
			return fmt.Errorf("%s must be in the range %d to %d inclusive.", rule.key, low, high) //nolint:staticcheck // Kafka's words
		}
	}
	inForce := func(key string) int64 {
		if value, ok := parsed[key].(int64); ok {
			return value
		}
		return b.integer("group." + key)
	}
	session, heartbeat := inForce("consumer.session.timeout.ms"), inForce("consumer.heartbeat.interval.ms")
	if session <= heartbeat && (parsed["consumer.session.timeout.ms"] != nil || parsed["consumer.heartbeat.interval.ms"] != nil) {
		return fmt.Errorf("consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")
	}
	return nil
}

// integer is what is in force for a key of type int or long.
func (b *Broker) integer(name string) int64 {
	k := BrokerKey(name)
	value, ok := b.get(name)
	if !ok {
		value = k.Default
	}
	parsed, err := k.parse(value)
	if err != nil {
		panic("BUG: a value in force is not valid: " + err.Error())
	}
	return parsed.(int64)
}

// matchKeys are the client's properties that a subscription may match on.
var matchKeys = []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}

// checkClientMetrics holds Kafka's ClientMetricsConfigs.validateProperties.
func checkClientMetrics(_ *Broker, parsed map[string]any) error {
	if interval, ok := parsed["interval.ms"].(int64); ok && (interval < 100 || interval > 3_600_000) {
		return &RequestError{fmt.Sprintf("Invalid value %d for interval.ms, interval must be between 100 and 3600000 (1 hour)", interval)}
	}
	match, _ := parsed["match"].([]string)
	for _, pattern := range match {
		name, expression, ok := strings.Cut(pattern, "=")
		if name, expression = strings.TrimSpace(name), strings.TrimSpace(expression); !ok || strings.Contains(expression, "=") {
			return fmt.Errorf("Illegal client matching pattern: %s", pattern) //nolint:staticcheck // Kafka's words
		}
		if !slices.Contains(matchKeys, name) {
			return fmt.Errorf("Illegal client matching pattern: %s", pattern) //nolint:staticcheck // Kafka's words
		}
		if _, err := regexp.Compile(expression); err != nil {
			return fmt.Errorf("Illegal client matching pattern: %s", pattern) //nolint:staticcheck // Kafka's words
		}
	}
	return nil
}

const (
	whyNoShareGroups   = "share groups are not served, so nothing would read it"
	whyNoStreamsGroups = "streams groups are not served, so nothing would read it"
)

var groupKeys = []Key{
	{Name: "consumer.session.timeout.ms", Type: Int, Default: "45000", check: words(1), Synonyms: []Synonym{{Name: "group.consumer.session.timeout.ms"}},
		Doc: "How long a member of the consumer group may be silent, in milliseconds."},
	{Name: "consumer.heartbeat.interval.ms", Type: Int, Default: "5000", check: words(1), Synonyms: []Synonym{{Name: "group.consumer.heartbeat.interval.ms"}},
		Doc: "How often members of the consumer group are told to heartbeat, in milliseconds."},
	{Name: "consumer.assignment.interval.ms", Type: Int, Default: "1000", check: words(0), Synonyms: []Synonym{{Name: "group.consumer.assignment.interval.ms"}},
		Doc: "Least time between two plans of the consumer group, in milliseconds."},
	{Name: "consumer.assignor.offload.enable", Internal: true, Type: Boolean, Default: "true", Standing: NoEffect, Why: whyPlansAtOnce, Synonyms: []Synonym{{Name: "group.consumer.assignor.offload.enable"}},
		Doc: "Whether plans are made on another thread."},

	{Name: "share.session.timeout.ms", Type: Int, Default: "45000", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.session.timeout.ms"}}, Why: whyNoShareGroups, Doc: "How long a member of the share group may be silent, in milliseconds."},
	{Name: "share.heartbeat.interval.ms", Type: Int, Default: "5000", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.heartbeat.interval.ms"}}, Why: whyNoShareGroups, Doc: "How often members of the share group are told to heartbeat, in milliseconds."},
	{Name: "share.record.lock.duration.ms", Type: Int, Default: "30000", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.record.lock.duration.ms"}}, Why: whyNoShareGroups, Doc: "How long a record stays with the member that acquired it, in milliseconds."},
	{Name: "share.delivery.count.limit", Type: Int, Default: "5", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.delivery.count.limit"}}, Why: whyNoShareGroups, Doc: "How often a record is delivered at most."},
	{Name: "share.partition.max.record.locks", Type: Int, Default: "2000", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.partition.max.record.locks"}}, Why: whyNoShareGroups, Doc: "Records of a partition that may be acquired at a time."},
	{Name: "share.auto.offset.reset", Type: String, Default: "latest", Standing: Refused, Why: whyNoShareGroups, Doc: "Where the share group begins in a partition."},
	{Name: "share.isolation.level", Type: String, Default: "read_uncommitted", Standing: Refused, Why: whyNoShareGroups, Doc: "Whether records of open transactions are delivered."},
	{Name: "share.renew.acknowledge.enable", Type: Boolean, Default: "true", Standing: Refused, Why: whyNoShareGroups, Doc: "Whether members may renew their hold of a record."},
	{Name: "share.assignment.interval.ms", Type: Int, Default: "1000", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.assignment.interval.ms"}}, Why: whyNoShareGroups, Doc: "Least time between two plans of the share group, in milliseconds."},
	{Name: "share.assignor.offload.enable", Internal: true, Type: Boolean, Default: "true", Standing: Refused, Synonyms: []Synonym{{Name: "group.share.assignor.offload.enable"}}, Why: whyNoShareGroups, Doc: "Whether plans of share groups are made on another thread."},
	{Name: "errors.deadletterqueue.topic.name", Type: String, Default: "", Standing: Refused, Why: whyNoShareGroups, Doc: "Topic that the share group puts records in which can't be delivered."},
	{Name: "errors.deadletterqueue.copy.record.enable", Type: Boolean, Default: "false", Standing: Refused, Why: whyNoShareGroups, Doc: "Whether that topic gets the record itself."},

	{Name: "streams.session.timeout.ms", Type: Int, Default: "45000", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.session.timeout.ms"}}, Why: whyNoStreamsGroups, Doc: "How long a member of the streams group may be silent, in milliseconds."},
	{Name: "streams.heartbeat.interval.ms", Type: Int, Default: "5000", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.heartbeat.interval.ms"}}, Why: whyNoStreamsGroups, Doc: "How often members of the streams group are told to heartbeat, in milliseconds."},
	{Name: "streams.num.standby.replicas", Type: Int, Default: "0", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.num.standby.replicas"}}, Why: whyNoStreamsGroups, Doc: "Standby replicas of each task."},
	{Name: "streams.num.warmup.replicas", Internal: true, Type: Int, Default: "2", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.num.warmup.replicas"}}, Why: whyNoStreamsGroups, Doc: "Most warm-up replicas of tasks."},
	{Name: "streams.initial.rebalance.delay.ms", Type: Int, Default: "3000", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.initial.rebalance.delay.ms"}}, Why: whyNoStreamsGroups, Doc: "How long a new streams group waits for more members, in milliseconds."},
	{Name: "streams.assignment.interval.ms", Type: Int, Default: "1000", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.assignment.interval.ms"}}, Why: whyNoStreamsGroups, Doc: "Least time between two plans of the streams group, in milliseconds."},
	{Name: "streams.assignor.name", Type: String, Default: "sticky", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.assignors"}}, Why: whyNoStreamsGroups, Doc: "Assignor of the streams group."},
	{Name: "streams.assignor.offload.enable", Internal: true, Type: Boolean, Default: "true", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.assignor.offload.enable"}}, Why: whyNoStreamsGroups, Doc: "Whether plans of streams groups are made on another thread."},
	{Name: "streams.rack.aware.assignment.tags", Type: List, Default: "", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.rack.aware.assignment.tags"}}, Why: whyNoStreamsGroups, Doc: "Tags of clients that standby replicas are spread over."},
	{Name: "streams.task.offset.interval.ms", Internal: true, Type: Int, Default: "60000", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.task.offset.interval.ms"}}, Why: whyNoStreamsGroups, Doc: "How often clients report offsets of warm-up tasks, in milliseconds."},
	{Name: "streams.acceptable.recovery.lag", Internal: true, Type: Long, Default: "10000", Standing: Refused, Synonyms: []Synonym{{Name: "group.streams.acceptable.recovery.lag"}}, Why: whyNoStreamsGroups, Doc: "How far a client may be behind to count as caught up, in offsets."},
}

const whyNoTelemetry = "clients are not asked for metrics, as by a Kafka broker without a reporter of them; the subscription is kept and shown"

var clientMetricsKeys = []Key{
	{Name: "interval.ms", Type: Int, Default: "300000", Standing: NoEffect, Why: whyNoTelemetry, Doc: "How often clients push their metrics, in milliseconds."},
	{Name: "match", Type: List, Default: "", Standing: NoEffect, Why: whyNoTelemetry, Doc: "Which clients: property=regular expression, all of which must fit."},
	{Name: "metrics", Type: List, Default: "", Standing: NoEffect, Why: whyNoTelemetry, Doc: "Prefixes of the names of metrics; * is all of them."},
}
