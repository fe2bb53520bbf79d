package crd

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"kaas/auth"
	"kaas/auth/scram"
	"kaas/meta"
)

// kinds are all that the resource store keeps but Secret, which Kubernetes has.
var kinds = []resourceKind{
	{
		object: meta.KafkaTopic{}, kind: meta.KindTopic, plural: "kafkatopics", short: "kt",
		doc:   "A topic of Kafka.",
		rules: withStatus(topicRules),
		validations: []Rule{
			{topicName + ".size() <= " + fmt.Sprint(meta.MaxTopicNameLength), fmt.Sprintf("a topic's name has at most %d characters", meta.MaxTopicNameLength)},
			// What was made counts, not what an earlier edit asked for: a refused edit can be
			// taken back.
			{"!has(oldSelf.status) || !has(oldSelf.status.topicName) || " + topicName + " == oldSelf.status.topicName", "a topic can't be renamed: spec.topicName is immutable"},
			{"!has(oldSelf.status) || !has(oldSelf.status.partitionCount) || !has(self.spec) || !has(self.spec.partitions) || self.spec.partitions >= oldSelf.status.partitionCount", "partitions can't be taken away: spec.partitions is less than the topic has"},
		},
		columns: []column{
			{Name: "Topic", Type: "string", JSONPath: ".status.topicName"},
			{Name: "Partitions", Type: "integer", JSONPath: ".status.partitionCount"},
		},
	},
	{
		object: meta.KafkaUser{}, kind: meta.KindUser, plural: "kafkausers", short: "ku",
		doc:   "A user of Kafka: its login, what it may do, and its quotas.",
		rules: withStatus(userRules),
		columns: []column{
			{Name: "Authentication", Type: "string", JSONPath: ".spec.authentication.type"},
			{Name: "Secret", Type: "string", JSONPath: ".status.secret"},
		},
	},
	{
		object: meta.KafkaBrokerConfig{}, kind: meta.KindBrokerConfig, plural: "kafkabrokerconfigs", short: "kbc",
		doc: "What of the configuration of one broker, or of all, changes while they run.",
		rules: withStatus(fieldRules{
			"spec.brokerId": {"The broker; absent: all.", func(s *Schema) { s.Minimum = number(0) }},
			"spec.config":   {"Values under Kafka's dotted names or in camelCase: text, numbers, booleans, lists.", config},
			"status.config": {doc: "What is in force."},
		}),
		columns: []column{{Name: "Broker", Type: "integer", JSONPath: ".spec.brokerId"}},
	},
	{
		object: meta.KafkaConfig{}, kind: meta.KindGroupConfig, plural: "kafkagroupconfigs", short: "kgc",
		doc: "The configuration of one consumer group.", rules: withStatus(namedConfigRules("group")),
	},
	{
		object: meta.KafkaConfig{}, kind: meta.KindClientMetrics, plural: "kafkaclientmetrics", short: "kcm",
		doc: "The configuration of one subscription of client metrics (KIP-714).", rules: withStatus(namedConfigRules("subscription")),
	},
}

// topicName is KafkaTopic.KafkaName in CEL.
const topicName = "(has(self.spec) && has(self.spec.topicName) && self.spec.topicName != '' ? self.spec.topicName : self.metadata.name)"

var topicRules = fieldRules{
	"spec.topicName": {"The topic's name when that is no RFC 1123 name. Can't be changed. Absent: metadata.name.", func(s *Schema) {
		s.Pattern, s.MaxLength = "^[a-zA-Z0-9._-]*$", number(meta.MaxTopicNameLength)
		s.Validations = []Rule{{"self != '.' && self != '..'", "'.' and '..' are no names of topics"}}
	}},
	"spec.partitions": {"How many; can grow, never shrink. Absent: the broker's num.partitions at the first reconciliation.", func(s *Schema) {
		s.Minimum, s.Maximum = number(1), number(math.MaxInt32)
	}},
	"spec.replicas":         {doc: "Accepted, without effect: the volume is the copy."},
	"spec.config":           {"Overrides under Kafka's dotted names or in camelCase: text, numbers, booleans, lists.", config},
	"status.topicId":        {doc: "The topic's id, minted once."},
	"status.topicName":      {"The name that the topic was made with.", func(s *Schema) { s.MaxLength = number(meta.MaxTopicNameLength) }},
	"status.partitionCount": {doc: "How many partitions there are."},
	"status.config":         {doc: "The overrides in force, under dotted names."},
}

