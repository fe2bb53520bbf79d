package crd

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kaas/auth"
	"kaas/meta"
)

// check is what an API server checks of these schemas, without the CEL rules; with a
// real one `make kubernetes` does it.
func (s *Schema) check(path string, value any) error {
	var problems []error
	say := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: "+format, append([]any{path}, args...)...))
	}
	switch v := value.(type) {
	case map[string]any:
		if s.Type != "object" && s.Type != "" {
			say("is an object")
		}
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				say("%s is missing", name)
			}
		}
		for name, inner := range v {
			switch {
			case s.Properties[name] != nil:
				problems = append(problems, s.Properties[name].check(path+"."+name, inner))
			case s.AdditionalProperties != nil:
				problems = append(problems, s.AdditionalProperties.check(path+"."+name, inner))
			case s.Type == "object" && path != "" && path != ".metadata":
				say("%s is not known", name)
			}
		}
	case []any:
		if s.Type != "array" {
			say("is a list")
			break
		}
		if s.MinItems != nil && int64(len(v)) < *s.MinItems {
			say("has %d items", len(v))
		}
		for i := range v {
			problems = append(problems, s.Items.check(fmt.Sprintf("%s[%d]", path, i), v[i]))
		}
	case string:
		if s.Type != "string" && s.Type != "" {
			say("is text")
		}
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) || len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			say("may not be %q", v)
		}
		if s.MinLength != nil && int64(len(v)) < *s.MinLength || s.MaxLength != nil && int64(len(v)) > *s.MaxLength {
			say("has %d characters", len(v))
		}
		if _, err := base64.StdEncoding.DecodeString(v); s.Format == "byte" && err != nil {
			say("%v", err)
		}
	case float64:
		if s.Type != "integer" && s.Type != "number" && s.Type != "" {
			say("is a number")
		}
		if s.Minimum != nil && (v < float64(*s.Minimum) || s.ExclusiveMinimum && v == float64(*s.Minimum)) || s.Maximum != nil && v > float64(*s.Maximum) {
			say("may not be %v", v)
		}
	}
	matches := len(s.AnyOf) == 0
	for _, one := range s.AnyOf {
		matches = matches || one.check(path, value) == nil
	}
	if !matches {
		say("is none of what it may be")
	}
	return errors.Join(problems...)
}

