package meta

import (
	"encoding/base64"
	"maps"
	"strings"
)

// CompareAge orders resources that claim the same Kafka name: the older first. Of the
// same age, as a file and its copy are, the one first whose name is the one that an
// admin request would give, then by name, so that everybody finds the same winner.
func CompareAge(a, b Object) int {
	if order := a.Meta().CreationTimestamp.Compare(b.Meta().CreationTimestamp); order != 0 {
		return order
	}
	switch plainA, plainB := plainlyNamed(a), plainlyNamed(b); {
	case plainA && !plainB:
		return -1
	case plainB && !plainA:
		return 1
	}
	return strings.Compare(a.Meta().Name, b.Meta().Name)
}

// plainlyNamed says that a resource has the name that an admin request gives to the
// one of its Kafka name.
func plainlyNamed(object Object) bool {
	name := object.Meta().Name
	switch o := object.(type) {
	case *KafkaTopic:
		return name == TopicResourceName(o.ClaimedName())
	case *KafkaUser:
		return name == UserResourceName(o.KafkaName())
	case *KafkaConfig:
		return name == NewKafkaConfig(o.Kind, o.KafkaName()).Metadata.Name
	case *KafkaBrokerConfig:
		return name == NewKafkaBrokerConfig(o.Spec.BrokerID).Metadata.Name
	}
	return false
}

// KindSecret is Kubernetes' Secret. kaas reads passwords of users from it.
const KindSecret Kind = "Secret"

// SecretAPIVersion is the group and version of Secrets.
const SecretAPIVersion = "v1"

// UserAnnotation on a Secret names the KafkaUser that it was generated for; it goes with
// that resource.
const UserAnnotation = "kaas.io/user"

// QuotaOverrideAnnotation on a KafkaUser holds the quotas that AlterClientQuotas has set
// over spec.quotas, as kafka-configs writes them: producer_byte_rate=1048576,request_percentage=50.
const QuotaOverrideAnnotation = "kaas.io/quota-override"

// Secret is Kubernetes' Secret, as far as kaas reads it. It has neither spec nor
// status.
type Secret struct {
	APIVersion string         `json:"apiVersion"`
	Kind       Kind           `json:"kind"`
	Metadata   ObjectMeta     `json:"metadata"`
	Type       string         `json:"type,omitempty"`
	Data       map[string]any `json:"data,omitempty"`       // base64
	StringData map[string]any `json:"stringData,omitempty"` // plain; wins
}

// ResourceKind implements Object.
func (s *Secret) ResourceKind() Kind { return KindSecret }

// Meta implements Object.
func (s *Secret) Meta() *ObjectMeta { return &s.Metadata }

// Clone implements Object.
func (s *Secret) Clone() Object {
	c := *s
	c.Metadata = s.Metadata.clone()
	c.Data, c.StringData = maps.Clone(s.Data), maps.Clone(s.StringData)
	return &c
}

// Value is what a key holds.
func (s *Secret) Value(key string) (value string, ok bool) {
	if text, ok := s.StringData[key].(string); ok {
		return text, true
	}
	text, ok := s.Data[key].(string)
	if !ok {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	return string(raw), err == nil
}
