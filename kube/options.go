package kube

import (
	"log/slog"
	"time"

	"kaas/internal/vfs"
	"kaas/meta"
)

// FileStoreOptions says where and how resources are kept as files.
type FileStoreOptions struct {
	Dir    string // made when it is missing
	FS     vfs.FS // nil: the operating system
	Logger *slog.Logger
	Clock  func() time.Time // nil: time.Now
	// Debounce is how long a file must rest before an edit is read, so that a
	// half-written one is not. Zero: limits.ResourceDebounce.
	Debounce time.Duration
	// DeleteGrace is how long a file must be gone before its resources are
	// deleted: git and editors remove and write anew. Zero: limits.ResourceDeleteGrace.
	DeleteGrace time.Duration
	// RescanInterval is how often all files are looked at, for volumes without
	// notifications. Zero: limits.ResourceRescanInterval.
	RescanInterval time.Duration
	// NoNotify leaves file notifications out (tests and odd volumes).
	NoNotify bool
}

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
}
