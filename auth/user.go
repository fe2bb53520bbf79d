package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"kaas/auth/scram"
	"kaas/internal/limits"
	"kaas/meta"
)

// Authentication types of a KafkaUser.
const (
	TypeScramSHA512 = "scram-sha-512"
	TypeTLS         = "tls"
)

// User is what a KafkaUser says. Immutable.
type User struct {
	Name string // without "User:"
	// Type is spec.authentication.type; "" is no authentication of its own.
	Type       string
	Credential *scram.Credential // nil: cannot log in
	ACLs       []ACL
	Quotas     map[string]float64 // of spec; by wire key; per broker
	// QuotaOverride counts instead of Quotas; nil: there is none.
	QuotaOverride map[string]float64
}

type authenticationSpec struct {
	Type     string          `json:"type"`
	Password json.RawMessage `json:"password"` // the reconciler's business
	Scram    *scramSpec      `json:"scram"`
}

type scramSpec struct {
	Salt       []byte `json:"salt"`
	StoredKey  []byte `json:"storedKey"`
	ServerKey  []byte `json:"serverKey"`
	Iterations int    `json:"iterations"`
}

// ParseUser reads a resource's spec. With an error the user that is returned all the same
// holds what may be in force without harm: the denials that could be read, and
// nothing that lets anybody in.
func ParseUser(resource *meta.KafkaUser) (*User, error) {
	user := &User{Name: resource.KafkaName()}
	problems := []error{user.readAuthentication(resource.Spec.Authentication), user.readAuthorization(resource.Spec.Authorization), user.readQuotas(resource.Spec.Quotas)}
	if err := errors.Join(problems...); err != nil {
		safe := &User{Name: user.Name}
		for _, acl := range user.ACLs {
			if acl.Permission == PermissionDeny {
				safe.ACLs = append(safe.ACLs, acl)
			}
		}
		return safe, err
	}
	return user, nil
}

// remarshal reads a part of spec strictly: a field that is not known is an error,
// since a misspelt one would change who may do what.
func remarshal(part map[string]any, into any) error {
	raw, err := json.Marshal(part)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return meta.ExplainType(raw, err)
	}
	return nil
}

func (u *User) readAuthentication(part map[string]any) error {
	var spec authenticationSpec
	if err := remarshal(part, &spec); err != nil {
		return fmt.Errorf("spec.authentication: %w", err)
	}
	u.Type = spec.Type
	switch spec.Type {
	case TypeScramSHA512, TypeTLS, "tls-external", "":
	default:
		return fmt.Errorf("spec.authentication.type is %q; known are %s and %s", spec.Type, TypeScramSHA512, TypeTLS)
	}
	if spec.Scram == nil || spec.Type != TypeScramSHA512 && spec.Type != "" {
		return nil
	}
	credential := &scram.Credential{Salt: spec.Scram.Salt, StoredKey: spec.Scram.StoredKey, ServerKey: spec.Scram.ServerKey, Iterations: spec.Scram.Iterations}
	if err := credential.Validate(); err != nil {
		return fmt.Errorf("spec.authentication.scram: %w", err)
	}
	u.Credential = credential
	return nil
}

func (u *User) readAuthorization(part meta.Raw) error {
	// A tree of the whole, for as long as it is read: piece by piece takes thrice the time.
	var fields map[string]any
	if part != "" {
		if err := json.Unmarshal([]byte(part), &fields); err != nil {
			return fmt.Errorf("spec.authorization: %w", meta.ExplainType([]byte(part), err))
		}
	}
	entries, ok := fields["acls"].([]any)
	if !ok && fields["acls"] != nil {
		return errNoList
	}
	var problems []error
	for key, value := range fields {
		switch {
		case key == "type" && value != "simple":
			problems = append(problems, fmt.Errorf("spec.authorization.type is %v; only simple is known", value))
		case key != "type" && key != "acls":
			problems = append(problems, fmt.Errorf("spec.authorization: unknown field %q", key))
		}
	}
	u.ACLs = make([]ACL, 0, len(entries))
	for i, entry := range entries {
		acl, err := parseACL(entry)
		if err != nil {
			if len(problems) < 5 { // enough to see what is wrong
				problems = append(problems, fmt.Errorf("spec.authorization.acls[%d]: %w", i, err))
			}
			continue
		}
		u.ACLs = append(u.ACLs, acl)
	}
	return errors.Join(problems...)
}

