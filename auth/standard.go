package auth

import "slices"

// StandardAuthorizer decides as Kafka's class of that name
// (StandardAuthorizerData): super users may do everything; a denial that matches
// principal, host, resource and operation wins; then an allowance; then, when no
// ACL at all is about the resource, allow.everyone.if.no.acl.found.
//
// Authorize takes no lock and allocates nothing: everything it reads is immutable
// but for the one atomic load of the directory's set.
type StandardAuthorizer struct {
	directory     *Directory
	superUsers    map[string]struct{}
	allowEveryone bool
}

// NewStandardAuthorizer decides by the directory's ACLs. A directory must index
// resources when allowEveryone is set.
func NewStandardAuthorizer(directory *Directory, superUsers []string, allowEveryone bool) *StandardAuthorizer {
	a := &StandardAuthorizer{directory: directory, superUsers: make(map[string]struct{}, len(superUsers)), allowEveryone: allowEveryone}
	for _, principal := range superUsers {
		a.superUsers[principal] = struct{}{}
	}
	return a
}

// Authorize implements Authorizer.
func (a *StandardAuthorizer) Authorize(principal, host string, op Operation, resource ResourceType, name string) bool {
	if _, super := a.superUsers[principal]; super {
		return true
	}
	current := a.directory.current.Load()
	var found masks
	if account := current.accounts[principal]; account != nil {
		account.rules.collect(host, resource, name, &found)
	}
	current.everyone.collect(host, resource, name, &found)
	bit := uint32(1) << uint8(op)
	switch {
	case found.deny&bit != 0:
		return false
	case found.allow&bit != 0:
		return true
	case !a.allowEveryone:
		return false
	}
	var about masks
	current.named.collect(host, resource, name, &about)
	return about.allow == 0
}

// AuthorizeByResourceType implements ByResourceType as the default of Kafka's
// Authorizer interface does: an ACL allows the operation itself or ALL, and no
// denial covers its whole pattern. It walks over the ACLs of the principal; only
// InitProducerId asks.
func (a *StandardAuthorizer) AuthorizeByResourceType(principal, host string, op Operation, resource ResourceType) bool {
	// A name that nobody uses: for super users and allow.everyone.if.no.acl.found.
	if a.Authorize(principal, host, op, resource, "hardcode") {
		return true
	}
	current := a.directory.current.Load()
	covers := func(permission Permission, visit func(Resource) (done bool)) bool {
		for _, account := range []*Account{current.accounts[principal], current.accounts[EveryonePrincipal]} {
			if account == nil {
				continue
			}
			for i := range account.ACLs {
				acl := &account.ACLs[i]
				if acl.Permission == permission && acl.Resource.Type == resource && (acl.Host == Wildcard || acl.Host == host) &&
					(slices.Contains(acl.Operations, op) || slices.Contains(acl.Operations, OperationAll)) && visit(acl.Resource) {
					return true
				}
			}
		}
		return false
	}
	denied := map[Resource]bool{}
	covers(PermissionDeny, func(r Resource) bool { denied[r] = true; return false })
	if denied[Resource{resource, Wildcard, PatternLiteral}] {
		return false
	}
	return covers(PermissionAllow, func(r Resource) bool { return !dominated(r, denied) })
}

// dominated says whether a denial covers everything that the pattern allows.
func dominated(r Resource, denied map[Resource]bool) bool {
	if r.Pattern == PatternLiteral && (r.Name == Wildcard || denied[r]) {
		return r.Name != Wildcard
	}
	for end := 1; end <= len(r.Name); end++ {
		if denied[Resource{r.Type, r.Name[:end], PatternPrefixed}] {
			return true
		}
	}
	return false
}