func namedConfigRules(of string) fieldRules {
	return fieldRules{
		"spec.name":     {doc: "The name of the " + of + " when that is no RFC 1123 name. Absent: metadata.name."},
		"spec.config":   {"Values under Kafka's dotted names or in camelCase: text, numbers, booleans, lists.", config},
		"status.config": {doc: "What is in force."},
	}
}

// withStatus adds what every status has.
func withStatus(rules fieldRules) fieldRules {
	rules = maps.Clone(rules)
	rules["status.observedGeneration"] = fieldRule{doc: "The metadata.generation that the status speaks of."}
	rules["status.conditions"] = fieldRule{doc: "Ready: whether the spec is in force, and why not."}
	return rules
}

var conditionRules = fieldRules{
	"type":               {doc: "What the condition is about."},
	"status":             {"True, False or Unknown.", func(s *Schema) { s.Enum = []string{"True", "False", "Unknown"} }},
	"reason":             {doc: "In one word, for machines."},
	"message":            {doc: "In a sentence, for people."},
	"observedGeneration": {doc: "The metadata.generation that the condition speaks of."},
	"lastTransitionTime": {doc: "When its status changed last."},
}

// config is an object whose values may be of any scalar type, or lists: a structural
// schema has no word for that.
func config(s *Schema) { s.AdditionalProperties = &Schema{PreserveUnknown: true} }

var userRules = fieldRules{
	"spec.userName":        {doc: "The user's name when that is no RFC 1123 name. Absent: metadata.name. '*' is everybody."},
	"spec.authentication":  {"How the user logs in; absent: it can't.", authentication},
	"spec.authorization":   {"What the user may do.", authorization},
	"spec.quotas":          {"Bounds, each of one broker. The annotation kaas.io/quota-override counts instead while it is there.", quotas},
	"status.secret":        {doc: "The Secret that the password came from, or was generated into."},
	"status.passwordCheck": {"Tells whether that Secret was edited.", scramKeys},
}

func authentication(s *Schema) {
	keys := &Schema{Type: "object", Description: "Keys of the password (RFC 5802). Written by kaas and by admin requests."}
	scramKeys(keys)
	s.Properties = map[string]*Schema{
		"type": {Type: "string", Enum: []string{auth.TypeScramSHA512, auth.TypeTLS, "tls-external"}, Description: "Absent: no login, only authorization and quotas."},
		"password": object("Where the password comes from; absent: one is generated.", "valueFrom",
			object("", "secretKeyRef", &Schema{Type: "object", Required: []string{"name"}, Properties: map[string]*Schema{
				"name": {Type: "string", MinLength: number(1), Description: "The Secret."},
				"key":  {Type: "string", Description: "The key in it. Absent: password."},
			}})),
		"scram": keys,
	}
}

func object(doc, name string, property *Schema) *Schema {
	return &Schema{Type: "object", Description: doc, Required: []string{name}, Properties: map[string]*Schema{name: property}}
}

func scramKeys(s *Schema) {
	key := func() *Schema {
		length := number(int64(base64.StdEncoding.EncodedLen(scram.KeyBytes)))
		return &Schema{Type: "string", Format: "byte", MinLength: length, MaxLength: length}
	}
	s.Required = []string{"iterations", "salt", "serverKey", "storedKey"}
	s.Properties = map[string]*Schema{
		"salt": {Type: "string", Format: "byte", MinLength: number(1)}, "storedKey": key(), "serverKey": key(),
		"iterations": {Type: "integer", Minimum: number(scram.MinIterations)},
	}
}

