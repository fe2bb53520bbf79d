package obs

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Limited is a rate limit for log lines that a peer can cause: one line per
// interval, the next one carries how many were left out. The zero value
// allows one line a second. Any goroutine may use it.
//
// Proof of the lock-free part: nextNs only grows, and only the goroutine whose
// compare-and-swap moves it may write the line, so at most one line leaves per
// interval. dropped is a plain counter that the winner swaps to zero; a drop
// that races with the swap is counted either by this line or by the next one,
// never by both and never by none.
type Limited struct {
	// Every is the interval; set before first use. 0 means one second.
	Every time.Duration

	nextNs  atomic.Int64
	dropped atomic.Int64
}

// Allow reports whether a line may be written now, and how many were left out
// since the last one.
func (l *Limited) Allow(now time.Time) (ok bool, dropped int64) {
	every := l.Every
	if every == 0 {
		every = time.Second
	}
	next := l.nextNs.Load()
	if now.UnixNano() < next || !l.nextNs.CompareAndSwap(next, now.Add(every).UnixNano()) {
		l.dropped.Add(1)
		return false, 0
	}
	return true, l.dropped.Swap(0)
}

// Warn writes a warning if the limit allows one. The arguments are slog's.
func (l *Limited) Warn(logger *slog.Logger, message string, args ...any) {
	l.log(logger, slog.LevelWarn, message, args)
}

// Info is Warn for what is no fault of the broker's.
func (l *Limited) Info(logger *slog.Logger, message string, args ...any) {
	l.log(logger, slog.LevelInfo, message, args)
}

func (l *Limited) log(logger *slog.Logger, level slog.Level, message string, args []any) {
	ok, dropped := l.Allow(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		args = append(args, slog.Int64("leftOut", dropped))
	}
	logger.Log(context.Background(), level, message, args...)
}
