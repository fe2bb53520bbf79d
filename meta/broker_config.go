package meta

import "fmt"

// KindBrokerConfig names the resource of what changes in a broker's configuration
// while it runs.
const KindBrokerConfig Kind = "KafkaBrokerConfig"

// KafkaBrokerConfig holds dynamic broker configuration: for one broker or, without
// brokerId, for all of them (Kafka's cluster-wide default).
type KafkaBrokerConfig struct {
	APIVersion string                `json:"apiVersion"`
	Kind       Kind                  `json:"kind"`
	Metadata   ObjectMeta            `json:"metadata"`
	Spec       KafkaBrokerConfigSpec `json:"spec"`
	Status     ConfigStatus          `json:"status,omitzero"`
}

// KafkaBrokerConfigSpec is what the user wants.
type KafkaBrokerConfigSpec struct {
	// BrokerID nil means every broker.
	BrokerID *int32 `json:"brokerId,omitempty"`
	// Config is as in a KafkaTopic, with the broker's keys.
	Config map[string]any `json:"config,omitempty"`
}

// NewKafkaBrokerConfig returns an empty resource; brokerID nil is every broker.
func NewKafkaBrokerConfig(brokerID *int32) *KafkaBrokerConfig {
	c := &KafkaBrokerConfig{APIVersion: APIVersion, Kind: KindBrokerConfig}
	c.Metadata.Name = "all-brokers"
	if c.Spec.BrokerID = clonePointer(brokerID); brokerID != nil {
		c.Metadata.Name = fmt.Sprintf("broker-%d", *brokerID)
	}
	return c
}

// ResourceKind implements Object.
func (c *KafkaBrokerConfig) ResourceKind() Kind { return KindBrokerConfig }

// Meta implements Object.
func (c *KafkaBrokerConfig) Meta() *ObjectMeta { return &c.Metadata }

// Clone implements Object.
func (c *KafkaBrokerConfig) Clone() Object { return c.Copy() }

// Copy is a deep copy.
func (c *KafkaBrokerConfig) Copy() *KafkaBrokerConfig {
	out := *c
	out.Metadata = c.Metadata.clone()
	out.Spec.BrokerID = clonePointer(c.Spec.BrokerID)
	out.Spec.Config = cloneConfig(c.Spec.Config)
	out.Status = c.Status.clone()
	return &out
}

// For says whether the resource speaks of that broker alone (id) or of all (nil).
func (c *KafkaBrokerConfig) For(brokerID *int32) bool {
	if brokerID == nil || c.Spec.BrokerID == nil {
		return brokerID == nil && c.Spec.BrokerID == nil
	}
	return *brokerID == *c.Spec.BrokerID
}

// ConfigValues returns spec.config under Kafka's dotted names with values as text.
func (c *KafkaBrokerConfig) ConfigValues() (map[string]string, error) {
	return configOverrides(c.Spec.Config)
}

// ConfigStatus is the status.
func (c *KafkaBrokerConfig) ConfigStatus() *ConfigStatus { return &c.Status }

// BrokerConfigFor picks the resource that counts for a broker (nil: for all) among
// several: the oldest, then by name. nil when there is none.
func BrokerConfigFor(objects []Object, brokerID *int32) *KafkaBrokerConfig {
	var found *KafkaBrokerConfig
	for _, object := range objects {
		c, ok := object.(*KafkaBrokerConfig)
		if !ok || !c.For(brokerID) {
			continue
		}
		if found == nil || CompareAge(c, found) < 0 {
			found = c
		}
	}
	return found
}