func quotas(s *Schema) {
	above0 := func(doc string) *Schema {
		return &Schema{Type: "number", Minimum: number(0), ExclusiveMinimum: true, Description: doc}
	}
	s.Properties = map[string]*Schema{
		"producerMaxByteRatePerBroker": above0("Bytes a second."),
		"consumerMaxByteRatePerBroker": above0("Bytes a second."),
		"requestPercentage":            above0("Percent of one CPU that its requests may take."),
	}
}

// Names in ACLs are read without regard to case and underscores, so Kafka's
// (DESCRIBE_CONFIGS) and Strimzi's (DescribeConfigs) are both good: no enum says that.
func oneOf(names ...string) string {
	return "(?i)^(" + strings.ToLower(wordBorder.ReplaceAllString(strings.Join(names, "|"), "${1}_?${2}")) + ")$"
}

var wordBorder = regexp.MustCompile("([a-z])([A-Z])")

func authorization(s *Schema) {
	types, operations := writtenNames()
	named := slices.DeleteFunc(slices.Clone(types), func(name string) bool { return name == "cluster" })
	resource := &Schema{
		Type: "object", Required: []string{"type"},
		Properties: map[string]*Schema{
			"type":        {Type: "string", Pattern: oneOf(types...), Description: strings.Join(types, ", ") + "."},
			"name":        {Type: "string", Description: "A name, the beginning of names, or '*'."},
			"patternType": {Type: "string", Pattern: oneOf("literal", "prefix", "prefixed"), Description: "literal (the default) or prefix."},
		},
		AnyOf: []*Schema{
			{Required: []string{"name"}, Properties: map[string]*Schema{"type": {Pattern: oneOf(named...)}, "name": {MinLength: number(1)}}},
			{Properties: map[string]*Schema{"type": {Pattern: oneOf("cluster")}, "name": {Pattern: `^(` + auth.ClusterName + `|\*)?$`}}},
		},
	}
	acl := &Schema{Type: "object", Required: []string{"operations", "resource"}, Properties: map[string]*Schema{
		"resource": resource,
		"operations": {Type: "array", MinItems: number(1), ListType: "atomic", Description: strings.Join(operations, ", ") + ".",
			Items: &Schema{Type: "string", Pattern: oneOf(operations...)}},
		"type": {Type: "string", Pattern: oneOf("allow", "deny"), Description: "allow (the default) or deny."},
		"host": {Type: "string", MinLength: number(1), Description: "An address, or '*' (the default)."},
	}}
	s.Type = "object"
	s.Properties = map[string]*Schema{
		"type": {Type: "string", Enum: []string{"simple"}},
		"acls": {Type: "array", Items: acl, ListType: "atomic"},
	}
}

// writtenNames are the resource types and operations of ACLs as kaas writes them.
func writtenNames() (types, operations []string) {
	bind := func(resource auth.ResourceType, operation auth.Operation) (typeName, operationName string) {
		user := &meta.KafkaUser{}
		_, err := auth.AddBindings(user, []auth.Binding{{Resource: auth.Resource{Type: resource, Name: "x"}, Host: "*", Operation: operation}})
		raw, marshalErr := json.Marshal(user.Spec.Authorization)
		var written struct {
			ACLs []struct {
				Resource   struct{ Type string }
				Operations []string
			}
		}
		if err := errors.Join(err, marshalErr, json.Unmarshal(raw, &written)); err != nil {
			panic("BUG: " + err.Error())
		}
		return written.ACLs[0].Resource.Type, written.ACLs[0].Operations[0]
	}
	for n := range math.MaxInt8 {
		if resource := auth.ResourceType(n); auth.Grantable(resource) {
			name, _ := bind(resource, auth.OperationAll)
			types = append(types, name)
		}
		if operation := auth.Operation(n); operation.Valid() {
			_, name := bind(auth.ResourceTopic, operation)
			operations = append(operations, name)
		}
	}
	return types, operations
}
