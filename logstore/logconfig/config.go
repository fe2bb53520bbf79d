package logconfig

// Config is the effective configuration of one partition, in Kafka's units.
type Config struct {
	SegmentBytes         int32
	IndexIntervalBytes   int32
	SegmentIndexBytes    int32
	MaxMessageBytes      int32
	SegmentMs            int64
	SegmentJitterMs      int64
	RetentionMs          int64 // -1: no limit
	RetentionBytes       int64 // -1: no limit
	FlushMessages        int64 // <= 1: the high watermark and acks=all wait for the group commit; larger: relaxed as in Kafka
	FlushMs              int64
	DeleteRetentionMs    int64
	MinCompactionLagMs   int64
	MaxCompactionLagMs   int64
	FileDeleteDelayMs    int64
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64
	LogAppendTime        bool
	CompressionType      string // "" or "producer": batches stay as sent
	CleanupDelete        bool
	CleanupCompact       bool
	// MinCleanableDirtyRatio is the share of a log that must be dirty before it is compacted.
	MinCleanableDirtyRatio float64
}

// Default returns Kafka's defaults for a topic, except FlushMessages: 1 (every acknowledged write is durable).
func Default() Config {
	const never = int64(1<<63 - 1)
	return Config{
		SegmentBytes: 1 << 30, IndexIntervalBytes: 4096, SegmentIndexBytes: 10 << 20, MaxMessageBytes: 1048588,
		SegmentMs: 604800000, RetentionMs: 604800000, RetentionBytes: -1, FlushMessages: 1, FlushMs: never,
		DeleteRetentionMs: 86400000, MaxCompactionLagMs: never, FileDeleteDelayMs: 60000,
		TimestampBeforeMaxMs: never, TimestampAfterMaxMs: 3600000, CompressionType: "producer", CleanupDelete: true,
		MinCleanableDirtyRatio: 0.5,
	}
}
