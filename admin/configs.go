package admin

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// What AlterConfigs and IncrementalAlterConfigs share: one merge patch of
// spec.config per resource, all or nothing.

// configChange is what a request wants of one topic: the new value of each key,
// nil to remove it.
type configChange map[string]*string

// alterResource patches spec of a topic's resource. What to patch is decided
// anew when someone else changed the resource in between. An empty patch writes
// nothing.
func (a *Admin) alterResource(ctx context.Context, name string, decide func(*meta.KafkaTopic) (map[string]any, error)) (*meta.KafkaTopic, error) {
	for attempt := 0; ; attempt++ {
		topic, err := a.topicResource(ctx, name)
		if err != nil {
			return nil, err
		}
		spec, err := decide(topic)
		if err != nil || len(spec) == 0 {
			return topic, err
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": topic.Metadata.ResourceVersion},
			"spec":     spec,
		})
		if err != nil {
			return nil, err
		}
		patched, err := asResource[*meta.KafkaTopic](a.Resources.Patch(ctx, meta.KindTopic, topic.Metadata.Name, patch))
		if err == nil || !errors.Is(err, meta.ErrConflict) || attempt == limits.AdminConflictRetries {
			return patched, err
		}
	}
}

// specPatch turns a change into a patch of spec.config. A key may stand in the
// manifest in its dotted or its camelCase form; the change replaces either.
func specPatch(topic *meta.KafkaTopic, change configChange) map[string]any {
	forms := make(map[string][]string) // dotted key → as written
	for key := range topic.Spec.Config {
		dotted := meta.DottedConfigKey(key)
		forms[dotted] = append(forms[dotted], key)
	}
	patch := make(map[string]any)
	for key, value := range change {
		if value == nil {
			for _, written := range forms[key] {
				patch[written] = nil
			}
			continue
		}
		target := key
		if written := forms[key]; len(written) > 0 && !slices.Contains(written, key) {
			target = written[0]
		}
		for _, written := range forms[key] {
			if written != target {
				patch[written] = nil
			}
		}
		if text, err := overrideText(topic, target); err == nil && text == *value {
			continue
		}
		patch[target] = resourceValue(key, *value)
	}
	if len(patch) == 0 {
		return nil
	}
	return map[string]any{"config": patch}
}

func overrideText(topic *meta.KafkaTopic, written string) (string, error) {
	one := &meta.KafkaTopic{}
	value, ok := topic.Spec.Config[written]
	if !ok {
		return "", meta.ErrNotFound
	}
	one.Spec.Config = map[string]any{written: value}
	overrides, err := one.ConfigOverrides()
	return overrides[meta.DottedConfigKey(written)], err
}

// applied is what overrides a topic has after a change.
func applied(topic *meta.KafkaTopic, change configChange) (map[string]string, error) {
	overrides, err := topic.ConfigOverrides()
	if err != nil {
		return nil, fail(kerr.InvalidConfig, "%s", err)
	}
	for key, value := range change {
		if value == nil {
			delete(overrides, key)
			continue
		}
		overrides[key] = *value
	}
	return overrides, nil
}

