package kube

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
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
	configResources[*meta.KafkaBrokerConfig]

	// applied is what Apply was told last.
	applied [2]map[string]string
	started bool
}

// StartBrokerConfig returns when what is in force has been applied once.
func StartBrokerConfig(ctx context.Context, o BrokerConfigOptions) (*BrokerConfigReconciler, error) {
	r := &BrokerConfigReconciler{options: o, configResources: newConfigResources[*meta.KafkaBrokerConfig](o.Store, o.Logger, o.Clock)}
	var err error
	r.follower, err = startFollower(ctx, o.Store, o.Logger, meta.KindBrokerConfig, r)
	return r, err
}

// reconcile decides what is in force, applies it and then says so in status: who
// reads the status finds it done.
func (r *BrokerConfigReconciler) reconcile(ctx context.Context) (again bool) {
	r.again = false
	all := make([]meta.Object, 0, len(r.objects))
	for _, c := range r.sorted() {
		all = append(all, c)
	}
	var layers [2]map[string]string
	statuses := make(map[string]meta.ConfigStatus)
	for i, id := range []*int32{nil, &r.options.NodeID} {
		holder := meta.BrokerConfigFor(all, id)
		for _, object := range all {
			c := object.(*meta.KafkaBrokerConfig)
			switch {
			case !c.For(id):
			case c == holder:
				statuses[c.Metadata.Name] = r.desired(c, func(values map[string]string) error { return r.options.Check(id != nil, values) })
				layers[i] = statuses[c.Metadata.Name].Config
			default:
				statuses[c.Metadata.Name] = r.conflict(c, "BrokerConfigConflict",
					fmt.Sprintf("the older KafkaBrokerConfig %s speaks of the same brokers; merge the two", holder.Metadata.Name))
			}
		}
	}
	if !r.started || !maps.Equal(layers[0], r.applied[0]) || !maps.Equal(layers[1], r.applied[1]) {
		r.options.Apply(layers[0], layers[1])
		r.applied, r.started = layers, true
	}
	r.write(ctx, statuses)
	return r.again
}
