package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"kaas/meta"
)

// ConfigOptions wires a ConfigReconciler.
type ConfigOptions struct {
	Kind   meta.Kind // KindGroupConfig or KindClientMetrics
	Store  meta.ResourceStore
	Logger *slog.Logger
	Clock  func() time.Time // nil: time.Now
	// Check refuses values; the error names key, value and what is allowed.
	Check func(name string, values map[string]string) error
	// Apply puts all in force; it is called before StartConfigs returns and after each
	// change, never concurrently. It owns its argument.
	Apply func(meta.NamedConfigs)
}

// ConfigReconciler puts the configs of groups, or those of client metrics, in force.
type ConfigReconciler struct {
	options ConfigOptions
	*follower

	objects map[string]*meta.KafkaConfig // by resource name
	applied meta.NamedConfigs
	started bool
	again   bool // a status could not be written
}

// StartConfigs returns when what is in force has been applied once.
func StartConfigs(ctx context.Context, o ConfigOptions) (*ConfigReconciler, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &ConfigReconciler{options: o}
	var err error
	r.follower, err = startFollower(ctx, o.Store, o.Logger, o.Kind, r)
	return r, err
}

func (r *ConfigReconciler) forget() { r.objects = make(map[string]*meta.KafkaConfig) }

func (r *ConfigReconciler) note(event meta.Event) {
	c, ok := event.Object.(*meta.KafkaConfig)
	switch {
	case !ok:
	case event.Type == meta.Deleted:
		delete(r.objects, c.Metadata.Name)
	default:
		r.objects[c.Metadata.Name] = c
	}
}

// reconcile decides what is in force, applies it and then says so in status: who
// reads the status finds it done.
func (r *ConfigReconciler) reconcile(ctx context.Context) (again bool) {
	r.again = false
	byName := make(map[string][]meta.Object)
	for _, resource := range slices.Sorted(maps.Keys(r.objects)) {
		c := r.objects[resource]
		byName[c.KafkaName()] = append(byName[c.KafkaName()], c)
	}
	inForce := make(meta.NamedConfigs, len(byName))
	statuses := make(map[string]meta.KafkaConfigStatus, len(r.objects))
	for name, objects := range byName {
		holder := meta.ConfigFor(objects, name)
		for _, object := range objects {
			c := object.(*meta.KafkaConfig)
			if c != holder {
				statuses[c.Metadata.Name] = meta.KafkaConfigStatus{Conditions: ready("False", "ConfigConflict",
					fmt.Sprintf("the older %s %s speaks of the same name; merge the two", c.Kind, holder.Metadata.Name))}
				continue
			}
			status := r.desired(c)
			statuses[c.Metadata.Name] = status
			if len(status.Config) > 0 {
				inForce[name] = status.Config
			}
		}
	}
	if !r.started || !maps.EqualFunc(inForce, r.applied, maps.Equal[map[string]string, map[string]string]) {
		r.options.Apply(inForce)
		r.applied, r.started = inForce, true
	}
	for _, resource := range slices.Sorted(maps.Keys(statuses)) {
		r.write(ctx, r.objects[resource], statuses[resource])
	}
	return r.again
}

// desired is taken whole or not at all: while a spec is refused, what was in force
// before stays.
func (r *ConfigReconciler) desired(c *meta.KafkaConfig) meta.KafkaConfigStatus {
	values, err := c.ConfigValues()
	if err == nil {
		err = r.options.Check(c.KafkaName(), values)
	}
	if err != nil {
		return meta.KafkaConfigStatus{Config: maps.Clone(c.Status.Config), Conditions: ready("False", "InvalidConfig", err.Error())}
	}
	for key, value := range values {
		values[key] = strings.TrimSpace(value)
	}
	if len(values) == 0 {
		values = nil
	}
	return meta.KafkaConfigStatus{Config: values, Conditions: ready("True", "Reconciled", "")}
}

func (r *ConfigReconciler) write(ctx context.Context, c *meta.KafkaConfig, status meta.KafkaConfigStatus) {
	status.Conditions = stampConditions(r.options.Clock(), c.Metadata.Generation, c.Status.Conditions, status.Conditions)
	status.ObservedGeneration = c.Metadata.Generation
	if maps.Equal(status.Config, c.Status.Config) && status.ObservedGeneration == c.Status.ObservedGeneration &&
		slices.EqualFunc(status.Conditions, c.Status.Conditions, sameCondition) {
		return
	}
	next := c.Copy()
	next.Status = status
	stored, err := r.options.Store.UpdateStatus(ctx, next)
	switch {
	case err == nil:
		logReady(r.options.Logger, string(c.Kind)+" "+c.Metadata.Name, c.Status.Conditions, status.Conditions)
		r.note(meta.Event{Type: meta.Modified, Object: stored})
	case errors.Is(err, meta.ErrNotFound): // the deletion is on its way through the watch
	case errors.Is(err, meta.ErrConflict):
		r.again = true
	case ctx.Err() == nil:
		r.again = true
		r.options.Logger.Warn("the status of a resource can't be written; trying again", "kind", string(c.Kind), "resource", c.Metadata.Name, "error", err)
	}
}
