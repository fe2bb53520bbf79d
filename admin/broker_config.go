package admin

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// Dynamic configuration of brokers (KIP-226): KafkaBrokerConfig resources, one for
// each broker and one for all. A change is one create or merge patch; the reply
// waits a moment until it is in force.

// alterBroker changes what is set for this broker (its id) or for all (""). next
// turns the values that are set into those that shall be; it may change its
// argument.
func (a *Admin) alterBroker(r *codec.Request, name string, validateOnly bool, next func(map[string]string) (map[string]string, error)) *failure {
	if !a.allowedCluster(r, auth.OperationAlterConfigs) {
		return fail(kerr.ClusterAuthorizationFailed, "Authorization failed.")
	}
	if a.DropTopic != nil {
		return a.asFailure(meta.ErrDevMode)
	}
	if failure := a.checkBrokerName(name, "Node", "Unexpected broker id, expected %d, but received %s"); failure != nil {
		return failure
	}
	layer := config.ForCluster
	var brokerID *int32
	if name != "" {
		layer, brokerID = config.ForBroker, &a.Config.NodeID
	}
	vet := func(metadata *meta.ObjectMeta, have, want map[string]string) error {
		if denied := a.vetConfigs(r, validateOnly, metadata, "", name, valueChange(have, want), want); denied != nil {
			return denied
		}
		return nil
	}
	for attempt := 0; ; attempt++ {
		err := a.alterBrokerOnce(layer, brokerID, validateOnly, next, vet)
		changedMeanwhile := errors.Is(err, meta.ErrConflict) || errors.Is(err, meta.ErrAlreadyExists)
		if !changedMeanwhile || attempt == limits.AdminConflictRetries {
			return a.asFailure(err)
		}
	}
}

func (a *Admin) alterBrokerOnce(layer config.Layer, brokerID *int32, validateOnly bool,
	next func(map[string]string) (map[string]string, error), vet func(metadata *meta.ObjectMeta, have, want map[string]string) error) error {
	ctx := a.pool.ctx
	objects, _, err := a.Resources.List(ctx, meta.KindBrokerConfig)
	if err != nil {
		return err
	}
	resource := meta.BrokerConfigFor(objects, brokerID)
	have, metadata := make(map[string]string), &meta.ObjectMeta{}
	if resource != nil {
		metadata = &resource.Metadata
		if have, err = resource.ConfigValues(); err != nil {
			return fail(kerr.InvalidConfig, "%s", err)
		}
	}
	want, err := next(maps.Clone(have))
	if err != nil {
		return err
	}
	if err := a.Config.CheckDynamic(layer, want); err != nil {
		if unknown := config.UnknownKeyError(""); errors.As(err, &unknown) {
			return fail(kerr.InvalidConfig, "%s", err) // Kafka keeps what it does not know
		}
		return fail(kerr.InvalidRequest, "%s", err) // ConfigAdminManager.validateBrokerConfigChange
	}
	if err := vet(metadata, have, want); err != nil {
		return err
	}
	if validateOnly || maps.Equal(have, want) {
		return nil
	}
	if resource == nil {
		resource, err = a.createBrokerConfig(ctx, brokerID, want)
	} else {
		resource, err = a.patchBrokerConfig(ctx, resource, want)
	}
	if err != nil {
		return err
	}
	return a.awaitInForce(meta.KindBrokerConfig, &resource.Metadata, kerr.InvalidRequest, func(ctx context.Context) (done bool) {
		a.pool.Park(func() { done = a.Config.AwaitDynamic(ctx, layer, want) == nil })
		return done
	})
}

func (a *Admin) createBrokerConfig(ctx context.Context, brokerID *int32, values map[string]string) (*meta.KafkaBrokerConfig, error) {
	resource := meta.NewKafkaBrokerConfig(brokerID)
	resource.Spec.Config = make(map[string]any, len(values))
	for key, value := range values {
		resource.Spec.Config[key] = brokerValue(key, value)
	}
	return asResource[*meta.KafkaBrokerConfig](a.Resources.Create(ctx, resource))
}

func (a *Admin) patchBrokerConfig(ctx context.Context, resource *meta.KafkaBrokerConfig, values map[string]string) (*meta.KafkaBrokerConfig, error) {
	raw, err := configPatch(resource.Metadata.ResourceVersion, valuesPatch(resource.Spec.Config, values, config.BrokerKey))
	if err != nil {
		return nil, err
	}
	return asResource[*meta.KafkaBrokerConfig](a.Resources.Patch(ctx, meta.KindBrokerConfig, resource.Metadata.Name, raw))
}

// brokerValue is a value as it stands in a manifest.
func brokerValue(key, text string) any { return typedValue(config.BrokerKey(key), text) }

// operateOnBroker applies the operations of an incremental change to the values.
func (a *Admin) operateOnBroker(values map[string]string, operations []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	return operate(values, operations, config.BrokerKey, func(key string) string { return valueIn(a.Config.Describe(), key) }, "Unknown broker config name")
}

// typedValue is a config value as it stands in a manifest: numbers and booleans as
// such when that loses nothing, else text.
func typedValue(known *config.Key, text string) any {
	switch {
	case known == nil:
	case slices.Contains([]config.Type{config.Int, config.Long, config.Short}, known.Type):
		if number, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(number, 10) == text {
			return json.Number(text)
		}
	case known.Type == config.Boolean && (text == "true" || text == "false"):
		return text == "true"
	}
	return text
}
