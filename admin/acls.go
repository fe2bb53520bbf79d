package admin

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// What DescribeAcls, CreateAcls and DeleteAcls share. ACLs live in
// spec.authorization.acls of the KafkaUser that is their principal.

// bindingBytes bounds what one binding takes on its way into an answer, in memory and
// on the wire, with names of a common length; userBytes the same of a user.
const (
	bindingBytes = 512
	userBytes    = 512
)

// estimateBindings is for answers that may hold every ACL.
func (a *Admin) estimateBindings(_ codec.Header, bodyBytes int) int {
	_, bindings := a.Users.Counts()
	return codec.DefaultEstimate(bodyBytes) + bindings*bindingBytes
}

// estimateUsers is for answers that may name every user.
func (a *Admin) estimateUsers(_ codec.Header, bodyBytes int) int {
	users, _ := a.Users.Counts()
	return codec.DefaultEstimate(bodyBytes) + users*userBytes
}

const clusterDenied = "Cluster authorization failed."

// aclsDenied is the answer of a request about ACLs that is not served: not allowed,
// or nothing enforces ACLs.
func (a *Admin) aclsDenied(r *codec.Request, op auth.Operation) *failure {
	switch {
	case !a.allowedCluster(r, op):
		return fail(kerr.ClusterAuthorizationFailed, clusterDenied)
	case a.DropTopic == nil && !a.Config.EnforcesACLs():
		return fail(kerr.SecurityDisabled, "No Authorizer is configured.")
	}
	return nil
}

// filterOf checks a filter. The names are those of both requests that have one.
func filterOf(version int16, resource kmsg.ACLResourceType, name *string, pattern kmsg.ACLResourcePatternType, principal, host *string,
	op kmsg.ACLOperation, permission kmsg.ACLPermissionType) (*auth.Filter, *failure) {
	f := &auth.Filter{
		ResourceType: auth.ResourceType(resource), ResourceName: name, Pattern: auth.PatternType(pattern), Principal: principal, Host: host,
		Operation: auth.Operation(op), Permission: auth.Permission(permission),
	}
	if version == 0 {
		f.Pattern = auth.PatternLiteral // before KIP-290 there was nothing else
	}
	switch {
	case f.ResourceType != auth.ResourceAny && !auth.Grantable(f.ResourceType):
		return nil, fail(kerr.InvalidRequest, "The filter has the resource type %s, which no ACL of a KafkaUser can have.", f.ResourceType)
	case f.Pattern < auth.PatternAny || f.Pattern > auth.PatternPrefixed:
		return nil, fail(kerr.InvalidRequest, "The filter has an unknown pattern type.")
	case f.Operation != auth.OperationAny && !f.Operation.Valid():
		return nil, fail(kerr.InvalidRequest, "The filter has an unknown operation.")
	case f.Permission < auth.PermissionAny || f.Permission > auth.PermissionAllow:
		return nil, fail(kerr.InvalidRequest, "The filter has an unknown permission type.")
	}
	return f, nil
}

// bindingOf checks a creation (Kafka: AclApis.handleCreateAcls and
// AclControlManager.validateNewAcl).
func bindingOf(version int16, c *kmsg.CreateACLsRequestCreation) (auth.Binding, *failure) {
	b := auth.Binding{
		Resource:  auth.Resource{Type: auth.ResourceType(c.ResourceType), Name: c.ResourceName, Pattern: auth.PatternType(c.ResourcePatternType)},
		Principal: c.Principal, Host: c.Host, Operation: auth.Operation(c.Operation), Permission: auth.Permission(c.PermissionType),
	}
	if version == 0 {
		b.Resource.Pattern = auth.PatternLiteral
	}
	switch {
	case !auth.Grantable(b.Resource.Type):
		return b, fail(kerr.InvalidRequest, "Invalid resource type %s", b.Resource.Type)
	case b.Resource.Pattern != auth.PatternLiteral && b.Resource.Pattern != auth.PatternPrefixed:
		return b, fail(kerr.InvalidRequest, "Invalid pattern type %s", b.Resource.Pattern)
	case !b.Operation.Valid():
		return b, fail(kerr.InvalidRequest, "Invalid operation type %s", b.Operation)
	case b.Permission != auth.PermissionAllow && b.Permission != auth.PermissionDeny:
		return b, fail(kerr.InvalidRequest, "Invalid permission type %s", b.Permission)
	case b.Resource.Type == auth.ResourceCluster && b.Resource.Name != auth.ClusterName:
		return b, fail(kerr.InvalidRequest, "The only valid name for the CLUSTER resource is %s", auth.ClusterName)
	case b.Resource.Name == "":
		return b, fail(kerr.InvalidRequest, "Invalid empty resource name")
	case b.Host == "":
		return b, fail(kerr.InvalidRequest, "Host pattern cannot be null or empty")
	}
	if kind, name, ok := strings.Cut(b.Principal, ":"); !ok || kind == "" || name == "" {
		return b, fail(kerr.InvalidRequest, "Could not parse principal from `%s` (no colon is present separating the principal type from the principal name)", b.Principal)
	} else if kind+":" != auth.UserPrefix {
		return b, fail(kerr.InvalidRequest, "Principal %s: only principals of the type User have ACLs, those of their KafkaUser", b.Principal)
	}
	return b, nil
}

// userOf is the name in a principal that bindingOf has checked.
func userOf(principal string) string { return strings.TrimPrefix(principal, auth.UserPrefix) }
