package filestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"kaas/meta"
)

// parseManifest reads one YAML or JSON document with kubectl's rules. The object is
// nil for an empty document and for one of another kind. Status that can't be read
// counts as absent: it is the reconciler's, not the user's. The note says what has
// no effect, most likely by mistake.
func parseManifest(text string) (object meta.Object, note string, err error) {
	raw, err := manifestJSON(text)
	if err != nil || raw == nil {
		return nil, "", err
	}
	var head struct {
		APIVersion any             `json:"apiVersion"`
		Kind       any             `json:"kind"`
		Spec       json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, "", err
	}
	apiVersion, _ := head.APIVersion.(string)
	kindText, _ := head.Kind.(string)
	if apiVersion == "" || kindText == "" {
		return nil, "", errors.New("apiVersion and kind are missing")
	}
	kind := meta.Kind(kindText)
	if group, _, _ := strings.Cut(meta.APIVersion, "/"); strings.HasPrefix(apiVersion, group+"/") && (newObject(kind) == nil || apiVersion != apiVersionOf(kind)) {
		return nil, "", errors.New(noteForeign(apiVersion, kindText)) // a slip, or cut in the middle of being written
	}
	if newObject(kind) == nil || apiVersion != apiVersionOf(kind) {
		return nil, noteForeign(apiVersion, kindText), refuseList(kindText, raw)
	}
	if object, err = objectFromJSON(kind, raw); err != nil {
		return nil, "", err
	}
	return object, noteUnknown(head.Spec, object), nil
}

// refuseList says so when a document is what kubectl shows of several objects of kaas:
// passing it over in silence would lose them.
func refuseList(kind string, raw json.RawMessage) error {
	if !strings.HasSuffix(kind, "List") {
		return nil
	}
	var list struct {
		Items []struct {
			APIVersion string `json:"apiVersion"`
		} `json:"items"`
	}
	group, _, _ := strings.Cut(meta.APIVersion, "/")
	if json.Unmarshal(raw, &list) != nil {
		return nil // a List of somebody else's
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].APIVersion, group+"/") {
			return fmt.Errorf("a %s is not read: write each of its items as a document of its own, behind a line ---", kind)
		}
	}
	return nil
}

// manifestJSON is a document as the JSON text of a mapping with its keys in order; nil
// for an empty one.
func manifestJSON(text string) (json.RawMessage, error) {
	raw, err := sigsyaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("YAML: %s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: "))
	}
	switch {
	case string(raw) == "null":
		return nil, nil
	case raw[0] != '{':
		return nil, errors.New("a resource is a mapping")
	}
	return raw, nil
}

// manifestTree is a document as JSON values; numbers stay exact (json.Number).
func manifestTree(text string) (tree map[string]any, err error) {
	raw, err := manifestJSON(text)
	if err == nil && raw != nil {
		err = decodeJSON(raw, &tree)
	}
	return tree, err
}

// noteForeign returns what to say of a document of another kind, when it looks as
// if it was meant for kaas.
func noteForeign(apiVersion, kind string) string {
	group, _, _ := strings.Cut(meta.APIVersion, "/")
	if !strings.HasPrefix(apiVersion, group+"/") && newObject(meta.Kind(kind)) == nil {
		return ""
	}
	return fmt.Sprintf("apiVersion %s, kind %s (kaas reads %s KafkaTopic, KafkaUser, KafkaBrokerConfig, KafkaGroupConfig and KafkaClientMetrics, and %s Secret)", apiVersion, kind, meta.APIVersion, meta.SecretAPIVersion)
}

// noteUnknown names the first field of spec that kaas does not know. It is no
// error: a newer kaas may have written the file.
func noteUnknown(spec json.RawMessage, object meta.Object) string {
	if object.ResourceKind() == meta.KindSecret || spec == nil {
		return "" // a Secret has no spec, and what else is in it is not kaas' business
	}
	raw, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return ""
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(newObject(object.ResourceKind())); err != nil {
		return fmt.Sprintf("spec of %s %s: %s", object.ResourceKind(), object.Meta().Name, strings.TrimPrefix(err.Error(), "json: "))
	}
	return ""
}

