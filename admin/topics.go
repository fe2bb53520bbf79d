package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// topicResource returns the resource of a topic that this broker serves or that
// is about to be: by the name that the topic would have, else by search, since a
// manifest may call its resource otherwise.
func (a *Admin) topicResource(ctx context.Context, name string) (*meta.KafkaTopic, error) {
	object, err := a.Resources.Get(ctx, meta.KindTopic, meta.TopicResourceName(name))
	if err == nil {
		if topic, ok := object.(*meta.KafkaTopic); ok && standsFor(topic, name) {
			return topic, nil
		}
	} else if !errors.Is(err, meta.ErrNotFound) {
		return nil, err
	}
	objects, _, err := a.Resources.List(ctx, meta.KindTopic)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if topic, ok := object.(*meta.KafkaTopic); ok && standsFor(topic, name) {
			return topic, nil
		}
	}
	return nil, fmt.Errorf("topic %s: %w", name, meta.ErrNotFound)
}

// standsFor says whether the resource is the one in force for the Kafka topic.
func standsFor(topic *meta.KafkaTopic, name string) bool {
	inForce, ok := topic.InForce()
	return ok && inForce.Name == name
}

// takenNames finds names that collide (meta.TopicNamesCollide) with topics that are
// served or that the same request makes. Folding all names once, and only when
// there is something to fold, keeps a large request linear.
type takenNames struct {
	image  *meta.Image
	folded map[string]string // folded name → a name; nil until it is needed
	taken  []string          // of the request, not in folded yet
}

func foldTopicName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// take notes a topic that the request makes.
func (n *takenNames) take(name string) { n.taken = append(n.taken, name) }

// collision returns another topic that name collides with, or "".
func (n *takenNames) collision(name string) string {
	if !hasFolded(name) {
		return "" // what folds to it is it
	}
	if n.folded == nil {
		n.folded = make(map[string]string)
		for _, topic := range n.image.Topics() {
			if hasFolded(topic.Name) {
				n.folded[foldTopicName(topic.Name)] = topic.Name
			}
		}
	}
	for _, other := range n.taken {
		if hasFolded(other) {
			n.folded[foldTopicName(other)] = other
		}
	}
	n.taken = n.taken[:0]
	if other := n.folded[foldTopicName(name)]; other != name {
		return other
	}
	return ""
}

func hasFolded(name string) bool {
	for i := range len(name) {
		if name[i] == '.' || name[i] == '_' {
			return true
		}
	}
	return false
}

// newTopicResource is the resource of a topic with all its counts decided.
func (a *Admin) newTopicResource(name string, partitions int32, overrides map[string]string) *meta.KafkaTopic {
	topic := meta.NewKafkaTopic(name)
	topic.Spec.Partitions = &partitions
	if len(overrides) > 0 {
		topic.Spec.Config = make(map[string]any, len(overrides))
		for key, value := range overrides {
			topic.Spec.Config[key] = resourceValue(key, value)
		}
	}
	if meta.IsInternalTopicName(name) {
		topic.Metadata.Labels = map[string]string{meta.InternalLabel: "true"}
	}
	if a.Config.AdminArgoCDEnabled {
		topic.Metadata.Annotations = a.argoCDAnnotations(topic.Metadata.Name)
	}
	return topic
}

// argoCDAnnotations make a topic that was made at run time appear in the tree of the
// Argo CD application without being out of sync or a target of pruning.
func (a *Admin) argoCDAnnotations(resource string) map[string]string {
	group, _, _ := strings.Cut(meta.APIVersion, "/")
	return map[string]string{
		"argocd.argoproj.io/tracking-id":     fmt.Sprintf("%s:%s/%s:%s/%s", a.Config.AdminArgoCDApplication, group, meta.KindTopic, a.Config.AdminArgoCDNamespace, resource),
		"argocd.argoproj.io/compare-options": "IgnoreExtraneous",
		"argocd.argoproj.io/sync-options":    "Prune=false",
	}
}

// resourceValue is a topic's config value as it stands in a manifest.
func resourceValue(key, text string) any { return typedValue(config.TopicKey(key), text) }

// createTopic makes the resource. A topic that exists is meta.ErrAlreadyExists.
func (a *Admin) createTopic(ctx context.Context, topic *meta.KafkaTopic) (*meta.KafkaTopic, error) {
	return asResource[*meta.KafkaTopic](a.Resources.Create(ctx, topic))
}

// refusalOf tells whether the reconciler has refused the resource as it was
// written with this generation. "" means: not (yet).
func (a *Admin) refusalOf(ctx context.Context, name string, generation int64) (reason, message string) {
	object, err := a.Resources.Get(ctx, meta.KindTopic, name)
	if err != nil {
		return "", ""
	}
	topic, ok := object.(*meta.KafkaTopic)
	if !ok || topic.Status.ObservedGeneration < generation {
		return "", ""
	}
	condition := meta.FindCondition(topic.Status.Conditions, meta.ConditionReady)
	if condition == nil || condition.Status != "False" {
		return "", ""
	}
	return condition.Reason, condition.Message
}

