package filestore

import (
	"log/slog"
	"time"

	"kaas/internal/vfs"
)

// Options says where and how resources are kept as files.
type Options struct {
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