var errNoList = errors.New("spec.authorization.acls is no list")

// authorizationOf takes spec.authorization apart, as text.
func authorizationOf(part meta.Raw) (fields map[string]json.RawMessage, entries []json.RawMessage, err error) {
	if part == "" {
		return nil, nil, nil
	}
	if err := json.Unmarshal([]byte(part), &fields); err != nil {
		return nil, nil, fmt.Errorf("spec.authorization: %w", meta.ExplainType([]byte(part), err))
	}
	if acls := fields["acls"]; acls != nil {
		if err := json.Unmarshal(acls, &entries); err != nil {
			return nil, nil, errNoList
		}
	}
	return fields, entries, nil
}

// aclText holds the texts of an entry, with defaults.
type aclText struct{ permission, host, resourceType, name, pattern string }

// fields takes the texts of a mapping out; what is not known is an error.
func fields(what string, value any, into map[string]*string) error {
	mapping, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no mapping", what)
	}
	for key, value := range mapping {
		place, known := into[key]
		if !known {
			return fmt.Errorf("%s: unknown field %q", what, key)
		}
		if place == nil || value == nil {
			continue // read elsewhere; null: as if it were not there
		}
		if *place, ok = value.(string); !ok {
			return fmt.Errorf("%s: %s is no text", what, key)
		}
	}
	return nil
}

// parseACL reads an entry.
func parseACL(entry any) (ACL, error) {
	text := aclText{permission: "allow", host: Wildcard, pattern: "literal"}
	if err := fields("the entry", entry, map[string]*string{"type": &text.permission, "host": &text.host, "resource": nil, "operations": nil}); err != nil {
		return ACL{}, err
	}
	mapping := entry.(map[string]any)
	if err := fields("resource", mapping["resource"], map[string]*string{"type": &text.resourceType, "name": &text.name, "patternType": &text.pattern}); err != nil {
		return ACL{}, err
	}
	acl, err := text.parse()
	if err != nil {
		return acl, err
	}
	operations, _ := mapping["operations"].([]any)
	if len(operations) == 0 {
		return acl, errors.New("operations must be a list with at least one")
	}
	acl.Operations = make([]Operation, len(operations))
	for i, name := range operations {
		word, _ := name.(string)
		op, known := operationNames[fold(word)]
		if !known {
			return acl, fmt.Errorf("operation %v is not known", name)
		}
		acl.Operations[i] = op
	}
	return acl, nil
}

func (t *aclText) parse() (ACL, error) {
	acl := ACL{Host: t.host, Resource: Resource{Name: t.name}}
	var known bool
	if acl.Permission, known = permissionNames[fold(t.permission)]; !known {
		return acl, fmt.Errorf("type is %q; known are allow and deny", t.permission)
	}
	if acl.Resource.Type, known = resourceNames[fold(t.resourceType)]; !known {
		return acl, fmt.Errorf("resource.type is %q; known are topic, group, cluster and transactionalId", t.resourceType)
	}
	if acl.Resource.Pattern, known = patternNames[fold(t.pattern)]; !known {
		return acl, fmt.Errorf("resource.patternType is %q; known are literal and prefix", t.pattern)
	}
	if acl.Resource.Type == ResourceCluster {
		if acl.Resource.Name == "" {
			acl.Resource.Name = ClusterName
		}
		if acl.Resource.Name != ClusterName && acl.Resource.Name != Wildcard {
			return acl, fmt.Errorf("resource.name is %q; the cluster's is %s", acl.Resource.Name, ClusterName)
		}
	}
	if acl.Resource.Name == "" || acl.Host == "" {
		return acl, errors.New("resource.name and host must not be empty")
	}
	return acl, nil
}

func (u *User) readQuotas(part map[string]any) (err error) {
	u.Quotas, err = specQuotas(part)
	return err
}

// Names in a manifest are compared without regard to case and underscores, so
// Kafka's (DESCRIBE_CONFIGS) and Strimzi's (DescribeConfigs) are the same.
func fold(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "")
}

