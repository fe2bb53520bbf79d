package auth

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kaas/meta"
)

// directoryOf publishes users without a store.
func directoryOf(users ...*User) *Directory {
	d := EmptyDirectory()
	d.options.IndexResources = true
	for _, user := range users {
		object := &meta.KafkaUser{Metadata: meta.ObjectMeta{Name: meta.UserResourceName(user.Name)}}
		d.state[object.Metadata.Name] = &entry{object: object, account: newAccount(user, object.Metadata.Name)}
	}
	d.publish()
	return d
}

func allow(resource ResourceType, name string, pattern PatternType, ops ...Operation) ACL {
	return ACL{Resource: Resource{resource, name, pattern}, Permission: PermissionAllow, Host: Wildcard, Operations: ops}
}

func deny(acl ACL) ACL { acl.Permission = PermissionDeny; return acl }

func from(host string, acl ACL) ACL { acl.Host = host; return acl }

func TestStandardAuthorizer(t *testing.T) {
	t.Parallel()
	d := directoryOf(
		&User{Name: "alice", ACLs: []ACL{
			allow(ResourceTopic, "read", PatternLiteral, OperationRead),
			allow(ResourceTopic, "team.", PatternPrefixed, OperationAll),
			allow(ResourceTopic, "team.a.", PatternPrefixed, OperationRead),
			deny(allow(ResourceTopic, "team.b", PatternLiteral, OperationWrite)),
			deny(allow(ResourceTopic, "team.c", PatternPrefixed, OperationAll)),
			from("10.0.0.1", allow(ResourceTopic, "hosted", PatternLiteral, OperationWrite)),
			from("10.0.0.9", deny(allow(ResourceTopic, "team.h", PatternLiteral, OperationRead))),
			allow(ResourceGroup, Wildcard, PatternLiteral, OperationRead),
			allow(ResourceCluster, ClusterName, PatternLiteral, OperationAlterConfigs),
			allow(ResourceTopic, "*", PatternPrefixed, OperationRead), // a prefix, no wildcard
		}},
		&User{Name: Wildcard, ACLs: []ACL{
			allow(ResourceTopic, "public", PatternLiteral, OperationRead),
			deny(allow(ResourceTopic, "team.x", PatternLiteral, OperationDelete)),
		}},
	)
	a := NewStandardAuthorizer(d, []string{"User:root", "User:CN=a,OU=b"}, false)
	for _, tc := range []struct {
		principal, host string
		op              Operation
		resource        ResourceType
		name            string
		want            bool
	}{
		{"User:alice", "h", OperationRead, ResourceTopic, "read", true},
		{"User:alice", "h", OperationDescribe, ResourceTopic, "read", true},
		{"User:alice", "h", OperationWrite, ResourceTopic, "read", false},
		{"User:alice", "h", OperationRead, ResourceTopic, "readme", false},
		{"User:alice", "h", OperationRead, ResourceGroup, "read", true},
		{"User:alice", "h", OperationDelete, ResourceGroup, "read", false},
		{"User:alice", "h", OperationDescribeConfigs, ResourceCluster, ClusterName, true},
		{"User:alice", "h", OperationDescribe, ResourceCluster, ClusterName, false},
		{"User:alice", "h", OperationDelete, ResourceTopic, "team.a.b.c", true},
		{"User:alice", "h", OperationWrite, ResourceTopic, "team", false},
		{"User:alice", "h", OperationWrite, ResourceTopic, "team.b", false},
		{"User:alice", "h", OperationRead, ResourceTopic, "team.b", true},
		{"User:alice", "h", OperationDescribe, ResourceTopic, "team.b", true}, // a denied Write implies nothing
		{"User:alice", "h", OperationDescribe, ResourceTopic, "team.c.d", false},
		{"User:alice", "10.0.0.1", OperationWrite, ResourceTopic, "hosted", true},
		{"User:alice", "10.0.0.2", OperationWrite, ResourceTopic, "hosted", false},
		{"User:alice", "10.0.0.9", OperationRead, ResourceTopic, "team.h", false},
		{"User:alice", "10.0.0.8", OperationRead, ResourceTopic, "team.h", true},
		{"User:alice", "h", OperationRead, ResourceTopic, "*topic", true},
		{"User:alice", "h", OperationRead, ResourceTopic, "public", true},
		{"User:bob", "h", OperationRead, ResourceTopic, "public", true},
		{"User:bob", "h", OperationRead, ResourceTopic, "read", false},
		{"User:alice", "h", OperationDelete, ResourceTopic, "team.x", false},
		{"User:root", "h", OperationAlter, ResourceCluster, ClusterName, true},
		{"User:CN=a,OU=b", "h", OperationDelete, ResourceTopic, "team.c", true},
		{"User:roo", "h", OperationAlter, ResourceCluster, ClusterName, false},
		{"", "", OperationRead, ResourceTopic, "", false},
		{"User:alice", "h", OperationRead, ResourceType(99), "read", false},
		{"User:alice", "h", OperationRead, ResourceType(-1), "read", false},
	} {
		if got := a.Authorize(tc.principal, tc.host, tc.op, tc.resource, tc.name); got != tc.want {
			t.Errorf("%s from %s, %s on %s %s: %v", tc.principal, tc.host, tc.op, tc.resource, tc.name, got)
		}
	}
	open := NewStandardAuthorizer(d, nil, true)
	if !open.Authorize("User:bob", "h", OperationWrite, ResourceTopic, "unheard.of") || open.Authorize("User:bob", "h", OperationWrite, ResourceTopic, "read") ||
		open.Authorize("User:bob", "h", OperationWrite, ResourceTopic, "team.z") || open.Authorize("User:bob", "h", OperationDelete, ResourceGroup, "g") {
		t.Error("allow.everyone.if.no.acl.found is about resources without any ACL")
	}
	if EmptyDirectory().Account("alice") != nil || NewStandardAuthorizer(EmptyDirectory(), nil, false).Authorize("User:alice", "h", OperationRead, ResourceTopic, "read") {
		t.Error("an empty directory lets somebody in")
	}
}

