package admin

import (
	"log/slog"
	"strings"
)

// rootLogger is the one logger that kaas has, under Kafka's name for it.
const rootLogger = "root"

// Kafka's level names (LogLevelConfig) and slog's levels. TRACE and FATAL, which
// slog has not, are taken for their neighbours.
var levelNames = []struct {
	name  string
	level slog.Level
}{
	{"DEBUG", slog.LevelDebug}, {"INFO", slog.LevelInfo}, {"WARN", slog.LevelWarn}, {"ERROR", slog.LevelError},
	{"TRACE", slog.LevelDebug}, {"FATAL", slog.LevelError},
}

func parseLevel(text string) (slog.Level, bool) {
	for _, entry := range levelNames {
		if strings.EqualFold(strings.TrimSpace(text), entry.name) {
			return entry.level, true
		}
	}
	return 0, false
}

func levelName(level slog.Level) string {
	for _, entry := range levelNames {
		if level <= entry.level {
			return entry.name
		}
	}
	return "ERROR"
}