// Tables of names. Immutable.
var (
	permissionNames = map[string]Permission{"allow": PermissionAllow, "deny": PermissionDeny}
	patternNames    = map[string]PatternType{"literal": PatternLiteral, "prefix": PatternPrefixed, "prefixed": PatternPrefixed}
	resourceNames   = map[string]ResourceType{"topic": ResourceTopic, "group": ResourceGroup, "cluster": ResourceCluster, "transactionalid": ResourceTransactionalID}
	operationNames  = func() map[string]Operation {
		names := map[string]Operation{}
		for op, name := range operationSpecs {
			names[fold(name)] = op
		}
		return names
	}()
	operationSpecs = map[Operation]string{
		OperationAll: "All", OperationRead: "Read", OperationWrite: "Write", OperationCreate: "Create", OperationDelete: "Delete", OperationAlter: "Alter",
		OperationDescribe: "Describe", OperationClusterAction: "ClusterAction", OperationDescribeConfigs: "DescribeConfigs",
		OperationAlterConfigs: "AlterConfigs", OperationIdempotentWrite: "IdempotentWrite", OperationCreateTokens: "CreateTokens",
		OperationDescribeTokens: "DescribeTokens", OperationTwoPhaseCommit: "TwoPhaseCommit",
	}
	resourceSpecs = map[ResourceType]string{ResourceTopic: "topic", ResourceGroup: "group", ResourceCluster: "cluster", ResourceTransactionalID: "transactionalId"}
)

// Grantable says whether an ACL of a KafkaUser can be about the resource type.
func Grantable(resource ResourceType) bool { return resourceSpecs[resource] != "" }

// Valid says whether an ACL can hold the operation.
func (o Operation) Valid() bool { return operationSpecs[o] != "" }

// SpecOfScram is spec.authentication.scram of a credential.
func SpecOfScram(c *scram.Credential) map[string]any {
	text := base64.StdEncoding.EncodeToString
	return map[string]any{"salt": text(c.Salt), "storedKey": text(c.StoredKey), "serverKey": text(c.ServerKey), "iterations": c.Iterations}
}

// NewScramKeys is spec.authentication.scram of a password, with a new salt.
func NewScramKeys(password string) (map[string]any, error) {
	var salt [24]byte
	rand.Read(salt[:]) // crypto/rand never fails
	credential, err := scram.Derive(password, salt[:], scram.MinIterations)
	if err != nil {
		return nil, err
	}
	return SpecOfScram(credential), nil
}

// ScramKeysFit says whether spec.authentication.scram is that of a password.
func ScramKeysFit(keys map[string]any, password string) bool {
	var spec scramSpec
	if remarshal(keys, &spec) != nil {
		return false
	}
	credential := &scram.Credential{Salt: spec.Salt, StoredKey: spec.StoredKey, ServerKey: spec.ServerKey, Iterations: spec.Iterations}
	return credential.Validate() == nil && credential.Matches(password)
}

// aclsOf returns spec.authorization.acls as it is kept, and each entry parsed.
func aclsOf(resource *meta.KafkaUser) (entries []json.RawMessage, parsed []ACL, err error) {
	if _, entries, err = authorizationOf(resource.Spec.Authorization); err != nil {
		return nil, nil, err
	}
	parsed = make([]ACL, len(entries))
	for i := range entries {
		var entry any
		if err = json.Unmarshal(entries[i], &entry); err == nil {
			parsed[i], err = parseACL(entry)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("spec.authorization.acls[%d]: %w", i, err)
		}
	}
	return entries, parsed, nil
}

// ErrTooManyACLs: a resource holds only so many entries.
var ErrTooManyACLs = errors.New("too many ACLs")

