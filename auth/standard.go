package auth

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