// naive is StandardAuthorizerData written down without any index.
func naive(users []*User, allowEveryone bool, principal, host string, op Operation, resource ResourceType, name string) bool {
	denied, allowed, about := false, false, false
	for _, user := range users {
		for _, b := range user.Bindings() {
			matches := b.Resource.Name == name || b.Resource.Pattern == PatternLiteral && b.Resource.Name == Wildcard
			if b.Resource.Pattern == PatternPrefixed {
				matches = strings.HasPrefix(name, b.Resource.Name)
			}
			if b.Resource.Type != resource || !matches {
				continue
			}
			about = true
			if b.Principal != principal && b.Principal != EveryonePrincipal || b.Host != Wildcard && b.Host != host {
				continue
			}
			fits := b.Operation == op || b.Operation == OperationAll
			if b.Permission == PermissionDeny {
				denied = denied || fits
				continue
			}
			switch {
			case op == OperationDescribe:
				fits = fits || b.Operation == OperationRead || b.Operation == OperationWrite || b.Operation == OperationDelete || b.Operation == OperationAlter
			case op == OperationDescribeConfigs:
				fits = fits || b.Operation == OperationAlterConfigs
			}
			allowed = allowed || fits
		}
	}
	return !denied && (allowed || !about && allowEveryone)
}

func TestAuthorizeIsTheNaiveDecision(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	name := func() string { // from few letters, so that names are prefixes of each other
		var b strings.Builder
		for range 1 + r.IntN(5) {
			b.WriteByte("ab.*"[r.IntN(4)])
		}
		return b.String()
	}
	hosts := []string{Wildcard, Wildcard, "h1", "h2"}
	operation := func() Operation { return OperationAll + Operation(r.IntN(11)) }
	for range 60 {
		var users []*User
		for _, user := range []string{"u", "v", Wildcard} {
			u := &User{Name: user}
			for range r.IntN(25) {
				acl := ACL{Resource: Resource{ResourceTopic + ResourceType(r.IntN(2)), name(), PatternLiteral + PatternType(r.IntN(2))},
					Permission: PermissionDeny + Permission(min(1, r.IntN(4))), Host: hosts[r.IntN(4)]}
				for range 1 + r.IntN(3) {
					acl.Operations = append(acl.Operations, operation())
				}
				u.ACLs = append(u.ACLs, acl)
			}
			users = append(users, u)
		}
		everyone := r.IntN(2) == 0
		a := NewStandardAuthorizer(directoryOf(users...), nil, everyone)
		for range 300 {
			principal, host, op, resource, n := UserPrefix+[]string{"u", "v", "w"}[r.IntN(3)], hosts[2+r.IntN(2)], operation()+1, ResourceTopic+ResourceType(r.IntN(2)), name()
			if got, want := a.Authorize(principal, host, op, resource, n), naive(users, everyone, principal, host, op, resource, n); got != want {
				t.Fatalf("%s from %s, %s on %s %q: %v", principal, host, op, resource, n, got)
			}
		}
	}
}

// manyACLs is a user with n ACLs, half of them prefixes.
func manyACLs(name string, n int) *User {
	u := &User{Name: name}
	for i := range n {
		pattern := PatternLiteral + PatternType(i%2)
		u.ACLs = append(u.ACLs, allow(ResourceTopic, fmt.Sprintf("team-%d.topic-%d", i%100, i), pattern, OperationRead, OperationWrite))
	}
	return u
}

