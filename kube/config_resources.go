package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"kaas/meta"
)

// configResource is a resource that holds configuration.
type configResource interface {
	meta.Object
	ConfigValues() (map[string]string, error)
	ConfigStatus() *meta.ConfigStatus
}

// configResources is what the reconcilers of configuration share: the resources that
// they know and how a status comes about and is written. Owner: the follower's goroutine.
type configResources[T configResource] struct {
	store  meta.ResourceStore
	logger *slog.Logger
	clock  func() time.Time

	objects map[string]T // by resource name
	// accepted is the last config that was taken, by uid. Status has it too, but only
	// once it could be written: an edit in between makes that a conflict.
	accepted map[string]map[string]string
	again    bool // a status could not be written
}

func newConfigResources[T configResource](store meta.ResourceStore, logger *slog.Logger, clock func() time.Time) configResources[T] {
	if clock == nil {
		clock = time.Now
	}
	return configResources[T]{store: store, logger: logger, clock: clock, accepted: make(map[string]map[string]string)}
}

func (r *configResources[T]) forget() { r.objects = make(map[string]T) }

func (r *configResources[T]) note(event meta.Event) {
	c, ok := event.Object.(T)
	switch {
	case !ok:
	case event.Type == meta.Deleted:
		delete(r.objects, c.Meta().Name)
	default:
		r.objects[c.Meta().Name] = c
	}
}

// sorted are the resources in the order of their names.
func (r *configResources[T]) sorted() []T {
	all := make([]T, 0, len(r.objects))
	uids := make(map[string]bool, len(r.objects))
	for _, name := range slices.Sorted(maps.Keys(r.objects)) {
		all = append(all, r.objects[name])
		uids[r.objects[name].Meta().UID] = true
	}
	maps.DeleteFunc(r.accepted, func(uid string, _ map[string]string) bool { return !uids[uid] })
	return all
}

// desired is the status of a resource that is in force. Its config is taken whole or not
// at all: while a spec is refused, what was in force before stays.
func (r *configResources[T]) desired(c T, check func(values map[string]string) error) meta.ConfigStatus {
	values, err := c.ConfigValues()
	if err == nil {
		err = check(values)
	}
	if err != nil {
		before, known := r.accepted[c.Meta().UID]
		if !known {
			before = c.ConfigStatus().Config
		}
		return meta.ConfigStatus{Config: maps.Clone(before), Conditions: ready("False", "InvalidConfig", err.Error())}
	}
	for key, value := range values {
		values[key] = strings.TrimSpace(value)
	}
	if len(values) == 0 {
		values = nil
	}
	r.accepted[c.Meta().UID] = values
	return meta.ConfigStatus{Config: values, Conditions: ready("True", "Reconciled", "")}
}

// conflict is the status of a resource that an older one keeps from being in force.
func (r *configResources[T]) conflict(c T, reason, message string) meta.ConfigStatus {
	delete(r.accepted, c.Meta().UID)
	return meta.ConfigStatus{Conditions: ready("False", reason, message)}
}

// write stores statuses, by resource name, that differ from those that stand there.
func (r *configResources[T]) write(ctx context.Context, statuses map[string]meta.ConfigStatus) {
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		r.writeOne(ctx, r.objects[name], statuses[name])
	}
}

func (r *configResources[T]) writeOne(ctx context.Context, c T, status meta.ConfigStatus) {
	metadata, has := c.Meta(), c.ConfigStatus()
	status.Conditions = stampConditions(r.clock(), metadata.Generation, has.Conditions, status.Conditions)
	status.ObservedGeneration = metadata.Generation
	if maps.Equal(status.Config, has.Config) && status.ObservedGeneration == has.ObservedGeneration &&
		slices.EqualFunc(status.Conditions, has.Conditions, sameCondition) {
		return
	}
	next := c.Clone().(T)
	*next.ConfigStatus() = status
	stored, err := r.store.UpdateStatus(ctx, next)
	kind := string(c.ResourceKind())
	switch {
	case err == nil:
		logReady(r.logger, kind+" "+metadata.Name, has.Conditions, status.Conditions)
		r.note(meta.Event{Type: meta.Modified, Object: stored})
	case errors.Is(err, meta.ErrNotFound), errors.Is(err, meta.ErrConflict):
		// Most likely the deletion, or a newer state, is on its way through the watch;
		// not when the file was put back in time.
		r.again = true
	case ctx.Err() == nil:
		r.again = true
		r.logger.Warn("the status of a resource can't be written; trying again", "kind", kind, "resource", metadata.Name, "error", err)
	}
}
