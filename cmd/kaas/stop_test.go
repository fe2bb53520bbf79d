package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"kaas/obs"
)

func TestAStepThatHangsDoesNotKeepTheStopFromTheLastCommit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	s := &server{health: &obs.Health{}}
	var ran []string
	s.onStop("the log store", func(ctx context.Context) error { ran = append(ran, "log store"); return ctx.Err() })
	s.onStop("a hanging one", bounded(time.Millisecond, func() error { <-release; return nil }))
	s.onStop("a failing one", bounded(time.Hour, func() error { ran = append(ran, "failing"); return errors.ErrUnsupported }))
	err := s.stop(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("stop: %v", err)
	}
	if want := []string{"failing", "log store"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q", ran)
	}
}

func TestABrokerThatDoesNotGetToItsEndExits(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	if code := awaitForcedExit(nil, time.Now(), time.Millisecond, logger); code != 1 {
		t.Errorf("a stop that hangs: exit code %d", code)
	}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	if code := awaitForcedExit(signals, time.Now().Add(-time.Minute), time.Hour, logger); code != 128+int(syscall.SIGINT) {
		t.Errorf("a second signal: exit code %d", code)
	}
}
