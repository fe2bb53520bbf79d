package config

import (
	"context"
	"math"
	"strings"
	"testing"
)

func TestDynamicLayers(t *testing.T) {
	t.Parallel()
	b, _, err := LoadBroker(nil, nil, []string{"log.retention.hours=1", "max.connections=7"})
	if err != nil {
		t.Fatal(err)
	}
	retention := func() int64 {
		t.Helper()
		parsed, err := ParseTopic(b, nil)
		if err != nil {
			t.Fatal(err)
		}
		return parsed.RetentionMs
	}
	if got := retention(); got != 3_600_000 {
		t.Error(got)
	}
	for _, step := range []struct {
		cluster, broker map[string]string
		err             string
		want            int64
	}{
		{map[string]string{"log.retention.ms": "5"}, nil, "", 5},
		{map[string]string{"log.retention.ms": "5"}, map[string]string{"log.retention.ms": " 6 "}, "", 6},
		// What can't be set is left out and named.
		{map[string]string{"log.retention.ms": "7", "broker.rack": "x", "log.segment.bytes": "1"}, nil, "broker.rack", 7},
		// Values that contradict one another change nothing.
		{map[string]string{"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}, nil, "min.compaction.lag.ms", 7},
		{nil, nil, "", 3_600_000},
	} {
		err := b.SetDynamic(step.cluster, step.broker)
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%v %v: %v", step.cluster, step.broker, err)
		}
		if got := retention(); got != step.want {
			t.Errorf("%v %v: %d, want %d", step.cluster, step.broker, got, step.want)
		}
	}
	if total, _ := b.CurrentMaxConnections(); total != 7 {
		t.Error(total)
	}
	if err := b.SetDynamic(nil, map[string]string{"max.connections": "3"}); err != nil {
		t.Fatal(err)
	}
	if total, perIP := b.CurrentMaxConnections(); total != 3 || perIP != b.MaxConnectionsPerIP {
		t.Error(total, perIP)
	}
	if err := b.AwaitDynamic(t.Context(), ForBroker, map[string]string{"max.connections": "3"}); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.AwaitDynamic(over, ForCluster, map[string]string{"max.connections": "4"}); err == nil {
		t.Error("a layer that is not there was seen")
	}
	// Nobody else's configuration has changed.
	if values := DefaultBroker().DynamicValues(ForBroker); len(values) != 0 {
		t.Error(values)
	}
}

// Every key without a row that can be set at run time is one that Kafka can change,
// too, but for the throttles, which exist as dynamic configuration only.
func TestDynamicOnlyKeysAreKafkas(t *testing.T) {
	t.Parallel()
	dynamic := map[string]string{}
	for _, kafka := range kafkaKeys(t) {
		if kafka.kind == "broker" && kafka.dynamic != "" {
			dynamic[kafka.name] = kafka.typ
		}
	}
	for name, k := range dynamicOnlyIndex() {
		throttle := strings.HasSuffix(name, ".replication.throttled.rate") || name == moveRateKey.Name
		if dynamic[name] != string(k.Type) && !throttle || BrokerKey(name) != nil && !throttle {
			t.Errorf("%s: %s, Kafka has %q", name, k.Type, dynamic[name])
		}
	}
}

// A key that can be set at run time acts at run time: it is the default of a topic
// key, it is read anew, or it changes nothing anyway. All others are read at start.
func TestChangeableKeysAct(t *testing.T) {
	t.Parallel()
	acts := map[string]bool{
		"max.connections": true, "max.connections.per.ip": true,
		"log.cleaner.threads": true, "log.cleaner.backoff.ms": true, "log.cleaner.dedupe.buffer.size": true,
		"log.cleaner.io.buffer.size": true, "log.cleaner.io.buffer.load.factor": true, "log.cleaner.io.max.bytes.per.second": true,
		"transaction.partition.verification.enable": true,
	}
	for _, k := range TopicKeys() {
		if len(k.Synonyms) > 0 {
			acts[k.Synonyms[0].Name] = true
		}
	}
	for _, k := range BrokerKeys() {
		if k.Changeable() && (k.Standing == Honoured || k.Standing == Refused) && !acts[k.Name] {
			t.Errorf("%s can be set at run time and nobody follows it: mark it AtStart, or follow it (CurrentTopicDefaults, cmd/kaas followDynamic)", k.Name)
		}
	}
}

func TestStoreConfigOfTheMoment(t *testing.T) {
	t.Parallel()
	b, _, err := LoadBroker(nil, nil, []string{"log.cleaner.threads=2", "log.cleaner.backoff.ms=9"})
	if err != nil {
		t.Fatal(err)
	}
	want := Cleaner{Threads: 2, IOBufferSize: 524288, BackoffMs: 9, DedupeBufferSize: 128 << 20, IOBufferLoadFactor: 0.9, IOMaxBytesPerSecond: math.MaxFloat64}
	if got := b.CurrentCleaner(); got != want || b.CurrentMoveMaxBytesPerSecond() != math.MaxInt64 {
		t.Errorf("%+v", got)
	}
	err = b.SetDynamic(map[string]string{
		"log.cleaner.threads": "4", "log.cleaner.backoff.ms": "10", "log.cleaner.dedupe.buffer.size": "11", "log.cleaner.io.buffer.size": "12",
		"log.cleaner.io.buffer.load.factor": "0.13", "log.cleaner.io.max.bytes.per.second": "14.5", "replica.alter.log.dirs.io.max.bytes.per.second": "15",
	}, map[string]string{"log.cleaner.threads": "3", "replica.alter.log.dirs.io.max.bytes.per.second": "16"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.CurrentCleaner(), (Cleaner{Threads: 3, IOBufferSize: 12, BackoffMs: 10, DedupeBufferSize: 11, IOBufferLoadFactor: 0.13, IOMaxBytesPerSecond: 14.5}); got != want || b.CurrentMoveMaxBytesPerSecond() != 16 {
		t.Errorf("%+v and %d", got, b.CurrentMoveMaxBytesPerSecond())
	}
	for _, bad := range []map[string]string{{"log.cleaner.threads": "0"}, {"replica.alter.log.dirs.io.max.bytes.per.second": "-1"}} {
		if b.CheckDynamic(ForCluster, bad) == nil || b.SetDynamic(bad, nil) == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if got := b.CurrentCleaner(); got.Threads != 2 {
		t.Errorf("%+v", got)
	}
}
