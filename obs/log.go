package obs

import (
	"io"
	"log/slog"
)

// NewLogger writes text lines to a terminal and JSON lines elsewhere.
func NewLogger(w io.Writer, terminal bool, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if terminal {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// Discard is a logger for tests that do not look at the log.
func Discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
