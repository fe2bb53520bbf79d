package auth

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/kube/filestore"
	"kaas/meta"
)

// A reload of 100,000 ACLs: 1,000 users of 100, all of them changed, or one.
func BenchmarkReloadOf100000ACLs(b *testing.B) {
	d := EmptyDirectory()
	var users []*meta.KafkaUser
	for i := range 1000 {
		name := fmt.Sprintf("user-%d", i)
		user := userFrom(b, name, `{}`)
		var bindings []Binding
		for _, acl := range manyACLs(name, 100).ACLs {
			for _, op := range acl.Operations {
				bindings = append(bindings, Binding{acl.Resource, UserPrefix + name, acl.Host, op, acl.Permission})
			}
		}
		if _, err := AddBindings(user, bindings); err != nil {
			b.Fatal(err)
		}
		d.note(meta.Event{Type: meta.Added, Object: user})
		users = append(users, user)
	}
	d.publish()
	for _, changed := range []int{1, len(users)} {
		b.Run(fmt.Sprintf("users=%d", changed), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, user := range users[:changed] {
					user.Metadata.Generation++
					d.note(meta.Event{Type: meta.Modified, Object: user.Clone()})
				}
				d.publish()
			}
		})
	}
}

// The same from files: 100 of 1,000 ACLs each are edited by hand, and all are in
// force again.
func BenchmarkReloadOf100000ACLsFromFiles(b *testing.B) {
	dir := b.TempDir()
	store, err := filestore.Open(filestore.Options{Dir: dir, Logger: quiet(), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
	if err != nil {
		b.Fatal(err)
	}
	d := startDirectory(b, store)
	edit := func(host int) {
		for i := range 100 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("user-%d.yaml", i)), []byte(userOf1000ACLs(i, host)), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		store.Rescan(time.Now().Add(time.Minute))
		want := fmt.Sprint("10.0.0.", host)
		for i := range 100 {
			await(b, d, fmt.Sprintf("user-%d", i), want)
		}
	}
	host := 0
	for b.Loop() {
		host++
		edit(host % 250)
	}
	d.Close()
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

func await(b *testing.B, d *Directory, user, host string) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if account := d.Account(user); account != nil && len(account.ACLs) == 1000 && account.ACLs[0].Host == host {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal("the ACLs are not in force")
		}
	}
}

func userOf1000ACLs(user, host int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: user-%d\nspec:\n  authorization:\n    type: simple\n    acls:\n", user)
	for i := range 1000 {
		fmt.Fprintf(&out, "      - {resource: {type: topic, name: topic-%d}, operations: [Read, Describe], host: 10.0.0.%d}\n", i, host)
	}
	return out.String()
}

// One ACL more for a user who has many, from the request to the durable file.
func BenchmarkOneMoreACL(b *testing.B) {
	for _, have := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("have=%d", have), func(b *testing.B) {
			store := newStore(b)
			user := userFrom(b, "alice", `{}`)
			binding := func(i int) Binding {
				return Binding{Resource{ResourceTopic, fmt.Sprintf("topic-%d", i), PatternLiteral}, "User:alice", Wildcard, OperationRead, PermissionAllow}
			}
			add := func(user *meta.KafkaUser, from, n int) {
				var bindings []Binding
				for i := range n {
					bindings = append(bindings, binding(from+i))
				}
				if _, err := AddBindings(user, bindings); err != nil {
					b.Fatal(err)
				}
			}
			add(user, 0, have)
			stored, err := store.Create(b.Context(), user)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				user = stored.(*meta.KafkaUser)
				add(user, have, 1)
				have++
				if stored, err = store.Update(b.Context(), user); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