func TestAuthorizeDoesNotAllocate(t *testing.T) {
	d := directoryOf(manyACLs("alice", 1000), &User{Name: Wildcard, ACLs: []ACL{allow(ResourceTopic, "p", PatternPrefixed, OperationRead)}})
	a := NewStandardAuthorizer(d, []string{"User:root"}, false)
	if n := testing.AllocsPerRun(100, func() {
		if !a.Authorize("User:alice", "127.0.0.1", OperationWrite, ResourceTopic, "team-1.topic-1.more") {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	for _, acls := range []int{10, 1000, 100_000} {
		a := NewStandardAuthorizer(directoryOf(manyACLs("alice", acls), &User{Name: "bob"}), []string{"User:root"}, false)
		for what, name := range map[string]string{"literal": "team-2.topic-2", "prefixed": "team-1.topic-1-more", "denied": "zzz"} {
			b.Run(fmt.Sprintf("acls=%d/%s", acls, what), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					a.Authorize("User:alice", "127.0.0.1", OperationWrite, ResourceTopic, name)
				}
			})
		}
	}
}

func TestAuthorizeByResourceType(t *testing.T) {
	t.Parallel()
	write := func(name string, pattern PatternType) ACL { return allow(ResourceTopic, name, pattern, OperationWrite) }
	for i, tc := range []struct {
		acls []ACL
		want bool
	}{
		{nil, false},
		{[]ACL{write("t", PatternLiteral)}, true},
		{[]ACL{write("t", PatternPrefixed)}, true},
		{[]ACL{write("*", PatternLiteral)}, true},
		{[]ACL{allow(ResourceTopic, "t", PatternLiteral, OperationAll)}, true},
		{[]ACL{allow(ResourceTopic, "t", PatternLiteral, OperationRead)}, false},
		{[]ACL{allow(ResourceGroup, "t", PatternLiteral, OperationWrite)}, false},
		{[]ACL{from("10.0.0.1", write("t", PatternLiteral))}, false},
		{[]ACL{from("h", write("t", PatternLiteral))}, true},
		{[]ACL{write("t", PatternLiteral), deny(write("t", PatternLiteral))}, false},
		{[]ACL{write("t", PatternPrefixed), deny(write("t", PatternLiteral))}, true},
		{[]ACL{write("team.a", PatternPrefixed), deny(write("team.", PatternPrefixed))}, false},
		{[]ACL{write("team.", PatternPrefixed), deny(write("team.a", PatternPrefixed))}, true},
		{[]ACL{write("t", PatternLiteral), deny(write("*", PatternLiteral))}, false},
		{[]ACL{write("*", PatternLiteral), deny(write("h", PatternPrefixed))}, true}, // Kafka asks for the name hardcode first
	} {
		a := NewStandardAuthorizer(directoryOf(&User{Name: "u", ACLs: tc.acls}), []string{"User:root"}, false)
		if got := a.AuthorizeByResourceType("User:u", "h", OperationWrite, ResourceTopic); got != tc.want {
			t.Errorf("%d: %v", i, got)
		}
		if !a.AuthorizeByResourceType("User:root", "h", OperationWrite, ResourceTopic) {
			t.Error("a super user is denied")
		}
	}
	forAll := NewStandardAuthorizer(directoryOf(&User{Name: Wildcard, ACLs: []ACL{write("t", PatternLiteral)}}), nil, false)
	if !forAll.AuthorizeByResourceType("User:u", "h", OperationWrite, ResourceTopic) {
		t.Error("an ACL for everybody does not count")
	}
}

// Only what is told through Denied is heard of; a question alone is silent.
func TestDenialsAreTold(t *testing.T) {
	t.Parallel()
	var told []Denial
	audited := Audited{NewStandardAuthorizer(EmptyDirectory(), []string{"User:root"}, false), func(d Denial) { told = append(told, d) }}
	if audited.Authorize("User:a", "h", OperationRead, ResourceTopic, "t") || !audited.Authorize("User:root", "h", OperationRead, ResourceTopic, "t") || len(told) != 0 {
		t.Error(told)
	}
	if Denied(audited, "Fetch", "User:a", "h", OperationRead, ResourceTransactionalID, "t") || Denied(AllowAll{}, "Fetch", "User:a", "h", OperationRead, ResourceTopic, "t") {
		t.Error("a denial is none")
	}
	if len(told) != 1 || told[0] != (Denial{"Fetch", "User:a", "h", OperationRead, ResourceTransactionalID, "t"}) || told[0].Pattern() != "TransactionalId:LITERAL:t" {
		t.Error(told)
	}
}

// What is wrong with a spec is said in its own words.
func TestTypeErrorsOfUsersAreInWords(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`{"authentication": {"type": 7}}`:                                             "spec.authentication: type is 7, a text (in quotes) is needed",
		`{"authentication": {"typ": "tls"}}`:                                          `spec.authentication: unknown field "typ"`,
		`{"authentication": {"type": "scram-sha-512", "scram": {"iterations": "x"}}}`: `spec.authentication: scram.iterations is "x", a number is needed`,
	} {
		if _, err := ParseUser(userFrom(t, "u", spec)); err == nil || err.Error() != want {
			t.Errorf("%s: %v", spec, err)
		}
	}
}
