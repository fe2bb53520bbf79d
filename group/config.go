package group

import (
	"kaas/internal/limits"

	"log/slog"
	"strconv"

	"kaas/group/assignor"
	"kaas/meta"
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

	ConsumerSessionTimeoutMs     int32 // group.consumer.session.timeout.ms
	ConsumerHeartbeatIntervalMs  int32 // group.consumer.heartbeat.interval.ms
	ConsumerMaxSize              int32 // group.consumer.max.size
	ConsumerAssignmentIntervalMs int32 // group.consumer.assignment.interval.ms
	RegexRefreshIntervalMs       int64 // group.consumer.regex.refresh.interval.ms
	// ConsumerAssignors are names of package assignor; the first is the default (group.consumer.assignors).
	ConsumerAssignors       []string
	ConsumerMigrationPolicy string // group.consumer.migration.policy
	// GroupConfig returns what is configured for one group by itself, nil when nothing is;
	// it never blocks, and the map is never written to. Nil: there is none for any group.
	GroupConfig func(groupID string) map[string]string
	// Bounds of it: group.consumer.min.session.timeout.ms and so on.
	ConsumerSessionTimeout, ConsumerHeartbeatInterval, ConsumerAssignmentInterval Bounds
	// Image returns the newest topics and never blocks; nil: there are none. Consumer
	// groups are planned by it. Given from outside, as an immutable value.
	Image func() *meta.Image

	// PlanInTurn is how many members and partitions a plan may have that is made in the
	// shard's turn; 0: limits.GroupPlanInTurn, -1: none.
	PlanInTurn int

	// NewMemberSuffix makes the random part of a member id (a UUID). Given from
	// outside, because a state machine has no source of chance.
	NewMemberSuffix func() string
	Counters        *Counters // nil: nobody looks
	Logger          *slog.Logger
}

// Bounds in milliseconds, both inclusive.
type Bounds struct{ MinMs, MaxMs int32 }

// Keys of the configuration of a group (Kafka's GroupConfig) that consumer groups obey.
const (
	keySessionTimeout     = "consumer.session.timeout.ms"
	keyHeartbeatInterval  = "consumer.heartbeat.interval.ms"
	keyAssignmentInterval = "consumer.assignment.interval.ms"
)

// ofGroup is a group's own value of a key, or the broker's. Values were checked when
// they were set; the bounds of this start of the broker may be narrower by now.
func (c *Config) ofGroup(groupID, key string, brokers int32, bounds Bounds) int32 {
	if c.GroupConfig == nil {
		return brokers
	}
	text, ok := c.GroupConfig(groupID)[key]
	if !ok {
		return brokers
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return brokers
	}
	return min(max(int32(n), bounds.MinMs), bounds.MaxMs)
}

func (c *Config) sessionTimeoutMs(groupID string) int32 {
	return c.ofGroup(groupID, keySessionTimeout, c.ConsumerSessionTimeoutMs, c.ConsumerSessionTimeout)
}

func (c *Config) heartbeatIntervalMs(groupID string) int32 {
	return c.ofGroup(groupID, keyHeartbeatInterval, c.ConsumerHeartbeatIntervalMs, c.ConsumerHeartbeatInterval)
}

func (c *Config) assignmentIntervalMs(groupID string) int64 {
	return int64(c.ofGroup(groupID, keyAssignmentInterval, c.ConsumerAssignmentIntervalMs, c.ConsumerAssignmentInterval))
}

// DefaultConfig returns Kafka's defaults; the two ports are left to the caller.
func DefaultConfig() Config {
	return Config{
		MinSessionTimeoutMs: 6_000, MaxSessionTimeoutMs: 1_800_000, InitialRebalanceDelayMs: 3_000,
		MaxSize: 1<<31 - 1, OffsetMetadataMaxChars: 4_096,
		OffsetsRetentionMs: 10_080 * 60_000, RetentionCheckIntervalMs: 600_000,
		ConsumerSessionTimeoutMs: 45_000, ConsumerHeartbeatIntervalMs: 5_000, ConsumerMaxSize: 1<<31 - 1, ConsumerAssignmentIntervalMs: 1_000,
		ConsumerSessionTimeout: Bounds{45_000, 60_000}, ConsumerHeartbeatInterval: Bounds{5_000, 15_000}, ConsumerAssignmentInterval: Bounds{0, 15_000},
		RegexRefreshIntervalMs: 600_000, ConsumerAssignors: []string{assignor.NameUniform, assignor.NameRange}, ConsumerMigrationPolicy: migrateBoth,
	}
}

// Client is who sent a request, as DescribeGroups shows it.
type Client struct {
	ID   string
	Host string // as Java prints an InetAddress: "/127.0.0.1"
}

func (c *Config) planInTurn() int {
	if c.PlanInTurn == 0 {
		return limits.GroupPlanInTurn
	}
	return c.PlanInTurn
}
