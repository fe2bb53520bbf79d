package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/codec"
	"kaas/meta"
)

// Policy vets a request by named values (policy.Policy).
type Policy interface {
	// Check returns the message of the denial, "" to let the request pass.
	Check(ctx context.Context, variables map[string]any) (denial string)
}

// Policies are asked after authorisation and all other checks, validate_only or
// not. A nil one lets everything pass.
type Policies struct{ CreateTopic, AlterConfig, DeleteTopic Policy }

// vet asks a policy. The values that every policy knows are added here; r is nil
// when the broker itself asks for a topic.
func (a *Admin) vet(policy Policy, r *codec.Request, validateOnly bool, metadata *meta.ObjectMeta, variables map[string]any) *failure {
	variables["principal"], variables["host"], variables["validateOnly"] = "", "", validateOnly
	if r != nil {
		variables["principal"], variables["host"] = r.Session.Principal, r.Session.RemoteHost
	}
	variables["labels"], variables["annotations"] = orEmptyMap(metadata.Labels), orEmptyMap(metadata.Annotations)
	if denial := policy.Check(a.pool.ctx, variables); denial != "" {
		return &failure{kerr.PolicyViolation, denial}
	}
	return nil
}

func orEmptyMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// vetCreation asks create.topic.policy about a topic with all its counts decided.
func (a *Admin) vetCreation(r *codec.Request, validateOnly bool, resource *meta.KafkaTopic, replication int32) *failure {
	if a.Policies.CreateTopic == nil {
		return nil
	}
	overrides, err := resource.ConfigOverrides()
	if err != nil {
		return fail(kerr.InvalidConfig, "%s", err)
	}
	return a.vet(a.Policies.CreateTopic, r, validateOnly, &resource.Metadata, map[string]any{
		"topic": resource.KafkaName(), "partitions": int64(*resource.Spec.Partitions), "replicationFactor": int64(replication), "configs": overrides,
	})
}

// vetConfigs asks alter.config.policy. The change holds nil for keys that are
// removed; effective is what is set after it. Of topic and broker one is "".
func (a *Admin) vetConfigs(r *codec.Request, validateOnly bool, metadata *meta.ObjectMeta, topic, broker string, change configChange, effective map[string]string) *failure {
	resourceType, name := "topic", topic
	if topic == "" {
		resourceType, name = "broker", broker
	}
	return a.vetChange(r, validateOnly, metadata, map[string]any{"resourceType": resourceType, "topic": topic, "broker": broker, "name": name}, change, effective)
}

// vetNamed is vetConfigs for groups and client metrics: resourceType says which, and
// both topic and broker are "".
func (a *Admin) vetNamed(r *codec.Request, k *namedKind, validateOnly bool, metadata *meta.ObjectMeta, name string, have, want map[string]string) *failure {
	resourceType := "group"
	if k.kind == meta.KindClientMetrics {
		resourceType = "client_metrics"
	}
	return a.vetChange(r, validateOnly, metadata, map[string]any{"resourceType": resourceType, "topic": "", "broker": "", "name": name}, valueChange(have, want), want)
}

func (a *Admin) vetChange(r *codec.Request, validateOnly bool, metadata *meta.ObjectMeta, about map[string]any, change configChange, effective map[string]string) *failure {
	if a.Policies.AlterConfig == nil {
		return nil
	}
	configs, removed := map[string]string{}, []string{}
	for _, key := range slices.Sorted(maps.Keys(change)) {
		if value := change[key]; value != nil {
			configs[key] = *value
		} else {
			removed = append(removed, key)
		}
	}
	about["configs"], about["removed"], about["effective"] = configs, removed, orEmptyMap(effective)
	return a.vet(a.Policies.AlterConfig, r, validateOnly, metadata, about)
}

// vetDeletion asks delete.topic.policy.
func (a *Admin) vetDeletion(r *codec.Request, validateOnly bool, name string) *failure {
	if a.Policies.DeleteTopic == nil {
		return nil
	}
	topic := a.Images.Load().Topic(name)
	metadata := &meta.ObjectMeta{}
	if a.DropTopic == nil {
		resource, err := a.topicResource(a.pool.ctx, name)
		if err != nil {
			return a.asFailure(err)
		}
		metadata = &resource.Metadata
	}
	if topic == nil {
		return fail(kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	}
	return a.vet(a.Policies.DeleteTopic, r, validateOnly, metadata, map[string]any{
		"topic": name, "partitions": int64(len(topic.Partitions)), "internal": topic.Internal, "configs": orEmptyMap(topic.Config),
	})
}

// valueChange is what turns one set of values into another.
func valueChange(have, want map[string]string) configChange {
	change := configChange{}
	for key := range have {
		if _, stays := want[key]; !stays {
			change[key] = nil
		}
	}
	for key, value := range want {
		if before, was := have[key]; !was || before != value {
			change[key] = &value
		}
	}
	return change
}
