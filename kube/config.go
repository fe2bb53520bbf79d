package kube

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
	configResources[*meta.KafkaConfig]

	applied meta.NamedConfigs
	started bool
}

// StartConfigs returns when what is in force has been applied once.
func StartConfigs(ctx context.Context, o ConfigOptions) (*ConfigReconciler, error) {
	r := &ConfigReconciler{options: o, configResources: newConfigResources[*meta.KafkaConfig](o.Store, o.Logger, o.Clock)}
	var err error
	r.follower, err = startFollower(ctx, o.Store, o.Logger, o.Kind, r)
	return r, err
}

// reconcile decides what is in force, applies it and then says so in status: who
// reads the status finds it done.
func (r *ConfigReconciler) reconcile(ctx context.Context) (again bool) {
	r.again = false
	byName := make(map[string][]meta.Object)
	for _, c := range r.sorted() {
		byName[c.KafkaName()] = append(byName[c.KafkaName()], c)
	}
	inForce := make(meta.NamedConfigs, len(byName))
	statuses := make(map[string]meta.ConfigStatus, len(r.objects))
	for name, objects := range byName {
		holder := meta.ConfigFor(objects, name)
		for _, object := range objects {
			c := object.(*meta.KafkaConfig)
			if c != holder {
				statuses[c.Metadata.Name] = r.conflict(c, "ConfigConflict",
					fmt.Sprintf("the older %s %s speaks of the same name; merge the two", c.Kind, holder.Metadata.Name))
				continue
			}
			status := r.desired(c, func(values map[string]string) error { return r.options.Check(name, values) })
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
	r.write(ctx, statuses)
	return r.again
}
