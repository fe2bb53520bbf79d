package meta

import (
	"maps"
	"slices"
)

// Kinds of resources that hold configuration of something that is no resource
// itself: a group, a subscription of client metrics (KIP-714).
const (
	KindGroupConfig   Kind = "KafkaGroupConfig"
	KindClientMetrics Kind = "KafkaClientMetrics"
)

// KafkaConfig is a resource of one of those kinds.
type KafkaConfig struct {
	APIVersion string          `json:"apiVersion"`
	Kind       Kind            `json:"kind"`
	Metadata   ObjectMeta      `json:"metadata"`
	Spec       KafkaConfigSpec `json:"spec"`
	Status     ConfigStatus    `json:"status,omitzero"`
}

// KafkaConfigSpec is what the user wants.
type KafkaConfigSpec struct {
	// Name is that of the group or the subscription when it differs from
	// metadata.name.
	Name string `json:"name,omitempty"`
	// Config is as in a KafkaTopic, with the keys of the kind.
	Config map[string]any `json:"config,omitempty"`
}

// ConfigStatus is what is in force of a resource that holds configuration.
type ConfigStatus struct {
	// Config lags behind spec.config while that is refused.
	Config             map[string]string `json:"config,omitempty"`
	ObservedGeneration int64             `json:"observedGeneration,omitempty"`
	Conditions         []Condition       `json:"conditions,omitempty"`
}

func (s ConfigStatus) clone() ConfigStatus {
	s.Config, s.Conditions = maps.Clone(s.Config), slices.Clone(s.Conditions)
	return s
}

// NewKafkaConfig returns an empty resource for the group or subscription.
func NewKafkaConfig(kind Kind, name string) *KafkaConfig {
	c := &KafkaConfig{APIVersion: APIVersion, Kind: kind}
	prefix := "kaas-group-"
	if kind == KindClientMetrics {
		prefix = "kaas-metrics-"
	}
	if c.Metadata.Name = resourceName(prefix, name); c.Metadata.Name != name {
		c.Spec.Name = name
	}
	return c
}

// ResourceKind implements Object.
func (c *KafkaConfig) ResourceKind() Kind { return c.Kind }

// Meta implements Object.
func (c *KafkaConfig) Meta() *ObjectMeta { return &c.Metadata }

// Clone implements Object.
func (c *KafkaConfig) Clone() Object { return c.Copy() }

// Copy is a deep copy.
func (c *KafkaConfig) Copy() *KafkaConfig {
	out := *c
	out.Metadata = c.Metadata.clone()
	out.Spec.Config = cloneConfig(c.Spec.Config)
	out.Status = c.Status.clone()
	return &out
}

// KafkaName is the name of the group or subscription.
func (c *KafkaConfig) KafkaName() string {
	if c.Spec.Name != "" {
		return c.Spec.Name
	}
	return c.Metadata.Name
}

// ConfigValues returns spec.config under Kafka's dotted names with values as text.
func (c *KafkaConfig) ConfigValues() (map[string]string, error) {
	return configOverrides(c.Spec.Config)
}

// ConfigStatus is the status.
func (c *KafkaConfig) ConfigStatus() *ConfigStatus { return &c.Status }

// ConfigFor picks the resource that counts for a name among several: the oldest,
// then by name of the resource. nil when there is none.
func ConfigFor(objects []Object, name string) *KafkaConfig {
	var found *KafkaConfig
	for _, object := range objects {
		c, ok := object.(*KafkaConfig)
		if !ok || c.KafkaName() != name {
			continue
		}
		if found == nil || CompareAge(c, found) < 0 {
			found = c
		}
	}
	return found
}

// NamedConfigs are the overrides in force, by name of the group or subscription.
// Immutable once in an Image.
type NamedConfigs map[string]map[string]string
