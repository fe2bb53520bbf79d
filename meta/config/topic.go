package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Topic is the effective configuration of one topic. Field names are the
// key's words; the unit is the last word. Values that only cleanup.policy and
// message.timestamp.type spell in words are booleans here.
type Topic struct {
	CleanupDelete          bool
	CleanupCompact         bool
	CompressionType        string  `key:"compression.type"`
	CompressionGzipLevel   int32   `key:"compression.gzip.level"`
	CompressionLz4Level    int32   `key:"compression.lz4.level"`
	CompressionZstdLevel   int32   `key:"compression.zstd.level"`
	DeleteRetentionMs      int64   `key:"delete.retention.ms"`
	FileDeleteDelayMs      int64   `key:"file.delete.delay.ms"`
	FlushMessages          int64   `key:"flush.messages"`
	FlushMs                int64   `key:"flush.ms"`
	IndexIntervalBytes     int32   `key:"index.interval.bytes"`
	MaxCompactionLagMs     int64   `key:"max.compaction.lag.ms"`
	MaxDecompressedBytes   int32   `key:"max.decompressed.message.bytes"`
	MaxMessageBytes        int32   `key:"max.message.bytes"`
	TimestampAfterMaxMs    int64   `key:"message.timestamp.after.max.ms"`
	TimestampBeforeMaxMs   int64   `key:"message.timestamp.before.max.ms"`
	LogAppendTime          bool    // message.timestamp.type
	MinCleanableDirtyRatio float64 `key:"min.cleanable.dirty.ratio"`
	MinCompactionLagMs     int64   `key:"min.compaction.lag.ms"`
	RetentionBytes         int64   `key:"retention.bytes"`
	RetentionMs            int64   `key:"retention.ms"`
	SegmentBytes           int32   `key:"segment.bytes"`
	SegmentIndexBytes      int32   `key:"segment.index.bytes"`
	SegmentJitterMs        int64   `key:"segment.jitter.ms"`
	SegmentMs              int64   `key:"segment.ms"`
}

// ParseTopic lays overrides (dotted Kafka names) over the broker's defaults.
// A nil defaults means [DefaultBroker]. The error of an unknown key or of a
// bad value names the key, the value and what is allowed, and is the text for
// INVALID_CONFIG.
func ParseTopic(defaults *Broker, overrides map[string]string) (Topic, error) {
	if defaults == nil {
		defaults = defaultBroker()
	}
	t := defaults.CurrentTopicDefaults()
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		k := TopicKey(name)
		if k == nil {
			return Topic{}, fmt.Errorf("Unknown topic config name: %s", name)
		}
		parsed, err := k.parse(overrides[name])
		if err != nil {
			return Topic{}, err
		}
		t.set(name, parsed)
	}
	if size, ok := overrides["internal.segment.bytes"]; ok { // wins over segment.bytes
		parsed, err := TopicKey("internal.segment.bytes").parse(size)
		if err != nil {
			return Topic{}, err
		}
		t.SegmentBytes = int32(parsed.(int64))
	}
	return t, t.check()
}

// check holds what Kafka's LogConfig.validateValues holds across keys.
func (t *Topic) check() error {
	if t.MinCompactionLagMs > t.MaxCompactionLagMs {
		return fmt.Errorf("conflict between min.compaction.lag.ms (%d) and max.compaction.lag.ms (%d): the first must not be above the second",
			t.MinCompactionLagMs, t.MaxCompactionLagMs)
	}
	return nil
}

func (t *Topic) set(name string, parsed any) {
	switch name {
	case "cleanup.policy":
		t.CleanupDelete = slices.Contains(parsed.([]string), "delete")
		t.CleanupCompact = slices.Contains(parsed.([]string), "compact")
	case "message.timestamp.type":
		t.LogAppendTime = parsed == "LogAppendTime"
	default:
		if i, ok := topicFields[name]; ok {
			assign(reflect.ValueOf(t).Elem().Field(i), parsed)
		}
	}
}

var topicFields = fields(reflect.TypeFor[Topic]())

// fields maps the key tags of a struct to its field indexes.
func fields(t reflect.Type) map[string]int {
	m := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("key"); name != "" && name != "-" {
			m[name] = i
		}
	}
	return m
}

// assign stores a parsed value in a field. A mismatch between a key's type and
// its field is a bug of the tables and panics (TestFieldsMatchKeys).
func assign(field reflect.Value, parsed any) {
	switch v := parsed.(type) {
	case bool:
		field.SetBool(v)
	case int64:
		field.SetInt(v)
	case float64:
		field.SetFloat(v)
	case string:
		field.SetString(v)
	case []string:
		field.Set(reflect.ValueOf(v))
	}
}
