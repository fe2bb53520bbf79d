package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Dynamic configuration: what changes while the broker runs (KIP-226). It lies
// over what file, environment and overrides say, in two layers: the values for
// every broker, and above them those for this one. Only the layers change; the
// rest of a Broker stays immutable.

// layers are both of them and what follows from them. Immutable once published.
type layers struct {
	broker, cluster map[string]string // checked values of known keys
	topicDefaults   Topic
}

// dynamicState publishes the layers by one atomic pointer: a reader sees the old
// or the new ones whole. Writers serialise by mu, which is a leaf.
type dynamicState struct {
	current atomic.Pointer[layers]

	mu sync.Mutex
	// changed is closed and replaced by each SetDynamic; nil until someone waits.
	// +checklocks:mu
	changed chan struct{}
}

var noLayers = &layers{}

func (b *Broker) layers() *layers {
	if b.dynamic != nil {
		if current := b.dynamic.current.Load(); current != nil {
			return current
		}
	}
	return noLayers
}

// Layer is one of the two.
type Layer uint8

// ForCluster values hold for every broker, ForBroker ones for this broker.
const (
	ForCluster Layer = iota
	ForBroker
)

// DynamicValues returns a copy of one layer.
func (b *Broker) DynamicValues(layer Layer) map[string]string {
	if layer == ForBroker {
		return maps.Clone(b.layers().broker)
	}
	return maps.Clone(b.layers().cluster)
}

// UnknownKeyError is the name of a key that no broker has.
type UnknownKeyError string

func (e UnknownKeyError) Error() string { return "Unknown broker config name: " + string(e) }

// CheckDynamic says whether these values could be set while the broker runs. The
// error goes to clients; its words are those of Kafka's DynamicBrokerConfig where Kafka
// has such a case.
func (b *Broker) CheckDynamic(layer Layer, values map[string]string) error {
	var fixed []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch k := dynamicKey(name); {
		case k == nil && BrokerKey(name) == nil && !isInert(name):
			return UnknownKeyError(name)
		case k == nil:
			fixed = append(fixed, name)
		}
	}
	if len(fixed) > 0 {
		return fmt.Errorf("Cannot update these configs dynamically: [%s]. They are read when the broker starts.", strings.Join(fixed, ", ")) //nolint:staticcheck // goes to clients as it is
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := dynamicKey(name).validateDynamic(values[name]); err != nil {
			return err
		}
	}
	next := &layers{broker: b.layers().broker, cluster: b.layers().cluster}
	if layer == ForBroker {
		next.broker = values
	} else {
		next.cluster = values
	}
	_, err := b.topicDefaultsWith(next)
	return err
}

// SetDynamic replaces both layers. A value that can't be set is left out and named
// in the error; the others are in force when SetDynamic returns.
func (b *Broker) SetDynamic(cluster, broker map[string]string) error {
	next := &layers{broker: make(map[string]string, len(broker)), cluster: make(map[string]string, len(cluster))}
	var errs []error
	for _, layer := range []struct{ from, to map[string]string }{{cluster, next.cluster}, {broker, next.broker}} {
		for _, name := range slices.Sorted(maps.Keys(layer.from)) {
			k := dynamicKey(name)
			if k == nil {
				errs = append(errs, fmt.Errorf("%s can't be set while the broker runs", name))
				continue
			}
			if err := k.validateDynamic(layer.from[name]); err != nil {
				errs = append(errs, err)
				continue
			}
			layer.to[name] = strings.TrimSpace(layer.from[name])
		}
	}
	defaults, err := b.topicDefaultsWith(next)
	if err != nil {
		return errors.Join(append(errs, err)...) // they contradict one another: nothing changes
	}
	next.topicDefaults = defaults
	b.dynamic.mu.Lock()
	defer b.dynamic.mu.Unlock()
	b.dynamic.current.Store(next)
	if b.dynamic.changed != nil {
		close(b.dynamic.changed)
		b.dynamic.changed = nil
	}
	return errors.Join(errs...)
}

