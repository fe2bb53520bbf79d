package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// Configuration of groups (KIP-848, KIP-932, KIP-1071) and of client metrics
// (KIP-714): resources of kinds KafkaGroupConfig and KafkaClientMetrics. A change is
// one create, merge patch or, when nothing is left, delete; the reply waits a moment
// until it is in force.

// namedKind is what differs between the two.
type namedKind struct {
	resourceType kmsg.ConfigResourceType
	kind         meta.Kind
	keys         *config.NamedKeys
	inForce      func(*meta.Image) meta.NamedConfigs
}

var namedKinds = []namedKind{
	{kmsg.ConfigResourceTypeGroupConfig, meta.KindGroupConfig, config.GroupKeys, (*meta.Image).GroupConfigs},
	{kmsg.ConfigResourceTypeClientMetrics, meta.KindClientMetrics, config.ClientMetricsKeys, (*meta.Image).ClientMetrics},
}

func namedKindOf(resourceType kmsg.ConfigResourceType) *namedKind {
	for i := range namedKinds {
		if namedKinds[i].resourceType == resourceType {
			return &namedKinds[i]
		}
	}
	return nil
}

// allowedNamed asks for a group by its name, for client metrics for the cluster, as
// Kafka's AuthHelper and ControllerApis do.
func (a *Admin) allowedNamed(r *codec.Request, op auth.Operation, k *namedKind, name string) *failure {
	if k.kind == meta.KindGroupConfig {
		if !a.allowed(r, op, auth.ResourceGroup, name) {
			return fail(kerr.GroupAuthorizationFailed, "Group authorization failed.")
		}
		return nil
	}
	if !a.allowedCluster(r, op) {
		return fail(kerr.ClusterAuthorizationFailed, "Cluster authorization failed.")
	}
	return nil
}

func (a *Admin) describeNamed(r *codec.Request, k *namedKind, name string) ([]config.Entry, *failure) {
	if failure := a.allowedNamed(r, auth.OperationDescribeConfigs, k, name); failure != nil {
		return nil, failure
	}
	if name == "" {
		return nil, fail(kerr.InvalidRequest, "%s", k.keys.NoName)
	}
	return k.keys.Describe(a.Config, k.inForce(a.Images.Load())[name]), nil
}

// alterNamed changes what is set for a name. next turns the values that are set into
// those that shall be; it may change its argument.
func (a *Admin) alterNamed(r *codec.Request, k *namedKind, name string, validateOnly bool, next func(map[string]string) (map[string]string, error)) *failure {
	if failure := a.allowedNamed(r, auth.OperationAlterConfigs, k, name); failure != nil {
		return failure
	}
	if a.DropTopic != nil {
		return a.asFailure(meta.ErrDevMode)
	}
	if name == "" {
		return fail(kerr.InvalidRequest, "%s", k.keys.AlterNoName)
	}
	for attempt := 0; ; attempt++ {
		err := a.alterNamedOnce(r, k, name, validateOnly, next)
		changedMeanwhile := errors.Is(err, meta.ErrConflict) || errors.Is(err, meta.ErrAlreadyExists) || errors.Is(err, meta.ErrNotFound)
		if !changedMeanwhile || attempt == limits.AdminConflictRetries {
			return a.asFailure(err)
		}
	}
}

func (a *Admin) alterNamedOnce(r *codec.Request, k *namedKind, name string, validateOnly bool, next func(map[string]string) (map[string]string, error)) error {
	ctx := a.pool.ctx
	objects, _, err := a.Resources.List(ctx, k.kind)
	if err != nil {
		return err
	}
	resource := meta.ConfigFor(objects, name)
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
	if err := k.keys.Check(a.Config, want); err != nil {
		code := kerr.InvalidConfig
		if wrong := (*config.RequestError)(nil); errors.As(err, &wrong) {
			code = kerr.InvalidRequest
		}
		return fail(code, "%s", err)
	}
	if denied := a.vetNamed(r, k, validateOnly, metadata, name, have, want); denied != nil {
		return denied
	}
	if validateOnly || maps.Equal(have, want) {
		return nil
	}
	switch {
	case len(want) == 0:
		err = a.Resources.Delete(ctx, k.kind, resource.Metadata.Name, resource.Metadata.UID)
	case resource == nil:
		resource, err = a.createNamed(ctx, k, name, want)
	default:
		resource, err = a.patchNamed(ctx, k, resource, want)
	}
	if err != nil {
		return err
	}
	return a.awaitInForce(k.kind, &resource.Metadata, kerr.InvalidConfig, func(ctx context.Context) bool {
		return a.await(ctx, func(image *meta.Image) bool { return maps.Equal(k.inForce(image)[name], want) })
	})
}