// refusalCodes maps the reconciler's reasons to the protocol's errors.
var refusalCodes = map[string]*kerr.Error{
	"InvalidConfig":         kerr.InvalidConfig,
	"InvalidTopicName":      kerr.InvalidTopicException,
	"TopicNameCollision":    kerr.InvalidTopicException,
	"TopicNameConflict":     kerr.TopicAlreadyExists,
	"InvalidPartitionCount": kerr.InvalidPartitions,
	"TooManyPartitions":     kerr.InvalidPartitions,
}

func refusalFailure(reason, message string) *failure {
	code := refusalCodes[reason]
	if code == nil {
		code = kerr.UnknownServerError
	}
	return &failure{code, message}
}

// pendingTopic is a created resource whose topic the image does not show yet.
type pendingTopic struct {
	name     string
	resource *meta.KafkaTopic
	failure  *failure // set when the reconciler refused it
}

func (p *pendingTopic) servedIn(image *meta.Image) *meta.Topic {
	topic := image.Topic(p.name)
	if topic == nil || int32(len(topic.Partitions)) < *p.resource.Spec.Partitions {
		return nil
	}
	return topic
}

// awaitTopics waits until the image shows all topics. One that the reconciler
// refused gets its failure, and its resource is removed again: nothing is left
// half-made. When the time is over the rest is simply not served yet.
func (a *Admin) awaitTopics(ctx context.Context, pending []*pendingTopic) {
	poll := time.Duration(limits.AdminRefusalPollMs) * time.Millisecond
	for {
		open := func(image *meta.Image) bool {
			for _, p := range pending {
				if p.failure == nil && p.servedIn(image) == nil {
					return true
				}
			}
			return false
		}
		slice, cancel := context.WithTimeout(ctx, poll)
		done := a.await(slice, func(image *meta.Image) bool { return !open(image) })
		cancel()
		if done || ctx.Err() != nil {
			return
		}
		image := a.Images.Load()
		for _, p := range pending {
			if p.failure != nil || p.servedIn(image) != nil {
				continue
			}
			metadata := &p.resource.Metadata
			if reason, message := a.refusalOf(ctx, metadata.Name, metadata.Generation); reason != "" {
				p.failure = refusalFailure(reason, message)
				if err := a.Resources.Delete(ctx, meta.KindTopic, metadata.Name, metadata.UID); err != nil {
					a.Logger.Warn("the resource of a refused topic can't be removed", "topic", p.name, "error", err)
				}
			}
		}
		poll = min(2*poll, limits.AdminRefusalPollMaxMs*time.Millisecond)
	}
}

// topicCreator implements meta.TopicCreator over the resource store.
type topicCreator struct{ admin *Admin }

// TopicCreator makes topics for the broker's own needs.
func (a *Admin) TopicCreator() meta.TopicCreator { return topicCreator{a} }

// EnsureTopic implements meta.TopicCreator.
func (c topicCreator) EnsureTopic(ctx context.Context, name string, partitions int32, overrides map[string]string) error {
	a := c.admin
	if a.Images.Load().Topic(name) != nil {
		return nil
	}
	if err := meta.ValidateTopicName(name); err != nil {
		return fmt.Errorf("%w: %w", err, meta.ErrInvalid)
	}
	if other := (&takenNames{image: a.Images.Load()}).collision(name); other != "" {
		return fmt.Errorf("topic '%s' collides with existing topic: %s: %w", name, other, meta.ErrInvalid)
	}
	if _, err := config.ParseTopic(a.Config, overrides); err != nil {
		return fmt.Errorf("topic %s: %w: %w", name, err, meta.ErrInvalid)
	}
	if partitions == -1 {
		partitions = a.Config.NumPartitions
	}
	topic := a.newTopicResource(name, partitions, overrides)
	if !meta.IsInternalTopicName(name) { // without its own topics the broker does not work
		if denied := a.vetCreation(nil, false, topic, a.Config.DefaultReplicationFactor); denied != nil {
			return fmt.Errorf("topic %s: %w: %w", name, denied, meta.ErrInvalid)
		}
	}
	created, err := a.createTopic(ctx, topic)
	if err != nil && !errors.Is(err, meta.ErrAlreadyExists) {
		return err
	}
	if created == nil {
		created = topic // somebody else makes it; any partition count will do
	}
	for poll := time.Duration(limits.AdminRefusalPollMs) * time.Millisecond; ; poll = min(2*poll, limits.AdminRefusalPollMaxMs*time.Millisecond) {
		slice, cancel := context.WithTimeout(ctx, poll)
		err := a.Images.Await(slice, func(image *meta.Image) bool { return image.Topic(name) != nil })
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("topic %s is not served yet: %w", name, ctx.Err())
		}
		if reason, message := a.refusalOf(ctx, created.Metadata.Name, created.Metadata.Generation); reason != "" {
			if created.Metadata.UID != "" { // ours: nothing is left half-made
				if err := a.Resources.Delete(ctx, meta.KindTopic, created.Metadata.Name, created.Metadata.UID); err != nil {
					a.Logger.Warn("the resource of a refused topic can't be removed", "topic", name, "error", err)
				}
			}
			return fmt.Errorf("topic %s is refused (%s): %s: %w", name, reason, message, meta.ErrInvalid)
		}
	}
}
