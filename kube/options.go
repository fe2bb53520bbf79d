package kube

import (
	"log/slog"
	"time"

	"kaas/meta"
)

// ReconcilerOptions wires a Reconciler.
type ReconcilerOptions struct {
	Store  meta.ResourceStore
	Logger *slog.Logger
	Clock  func() time.Time // nil: time.Now
	// DefaultPartitions is num.partitions, for resources that name no count.
	DefaultPartitions func() int32
	// MaxPartitions bounds the sum over all topics; 0: no bound.
	MaxPartitions func() int32
	// ValidateConfig refuses overrides (dotted names) that the broker can't
	// honour; the error names key, value and what is allowed.
	ValidateConfig func(overrides map[string]string) error
	// ExistingTopicID tells the id of data that lies on disk for a Kafka topic
	// name. It is asked at the first pass only, for topics whose status has
	// lost its id, so that an id is never rotated under data. nil: none.
	ExistingTopicID func(topic string) (meta.UUID, bool)
	// Accepted is told, before the status says so, that partitions of a topic from
	// this one on are new and have no data anywhere; more than once, it may be. nil: nobody.
	Accepted func(id meta.UUID, from int32)
}
