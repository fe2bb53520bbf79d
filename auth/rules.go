package auth

import (
	"slices"
	"strings"
)

// masks hold operations as bits, with what they imply. A bit of deny wins over
// the same bit of allow.
type masks struct{ allow, deny uint32 }

func (m *masks) add(other masks) {
	m.allow |= other.allow
	m.deny |= other.deny
}

// hostMasks are masks for one host.
type hostMasks struct {
	host string
	masks
}

// rule is everything that a principal's ACLs say about one resource pattern.
type rule struct {
	any   masks       // host "*"
	hosts []hostMasks // few; in the order of the ACLs
}

func (r *rule) collect(host string, into *masks) {
	into.add(r.any)
	for i := range r.hosts {
		if r.hosts[i].host == host {
			into.add(r.hosts[i].masks)
		}
	}
}

// prefixRule is a rule with a prefixed pattern. parent is the index of the longest
// other prefix in the list that this one begins with, -1 without one.
type prefixRule struct {
	prefix string
	parent int32
	rule
}

// typeRules are a principal's rules about one resource type. Immutable once built.
type typeRules struct {
	every    rule // the literal "*"
	literal  map[string]*rule
	prefixed []prefixRule // sorted by prefix
}

// collect adds what the rules say about a name. It allocates nothing.
//
// The prefixes of name among the sorted prefixes are the greatest one that is not
// above name, if it is one, and its ancestors by parent: a prefix q of name is not
// above name, and every string between q and name begins with q, the greatest
// included.
func (t *typeRules) collect(host, name string, into *masks) {
	t.every.collect(host, into)
	if r := t.literal[name]; r != nil {
		r.collect(host, into)
	}
	low, high := 0, len(t.prefixed)
	for low < high {
		middle := int(uint(low+high) >> 1)
		if t.prefixed[middle].prefix <= name {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for at := int32(low) - 1; at >= 0; at = t.prefixed[at].parent {
		if p := &t.prefixed[at]; strings.HasPrefix(name, p.prefix) {
			p.collect(host, into)
		}
	}
}

// rules are all rules of one principal, by resource type. Immutable once built.
type rules [ResourceUser + 1]*typeRules

func (r *rules) collect(host string, resource ResourceType, name string, into *masks) {
	if r == nil || resource < 0 || int(resource) >= len(r) || r[resource] == nil {
		return
	}
	r[resource].collect(host, name, into)
}

// newRules compiles ACLs; nil when there are none.
func newRules(acls []ACL) *rules {
	if len(acls) == 0 {
		return nil
	}
	compiled := new(rules)
	prefixes := map[Resource]*rule{}
	for i := range acls {
		acl := &acls[i]
		t := compiled[acl.Resource.Type]
		if t == nil {
			t = &typeRules{literal: map[string]*rule{}}
			compiled[acl.Resource.Type] = t
		}
		var r *rule
		switch {
		case acl.Resource.Pattern == PatternPrefixed:
			if r = prefixes[acl.Resource]; r == nil {
				r = new(rule)
				prefixes[acl.Resource] = r
			}
		case acl.Resource.Name == Wildcard:
			r = &t.every
		default:
			if r = t.literal[acl.Resource.Name]; r == nil {
				r = new(rule)
				t.literal[acl.Resource.Name] = r
			}
		}
		r.include(acl)
	}
	for resource, r := range prefixes {
		t := compiled[resource.Type]
		t.prefixed = append(t.prefixed, prefixRule{prefix: resource.Name, rule: *r})
	}
	for _, t := range compiled {
		if t != nil {
			t.sortPrefixes()
		}
	}
	return compiled
}

func (r *rule) include(acl *ACL) {
	m := masksOf(acl)
	if acl.Host == Wildcard {
		r.any.add(m)
		return
	}
	at := slices.IndexFunc(r.hosts, func(h hostMasks) bool { return h.host == acl.Host })
	if at < 0 {
		at = len(r.hosts)
		r.hosts = append(r.hosts, hostMasks{host: acl.Host})
	}
	r.hosts[at].add(m)
}

// sortPrefixes also finds the parents, with the chain of open prefixes as a stack.
func (t *typeRules) sortPrefixes() {
	slices.SortFunc(t.prefixed, func(a, b prefixRule) int { return strings.Compare(a.prefix, b.prefix) })
	open := int32(-1)
	for i := range t.prefixed {
		for open >= 0 && !strings.HasPrefix(t.prefixed[i].prefix, t.prefixed[open].prefix) {
			open = t.prefixed[open].parent
		}
		t.prefixed[i].parent = open
		open = int32(i)
	}
}

// masksOf expands ALL and what is implied, as StandardAuthorizerData.findResult:
// an allowed READ, WRITE, DELETE or ALTER allows DESCRIBE, an allowed ALTER_CONFIGS
// allows DESCRIBE_CONFIGS; nothing is implied by a denial.
func masksOf(acl *ACL) masks {
	var bits uint32
	for _, op := range acl.Operations {
		if op == OperationAll {
			bits = ^uint32(0)
		}
		bits |= 1 << op
	}
	if acl.Permission == PermissionDeny {
		return masks{deny: bits}
	}
	const describing = 1<<OperationRead | 1<<OperationWrite | 1<<OperationDelete | 1<<OperationAlter
	if bits&describing != 0 {
		bits |= 1 << OperationDescribe
	}
	if bits&(1<<OperationAlterConfigs) != 0 {
		bits |= 1 << OperationDescribeConfigs
	}
	return masks{allow: bits}
}
