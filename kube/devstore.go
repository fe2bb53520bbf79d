package kube

import (
	"context"
	"fmt"

	"kaas/meta"
)

// DevStore is the resource store of dev mode: it holds nothing and refuses
// every write with meta.ErrDevMode.
type DevStore struct{}

var _ meta.ResourceStore = DevStore{}

// Get finds nothing.
func (DevStore) Get(_ context.Context, kind meta.Kind, name string) (meta.Object, error) {
	return nil, fmt.Errorf("%s %s: %w", kind, name, meta.ErrNotFound)
}

// List finds nothing.
func (DevStore) List(context.Context, meta.Kind) ([]meta.Object, string, error) { return nil, "0", nil }

// Create is refused.
func (DevStore) Create(context.Context, meta.Object) (meta.Object, error) {
	return nil, meta.ErrDevMode
}

// Update is refused.
func (DevStore) Update(context.Context, meta.Object) (meta.Object, error) {
	return nil, meta.ErrDevMode
}

// UpdateStatus is refused.
func (DevStore) UpdateStatus(context.Context, meta.Object) (meta.Object, error) {
	return nil, meta.ErrDevMode
}

// Patch is refused.
func (DevStore) Patch(context.Context, meta.Kind, string, []byte) (meta.Object, error) {
	return nil, meta.ErrDevMode
}

// Delete is refused.
func (DevStore) Delete(context.Context, meta.Kind, string, string) error { return meta.ErrDevMode }

// Watch is synced at once and never sends a change.
func (DevStore) Watch(ctx context.Context, _ meta.Kind, revision string) (<-chan meta.Event, error) {
	events := make(chan meta.Event, 1)
	if revision == "" {
		events <- meta.Event{Type: meta.Synced, Revision: "0"}
	}
	context.AfterFunc(ctx, func() { close(events) })
	return events, nil
}