func apiVersionOf(kind meta.Kind) string {
	if kind == meta.KindSecret {
		return meta.SecretAPIVersion
	}
	return meta.APIVersion
}

func newObject(kind meta.Kind) meta.Object {
	switch kind {
	case meta.KindTopic:
		return &meta.KafkaTopic{}
	case meta.KindUser:
		return &meta.KafkaUser{}
	case meta.KindBrokerConfig:
		return &meta.KafkaBrokerConfig{}
	case meta.KindGroupConfig, meta.KindClientMetrics:
		return &meta.KafkaConfig{Kind: kind}
	case meta.KindSecret:
		return &meta.Secret{}
	default:
		return nil
	}
}

func objectFromTree(kind meta.Kind, tree map[string]any) (meta.Object, error) {
	raw, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return objectFromJSON(kind, raw)
}

func objectFromJSON(kind meta.Kind, raw json.RawMessage) (meta.Object, error) {
	object := newObject(kind)
	if object == nil {
		return nil, fmt.Errorf("kind %s: %w", kind, meta.ErrInvalid)
	}
	if err := decodeJSON(raw, object); err != nil {
		var blocks map[string]json.RawMessage
		if err := json.Unmarshal(raw, &blocks); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		delete(blocks, "status")
		if raw, err = json.Marshal(blocks); err != nil {
			return nil, err
		}
		object = newObject(kind)
		if err := decodeJSON(raw, object); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, meta.ExplainType(raw, err))
		}
	}
	if name := object.Meta().Name; !meta.IsResourceName(name) {
		return nil, fmt.Errorf("metadata.name %q is no RFC 1123 subdomain; give the Kafka name in spec (topicName, userName) and a plain name here", name)
	}
	return object, nil
}

func decodeJSON(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// objectTree is an object as JSON values.
func objectTree(object meta.Object) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := decodeJSON(raw, &tree); err != nil {
		return nil, err
	}
	return tree, nil
}

// mergePatch applies a JSON merge patch (RFC 7386) to target, which it may
// change, and returns the result.
func mergePatch(target any, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	tree, ok := target.(map[string]any)
	if !ok {
		tree = make(map[string]any)
	}
	for key, value := range changes {
		if value == nil {
			delete(tree, key)
			continue
		}
		tree[key] = mergePatch(tree[key], value)
	}
	return tree
}

// diffPatch is the merge patch that turns one tree into the other.
func diffPatch(from, to map[string]any) map[string]any {
	patch := make(map[string]any)
	for key, value := range from {
		next, ok := to[key]
		if !ok {
			patch[key] = nil
			continue
		}
		before, isTree := value.(map[string]any)
		after, staysTree := next.(map[string]any)
		switch {
		case isTree && staysTree:
			if inner := diffPatch(before, after); len(inner) > 0 {
				patch[key] = inner
			}
		case !reflect.DeepEqual(value, next):
			patch[key] = next
		}
	}
	for key, value := range to {
		if _, ok := from[key]; !ok {
			patch[key] = value
		}
	}
	return patch
}

