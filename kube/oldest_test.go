package kube_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/kube"
	"kaas/kube/filestore"
	"kaas/meta"
)

// A manifest that was copied under another name, with the status and the age that stand
// in it, takes nothing from the original: not when it comes while the broker runs, not
// when it comes while none does, whatever the two are called, and not later either.
func TestCopiedManifestTakesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"running", "stopped", "stopped, journal gone"} {
		for _, byHand := range []bool{false, true} {
			for _, name := range []string{"aaa", "zzz"} {
				for _, claim := range []string{"as it is", "topicName"} {
					t.Run(strings.Join([]string{how, map[bool]string{true: "by hand", false: "by a request"}[byHand], name, claim}, " "), func(t *testing.T) {
						t.Parallel()
						if how == "stopped, journal gone" && byHand {
							t.Skip("nothing in the files tells which of them was first")
						}
						copiedManifest(t, how, name, byHand, claim == "topicName")
					})
				}
			}
		}
	}
}

// killed is a copy of the directory at this moment, as a killed broker leaves it when
// it has written what it had to.
func killed(t *testing.T, s *filestore.Store, dir string) string {
	t.Helper()
	look(s, 0) // the journal's lines come behind the status that was waited for
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func copiedManifest(t *testing.T, how, name string, byHand, claims bool) {
	dir := t.TempDir()
	original := filepath.Join(dir, "kafkatopic-orders.yaml")
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	if byHand {
		write(t, original, manifestOf("orders", "  partitions: 2\n"))
		look(s, time.Second)
	} else if _, err := s.Create(t.Context(), meta.NewKafkaTopic("orders")); err != nil {
		t.Fatal(err)
	}
	id := awaitReason(t, s, "orders", "Reconciled").Status.TopicID
	eventually(t, "the id is in the file", func() bool { return strings.Contains(read(t, original), id.String()) })
	copied := strings.Replace(read(t, original), "  name: orders", "  name: "+name, 1)
	reason := "Reconciled" // a topic of its own, by its resource's name
	if claims {
		copied = strings.Replace(copied, "spec:", "spec:\n  topicName: orders", 1)
		copied = strings.Replace(copied, "spec:\n  topicName: orders {}", "spec:\n  topicName: orders", 1)
		reason = "TopicNameConflict"
	}
	check := func() {
		t.Helper()
		other := awaitReason(t, s, name, reason)
		topic := awaitReason(t, s, "orders", "Reconciled")
		if topic.Status.TopicID != id || other.Status.TopicID == id {
			t.Fatalf("the topic has the id %s, the original %s and the copy %s", id, topic.Status.TopicID, other.Status.TopicID)
		}
	}
	restart := func(between func()) {
		t.Helper()
		dir = killed(t, s, dir)
		between()
		s = openStore(t, dir)
		startReconciler(t, s, nil)
	}
	path := func() string { return filepath.Join(dir, "a-copy.yaml") }
	switch how {
	case "running":
		write(t, path(), copied)
		look(s, time.Second)
	case "stopped":
		restart(func() { write(t, path(), copied) })
	default:
		restart(func() {
			write(t, path(), copied)
			if err := os.RemoveAll(filepath.Join(dir, ".kaas")); err != nil {
				t.Fatal(err)
			}
		})
	}
	check()
	restart(func() {})
	check()
	// And without the memory of either.
	restart(func() {
		if err := os.RemoveAll(filepath.Join(dir, ".kaas")); err != nil {
			t.Fatal(err)
		}
	})
	check()
}

// An old file over a newer topic of the same name: what it asks for counts, what it
// remembers does not.
func TestOldFileOverANewerTopic(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"running", "renamed over, running", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "kafkatopic-orders.yaml")
			s := openStore(t, dir)
			startReconciler(t, s, nil)
			create := func(partitions int32) meta.UUID {
				t.Helper()
				topic := meta.NewKafkaTopic("orders")
				topic.Spec.Partitions = &partitions
				topic.Spec.Config = map[string]any{"retention.ms": int(partitions)}
				if _, err := s.Create(t.Context(), topic); err != nil {
					t.Fatal(err)
				}
				return awaitReason(t, s, "orders", "Reconciled").Status.TopicID
			}
			older := create(5)
			saved := read(t, path)
			if err := s.Delete(t.Context(), meta.KindTopic, "orders", ""); err != nil {
				t.Fatal(err)
			}
			newer := create(3)
			if older == newer || !strings.Contains(saved, older.String()) {
				t.Fatal(older, newer, saved)
			}
			switch how {
			case "running":
				write(t, path, saved)
				look(s, time.Second)
			case "renamed over, running":
				write(t, path+".new", saved)
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
				look(s, time.Second)
			case "stopped":
				dir = killed(t, s, dir)
				path = filepath.Join(dir, "kafkatopic-orders.yaml")
				write(t, path, saved)
				s = openStore(t, dir)
				startReconciler(t, s, nil)
			}
			eventually(t, "the old file's spec is in force", func() bool { return mustTopic(t, s, "orders").Status.PartitionCount == 5 })
			topic := awaitReason(t, s, "orders", "Reconciled")
			if topic.Status.TopicID != newer || topic.Status.Config["retention.ms"] != "5" {
				t.Errorf("%+v", topic.Status)
			}
			eventually(t, "the file has the newer id", func() bool {
				text := read(t, path)
				return strings.Contains(text, newer.String()) && !strings.Contains(text, older.String())
			})
			// The other way round it takes partitions away, which is refused.
			smaller := strings.Replace(saved, "partitions: 5", "partitions: 1", 1)
			write(t, path, smaller)
			look(s, time.Minute)
			if topic := awaitReason(t, s, "orders", "InvalidPartitionCount"); topic.Status.TopicID != newer || topic.Status.PartitionCount != 5 {
				t.Errorf("%+v", topic.Status)
			}
		})
	}
}

