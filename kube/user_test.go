package kube_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/kube"
	"kaas/kube/filestore"
	"kaas/meta"
)

// userHarness is a file store with a reconciler of users. Keys of a password are
// {"keys": "<password>/<n>"} here, n counts up.
type userHarness struct {
	t       *testing.T
	store   *filestore.Store
	dir     string
	derived int // owned by the reconciler
	events  <-chan meta.Event
	user    map[string]*meta.KafkaUser
}

func newUserHarness(t *testing.T) *userHarness {
	t.Helper()
	return userHarnessIn(t, t.TempDir())
}

func userHarnessIn(t *testing.T, dir string) *userHarness {
	t.Helper()
	h := &userHarness{t: t, dir: dir, user: map[string]*meta.KafkaUser{}}
	store, err := filestore.Open(filestore.Options{Dir: h.dir, Logger: slog.New(slog.DiscardHandler), Debounce: time.Millisecond, DeleteGrace: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	h.store = store
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if h.events, err = store.Watch(t.Context(), meta.KindUser, ""); err != nil {
		t.Fatal(err)
	}
	r := kube.StartUsers(kube.UserOptions{Store: store, Logger: slog.New(slog.DiscardHandler),
		Check: func(user *meta.KafkaUser) error {
			if user.Spec.Quotas["bad"] != nil {
				return fmt.Errorf("spec.quotas is bad")
			}
			return nil
		},
		CheckOverride: func(user *meta.KafkaUser) error {
			if user.Metadata.Annotations[meta.QuotaOverrideAnnotation] == "bad" {
				return fmt.Errorf("the annotation is bad")
			}
			return nil
		},
		Derive: func(password string) (map[string]any, error) {
			h.derived++
			return map[string]any{"keys": fmt.Sprintf("%s/%d", password, h.derived)}, nil
		},
		Fits: func(keys map[string]any, password string) bool {
			text, _ := keys["keys"].(string)
			have, _, _ := strings.Cut(text, "/")
			return have == password
		}})
	t.Cleanup(r.Close)
	return h
}

func (h *userHarness) file(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// await returns the user when it fulfils the condition.
func (h *userHarness) await(resource, what string, condition func(*meta.KafkaUser) bool) *meta.KafkaUser {
	h.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if user := h.user[resource]; user != nil && condition(user) {
			return user
		}
		select {
		case event, ok := <-h.events:
			if !ok {
				h.t.Fatal("the watch ended")
			}
			if user, ok := event.Object.(*meta.KafkaUser); ok {
				h.user[user.Metadata.Name] = user
				if event.Type == meta.Deleted {
					delete(h.user, user.Metadata.Name)
				}
			}
		case <-deadline:
			h.t.Fatalf("%s: not %s: %+v", resource, what, h.user[resource])
		}
	}
}

func keysOf(user *meta.KafkaUser) string {
	keys, _ := user.Spec.Authentication["scram"].(map[string]any)
	text, _ := keys["keys"].(string)
	return text
}

func reason(user *meta.KafkaUser) string {
	if c := meta.FindCondition(user.Status.Conditions, meta.ConditionReady); c != nil && c.ObservedGeneration == user.Metadata.Generation {
		return c.Reason
	}
	return ""
}

func is(want string) func(*meta.KafkaUser) bool {
	return func(user *meta.KafkaUser) bool { return reason(user) == want }
}

func userManifest(name, spec string) string {
	return "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func secretManifest(name, password string) string {
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\ndata: {key: " + base64.StdEncoding.EncodeToString([]byte(password)) + "}\n"
}

const byReference = `{authentication: {type: scram-sha-512, password: {valueFrom: {secretKeyRef: {name: shared, key: key}}}}}`

func TestUserConditions(t *testing.T) {
	t.Parallel()
	h := newUserHarness(t)
	h.file("a.yaml", userManifest("a", `{quotas: {bad: 1}}`))
	h.await("a", "InvalidSpec", is("InvalidSpec"))
	h.file("a.yaml", userManifest("a", `{}`))
	a := h.await("a", "Reconciled", is("Reconciled"))
	if keysOf(a) != "" || a.Status.Secret != "" {
		t.Error("a user without authentication got a password")
	}
	h.file("b.yaml", userManifest("b", `{userName: a}`))
	h.await("b", "UserNameConflict", is("UserNameConflict"))
	if err := os.Remove(filepath.Join(h.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	h.await("b", "Reconciled after the older one has gone", is("Reconciled"))
	h.file("c.yaml", userManifest("c", `{authentication: {type: tls}}`))
	h.await("c", "Reconciled", is("Reconciled"))
	h.file("d.yaml", userManifest("d", byReference))
	h.await("d", "SecretNotFound", is("SecretNotFound"))
	h.file("secret.yaml", strings.Replace(secretManifest("shared", "pw"), "key:", "other:", 1))
	h.await("d", "InvalidSecret", is("InvalidSecret"))

	// A bad annotation is no reason to have no password, and no change of spec.
	annotated := func(value string) string {
		return strings.Replace(userManifest("e", `{authentication: {type: scram-sha-512}}`), "{name: e}", "{name: e, annotations: {"+meta.QuotaOverrideAnnotation+": "+value+"}}", 1)
	}
	h.file("e.yaml", annotated("bad"))
	if e := h.await("e", "InvalidQuotaOverride", is("InvalidQuotaOverride")); keysOf(e) == "" {
		t.Error("a user with a bad override got no password")
	}
	h.file("e.yaml", annotated("good"))
	h.await("e", "Reconciled", is("Reconciled"))
	h.file("e.yaml", annotated("bad"))
	h.await("e", "InvalidQuotaOverride after an edit of the annotation only", is("InvalidQuotaOverride"))
}

func TestPasswordFromASecret(t *testing.T) {
	t.Parallel()
	h := newUserHarness(t)
	h.file("secret.yaml", secretManifest("shared", "first"))
	h.file("u.yaml", "# mine\n"+userManifest("u", byReference))
	u := h.await("u", "with keys", func(u *meta.KafkaUser) bool { return reason(u) == "Reconciled" && u.Status.PasswordCheck != nil })
	if !strings.HasPrefix(keysOf(u), "first/") || u.Status.Secret != "shared" {
		t.Errorf("%+v", u)
	}
	// Keys that an admin request sets stay, whatever else is edited.
	if _, err := h.store.Patch(t.Context(), meta.KindUser, "u", []byte(`{"spec":{"authentication":{"scram":{"keys":"rotated/0"}},"quotas":{"x":1}}}`)); err != nil {
		t.Fatal(err)
	}
	u = h.await("u", "reconciled after the rotation", func(u *meta.KafkaUser) bool { return reason(u) == "Reconciled" && u.Spec.Quotas["x"] != nil })
	if keysOf(u) != "rotated/0" {
		t.Errorf("keys %q", keysOf(u))
	}
	h.file("secret.yaml", secretManifest("shared", "second"))
	h.await("u", "with the keys of the edited Secret", func(u *meta.KafkaUser) bool { return strings.HasPrefix(keysOf(u), "second/") })
	if err := os.Remove(filepath.Join(h.dir, "secret.yaml")); err != nil {
		t.Fatal(err)
	}
	u = h.await("u", "SecretNotFound", is("SecretNotFound"))
	if !strings.HasPrefix(keysOf(u), "second/") {
		t.Error("the keys went with the Secret")
	}
	text, err := os.ReadFile(filepath.Join(h.dir, "u.yaml"))
	if err != nil || !strings.HasPrefix(string(text), "# mine\n") {
		t.Error("the file lost its text", err)
	}
	journal, err := os.ReadFile(filepath.Join(h.dir, ".kaas", "journal"))
	if err != nil || strings.Contains(string(journal), `"Secret"`) {
		t.Error("the journal knows of the Secret", err)
	}
}

func TestGeneratedPassword(t *testing.T) {
	t.Parallel()
	h := newUserHarness(t)
	h.file("u.yaml", userManifest("u", `{userName: 'CN="u"', authentication: {type: scram-sha-512}}`))
	u := h.await("u", "with keys", func(u *meta.KafkaUser) bool { return reason(u) == "Reconciled" && u.Status.PasswordCheck != nil })
	object, err := h.store.Get(t.Context(), meta.KindSecret, "u")
	if err != nil {
		t.Fatal(err)
	}
	password, _ := object.(*meta.Secret).Value("password")
	jaas, _ := object.(*meta.Secret).Value("sasl.jaas.config")
	if len(password) < 40 || !strings.HasPrefix(keysOf(u), password+"/") || !strings.Contains(jaas, `username="CN=\"u\"" password="`+password) {
		t.Errorf("%q %q %q", password, keysOf(u), jaas)
	}
	path := filepath.Join(h.dir, "secret-u.yaml")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error("the file of the password can be read by others", err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// After a password from elsewhere the Secret is one that does not log in, which is said, and said on.
	if _, err := h.store.Patch(t.Context(), meta.KindUser, "u", []byte(`{"spec":{"authentication":{"scram":{"keys":"other/x"}}}}`)); err != nil {
		t.Fatal(err)
	}
	const stale = "the password was set by an admin request; Secret u still holds another one, which does not log in"
	saysStale := func(u *meta.KafkaUser) bool {
		ready := meta.FindCondition(u.Status.Conditions, meta.ConditionReady)
		return u.Status.ObservedGeneration == u.Metadata.Generation && ready.Status == "True" && ready.Message == stale
	}
	h.await("u", "with a Secret that does not fit", saysStale)
	// Another thing that is wrong for a while does not make it forget.
	override := func(value string) {
		t.Helper()
		if _, err := h.store.Patch(t.Context(), meta.KindUser, "u", []byte(`{"metadata":{"annotations":{"`+meta.QuotaOverrideAnnotation+`":`+value+`}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	override(`"bad"`)
	h.await("u", "InvalidQuotaOverride", func(u *meta.KafkaUser) bool {
		return meta.FindCondition(u.Status.Conditions, meta.ConditionReady).Reason == "InvalidQuotaOverride"
	})
	override("null")
	h.await("u", "with a Secret that does not fit", saysStale)
	// Keys that are taken out come back from the same password.
	if _, err := h.store.Patch(t.Context(), meta.KindUser, "u", []byte(`{"spec":{"authentication":{"scram":null}}}`)); err != nil {
		t.Fatal(err)
	}
	h.await("u", "with keys again", func(now *meta.KafkaUser) bool {
		return keysOf(now) != "" && keysOf(now) != keysOf(u) && strings.HasPrefix(keysOf(now), password)
	})
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Error("the Secret was written again", err)
	}
	if err := h.store.Delete(t.Context(), meta.KindUser, "u", ""); err != nil {
		t.Fatal(err)
	}
	secrets, err := h.store.Watch(t.Context(), meta.KindSecret, "")
	if err != nil {
		t.Fatal(err)
	}
	for event := range secrets {
		if event.Type == meta.Deleted {
			break
		}
		if event.Type == meta.Synced {
			if _, err := h.store.Get(t.Context(), meta.KindSecret, "u"); err != nil {
				break // it went before
			}
		}
	}
}

// TestForeignSecretsStay: a Secret that happens to have the user's name is used and
// never written or deleted; without a password in it, it is refused.
func TestForeignSecretsStay(t *testing.T) {
	t.Parallel()
	h := newUserHarness(t)
	h.file("secret.yaml", strings.Replace(secretManifest("u", "pw"), "key:", "other:", 1))
	h.file("u.yaml", userManifest("u", `{authentication: {type: scram-sha-512}}`))
	h.await("u", "InvalidSecret", is("InvalidSecret"))
	if err := h.store.Delete(t.Context(), meta.KindUser, "u", ""); err != nil {
		t.Fatal(err)
	}
	h.file("v.yaml", userManifest("v", `{}`))
	h.await("v", "Reconciled", is("Reconciled")) // events are in order: the deletion was seen
	if _, err := h.store.Get(context.Background(), meta.KindSecret, "u"); err != nil {
		t.Error(err)
	}
}

// A user that was removed while no broker ran leaves no password behind for the next
// one of that name; but not while a file can't be read, which may hold the user.
func TestPasswordOfAUserRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	h := newUserHarness(t)
	for _, name := range []string{"gone", "kept"} {
		h.file(name+".yaml", userManifest(name, `{authentication: {type: scram-sha-512}}`))
		h.await(name, "with keys", func(u *meta.KafkaUser) bool { return reason(u) == "Reconciled" && u.Status.PasswordCheck != nil })
	}
	h.file("mine.yaml", secretManifest("mine", "pw"))
	h.file("last.yaml", userManifest("last", `{}`))
	h.await("last", "Reconciled", is("Reconciled"))
	dir := killed(t, h.store, h.dir)
	if err := os.Remove(filepath.Join(dir, "gone.yaml")); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.yaml")
	write(t, broken, "kind: [\n")
	secrets := func(dir string) string {
		found, err := filepath.Glob(filepath.Join(dir, "secret-*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		return strings.Join(found, " ")
	}
	const both = "secret-gone.yaml secret-kept.yaml"
	again := userHarnessIn(t, dir)
	again.file("new.yaml", userManifest("new", `{}`))
	again.await("new", "Reconciled", is("Reconciled")) // what comes first is done
	if got := secrets(dir); got != both {
		t.Errorf("%s, want %s", got, both)
	}
	dir = killed(t, again.store, dir)
	if err := os.Remove(filepath.Join(dir, "broken.yaml")); err != nil {
		t.Fatal(err)
	}
	again = userHarnessIn(t, dir)
	eventually(t, "only the other user's is there", func() bool { return secrets(dir) == "secret-kept.yaml" })
	if _, err := os.Stat(filepath.Join(dir, "mine.yaml")); err != nil {
		t.Error("a Secret of nobody was deleted:", err)
	}
	again.file("gone.yaml", userManifest("gone", `{authentication: {type: scram-sha-512}}`))
	first, second := keysOf(h.user["gone"]), ""
	again.await("gone", "with keys", func(u *meta.KafkaUser) bool { second = keysOf(u); return second != "" })
	if password, _, _ := strings.Cut(first, "/"); strings.HasPrefix(second, password) {
		t.Errorf("the next user has the password of the last: %s, %s", first, second)
	}
}