// manifest is the order of the blocks in a file that the broker writes. uid,
// resourceVersion and generation are left out: kubectl apply would take the
// first two for preconditions.
type manifest struct {
	APIVersion string          `json:"apiVersion"`
	Kind       meta.Kind       `json:"kind"`
	Metadata   meta.ObjectMeta `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
	Status     json.RawMessage `json:"status,omitempty"`
}

// encodeManifest is the text of a new file.
func encodeManifest(object meta.Object) (string, error) {
	out := manifest{APIVersion: meta.APIVersion, Kind: object.ResourceKind(), Metadata: *object.Meta()}
	out.Metadata.UID, out.Metadata.ResourceVersion, out.Metadata.Generation = "", "", 0
	spec, status, err := encodeSpecStatus(object)
	if err != nil {
		return "", err
	}
	out.Spec, out.Status = spec, status
	whole := any(out)
	if secret, ok := object.(*meta.Secret); ok {
		text := *secret
		text.Metadata = out.Metadata
		whole = text
	}
	raw, err := json.Marshal(whole)
	if err != nil {
		return "", err
	}
	node, err := nodeFromJSON(raw)
	if err != nil {
		return "", err
	}
	return encodeNode(node, 2)
}

// encodeSpecStatus returns both as JSON; a status without content is nil.
func encodeSpecStatus(object meta.Object) (spec, status json.RawMessage, err error) {
	var specValue, statusValue any
	switch o := object.(type) {
	case *meta.KafkaTopic:
		specValue, statusValue = o.Spec, o.Status
	case *meta.KafkaUser:
		specValue, statusValue = o.Spec, o.Status
	case *meta.KafkaBrokerConfig:
		specValue, statusValue = o.Spec, o.Status
	case *meta.KafkaConfig:
		specValue, statusValue = o.Spec, o.Status
	case *meta.Secret:
		specValue, statusValue = []any{o.Type, o.Data, o.StringData}, struct{}{}
	default:
		return nil, nil, fmt.Errorf("%T: %w", object, meta.ErrInvalid)
	}
	if spec, err = json.Marshal(specValue); err != nil {
		return nil, nil, err
	}
	if status, err = json.Marshal(statusValue); err != nil {
		return nil, nil, err
	}
	if string(status) == "{}" {
		status = nil
	}
	return spec, status, nil
}

// setStatus replaces the object's status by its JSON form (nil: none).
func setStatus(object meta.Object, status json.RawMessage) error {
	switch o := object.(type) {
	case *meta.Secret:
	case *meta.KafkaTopic:
		o.Status = meta.KafkaTopicStatus{}
		if status != nil {
			return decodeJSON(status, &o.Status)
		}
	case *meta.KafkaBrokerConfig:
		o.Status = meta.ConfigStatus{}
		if status != nil {
			return decodeJSON(status, &o.Status)
		}
	case *meta.KafkaConfig:
		o.Status = meta.ConfigStatus{}
		if status != nil {
			return decodeJSON(status, &o.Status)
		}
	case *meta.KafkaUser:
		o.Status = meta.KafkaUserStatus{}
		if status != nil {
			return decodeJSON(status, &o.Status)
		}
	default:
		return fmt.Errorf("%T: %w", object, meta.ErrInvalid)
	}
	return nil
}

// nodeFromJSON builds block-style YAML nodes in the order of the JSON text.
func nodeFromJSON(raw []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	node, err := nextNode(decoder)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return node, nil
}

func nextNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	delimiter, ok := token.(json.Delim)
	if !ok {
		return scalarNode(token), nil
	}
	node := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if delimiter == '[' {
		node = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	}
	for decoder.More() {
		child, err := nextNode(decoder) // a mapping's keys are string tokens, so keys and values alternate
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	return node, nil
}

// scalarNode is a JSON scalar as YAML that kubectl reads as the same type.
func scalarNode(value any) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := value.(type) {
	case nil:
		node.Tag, node.Value = "!!null", "null"
	case bool:
		node.Tag, node.Value = "!!bool", fmt.Sprint(v)
	case json.Number:
		node.Tag, node.Value = "!!int", v.String()
		if _, err := v.Int64(); err != nil {
			node.Tag = "!!float"
		}
	default:
		node.Tag, node.Value = "!!str", fmt.Sprint(v)
		if !plainString(node.Value) {
			node.Style = yaml.DoubleQuotedStyle
		}
	}
	return node
}

// plainString says that YAML 1.1 and 1.2 readers both take the text for a string
// without quotes. It is narrower than YAML: kubectl reads 1.1, where on, 1:30
// and 0o7 are no strings.
func plainString(text string) bool {
	if text == "" || text[len(text)-1] == ' ' {
		return false
	}
	switch text {
	case "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF",
		"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL":
		return false
	}
	first := text[0] | 0x20
	if (first < 'a' || first > 'z') && text[0] != '_' && text[0] != '/' {
		return false
	}
	for i := range len(text) {
		c := text[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && c != '_' && c != '-' && c != '.' && c != '/' && c != ' ' && c != ',' && c != '=' && c != '(' && c != ')' {
			return false
		}
	}
	return true
}

func encodeNode(node *yaml.Node, indent int) (string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(indent)
	if err := encoder.Encode(node); err != nil {
		return "", err
	}
	if err := encoder.Close(); err != nil {
		return "", err
	}
	return out.String(), nil
}