func (a *Admin) createNamed(ctx context.Context, k *namedKind, name string, values map[string]string) (*meta.KafkaConfig, error) {
	resource := meta.NewKafkaConfig(k.kind, name)
	resource.Spec.Config = make(map[string]any, len(values))
	for key, value := range values {
		resource.Spec.Config[key] = typedValue(k.keys.Key(key), value)
	}
	return asResource[*meta.KafkaConfig](a.Resources.Create(ctx, resource))
}

func (a *Admin) patchNamed(ctx context.Context, k *namedKind, resource *meta.KafkaConfig, values map[string]string) (*meta.KafkaConfig, error) {
	raw, err := configPatch(resource.Metadata.ResourceVersion, valuesPatch(resource.Spec.Config, values, k.keys.Key))
	if err != nil {
		return nil, err
	}
	return asResource[*meta.KafkaConfig](a.Resources.Patch(ctx, k.kind, resource.Metadata.Name, raw))
}

// asResource is what a call of the store has made, as its own type.
func asResource[T meta.Object](object meta.Object, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	resource, ok := object.(T)
	if !ok {
		return none, fmt.Errorf("BUG: the store made a %T of a %T", object, none)
	}
	return resource, nil
}

// configPatch is a JSON merge patch of spec.config, made for one version of the resource.
func configPatch(resourceVersion string, patch map[string]any) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": resourceVersion},
		"spec":     map[string]any{"config": patch},
	})
}

// awaitInForce waits until what was stored as written is in force; refused is the code
// when the reconciler does not take it.
func (a *Admin) awaitInForce(kind meta.Kind, written *meta.ObjectMeta, refused *kerr.Error, inForce func(context.Context) bool) error {
	failure := a.pollInForce(inForce, func(ctx context.Context) *failure {
		object, err := a.Resources.Get(ctx, kind, written.Name)
		if err != nil {
			return nil
		}
		now, ok := object.(interface{ ConfigStatus() *meta.ConfigStatus })
		if !ok || now.ConfigStatus().ObservedGeneration < written.Generation {
			return nil
		}
		if condition := meta.FindCondition(now.ConfigStatus().Conditions, meta.ConditionReady); condition != nil && condition.Status == "False" {
			return fail(refused, "%s", condition.Message)
		}
		return nil
	})
	if failure != nil {
		return failure
	}
	return nil
}

// operateOnNamed applies the operations of an incremental change to the values.
func (a *Admin) operateOnNamed(k *namedKind, values map[string]string, operations []kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	for i := range operations {
		operation := &operations[i]
		switch operation.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			if operation.Value == nil {
				return fail(kerr.InvalidRequest, "Null value not supported for : %s", operation.Name)
			}
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			if k.keys.NoLists {
				return fail(kerr.InvalidConfig, "%s", notAList(operation.Op, operation.Name))
			}
		}
	}
	return operate(values, operations, k.keys.Key, func(key string) string { return valueIn(k.keys.Describe(a.Config, nil), key) }, k.keys.Unknown)
}

// operate applies the operations of an incremental change to the values that are
// set. What is not set can be deleted all the same: kafka-reassign-partitions clears
// its throttles so.
func operate(values map[string]string, operations []kmsg.IncrementalAlterConfigsRequestResourceConfig,
	keyOf func(string) *config.Key, inForce func(key string) string, unknown string) error {
	for i := range operations {
		operation := &operations[i]
		key := meta.DottedConfigKey(operation.Name)
		switch operation.Op {
		case kmsg.IncrementalAlterConfigOpSet:
			if operation.Value == nil {
				return fail(kerr.InvalidRequest, "Null value not supported for : %s", operation.Name)
			}
			values[key] = *operation.Value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(values, key)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			known := keyOf(key)
			if known == nil {
				return fail(kerr.InvalidConfig, "%s: %s", unknown, operation.Name)
			}
			if failure := checkListOperation(known, operation); failure != nil {
				return failure
			}
			current, ok := values[key]
			if !ok {
				current = inForce(key)
			}
			values[key] = *changedList(current, operation)
		default:
			return fail(kerr.InvalidRequest, "Unknown operation %d on config %s", int8(operation.Op), operation.Name)
		}
	}
	return nil
}

// valuesPatch turns values under dotted keys into a patch of spec.config, in which
// keys keep the form that the user chose.
func valuesPatch(spec map[string]any, values map[string]string, keyOf func(string) *config.Key) map[string]any {
	written := make(map[string]bool)
	patch := make(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		dotted := meta.DottedConfigKey(key)
		value, keep := values[dotted]
		if !keep || spec[key] == nil {
			patch[key] = nil
			continue
		}
		written[dotted] = true
		patch[key] = typedValue(keyOf(dotted), value)
	}
	for key, value := range values {
		if !written[key] {
			patch[key] = typedValue(keyOf(key), value)
		}
	}
	return patch
}
