package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kaas/internal/limits"
	"kaas/meta"
)

// follower keeps a whole going that is reconciled at once whenever one of its few
// resources changes. The whole's state belongs to one goroutine: the one that calls
// startFollower until the first pass is done, then the follower's own.
type follower struct {
	store  meta.ResourceStore
	logger *slog.Logger
	kind   meta.Kind
	whole  followed
	cancel context.CancelFunc
	done   chan struct{}
}

// followed is what a follower drives.
type followed interface {
	// forget comes before a complete list.
	forget()
	note(event meta.Event)
	// reconcile says whether it wants to be called again, though nothing has changed.
	reconcile(ctx context.Context) (again bool)
}

// startFollower returns when the resources that exist are reconciled.
func startFollower(ctx context.Context, store meta.ResourceStore, logger *slog.Logger, kind meta.Kind, whole followed) (*follower, error) {
	own, cancel := context.WithCancel(context.Background())
	f := &follower{store: store, logger: logger, kind: kind, whole: whole, cancel: cancel, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, cancel)
	events, again, err := f.begin(own)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("reconciler of %s: %w", kind, err)
	}
	go f.run(own, events, again)
	return f, nil
}

// Close stops the reconciler and waits for it.
func (f *follower) Close() {
	f.cancel()
	<-f.done
}

func (f *follower) begin(ctx context.Context) (_ <-chan meta.Event, again bool, err error) {
	f.whole.forget()
	events, err := f.store.Watch(ctx, f.kind, "")
	if err != nil {
		return nil, false, err
	}
	for {
		event, ok := <-events
		if !ok {
			return nil, false, errors.Join(errors.New("the watch ended before it was complete"), ctx.Err())
		}
		if event.Type == meta.Synced {
			return events, f.whole.reconcile(ctx), nil
		}
		f.whole.note(event)
	}
}

func (f *follower) run(ctx context.Context, events <-chan meta.Event, again bool) {
	defer close(f.done)
	for {
		var retry <-chan time.Time
		if again || events == nil {
			retry = time.After(limits.ReconcileRetry)
		}
		select {
		case <-ctx.Done():
			return
		case event, ok := <-events:
			if !ok {
				events = nil // fell behind, or the store stopped
				continue
			}
			f.whole.note(event)
			again = f.whole.reconcile(ctx)
		case <-retry:
			if events != nil {
				again = f.whole.reconcile(ctx)
				continue
			}
			var err error
			if events, again, err = f.begin(ctx); err != nil && ctx.Err() == nil {
				events = nil
				f.logger.Warn("resources can't be watched; trying again", "kind", string(f.kind), "error", err)
			}
		}
	}
}