// AddBindings puts bindings into spec.authorization.acls and reports whether that
// changed anything. An entry about the same resource, permission and host takes the
// operation in, as its first match; what is there stays as it is written.
func AddBindings(resource *meta.KafkaUser, bindings []Binding) (changed bool, err error) {
	entries, parsed, err := aclsOf(resource)
	if err != nil {
		return false, err
	}
	type place struct {
		resource   Resource
		permission Permission
		host       string
	}
	at := make(map[place][]int, len(parsed))
	for i := range parsed {
		key := place{parsed[i].Resource, parsed[i].Permission, parsed[i].Host}
		at[key] = append(at[key], i)
	}
	touched := map[int]bool{}
	for i := range bindings {
		b := &bindings[i]
		key := place{b.Resource, b.Permission, b.Host}
		if holds(parsed, at[key], b.Operation) {
			continue
		}
		if len(at[key]) == 0 {
			at[key] = []int{len(parsed)}
			parsed = append(parsed, ACL{Resource: b.Resource, Permission: b.Permission, Host: b.Host})
			entries = append(entries, nil)
		}
		first := at[key][0]
		parsed[first].Operations = append(parsed[first].Operations, b.Operation)
		touched[first] = true
	}
	if len(touched) == 0 {
		return false, nil
	}
	if len(entries) > limits.ACLsPerUser {
		return false, fmt.Errorf("%w: they would be %d entries, at most %d: use prefixed patterns or the wildcard", ErrTooManyACLs, len(entries), limits.ACLsPerUser)
	}
	for i := range touched {
		if entries[i], err = entryOf(entries[i], &parsed[i]); err != nil {
			return false, err
		}
	}
	return true, setACLs(resource, entries)
}

func holds(acls []ACL, at []int, op Operation) bool {
	for _, i := range at {
		for _, have := range acls[i].Operations {
			if have == op {
				return true
			}
		}
	}
	return false
}

// RemoveBindings takes out what a filter matches and returns it. Entries that only
// partly match keep the rest of their operations.
func RemoveBindings(resource *meta.KafkaUser, matches func(*Binding) bool) (removed []Binding, err error) {
	entries, parsed, err := aclsOf(resource)
	if err != nil {
		return nil, err
	}
	principal := UserPrefix + resource.KafkaName()
	kept := entries[:0:0]
	for i := range parsed {
		acl := &parsed[i]
		left := acl.Operations[:0:0]
		for _, op := range acl.Operations {
			b := Binding{acl.Resource, principal, acl.Host, op, acl.Permission}
			if matches(&b) {
				removed = append(removed, b)
			} else {
				left = append(left, op)
			}
		}
		switch {
		case len(left) == len(acl.Operations):
			kept = append(kept, entries[i])
		case len(left) > 0:
			acl.Operations = left
			entry, err := entryOf(entries[i], acl)
			if err != nil {
				return nil, err
			}
			kept = append(kept, entry)
		}
	}
	if len(removed) == 0 {
		return nil, nil
	}
	return removed, setACLs(resource, kept)
}

func setACLs(resource *meta.KafkaUser, entries []json.RawMessage) error {
	fields, _, err := authorizationOf(resource.Spec.Authorization)
	if err != nil {
		return err
	}
	if fields == nil {
		fields = map[string]json.RawMessage{"type": json.RawMessage(`"simple"`)}
	}
	if entries == nil {
		entries = []json.RawMessage{}
	}
	if fields["acls"], err = json.Marshal(entries); err != nil {
		return err
	}
	resource.Spec.Authorization, err = meta.RawOf(fields)
	return err
}

// entryOf writes an entry; of one that exists only the operations change.
func entryOf(existing json.RawMessage, acl *ACL) (json.RawMessage, error) {
	operations := make([]string, len(acl.Operations))
	for i, op := range acl.Operations {
		operations[i] = operationSpecs[op]
	}
	if existing != nil {
		var entry map[string]json.RawMessage
		err := json.Unmarshal(existing, &entry)
		if err == nil {
			entry["operations"], err = json.Marshal(operations)
		}
		if err != nil {
			return nil, err
		}
		return json.Marshal(entry)
	}
	pattern := "literal"
	if acl.Resource.Pattern == PatternPrefixed {
		pattern = "prefix"
	}
	entry := map[string]any{
		"resource":   map[string]any{"type": resourceSpecs[acl.Resource.Type], "name": acl.Resource.Name, "patternType": pattern},
		"operations": operations,
		"host":       acl.Host,
	}
	if acl.Permission == PermissionDeny {
		entry["type"] = "deny"
	}
	return json.Marshal(entry)
}

// Bindings lists a user's ACLs one operation at a time, each once.
func (u *User) Bindings() []Binding {
	var out []Binding
	seen := map[Binding]bool{}
	for i := range u.ACLs {
		acl := &u.ACLs[i]
		for _, op := range acl.Operations {
			b := Binding{acl.Resource, UserPrefix + u.Name, acl.Host, op, acl.Permission}
			if !seen[b] {
				seen[b] = true
				out = append(out, b)
			}
		}
	}
	return out
}
