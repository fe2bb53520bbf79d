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

// BrokerConfigOptions wires a BrokerConfigReconciler.
type BrokerConfigOptions struct {
	Store  meta.ResourceStore
	Logger *slog.Logger
	Clock  func() time.Time // nil: time.Now
	NodeID int32
	// Check refuses values that can't be set while the broker runs; forBroker: they
	// are for this broker, else for all.
	Check func(forBroker bool, values map[string]string) error
	// Apply puts both layers in force; it is called before StartBrokerConfig returns
	// and after each change, never concurrently.
	Apply func(cluster, broker map[string]string)
}

// BrokerConfigReconciler puts KafkaBrokerConfig resources in force. Resources for
// other brokers are those brokers' business.
type BrokerConfigReconciler struct {
	options BrokerConfigOptions
	*follower

	objects map[string]*meta.KafkaBrokerConfig // by resource name
	// applied is what Apply was told last.
	applied [2]map[string]string
	started bool
	again   bool // a status could not be written
}

// StartBrokerConfig returns when what is in force has been applied once.
func StartBrokerConfig(ctx context.Context, o BrokerConfigOptions) (*BrokerConfigReconciler, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &BrokerConfigReconciler{options: o}
	var err error
	r.follower, err = startFollower(ctx, o.Store, o.Logger, meta.KindBrokerConfig, r)
	return r, err
}

func (r *BrokerConfigReconciler) forget() { r.objects = make(map[string]*meta.KafkaBrokerConfig) }

func (r *BrokerConfigReconciler) note(event meta.Event) {
	c, ok := event.Object.(*meta.KafkaBrokerConfig)
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
func (r *BrokerConfigReconciler) reconcile(ctx context.Context) (again bool) {
	r.again = false
	all := make([]meta.Object, 0, len(r.objects))
	for _, name := range slices.Sorted(maps.Keys(r.objects)) {
		all = append(all, r.objects[name])
	}
	var layers [2]map[string]string
	statuses := make(map[string]meta.KafkaBrokerConfigStatus)
	for i, id := range []*int32{nil, &r.options.NodeID} {
		holder := meta.BrokerConfigFor(all, id)
		for _, object := range all {
			c := object.(*meta.KafkaBrokerConfig)
			switch {
			case !c.For(id):
			case c == holder:
				statuses[c.Metadata.Name] = r.desired(c)
				layers[i] = statuses[c.Metadata.Name].Config
			default:
				statuses[c.Metadata.Name] = meta.KafkaBrokerConfigStatus{Conditions: ready("False", "BrokerConfigConflict",
					fmt.Sprintf("the older KafkaBrokerConfig %s speaks of the same brokers; merge the two", holder.Metadata.Name))}
			}
		}
	}
	if !r.started || !maps.Equal(layers[0], r.applied[0]) || !maps.Equal(layers[1], r.applied[1]) {
		r.options.Apply(layers[0], layers[1])
		r.applied, r.started = layers, true
	}
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		r.write(ctx, r.objects[name], statuses[name])
	}
	return r.again
}

// desired is taken whole or not at all: while a spec is refused, what was in force
// before stays.
func (r *BrokerConfigReconciler) desired(c *meta.KafkaBrokerConfig) meta.KafkaBrokerConfigStatus {
	values, err := c.ConfigValues()
	if err == nil {
		err = r.options.Check(c.Spec.BrokerID != nil, values)
	}
	if err != nil {
		return meta.KafkaBrokerConfigStatus{Config: maps.Clone(c.Status.Config), Conditions: ready("False", "InvalidConfig", err.Error())}
	}
	for key, value := range values {
		values[key] = strings.TrimSpace(value)
	}
	if len(values) == 0 {
		values = nil
	}
	return meta.KafkaBrokerConfigStatus{Config: values, Conditions: ready("True", "Reconciled", "")}
}

func (r *BrokerConfigReconciler) write(ctx context.Context, c *meta.KafkaBrokerConfig, status meta.KafkaBrokerConfigStatus) {
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
		logReady(r.options.Logger, string(meta.KindBrokerConfig)+" "+c.Metadata.Name, c.Status.Conditions, status.Conditions)
		r.note(meta.Event{Type: meta.Modified, Object: stored})
	case errors.Is(err, meta.ErrNotFound): // the deletion is on its way through the watch
	case errors.Is(err, meta.ErrConflict):
		r.again = true
	case ctx.Err() == nil:
		r.again = true
		r.options.Logger.Warn("the status of broker configuration can't be written; trying again", "resource", c.Metadata.Name, "error", err)
	}
}