func tree(t *testing.T, value any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func userOf(t *testing.T, spec string) *meta.KafkaUser {
	t.Helper()
	user := &meta.KafkaUser{Metadata: meta.ObjectMeta{Name: "u"}}
	if err := yaml.Unmarshal([]byte(spec), &user.Spec); err != nil {
		t.Fatal(err)
	}
	return user
}

// What kaas writes into users passes, and nothing of it is unknown.
func TestUsersAsWritten(t *testing.T) {
	t.Parallel()
	schema := SchemaOf(meta.KindUser)
	keys, err := auth.NewScramKeys("secret")
	if err != nil {
		t.Fatal(err)
	}
	user := meta.KafkaUser{Spec: meta.KafkaUserSpec{
		UserName:       "CN=app",
		Authentication: map[string]any{"type": auth.TypeScramSHA512, "scram": keys},
		Quotas:         map[string]any{"producerMaxByteRatePerBroker": 1, "consumerMaxByteRatePerBroker": 0.5, "requestPercentage": 200},
	}, Status: meta.KafkaUserStatus{Secret: "u", PasswordCheck: keys, ObservedGeneration: 1, Conditions: []meta.Condition{{Type: "Ready", Status: "True"}}}}
	for resource := range auth.ResourceType(127) {
		for operation := range auth.Operation(127) {
			if !auth.Grantable(resource) || !operation.Valid() {
				continue
			}
			name := "x"
			if resource == auth.ResourceCluster {
				name = auth.ClusterName
			}
			for _, permission := range []auth.Permission{auth.PermissionAllow, auth.PermissionDeny} {
				for _, pattern := range []auth.PatternType{auth.PatternLiteral, auth.PatternPrefixed} {
					b := auth.Binding{Resource: auth.Resource{Type: resource, Name: name, Pattern: pattern}, Host: "*", Operation: operation, Permission: permission}
					if _, err := auth.AddBindings(&user, []auth.Binding{b}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if _, err := auth.ParseUser(&user); err != nil {
		t.Fatal(err)
	}
	if err := schema.check("", tree(t, user)); err != nil {
		t.Error(err)
	}
}

// A user is good for kaas exactly if it is good for the schema: what one side learns
// and the other does not fails here.
func TestUsersAreJudgedAlike(t *testing.T) {
	t.Parallel()
	schema := SchemaOf(meta.KindUser)
	key := base64.StdEncoding.EncodeToString(make([]byte, 64))
	scram := func(text string) string {
		return `{authentication: {type: scram-sha-512, scram: {` + strings.ReplaceAll(text, "KEY", key) + `}}}`
	}
	acl := func(text string) string { return `{authorization: {type: simple, acls: [{` + text + `}]}}` }
	for spec, good := range map[string]bool{
		`{}`: true,
		`{authentication: {type: scram-sha-512}}`: true,
		`{authentication: {type: tls}}`:           true,
		`{authentication: {type: tls-external}}`:  true,
		`{authentication: {type: scram-sha-256}}`: false,
		`{authentication: {type: scram-sha-512, password: {valueFrom: {secretKeyRef: {name: s, key: k}}}}}`: true,
		`{authentication: {kind: tls}}`:                                                                                    false,
		scram(`salt: AAAA, storedKey: KEY, serverKey: KEY, iterations: 4096`):                                              true,
		scram(`salt: AAAA, storedKey: KEY, serverKey: KEY, iterations: 4095`):                                              false,
		scram(`salt: AAAA, storedKey: KEY, serverKey: AAAA, iterations: 4096`):                                             false,
		scram(`salt: "", storedKey: KEY, serverKey: KEY, iterations: 4096`):                                                false,
		scram(`salt: "?", storedKey: KEY, serverKey: KEY, iterations: 4096`):                                               false,
		scram(`storedKey: KEY, serverKey: KEY, iterations: 4096`):                                                          false,
		scram(`salt: AAAA, storedKey: KEY, serverKey: KEY, iterations: many`):                                              false,
		scram(`salt: AAAA, storedKey: KEY, serverKey: KEY, iterations: 4096, password: x`):                                 false,
		acl(`resource: {type: topic, name: a}, operations: [Read]`):                                                        true,
		acl(`resource: {type: TOPIC, name: a, patternType: PREFIXED}, operations: [DESCRIBE_CONFIGS], type: DENY`):         true,
		acl(`resource: {type: transactional_id, name: a, patternType: prefix}, operations: [describeconfigs], type: Deny`): true,
		acl(`resource: {type: group, name: a, patternType: match}, operations: [Read]`):                                    false,
		acl(`resource: {type: user, name: a}, operations: [Read]`):                                                         false,
		acl(`resource: {type: topic}, operations: [Read]`):                                                                 false,
		acl(`resource: {type: topic, name: ""}, operations: [Read]`):                                                       false,
		acl(`resource: {name: a}, operations: [Read]`):                                                                     false,
		acl(`operations: [Read]`):                                                   false,
		acl(`resource: {type: cluster}, operations: [Alter]`):                       true,
		acl(`resource: {type: Cluster, name: kafka-cluster}, operations: [Alter]`):  true,
		acl(`resource: {type: cluster, name: "*"}, operations: [Alter]`):            true,
		acl(`resource: {type: cluster, name: mine}, operations: [Alter]`):           false,
		acl(`resource: {type: topic, name: a}, operations: [Reed]`):                 false,
		acl(`resource: {type: topic, name: a}, operations: []`):                     false,
		acl(`resource: {type: topic, name: a}, operations: Read`):                   false,
		acl(`resource: {type: topic, name: a}`):                                     false,
		acl(`resource: {type: topic, name: a}, operation: Read`):                    false,
		acl(`resource: {type: topic, name: a}, operations: [Read], host: ""`):       false,
		acl(`resource: {type: topic, name: a}, operations: [Read], host: 10.0.0.1`): true,
		acl(`resource: {type: topic, name: a}, operations: [Read], type: maybe`):    false,
		`{authorization: {type: complex}}`:                                          false,
		`{authorization: {acl: []}}`:                                                false,
		`{authorization: {acls: none}}`:                                             false,
		`{quotas: {producerMaxByteRatePerBroker: 1, requestPercentage: 0.5}}`:       true,
		`{quotas: {producerMaxByteRatePerBroker: 0}}`:                               false,
		`{quotas: {consumerMaxByteRatePerBroker: -1}}`:                              false,
		`{quotas: {consumerMaxByteRatePerBroker: "1"}}`:                             false,
		`{quotas: {producerByteRate: 1}}`:                                           false,
	} {
		user := userOf(t, spec)
		_, kaas := auth.ParseUser(user)
		kubernetes := schema.check("", tree(t, user))
		if (kaas == nil) != good || (kubernetes == nil) != good {
			t.Errorf("%s: good is %v; kaas says %v, the schema %v", spec, good, kaas, kubernetes)
		}
	}
}

// The definitions have what a user of kubectl looks for, and no part of a resource is
// without an explanation.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	files := Files()
	if len(files) != len(kinds) {
		t.Fatal(slices.Sorted(maps.Keys(files)))
	}
	for path, text := range files {
		var d definition
		if err := yaml.UnmarshalStrict(text, &d); err != nil {
			t.Fatal(path, err)
		}
		if d.Metadata["name"] != d.Spec.Names.Plural+"."+d.Spec.Group || d.Spec.Versions[0].Subresources["status"] == nil || len(d.Spec.Names.ShortNames) != 1 {
			t.Errorf("%s: %+v", path, d.Spec)
		}
	}
	if rules := SchemaOf(meta.KindTopic).Validations; len(rules) != 3 {
		t.Errorf("%+v", rules)
	}
}

func TestFieldWithoutDescriptionIsABug(t *testing.T) {
	t.Parallel()
	for what, rules := range map[string]fieldRules{"is not described": {}, "has no field": {"spec.gone": {doc: "x"}}} {
		all := maps.Clone(kinds[0].rules)
		maps.Copy(all, rules)
		if len(rules) == 0 {
			delete(all, "spec.partitions")
		}
		k := kinds[0]
		k.rules = all
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, what) {
					t.Errorf("%s, want %s", text, what)
				}
			}()
			k.schema()
		}()
	}
}
