package obs

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLineLimiter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	limiter := &LineLimiter{}
	for range 1000 {
		limiter.Warn(logger, "first", "peer", "a")
	}
	// A second goes by.
	limiter.mu.Lock()
	limiter.last = limiter.last.Add(-2 * time.Second)
	omitted := limiter.omitted
	limiter.mu.Unlock()
	limiter.Warn(logger, "second")
	if got := strings.Count(out.String(), "first"); got != 1 || omitted != 999 || !strings.Contains(out.String(), "msg=second omittedLines=999") {
		t.Errorf("%d lines of 1000, %d left out:\n%s", got, omitted, &out)
	}
}
