package group

import (
	"log/slog"
)

// Config is the part of the broker's configuration that groups obey. It is
// immutable.
type Config struct {
	MinSessionTimeoutMs      int32 // group.min.session.timeout.ms
	MaxSessionTimeoutMs      int32 // group.max.session.timeout.ms
	InitialRebalanceDelayMs  int32 // group.initial.rebalance.delay.ms
	MaxSize                  int32 // group.max.size
	OffsetMetadataMaxChars   int32 // offset.metadata.max.bytes; Kafka counts UTF-16 units, and so does this
	OffsetsRetentionMs       int64 // offsets.retention.minutes
	RetentionCheckIntervalMs int64 // offsets.retention.check.interval.ms
	// NewMemberSuffix makes the random part of a member id (a UUID). Given from
	// outside, because a state machine has no source of chance.
	NewMemberSuffix func() string
	Logger          *slog.Logger
}

// DefaultConfig returns Kafka's defaults; the two ports are left to the caller.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeoutMs: 6_000, MaxSessionTimeoutMs: 1_800_000, InitialRebalanceDelayMs: 3_000,
		MaxSize: 1<<31 - 1, OffsetMetadataMaxChars: 4_096,
		OffsetsRetentionMs: 10_080 * 60_000, RetentionCheckIntervalMs: 600_000,
	}
}

// Client is who sent a request, as DescribeGroups shows it.
type Client struct {
	ID   string
	Host string // as Java prints an InetAddress: "/127.0.0.1"
}
