package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kaas/meta"
)

// The rules of a topic: what status says for a spec. Nothing here writes.

// ready is the Ready condition; transition time and generation are stamped later.
func ready(status, reason, message string) []meta.Condition {
	return []meta.Condition{{Type: meta.ConditionReady, Status: status, Reason: reason, Message: message}}
}

// refused keeps what is in force and says why the spec is not.
func refused(_ *meta.KafkaTopic, inForce meta.KafkaTopicStatus, reason, message string) meta.KafkaTopicStatus {
	inForce.Conditions = ready("False", reason, message)
	return inForce
}

const reasonTooManyPartitions = "TooManyPartitions"

// refusal is a reason for Ready=False.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// desired is the status of the resource that has its Kafka name. A spec that is
// refused changes nothing of what is in force: it is taken whole or not at all.
func (r *Reconciler) desired(topic *meta.KafkaTopic) meta.KafkaTopicStatus {
	inForce := meta.KafkaTopicStatus{}
	if r.holdsTopic(topic) {
		inForce = meta.KafkaTopicStatus{
			TopicID: topic.Status.TopicID, TopicName: topic.Status.TopicName,
			PartitionCount: topic.Status.PartitionCount, Config: maps.Clone(topic.Status.Config),
		}
		if inForce.TopicName == "" {
			inForce.TopicName = topic.KafkaName()
		}
	}
	next, err := r.accept(topic, inForce)
	if err != nil {
		var because *refusal
		if !errors.As(err, &because) {
			because = &refusal{"Refused", err.Error()}
		}
		return refused(topic, inForce, because.reason, because.message)
	}
	next.Conditions = ready("True", "Reconciled", "")
	return next
}

// accept returns what is in force with this spec, or a refusal.
func (r *Reconciler) accept(topic *meta.KafkaTopic, inForce meta.KafkaTopicStatus) (meta.KafkaTopicStatus, error) {
	name := topic.KafkaName()
	isNew := inForce.TopicID.IsZero()
	if !isNew && name != inForce.TopicName {
		return inForce, &refusal{"TopicNameImmutable", fmt.Sprintf("spec.topicName says %s, but the topic was made as %s and can't be renamed", name, inForce.TopicName)}
	}
	if isNew {
		if err := meta.ValidateTopicName(name); err != nil {
			return inForce, &refusal{"InvalidTopicName", err.Error()}
		}
		if other := r.collision(name); other != "" {
			return inForce, &refusal{"TopicNameCollision", fmt.Sprintf("topic %s collides with %s: names that differ only in '.' and '_' can't live side by side", name, other)}
		}
	}
	overrides, err := topic.ConfigOverrides()
	if err == nil {
		err = r.options.ValidateConfig(overrides)
	}
	if err != nil {
		return inForce, &refusal{"InvalidConfig", err.Error()}
	}
	count, err := r.partitionCount(topic, inForce.PartitionCount)
	if err != nil {
		return inForce, err
	}
	if !isNew && count > inForce.PartitionCount {
		r.accepted(inForce.TopicID, inForce.PartitionCount)
	}
	inForce.TopicName, inForce.PartitionCount, inForce.Config = name, count, overrides
	if len(overrides) == 0 {
		inForce.Config = nil
	}
	if isNew {
		inForce.TopicID = r.mint(name)
	}
	return inForce, nil
}

// mint makes the id of a new topic. When data of that name lies on disk, its id is
// taken: the resource's file was written anew by someone while no broker ran, or it
// could not be read at the start and is whole only now. Not when the topic was
// deleted and its data is about to go; a store that can't tell is asked at the start
// only, when nothing is.
func (r *Reconciler) mint(name string) meta.UUID {
	history, tells := r.options.Store.(meta.TopicHistory)
	if (r.firstPass || tells) && r.options.ExistingTopicID != nil {
		id, ok := r.options.ExistingTopicID(name)
		if ok && !id.IsZero() && len(r.byID[id]) == 0 && !(tells && history.TopicDeleted(id)) {
			r.logger.Info("a topic without an id in its status takes that of its data", "topic", name, "topicId", id.String())
			return id
		}
	}
	id := meta.NewUUID()
	r.accepted(id, 0)
	return id
}

func (r *Reconciler) accepted(id meta.UUID, from int32) {
	if r.options.Accepted != nil {
		r.options.Accepted(id, from)
	}
}

// collision returns the name of a topic in force that name collides with.
func (r *Reconciler) collision(name string) string {
	var found []string
	for _, resource := range r.byFolded[foldName(name)] {
		if inForce, ok := r.topics[resource].InForce(); ok && inForce.Name != name {
			found = append(found, inForce.Name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// foldName maps names that collide (meta.TopicNamesCollide) to one.
func foldName(name string) string { return strings.ReplaceAll(name, ".", "_") }

func (r *Reconciler) partitionCount(topic *meta.KafkaTopic, have int32) (int32, error) {
	want := have
	if want == 0 {
		want = r.options.DefaultPartitions()
	}
	if topic.Spec.Partitions != nil {
		want = *topic.Spec.Partitions
	}
	switch {
	case want < 1:
		return 0, &refusal{"InvalidPartitionCount", fmt.Sprintf("spec.partitions is %d; a topic has at least 1", want)}
	case want < have:
		return 0, &refusal{"InvalidPartitionCount", fmt.Sprintf("spec.partitions is %d, but the topic has %d and partitions can't be taken away", want, have)}
	}
	if r.options.MaxPartitions != nil && want > have {
		bound := int64(r.options.MaxPartitions())
		if sum := r.partitions - int64(have) + int64(want); bound > 0 && sum > bound {
			return 0, &refusal{reasonTooManyPartitions, fmt.Sprintf("spec.partitions is %d; all topics would have %d partitions, the bound is %d", want, sum, bound)}
		}
	}
	return want, nil
}

func sameStatus(a, b *meta.KafkaTopicStatus) bool {
	return a.TopicID == b.TopicID && a.TopicName == b.TopicName && a.PartitionCount == b.PartitionCount &&
		maps.Equal(a.Config, b.Config) && a.ObservedGeneration == b.ObservedGeneration &&
		slices.EqualFunc(a.Conditions, b.Conditions, sameCondition)
}

func sameCondition(a, b meta.Condition) bool {
	sameTime := a.LastTransitionTime.Equal(b.LastTransitionTime)
	a.LastTransitionTime = b.LastTransitionTime // two time.Time may be one moment and yet differ by ==
	return sameTime && a == b
}