// An age that stands in a file does not make a newcomer the older of two: a user, whose
// name decides who gets in, a group's configuration, a topic that is refused.
func TestLaterIsNotOlder(t *testing.T) {
	t.Parallel()
	const forged = "metadata: {name: aaa, creationTimestamp: 2001-01-01T00:00:00Z}\n"
	for _, kind := range []struct {
		kind      meta.Kind
		manifest  string
		claims    string
		oldReason string
		reason    string
	}{
		{meta.KindUser, "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata: {name: mine}\nspec: {}\n", "spec: {userName: mine}\n", "Reconciled", "UserNameConflict"},
		{meta.KindGroupConfig, "apiVersion: kaas.io/v1alpha1\nkind: KafkaGroupConfig\nmetadata: {name: mine}\nspec: {}\n", "spec: {name: mine}\n", "Reconciled", "ConfigConflict"},
		{meta.KindBrokerConfig, "apiVersion: kaas.io/v1alpha1\nkind: KafkaBrokerConfig\nmetadata: {name: mine}\nspec: {}\n", "spec: {}\n", "Reconciled", "BrokerConfigConflict"},
		{meta.KindTopic, "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: mine}\nspec: {config: {bad: 1}}\n", "spec: {topicName: mine}\n", "InvalidConfig", "TopicNameConflict"},
	} {
		t.Run(string(kind.kind), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openStore(t, dir)
			startAll(t, s)
			reasons := func(s meta.ResourceStore, want string) {
				t.Helper()
				eventually(t, want, func() bool {
					objects, _, err := s.List(context.Background(), kind.kind)
					if err != nil {
						t.Fatal(err)
					}
					var got []string
					for _, object := range objects {
						for _, condition := range conditionsOf(object) {
							got = append(got, object.Meta().Name+" "+condition.Reason)
						}
					}
					return strings.Join(got, ", ") == want
				})
			}
			write(t, filepath.Join(dir, "mine.yaml"), kind.manifest)
			look(s, time.Second)
			reasons(s, "mine "+kind.oldReason)
			head, _, _ := strings.Cut(kind.manifest, "metadata")
			write(t, filepath.Join(dir, "aaa.yaml"), head+forged+kind.claims)
			look(s, time.Second)
			want := "aaa " + kind.reason + ", mine " + kind.oldReason
			reasons(s, want)
			s = openStore(t, killed(t, s, dir))
			startAll(t, s)
			reasons(s, want)
		})
	}
}

// startAll starts a reconciler for each kind.
func startAll(t *testing.T, s meta.ResourceStore) {
	t.Helper()
	startReconciler(t, s, nil)
	users := kube.StartUsers(kube.UserOptions{Store: s, Logger: testLogger(t), Check: func(*meta.KafkaUser) error { return nil }, CheckOverride: func(*meta.KafkaUser) error { return nil }})
	t.Cleanup(users.Close)
	groups, err := kube.StartConfigs(t.Context(), kube.ConfigOptions{Kind: meta.KindGroupConfig, Store: s, Logger: testLogger(t),
		Check: func(string, map[string]string) error { return nil }, Apply: func(meta.NamedConfigs) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(groups.Close)
	brokers, err := kube.StartBrokerConfig(t.Context(), kube.BrokerConfigOptions{Store: s, Logger: testLogger(t),
		Check: func(bool, map[string]string) error { return nil }, Apply: func(_, _ map[string]string) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(brokers.Close)
}

func conditionsOf(object meta.Object) []meta.Condition {
	switch o := object.(type) {
	case *meta.KafkaTopic:
		return o.Status.Conditions
	case *meta.KafkaUser:
		return o.Status.Conditions
	case *meta.KafkaConfig:
		return o.Status.Conditions
	case *meta.KafkaBrokerConfig:
		return o.Status.Conditions
	}
	return nil
}
