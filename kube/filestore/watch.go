package filestore

import (
	"context"
	"fmt"
	"strconv"

	"kaas/internal/limits"
	"kaas/meta"
)

func formatRevision(revision uint64) string { return strconv.FormatUint(revision, 10) }

// record appends a change to the history and wakes the watchers.
// +checklocks:s.mu
func (s *Store) record(event meta.Event) {
	if len(s.history) == 0 {
		s.first = s.revision
	}
	s.history = append(s.history, event)
	if len(s.history) > limits.ResourceWatchHistory {
		// Half at once, so that the cost of moving is shared by many changes.
		keep := s.history[len(s.history)/2:]
		s.first += uint64(len(s.history) - len(keep))
		s.history = append(make([]meta.Event, 0, limits.ResourceWatchHistory+1), keep...)
	}
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Watch implements meta.ResourceStore.
func (s *Store) Watch(ctx context.Context, kind meta.Kind, revision string) (<-chan meta.Event, error) {
	var initial []meta.Object
	var after uint64
	if revision == "" {
		initial, after = s.snapshot(kind)
	} else {
		parsed, err := strconv.ParseUint(revision, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("revision %q: %w", revision, meta.ErrGone)
		}
		after = parsed
		s.mu.Lock()
		remembered := after >= s.first-1 && after <= s.revision
		s.mu.Unlock()
		if !remembered {
			return nil, fmt.Errorf("revision %s: %w", revision, meta.ErrGone)
		}
	}
	events := make(chan meta.Event, limits.ResourceWatchBuffer)
	go func() {
		defer close(events)
		if revision == "" && !sendInitial(ctx, events, initial, formatRevision(after)) {
			return
		}
		s.follow(ctx, events, kind, after)
	}()
	return events, nil
}

func sendInitial(ctx context.Context, events chan<- meta.Event, objects []meta.Object, revision string) bool {
	for _, object := range objects {
		if !send(ctx, events, meta.Event{Type: meta.Added, Object: object.Clone(), Revision: revision}) {
			return false
		}
	}
	return send(ctx, events, meta.Event{Type: meta.Synced, Revision: revision})
}

// follow sends the changes after a revision until the context ends, or until
// they have left the history because the receiver is too slow.
func (s *Store) follow(ctx context.Context, events chan<- meta.Event, kind meta.Kind, after uint64) {
	var batch []meta.Event
	for {
		var changed <-chan struct{}
		var behind uint64
		if batch, changed, behind = s.changesAfter(after, batch); behind > 0 {
			s.logger.Warn("a watcher of resources is too slow and must list anew", "kind", string(kind), "behind", behind)
			return
		}
		if changed != nil {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			continue
		}
		after += uint64(len(batch))
		for _, event := range batch {
			if event.Object.ResourceKind() != kind {
				continue
			}
			event.Object = event.Object.Clone()
			if !send(ctx, events, event) {
				return
			}
		}
	}
}

// changesAfter fills batch with the changes after a revision. Without any it
// returns a channel that the next one closes; behind > 0: that many changes have
// left the history.
func (s *Store) changesAfter(after uint64, batch []meta.Event) (_ []meta.Event, changed <-chan struct{}, behind uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after+1 < s.first {
		return nil, nil, s.first - after - 1
	}
	batch = append(batch[:0], s.history[min(after+1-s.first, uint64(len(s.history))):]...)
	if len(batch) > 0 {
		return batch, nil, 0
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return batch, s.changed, 0
}

func send(ctx context.Context, events chan<- meta.Event, event meta.Event) bool {
	select {
	case events <- event:
		return true
	case <-ctx.Done():
		return false
	}
}
