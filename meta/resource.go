package meta

import (
	"maps"
	"slices"
	"time"
)

// APIVersion is the group and version of every resource of kaas.
const APIVersion = "kaas.io/v1alpha1"

// Kind names a type of resource, as it stands in a manifest.
type Kind string

// The kinds that a ResourceStore keeps.
const (
	KindTopic Kind = "KafkaTopic"
	KindUser  Kind = "KafkaUser"
)

// InternalLabel with the value "true" marks the topics that the broker made for
// itself (__consumer_offsets, __transaction_state).
const InternalLabel = "kaas.io/internal"

// ObjectMeta is the part of Kubernetes' metadata that kaas reads or writes.
type ObjectMeta struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	// ResourceVersion is opaque to writers: equal or not equal, nothing else. Who waits
	// for a version may take it for a number that grows (KEP-5504).
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation grows by one with each change of spec.
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
}

func (m ObjectMeta) clone() ObjectMeta {
	m.Labels = maps.Clone(m.Labels)
	m.Annotations = maps.Clone(m.Annotations)
	return m
}

// Object is a resource of any kind.
type Object interface {
	ResourceKind() Kind
	Meta() *ObjectMeta
	Clone() Object
}

// ConditionReady is the condition type that says whether a resource is in force.
const ConditionReady = "Ready"

// Condition is Kubernetes' metav1.Condition.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // "True", "False" or "Unknown"
	Reason             string    `json:"reason"` // CamelCase, for machines
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime,omitzero"`
}

// FindCondition returns the condition of that type, or nil.
func FindCondition(conditions []Condition, conditionType string) *Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// KafkaTopic is a topic as a resource.
type KafkaTopic struct {
	APIVersion string           `json:"apiVersion"`
	Kind       Kind             `json:"kind"`
	Metadata   ObjectMeta       `json:"metadata"`
	Spec       KafkaTopicSpec   `json:"spec"`
	Status     KafkaTopicStatus `json:"status,omitzero"`
}

// KafkaTopicSpec is what the user wants.
type KafkaTopicSpec struct {
	// TopicName is the Kafka name when it differs from metadata.name. Immutable.
	TopicName string `json:"topicName,omitempty"`
	// Partitions nil means the broker's num.partitions, fixed when the topic is
	// first reconciled.
	Partitions *int32 `json:"partitions,omitempty"`
	// Replicas is accepted and has no effect: the volume is the copy.
	Replicas *int32 `json:"replicas,omitempty"`
	// Config holds overrides under Kafka's dotted or the camelCase names; values
	// are strings, numbers (json.Number), booleans or lists of them.
	Config map[string]any `json:"config,omitempty"`
}

// KafkaTopicStatus is what the reconciler found and did.
type KafkaTopicStatus struct {
	TopicID UUID `json:"topicId,omitzero"`
	// TopicName is the Kafka name that the topic was made with.
	TopicName      string `json:"topicName,omitempty"`
	PartitionCount int32  `json:"partitionCount,omitempty"`
	// Config holds the overrides in force, under dotted names. It lags behind
	// spec.config while that is refused.
	Config             map[string]string `json:"config,omitempty"`
	ObservedGeneration int64             `json:"observedGeneration,omitempty"`
	Conditions         []Condition       `json:"conditions,omitempty"`
}

// NewKafkaTopic returns a resource for a topic of that Kafka name.
func NewKafkaTopic(kafkaName string) *KafkaTopic {
	topic := &KafkaTopic{APIVersion: APIVersion, Kind: KindTopic}
	topic.Metadata.Name = TopicResourceName(kafkaName)
	if topic.Metadata.Name != kafkaName {
		topic.Spec.TopicName = kafkaName
	}
	return topic
}

// ResourceKind implements Object.
func (t *KafkaTopic) ResourceKind() Kind { return KindTopic }

// Meta implements Object.
func (t *KafkaTopic) Meta() *ObjectMeta { return &t.Metadata }

// Clone implements Object.
func (t *KafkaTopic) Clone() Object { return t.Copy() }

// Copy is a deep copy.
func (t *KafkaTopic) Copy() *KafkaTopic {
	c := *t
	c.Metadata = t.Metadata.clone()
	c.Spec.Partitions = clonePointer(t.Spec.Partitions)
	c.Spec.Replicas = clonePointer(t.Spec.Replicas)
	c.Spec.Config = cloneConfig(t.Spec.Config)
	c.Status.Config = maps.Clone(t.Status.Config)
	c.Status.Conditions = slices.Clone(t.Status.Conditions)
	return &c
}

