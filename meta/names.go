package meta

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Names of the topics that brokers make for themselves.
const (
	ConsumerOffsetsTopic  = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
)

// MaxTopicNameLength is Kafka's Topic.MAX_NAME_LENGTH: with the partition's
// suffix the directory's name stays below 255 bytes.
const MaxTopicNameLength = 249

// IsInternalTopicName is Kafka's Topic.isInternal.
func IsInternalTopicName(name string) bool {
	switch name {
	case ConsumerOffsetsTopic, TransactionStateTopic, ShareGroupStateTopic:
		return true
	}
	return false
}

// ValidateTopicName is Kafka's Topic.validate.
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("Topic name is invalid: the empty string is not allowed") //nolint:staticcheck // goes to clients as it is
	case name == "." || name == "..":
		return fmt.Errorf("Topic name is invalid: '%s' is not allowed", name) //nolint:staticcheck // goes to clients as it is
	case len(name) > MaxTopicNameLength:
		return fmt.Errorf("Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, MaxTopicNameLength) //nolint:staticcheck // goes to clients as it is
	}
	for _, r := range name {
		if !isTopicNameRune(r) {
			return fmt.Errorf("Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name) //nolint:staticcheck // goes to clients as it is
		}
	}
	return nil
}

func isTopicNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// TopicNamesCollide is Kafka's Topic.hasCollision: metric names turn dots into
// underscores, so a.b and a_b can't live side by side.
func TopicNamesCollide(a, b string) bool {
	return strings.ReplaceAll(a, ".", "_") == strings.ReplaceAll(b, ".", "_")
}

// TopicResourceName is the metadata.name of the resource of a Kafka topic: the
// name itself when it is an RFC 1123 subdomain, else kaas-topic-<16 hex> of the
// first 8 bytes of its SHA-256.
func TopicResourceName(kafkaName string) string { return resourceName("kaas-topic-", kafkaName) }

// UserResourceName is TopicResourceName for users.
func UserResourceName(kafkaName string) string { return resourceName("kaas-user-", kafkaName) }

func resourceName(prefix, kafkaName string) string {
	// A Kafka name that looks like a hashed one is hashed itself: otherwise it
	// could take the resource name of another topic.
	if IsResourceName(kafkaName) && !strings.HasPrefix(kafkaName, prefix) {
		return kafkaName
	}
	sum := sha256.Sum256([]byte(kafkaName))
	return prefix + hex.EncodeToString(sum[:8])
}

// IsResourceName says whether name is an RFC 1123 subdomain, which Kubernetes
// demands of metadata.name: labels of a-z, 0-9 and '-', that begin and end
// alphanumerically, joined by dots, at most 253 characters.
func IsResourceName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for _, label := range strings.Split(name, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

// ConfigOverrides returns spec.config under Kafka's dotted names with values as
// text. camelCase keys (retentionMs) become dotted (retention.ms); a key given
// in both forms is an error.
func (t *KafkaTopic) ConfigOverrides() (map[string]string, error) {
	return configOverrides(t.Spec.Config)
}

func configOverrides(config map[string]any) (map[string]string, error) {
	out := make(map[string]string, len(config))
	keys := make([]string, 0, len(config))
	for key := range config {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		value := config[key]
		if value == nil {
			continue // null: as if it were not there
		}
		text, err := configText(value)
		if err != nil {
			return nil, fmt.Errorf("config %s: %w", key, err)
		}
		dotted := DottedConfigKey(key)
		if _, twice := out[dotted]; twice {
			return nil, fmt.Errorf("config %s is given twice, dotted and in camelCase", dotted)
		}
		out[dotted] = text
	}
	return out, nil
}

// DottedConfigKey turns retentionMs into retention.ms and leaves dotted keys.
func DottedConfigKey(key string) string {
	if strings.ContainsRune(key, '.') {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('.')
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func configText(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return v.String(), nil
	case int:
		return strconv.Itoa(v), nil
	case int32:
		return strconv.FormatInt(int64(v), 10), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			text, err := configText(v[i])
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	default:
		return "", fmt.Errorf("want a string, number, boolean or list, not %T", value)
	}
}
