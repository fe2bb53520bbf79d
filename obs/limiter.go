package obs

import (
	"log/slog"
	"sync"
	"time"
)

// LineLimiter writes at most one line a second and says with the next one how many
// were left out: what peers can provoke must not fill a disk. The zero value is
// ready.
type LineLimiter struct {
	mu      sync.Mutex
	last    time.Time // mu
	omitted int       // mu
}

// Warn writes a line, or counts it as left out.
func (l *LineLimiter) Warn(logger *slog.Logger, message string, attributes ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.last) < time.Second {
		l.omitted++
		l.mu.Unlock()
		return
	}
	omitted := l.omitted
	l.last, l.omitted = now, 0
	l.mu.Unlock()
	if omitted > 0 {
		attributes = append(attributes, "omittedLines", omitted)
	}
	logger.Warn(message, attributes...)
}