// AwaitDynamic returns nil as soon as a layer has exactly these values, or ctx's
// error.
func (b *Broker) AwaitDynamic(ctx context.Context, layer Layer, values map[string]string) error {
	for {
		b.dynamic.mu.Lock()
		if b.dynamic.changed == nil {
			b.dynamic.changed = make(chan struct{})
		}
		changed := b.dynamic.changed // taken before the layers are looked at: a change after this closes it
		b.dynamic.mu.Unlock()
		have := b.layers().cluster
		if layer == ForBroker {
			have = b.layers().broker
		}
		if maps.EqualFunc(have, values, func(a, b string) bool { return a == strings.TrimSpace(b) }) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CurrentTopicDefaults is what a topic without overrides has at this moment.
func (b *Broker) CurrentTopicDefaults() Topic {
	if current := b.layers(); current != noLayers {
		return current.topicDefaults
	}
	return b.TopicDefaults
}

// CurrentMaxConnections are max.connections and max.connections.per.ip at this
// moment.
func (b *Broker) CurrentMaxConnections() (total, perIP int32) {
	return current(b, "max.connections", b.MaxConnections), current(b, "max.connections.per.ip", b.MaxConnectionsPerIP)
}

// Cleaner is the configuration of compaction that can change while the broker runs
// (Kafka's LogCleaner.RECONFIGURABLE_CONFIGS).
type Cleaner struct {
	Threads, IOBufferSize                   int32
	BackoffMs, DedupeBufferSize             int64
	IOBufferLoadFactor, IOMaxBytesPerSecond float64
}

// CurrentCleaner is it at this moment.
func (b *Broker) CurrentCleaner() Cleaner {
	return Cleaner{
		Threads:             current(b, "log.cleaner.threads", b.LogCleanerThreads),
		IOBufferSize:        current(b, "log.cleaner.io.buffer.size", b.LogCleanerIOBufferSize),
		BackoffMs:           current(b, "log.cleaner.backoff.ms", b.LogCleanerBackoffMs),
		DedupeBufferSize:    current(b, "log.cleaner.dedupe.buffer.size", b.LogCleanerDedupeBufferSize),
		IOBufferLoadFactor:  current(b, "log.cleaner.io.buffer.load.factor", b.LogCleanerIOBufferLoadFactor),
		IOMaxBytesPerSecond: current(b, "log.cleaner.io.max.bytes.per.second", b.LogCleanerIOMaxBytesPerSecond),
	}
}

// CurrentMoveMaxBytesPerSecond is replica.alter.log.dirs.io.max.bytes.per.second at
// this moment: what moves between log directories may copy.
func (b *Broker) CurrentMoveMaxBytesPerSecond() int64 {
	return current(b, moveRateKey.Name, int64(math.MaxInt64))
}

// CurrentTransactionPartitionVerification is transaction.partition.verification.enable
// at this moment.
func (b *Broker) CurrentTransactionPartitionVerification() bool {
	return current(b, "transaction.partition.verification.enable", b.TransactionPartitionVerificationEnable)
}

// current is a key's value of the layers, or the static one. Both layers are looked at
// as they are now; of two keys read one after the other the second may be newer.
func current[T bool | int32 | int64 | float64](b *Broker, name string, static T) T {
	text, ok := b.layers().get(name)
	if !ok {
		return static
	}
	parsed, err := dynamicKey(name).parse(text)
	if err != nil {
		panic("BUG: a dynamic value was not checked: " + err.Error())
	}
	if n, ok := parsed.(int64); ok {
		if _, narrow := any(static).(int32); narrow {
			parsed = int32(n)
		}
	}
	return parsed.(T)
}

func (l *layers) get(name string) (string, bool) {
	if value, ok := l.broker[name]; ok {
		return value, true
	}
	value, ok := l.cluster[name]
	return value, ok
}

func (b *Broker) topicDefaultsWith(l *layers) (Topic, error) {
	defaults := b.TopicDefaults
	for i := range topicKeys {
		k := &topicKeys[i]
		// Only first synonyms can be dynamic, and the first one wins.
		if len(k.Synonyms) == 0 {
			continue
		}
		value, ok := l.get(k.Synonyms[0].Name)
		if !ok {
			continue
		}
		parsed, err := k.parse(value)
		if err != nil {
			return Topic{}, err
		}
		defaults.set(k.Name, parsed)
	}
	return defaults, defaults.check()
}

// Changeable says whether the key takes a new value while the broker runs. Kafka
// lets more keys change than kaas does: those with AtStart are read once.
func (k *Key) Changeable() bool { return k.Dynamic && !k.AtStart }

// dynamicKey is the row of a key that can be set while the broker runs, or nil.
func dynamicKey(name string) *Key {
	if k := BrokerKey(name); k != nil && k.Changeable() {
		return k
	}
	return dynamicOnlyIndex()[name]
}

// validateDynamic is Validate with what is refused only while the broker runs: a cleaner
// without threads is one of the start (LogCleaner.validateReconfiguration). Kafka also
// refuses more than double the threads or less than half; nothing here needs that.
func (k *Key) validateDynamic(value string) error {
	parsed, err := k.parse(value)
	if err == nil && k.Name == "log.cleaner.threads" && parsed.(int64) < 1 {
		return errors.New("Log cleaner threads should be at least 1") //nolint:staticcheck // goes to clients as it is
	}
	return err
}

// moveRateKey exists as dynamic configuration only, as in Kafka.
var moveRateKey = Key{Name: "replica.alter.log.dirs.io.max.bytes.per.second", Type: Long, NullDefault: true, check: atLeast(0), Dynamic: true,
	Doc: "Bytes that moves of partitions between log directories copy in a second."}

// inertDynamic are the keys without a row that tools set at run time on their way to
// something else (the throttles of kafka-reassign-partitions): they are kept and shown,
// and change nothing, as in the file. All others without effect are read-only: who sets
// one at run time expects something of it.
var inertDynamic = []struct {
	typ  Type
	keys string
}{
	{Long, `leader.replication.throttled.rate follower.replication.throttled.rate`},
}

// dynamicOnlyIndex are the keys without a row in brokerKeys that can be set at run time:
// those are shown when they are set.
var dynamicOnlyIndex = sync.OnceValue(func() map[string]*Key {
	m := map[string]*Key{moveRateKey.Name: &moveRateKey}
	for _, group := range inertDynamic {
		for name := range strings.FieldsSeq(group.keys) {
			why, _ := InertKey(name)
			if why == "" {
				why = whyNoReplicas
			}
			m[name] = &Key{Name: name, Type: group.typ, NullDefault: true, Dynamic: true, Standing: NoEffect, Why: why, Doc: "Accepted without effect: " + why + "."}
		}
	}
	return m
})

func isInert(name string) bool {
	_, ok := InertKey(name)
	return ok
}

// DescribeCluster returns the values that are set for every broker, by name.
func (b *Broker) DescribeCluster() []Entry {
	cluster := b.layers().cluster
	entries := make([]Entry, 0, len(cluster))
	for _, name := range slices.Sorted(maps.Keys(cluster)) {
		entries = append(entries, Entry{Key: dynamicKey(name), Value: cluster[name], Source: SourceDynamicCluster,
			Synonyms: []Value{{name, cluster[name], SourceDynamicCluster}}})
	}
	return entries
}
