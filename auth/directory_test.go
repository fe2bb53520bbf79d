package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"kaas/auth/scram"
	"kaas/kube/filestore"
	"kaas/meta"
)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func newStore(t testing.TB) *filestore.Store {
	t.Helper()
	store, err := filestore.Open(filestore.Options{Dir: t.TempDir(), Logger: quiet(), NoNotify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func startDirectory(t testing.TB, store meta.ResourceStore) *Directory {
	t.Helper()
	d, err := StartDirectory(t.Context(), DirectoryOptions{Store: store, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// userFrom reads a spec from JSON.
func userFrom(t testing.TB, resource, spec string) *meta.KafkaUser {
	t.Helper()
	user := &meta.KafkaUser{APIVersion: meta.APIVersion, Kind: meta.KindUser, Metadata: meta.ObjectMeta{Name: resource}}
	decoder := json.NewDecoder(strings.NewReader(spec))
	decoder.UseNumber()
	if err := decoder.Decode(&user.Spec); err != nil {
		t.Fatal(err)
	}
	return user
}

func awaited(t testing.TB, d *Directory, object meta.Object, err error) *meta.KafkaUser {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := d.Await(ctx, object.(*meta.KafkaUser)); err != nil {
		t.Fatal(err)
	}
	return object.(*meta.KafkaUser)
}

const allowAll = `{"authorization":{"type":"simple","acls":[
	{"resource":{"type":"topic","name":"t"},"operations":["All"]},
	{"resource":{"type":"topic","name":"secret"},"operations":["READ"],"type":"deny"}]}}`

// Who has changed a user and waits for it goes on when the user is removed meanwhile,
// whether the directory had seen it or not.
func TestAwaitOfARemovedUser(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	d := startDirectory(t, store)
	for i := range 20 {
		created, err := store.Create(t.Context(), userFrom(t, "brief", allowAll))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			awaited(t, d, created, nil)
		}
		if err := store.Delete(t.Context(), meta.KindUser, "brief", ""); err != nil {
			t.Fatal(err)
		}
		awaited(t, d, created, nil)
	}
}

func TestDirectoryFollowsResources(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := t.Context()
	first, err := store.Create(ctx, userFrom(t, "alice", allowAll))
	if err != nil {
		t.Fatal(err)
	}
	d := startDirectory(t, store)
	a := NewStandardAuthorizer(d, nil, false)
	may := func(user, topic string) bool {
		return a.Authorize(UserPrefix+user, "h", OperationRead, ResourceTopic, topic)
	}
	if !may("alice", "t") || may("alice", "secret") || d.Credential("alice") != nil {
		t.Error("what exists at the start is not in force")
	}

	credential, err := scram.Derive("pw", []byte("salt"), 4096)
	if err != nil {
		t.Fatal(err)
	}
	alice := first.(*meta.KafkaUser)
	alice.Spec.Authentication = map[string]any{"type": TypeScramSHA512, "scram": SpecOfScram(credential)}
	changed, err := store.Update(ctx, alice)
	alice = awaited(t, d, changed, err)
	if got := d.Credential("alice"); got == nil || !got.Matches("pw") || !may("alice", "t") {
		t.Error("a changed user is not in force")
	}

	// Another resource for the same name waits for the older one to go.
	second := userFrom(t, "a-copy", `{"userName":"alice"}`)
	stored, err := store.Create(ctx, second)
	awaited(t, d, stored, err)
	if d.Account("alice").Resource != "alice" || len(d.Accounts()) != 1 {
		t.Error("the younger resource took the name")
	}

	// A spec that is refused changes nothing.
	alice.Spec.Authorization = `{"acls":[{"operations":["All"],"resource":{"name":"t","type":"tpic"}}],"type":"simple"}`
	changed, err = store.Update(ctx, alice)
	awaited(t, d, changed, err)
	if !may("alice", "t") || d.Credential("alice") == nil {
		t.Error("a refused spec changed what is in force")
	}

	if err := store.Delete(ctx, meta.KindUser, "alice", ""); err != nil {
		t.Fatal(err)
	}
	stored, err = store.Patch(ctx, meta.KindUser, "a-copy", []byte(`{"spec":{"quotas":{"requestPercentage":5}}}`))
	awaited(t, d, stored, err) // the watch is in order, so the deletion is in force, too
	if may("alice", "t") || d.Credential("alice") != nil || d.Account("alice").Quotas[QuotaRequestPercentage] != 5 {
		t.Error("something of a deleted user is left")
	}
}

// TestBrokenUserAfterAStart: nothing that lets anybody in, and all denials.
func TestBrokenUserAfterAStart(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	broken := strings.Replace(allowAll, `"name":"t"`, `"nmae":"t"`, 1)
	for resource, spec := range map[string]string{"alice": broken, "everyone": strings.Replace(broken, `{"auth`, `{"userName":"*","auth`, 1), "bob": allowAll} {
		if _, err := store.Create(t.Context(), userFrom(t, resource, spec)); err != nil {
			t.Fatal(err)
		}
	}
	a := NewStandardAuthorizer(startDirectory(t, store), nil, false)
	for user, want := range map[string][2]bool{"alice": {}, "bob": {true, false}} {
		for i, topic := range []string{"t", "secret"} {
			if got := a.Authorize(UserPrefix+user, "h", OperationRead, ResourceTopic, topic); got != want[i] {
				t.Errorf("%s on %s: %v", user, topic, got)
			}
		}
	}
}

func TestParseUserRefuses(t *testing.T) {
	t.Parallel()
	acl := func(inner string) string { return `{"authorization":{"acls":[{` + inner + `}]}}` }
	for spec, want := range map[string]string{
		`{"authentication":{"type":"kerberos"}}`:                                                  "kerberos",
		`{"authentication":{"type":"scram-sha-512","pasword":{}}}`:                                "pasword",
		`{"authentication":{"type":"scram-sha-512","scram":{"salt":"AAAA"}}}`:                     "storedKey",
		`{"authentication":{"type":"scram-sha-512","scram":{"salt":"?"}}}`:                        "base64",
		`{"authorization":{"type":"opa"}}`:                                                        "opa",
		`{"authorization":{"acls":{}}}`:                                                           "spec.authorization",
		acl(`"resource":{"type":"topic"},"operations":["Read"]`):                                  "resource.name",
		acl(`"resource":{"type":"topic","name":"t"}`):                                             "operations",
		acl(`"resource":{"type":"topic","name":"t"},"operations":["Raed"]`):                       "Raed",
		acl(`"resource":{"type":"user","name":"t"},"operations":["Read"]`):                        `"user"`,
		acl(`"resource":{"type":"topic","name":"t","patternType":"regex"},"operations":["Read"]`): "regex",
		acl(`"resource":{"type":"cluster","name":"mine"},"operations":["Alter"]`):                 ClusterName,
		acl(`"resource":{"type":"topic","name":"t"},"operations":["Read"],"type":"maybe"`):        "maybe",
		acl(`"resource":{"type":"topic","name":"t"},"operations":["Read"],"host":""`):             "host",
		`{"quotas":{"producerByteRate":1}}`:                                                       "producerByteRate",
		`{"quotas":{"requestPercentage":0}}`:                                                      "above 0",
		`{"quotas":{"producerMaxByteRatePerBroker":-1}}`:                                          "above 0",
		`{"quotas":{"producerMaxByteRatePerBroker":"many"}}`:                                      "spec.quotas",
	} {
		user, err := ParseUser(userFrom(t, "u", spec))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
		if user == nil || user.Credential != nil || len(user.ACLs) != 0 || user.Quotas != nil {
			t.Errorf("%s: %+v is in force", spec, user)
		}
	}
	user, err := ParseUser(userFrom(t, "u", `{"userName":"CN=u","authentication":{"type":"tls"},"quotas":{"producerMaxByteRatePerBroker":1e6,"requestPercentage":12.5},
		"authorization":{"acls":[{"resource":{"type":"cluster"},"operations":["DESCRIBE_CONFIGS","AlterConfigs"],"host":"10.0.0.1"},
			{"resource":{"type":"transactionalId","name":"x","patternType":"prefix"},"operations":["Write"],"type":"deny"}]}}`))
	if err != nil || user.Name != "CN=u" || user.Quotas[QuotaProducerByteRate] != 1e6 || user.Quotas[QuotaRequestPercentage] != 12.5 {
		t.Fatalf("%+v, %v", user, err)
	}
	want := []Binding{
		{Resource{ResourceCluster, ClusterName, PatternLiteral}, "User:CN=u", "10.0.0.1", OperationDescribeConfigs, PermissionAllow},
		{Resource{ResourceCluster, ClusterName, PatternLiteral}, "User:CN=u", "10.0.0.1", OperationAlterConfigs, PermissionAllow},
		{Resource{ResourceTransactionalID, "x", PatternPrefixed}, "User:CN=u", Wildcard, OperationWrite, PermissionDeny},
	}
	if got := user.Bindings(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestAddAndRemoveBindings(t *testing.T) {
	t.Parallel()
	user := userFrom(t, "u", `{"authorization":{"acls":[{"resource":{"type":"topic","name":"t"},"operations":["Read","Write"]}]}}`)
	topic := Resource{ResourceTopic, "t", PatternLiteral}
	add := func(bindings ...Binding) bool {
		changed, err := AddBindings(user, bindings)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	text := func() string {
		fields, _, err := authorizationOf(user.Spec.Authorization)
		if err != nil {
			t.Fatal(err)
		}
		return string(fields["acls"])
	}
	read := Binding{topic, "User:u", Wildcard, OperationRead, PermissionAllow}
	if before := text(); add(read, read) || text() != before {
		t.Error("what is there was written again")
	}
	describe, denied := read, read
	describe.Operation, denied.Permission = OperationDescribe, PermissionDeny
	if !add(describe, denied, denied, describe) {
		t.Error("nothing changed")
	}
	if got, want := text(), `[{"operations":["Read","Write","Describe"],"resource":{"name":"t","type":"topic"}},`+
		`{"host":"*","operations":["Read"],"resource":{"name":"t","patternType":"literal","type":"topic"},"type":"deny"}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	removed, err := RemoveBindings(user, func(b *Binding) bool { return b.Operation == OperationRead })
	if err != nil || len(removed) != 2 || removed[0] != read || removed[1] != denied {
		t.Errorf("%+v, %v", removed, err)
	}
	if got, want := text(), `[{"operations":["Write","Describe"],"resource":{"name":"t","type":"topic"}}]`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := RemoveBindings(user, func(*Binding) bool { return true }); err != nil || text() != `[]` {
		t.Error(text(), err)
	}
	user.Spec.Authorization = `{"acls":["no entry"]}`
	if _, err := AddBindings(user, []Binding{read}); err == nil {
		t.Error("a broken spec was written to")
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	all := Filter{ResourceType: ResourceAny, Pattern: PatternAny, Operation: OperationAny, Permission: PermissionAny}
	b := func(name string, pattern PatternType) *Binding {
		return &Binding{Resource{ResourceTopic, name, pattern}, "User:u", Wildcard, OperationRead, PermissionAllow}
	}
	named := func(name string, pattern PatternType) Filter {
		f := all
		f.ResourceName, f.Pattern = text(name), pattern
		return f
	}
	for i, tc := range []struct {
		filter Filter
		b      *Binding
		want   bool
	}{
		{all, b("t", PatternPrefixed), true},
		{named("t", PatternAny), b("t", PatternPrefixed), true},
		{named("t", PatternLiteral), b("t", PatternPrefixed), false},
		{named("topic", PatternPrefixed), b("t", PatternPrefixed), false},
		{named("topic", PatternMatch), b("t", PatternPrefixed), true},
		{named("topic", PatternMatch), b("*", PatternLiteral), true},
		{named("topic", PatternMatch), b("topic", PatternLiteral), true},
		{named("topic", PatternMatch), b("other", PatternLiteral), false},
		{named("*", PatternLiteral), b("*", PatternLiteral), true},
		{named("topic", PatternLiteral), b("*", PatternLiteral), false},
	} {
		if got := tc.filter.Matches(tc.b); got != tc.want {
			t.Errorf("%d: %v", i, got)
		}
	}
	for i, change := range []func(*Filter){
		func(f *Filter) { f.ResourceType = ResourceGroup }, func(f *Filter) { f.Principal = text("User:v") }, func(f *Filter) { f.Host = text("h") },
		func(f *Filter) { f.Operation = OperationWrite }, func(f *Filter) { f.Permission = PermissionDeny },
	} {
		f := all
		if change(&f); f.Matches(b("t", PatternLiteral)) {
			t.Errorf("%d matches", i)
		}
	}
}

// TestReloadOf100000ACLs: one thousand users with a hundred ACLs each; an edit of
// one of them is in force without compiling the others anew.
func TestReloadOf100000ACLs(t *testing.T) {
	t.Parallel()
	d := EmptyDirectory()
	var object *meta.KafkaUser
	begun := time.Now()
	for i := range 1000 {
		name := fmt.Sprintf("user-%d", i)
		user := userFrom(t, name, `{}`)
		var bindings []Binding
		for _, acl := range manyACLs(name, 100).ACLs {
			for _, op := range acl.Operations {
				bindings = append(bindings, Binding{acl.Resource, UserPrefix + name, acl.Host, op, acl.Permission})
			}
		}
		if _, err := AddBindings(user, bindings); err != nil {
			t.Fatal(err)
		}
		user.Metadata.Generation = 1
		d.note(meta.Event{Type: meta.Added, Object: user})
		if i == 500 {
			object = user
		}
	}
	d.publish()
	whole := time.Since(begun)
	before := d.Account("user-1")
	edited := d.Account("user-500")
	object = object.Clone().(*meta.KafkaUser)
	object.Metadata.Generation = 2
	begun = time.Now()
	d.note(meta.Event{Type: meta.Modified, Object: object})
	d.publish()
	t.Logf("100,000 ACLs in %v, one user of 1,000 in %v", whole, time.Since(begun))
	if d.Account("user-1") != before || d.Account("user-500") == edited || len(d.Accounts()) != 1000 {
		t.Error("an edit of one user touched another")
	}
}

// FuzzParseUser: no spec panics; a refused one lets nobody in.
func FuzzParseUser(f *testing.F) {
	for _, seed := range []string{allowAll, `{}`, `{"authentication":{"type":"scram-sha-512","scram":{"salt":"AA==","iterations":4096}}}`, `{"quotas":{"requestPercentage":1e309}}`,
		`{"authorization":{"acls":[null,1,{"resource":{"type":"cluster"},"operations":["All"]}]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, spec []byte) {
		object := &meta.KafkaUser{}
		if json.Unmarshal(spec, &object.Spec) != nil {
			return
		}
		user, err := ParseUser(object)
		rules := newRules(user.ACLs)
		var found masks
		rules.collect("h", ResourceTopic, "t", &found)
		if err != nil && (user.Credential != nil || found.allow != 0) {
			t.Errorf("%s is refused and in force", spec)
		}
	})
}