// KafkaName is the topic's name on the wire.
func (t *KafkaTopic) KafkaName() string {
	if t.Spec.TopicName != "" {
		return t.Spec.TopicName
	}
	return t.Metadata.Name
}

// Ready says that the topic is in force as its spec says. A topic whose latest
// edit was refused (fewer partitions, a bad config) is not Ready and yet InForce.
func (t *KafkaTopic) Ready() bool {
	condition := FindCondition(t.Status.Conditions, ConditionReady)
	return condition != nil && condition.Status == "True" && !t.Status.TopicID.IsZero()
}

// InForce returns what a broker serves for this resource: all of it is from
// status, which the reconciler accepted. false: nothing, it was never accepted or
// another resource has its name.
func (t *KafkaTopic) InForce() (TopicInForce, bool) {
	if t.Status.TopicID.IsZero() || t.Status.PartitionCount < 1 || t.Status.TopicName == "" {
		return TopicInForce{}, false
	}
	return TopicInForce{
		Name: t.Status.TopicName, ID: t.Status.TopicID, PartitionCount: t.Status.PartitionCount,
		Config: maps.Clone(t.Status.Config), Internal: t.Internal(),
	}, true
}

// ClaimedName is the Kafka name that the resource stands for: the one that its
// topic was made with, if it was; a spec that names another one now is refused.
func (t *KafkaTopic) ClaimedName() string {
	if !t.Status.TopicID.IsZero() && t.Status.TopicName != "" {
		return t.Status.TopicName
	}
	return t.KafkaName()
}

// TopicInForce is a topic as it is to be served.
type TopicInForce struct {
	Name           string
	ID             UUID
	PartitionCount int32
	Config         map[string]string // overrides, dotted names
	Internal       bool
}

// Internal says that the broker made the topic for itself.
func (t *KafkaTopic) Internal() bool { return t.Metadata.Labels[InternalLabel] == "true" }

// KafkaUser is a principal as a resource. Its spec is kept as it was written
// until the rooms that read it are there.
type KafkaUser struct {
	APIVersion string          `json:"apiVersion"`
	Kind       Kind            `json:"kind"`
	Metadata   ObjectMeta      `json:"metadata"`
	Spec       KafkaUserSpec   `json:"spec"`
	Status     KafkaUserStatus `json:"status,omitzero"`
}

// KafkaUserSpec is what the user resource asks for.
type KafkaUserSpec struct {
	// UserName is the Kafka name when it is no resource name.
	UserName       string         `json:"userName,omitempty"`
	Authentication map[string]any `json:"authentication,omitempty"`
	Authorization  Raw            `json:"authorization,omitempty"` // tens of thousands of ACLs, perhaps
	Quotas         map[string]any `json:"quotas,omitempty"`
}

// KafkaUserStatus is what the reconciler found and did.
type KafkaUserStatus struct {
	// Secret is the one that the password came from, or was generated into.
	Secret string `json:"secret,omitempty"`
	// PasswordCheck tells whether that Secret was edited since: keys of its password
	// with a salt of their own, as hard to guess from as the credential itself.
	PasswordCheck      map[string]any `json:"passwordCheck,omitempty"`
	ObservedGeneration int64          `json:"observedGeneration,omitempty"`
	Conditions         []Condition    `json:"conditions,omitempty"`
}

// ResourceKind implements Object.
func (u *KafkaUser) ResourceKind() Kind { return KindUser }

// Meta implements Object.
func (u *KafkaUser) Meta() *ObjectMeta { return &u.Metadata }

// Clone implements Object.
func (u *KafkaUser) Clone() Object {
	c := *u
	c.Metadata = u.Metadata.clone()
	c.Spec.Authentication = cloneConfig(u.Spec.Authentication)
	c.Spec.Quotas = cloneConfig(u.Spec.Quotas)
	c.Status.PasswordCheck = cloneConfig(u.Status.PasswordCheck)
	c.Status.Conditions = slices.Clone(u.Status.Conditions)
	return &c
}

// KafkaName is the user's name on the wire, without "User:".
func (u *KafkaUser) KafkaName() string {
	if u.Spec.UserName != "" {
		return u.Spec.UserName
	}
	return u.Metadata.Name
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func cloneConfig(config map[string]any) map[string]any {
	if config == nil {
		return nil
	}
	out := make(map[string]any, len(config))
	for key, value := range config {
		out[key] = cloneValue(value)
	}
	return out
}

func cloneValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return cloneConfig(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = cloneValue(v[i])
		}
		return out
	default:
		return value
	}
}
