package meta

import (
	"encoding/base64"
	"maps"
	"strings"
)

// CompareAge orders resources that claim the same Kafka name: the older first,
// then by name, so that everybody finds the same winner.
func CompareAge(a, b Object) int {
	if order := a.Meta().CreationTimestamp.Compare(b.Meta().CreationTimestamp); order != 0 {
		return order
	}
	return strings.Compare(a.Meta().Name, b.Meta().Name)
}

// KindSecret is Kubernetes' Secret. kaas reads passwords of users from it.
const KindSecret Kind = "Secret"

// SecretAPIVersion is the group and version of Secrets.
const SecretAPIVersion = "v1"

// UserAnnotation on a Secret names the KafkaUser that it was generated for; it goes with
// that resource.
const UserAnnotation = "kaas.io/user"

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
