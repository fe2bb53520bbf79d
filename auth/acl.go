package auth

import "strings"

// PatternType says how the name of an ACL's resource matches. The numbers are
// those of Kafka's PatternType and travel on the wire.
type PatternType int8

// Pattern types of Kafka 4.x. Match and Any occur in filters only.
const (
	PatternUnknown  PatternType = 0
	PatternAny      PatternType = 1
	PatternMatch    PatternType = 2
	PatternLiteral  PatternType = 3
	PatternPrefixed PatternType = 4
)

// String returns Kafka's name.
func (p PatternType) String() string {
	names := [...]string{"UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"}
	if p < 0 || int(p) >= len(names) {
		return names[0]
	}
	return names[p]
}

// Permission is whether an ACL allows or denies. The numbers are those of Kafka's
// AclPermissionType and travel on the wire.
type Permission int8

// Permissions of Kafka 4.x. Any occurs in filters only.
const (
	PermissionUnknown Permission = 0
	PermissionAny     Permission = 1
	PermissionDeny    Permission = 2
	PermissionAllow   Permission = 3
)

// String returns Kafka's name.
func (p Permission) String() string {
	names := [...]string{"UNKNOWN", "ANY", "DENY", "ALLOW"}
	if p < 0 || int(p) >= len(names) {
		return names[0]
	}
	return names[p]
}

const (
	// Wildcard as the name of a literal pattern matches every name, as the host of
	// an ACL every host.
	Wildcard = "*"
	// UserPrefix begins the principal of a user.
	UserPrefix = "User:"
	// EveryonePrincipal is the principal whose ACLs are about everybody.
	EveryonePrincipal = UserPrefix + Wildcard
)

// Resource is what an ACL is about.
type Resource struct {
	Type    ResourceType
	Name    string
	Pattern PatternType // PatternLiteral or PatternPrefixed
}

// ACL is one rule of a user. Kafka's AclBinding is one of its operations.
type ACL struct {
	Resource   Resource
	Permission Permission // PermissionAllow or PermissionDeny
	Host       string     // an address, or Wildcard
	Operations []Operation
}

// Binding is an ACL with one operation and its principal: Kafka's AclBinding.
type Binding struct {
	Resource   Resource
	Principal  string
	Host       string
	Operation  Operation
	Permission Permission
}

// Filter is Kafka's AclBindingFilter: an empty string or an Any matches all.
type Filter struct {
	ResourceType ResourceType
	ResourceName *string
	Pattern      PatternType
	Principal    *string
	Host         *string
	Operation    Operation
	Permission   Permission
}

// Matches is ResourcePatternFilter.matches and AccessControlEntryFilter.matches.
func (f *Filter) Matches(b *Binding) bool {
	return f.matchesResource(b.Resource) &&
		(f.Principal == nil || *f.Principal == b.Principal) &&
		(f.Host == nil || *f.Host == b.Host) &&
		(f.Operation == OperationAny || f.Operation == b.Operation) &&
		(f.Permission == PermissionAny || f.Permission == b.Permission)
}

func (f *Filter) matchesResource(r Resource) bool {
	if f.ResourceType != ResourceAny && f.ResourceType != r.Type {
		return false
	}
	if f.Pattern != PatternAny && f.Pattern != PatternMatch && f.Pattern != r.Pattern {
		return false
	}
	switch {
	case f.ResourceName == nil:
		return true
	case f.Pattern == PatternAny || f.Pattern == r.Pattern:
		return *f.ResourceName == r.Name
	case r.Pattern == PatternLiteral: // PatternMatch from here
		return *f.ResourceName == r.Name || r.Name == Wildcard
	default:
		return strings.HasPrefix(*f.ResourceName, r.Name)
	}
}