// alterTopicConfig validates a change and, unless validateOnly, patches the
// resource and waits a moment until the broker acts on it, so that a client
// reads what it wrote. change is asked with the resource as it is now.
func (a *Admin) alterTopicConfig(r *codec.Request, name string, validateOnly bool, changeFor func(*meta.KafkaTopic) (configChange, error)) *failure {
	switch {
	case name == "":
		return fail(kerr.InvalidRequest, "Default topic resources are not allowed.")
	case !a.allowed(r, auth.OperationAlterConfigs, auth.ResourceTopic, name):
		return fail(kerr.TopicAuthorizationFailed, "Topic authorization failed.")
	case a.DropTopic != nil:
		return a.asFailure(meta.ErrDevMode)
	case a.Images.Load().Topic(name) == nil:
		return fail(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	var after map[string]string
	changed := false
	patched, err := a.alterResource(a.pool.ctx, name, func(topic *meta.KafkaTopic) (map[string]any, error) {
		change, err := changeFor(topic)
		if err != nil {
			return nil, err
		}
		if after, err = applied(topic, change); err != nil {
			return nil, err
		}
		if _, err := config.ParseTopic(a.Config, after); err != nil {
			return nil, fail(kerr.InvalidConfig, "%s", err)
		}
		if denied := a.vetConfigs(r, validateOnly, &topic.Metadata, name, "", change, after); denied != nil {
			return nil, denied
		}
		if validateOnly {
			return nil, nil
		}
		patch := specPatch(topic, change)
		changed = len(patch) > 0
		return patch, nil
	})
	if errors.Is(err, meta.ErrNotFound) {
		return fail(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	if err != nil || !changed {
		return a.asFailure(err)
	}
	return a.awaitConfig(name, patched, after)
}

// awaitConfig waits until the image shows the overrides.
func (a *Admin) awaitConfig(name string, patched *meta.KafkaTopic, overrides map[string]string) *failure {
	return a.pollInForce(func(ctx context.Context) bool {
		return a.await(ctx, func(image *meta.Image) bool {
			topic := image.Topic(name)
			return topic == nil || maps.Equal(topic.Config, overrides)
		})
	}, func(ctx context.Context) *failure {
		if reason, message := a.refusalOf(ctx, patched.Metadata.Name, patched.Metadata.Generation); reason != "" {
			return refusalFailure(reason, message)
		}
		return nil
	})
}

// pollInForce waits until a change is in force; inForce waits for that as long as its
// context. When the reconciler refuses it, that is the answer; when it is slow, the
// change is accepted all the same.
func (a *Admin) pollInForce(inForce func(context.Context) bool, refusal func(context.Context) *failure) *failure {
	ctx, cancel := context.WithTimeout(a.pool.ctx, limits.AdminConfigWaitMs*time.Millisecond)
	defer cancel()
	for poll := time.Duration(limits.AdminRefusalPollMs) * time.Millisecond; ; poll = min(2*poll, limits.AdminRefusalPollMaxMs*time.Millisecond) {
		slice, stop := context.WithTimeout(ctx, poll)
		done := inForce(slice)
		stop()
		if done || ctx.Err() != nil {
			return nil
		}
		if refused := refusal(ctx); refused != nil {
			return refused
		}
	}
}

// checkBrokerName says whether a request may name this broker resource.
// Kafka's words for it differ between requests.
func (a *Admin) checkBrokerName(name, what, format string) *failure {
	if name == "" {
		return nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return fail(kerr.InvalidRequest, "%s id must be an integer, but it is: %s", what, name)
	}
	if int32(id) != a.Config.NodeID {
		return fail(kerr.InvalidRequest, format, a.Config.NodeID, name)
	}
	return nil
}

// alterLogger changes the level of the broker's log.
func (a *Admin) alterLogger(r *codec.Request, name string, validateOnly bool, levels map[string]string) *failure {
	if !a.allowedCluster(r, auth.OperationAlterConfigs) {
		return fail(kerr.ClusterAuthorizationFailed, "Authorization failed.")
	}
	if failure := a.checkLogger(name); failure != nil {
		return failure
	}
	for logger, level := range levels {
		if logger != rootLogger {
			return fail(kerr.InvalidConfig, "Logger %s does not exist!", logger)
		}
		parsed, ok := parseLevel(level)
		if !ok {
			return fail(kerr.InvalidConfig, "Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are DEBUG, INFO, WARN, ERROR", logger, level)
		}
		if !validateOnly {
			a.LogLevel.Set(parsed)
			a.Logger.Warn("the log level was changed by an admin request", "level", parsed.String(), "principal", r.Session.Principal)
		}
	}
	return nil
}

func (a *Admin) checkLogger(name string) *failure {
	if a.LogLevel == nil {
		return fail(kerr.UnsupportedVersion, "The log level of this broker can't be read or changed.")
	}
	if name == "" {
		return fail(kerr.InvalidRequest, "Broker id must not be empty")
	}
	return a.checkBrokerName(name, "Broker", "Unexpected broker id, expected %d but received %s")
}

// unknownResource answers for a resource type that nobody knows.
func unknownResource(kind kmsg.ConfigResourceType) *failure {
	return fail(kerr.InvalidRequest, "Unknown resource type %d", int8(kind))
}
