package kube_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kaas/kube"
	"kaas/meta"
)

func TestReconcileWholeLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), manifestOf("orders", "  config: {retentionMs: 600000}\n"))
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	topic := awaitReason(t, s, "orders", "Reconciled")
	inForce, ok := topic.InForce()
	if !ok || inForce.PartitionCount != 2 || inForce.Name != "orders" || inForce.Config["retention.ms"] != "600000" {
		t.Fatalf("%+v", inForce)
	}
	id := inForce.ID
	patch := func(text string) {
		t.Helper()
		if _, err := s.Patch(t.Context(), meta.KindTopic, "orders", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		patch, reason string
		count         int32
		config        string
	}{
		{`{"spec":{"partitions":5}}`, "Reconciled", 5, "600000"},
		{`{"spec":{"partitions":4}}`, "InvalidPartitionCount", 5, "600000"},
		{`{"spec":{"partitions":0}}`, "InvalidPartitionCount", 5, "600000"},
		{`{"spec":{"partitions":1001}}`, "TooManyPartitions", 5, "600000"},
		{`{"spec":{"partitions":6,"config":{"bad.key":1}}}`, "InvalidConfig", 5, "600000"},
		{`{"spec":{"config":{"bad.key":null,"retention.ms":7}}}`, "InvalidConfig", 5, "600000"},
		{`{"spec":{"config":{"retentionMs":null}}}`, "Reconciled", 6, "7"},
		{`{"spec":{"topicName":"other"}}`, "TopicNameImmutable", 6, "7"},
		{`{"spec":{"topicName":null}}`, "Reconciled", 6, "7"},
	} {
		patch(step.patch)
		topic := awaitReason(t, s, "orders", step.reason)
		inForce, ok := topic.InForce()
		if !ok || inForce.ID != id || inForce.PartitionCount != step.count || inForce.Config["retention.ms"] != step.config || inForce.Name != "orders" {
			t.Errorf("after %s: %+v", step.patch, inForce)
		}
	}
}

// A deletion makes room for a topic that did not fit.
func TestTooManyPartitionsIsNotForEver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	startReconciler(t, s, nil) // at most 1,000
	write(t, filepath.Join(dir, "a.yaml"), manifestOf("a", "  partitions: 900\n"))
	look(s, time.Minute)
	awaitReason(t, s, "a", "Reconciled")
	write(t, filepath.Join(dir, "b.yaml"), manifestOf("b", "  partitions: 200\n"))
	look(s, time.Minute)
	awaitReason(t, s, "b", "TooManyPartitions")
	if err := s.Delete(t.Context(), meta.KindTopic, "a", ""); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, s, "b", "Reconciled")
}

func TestOldestResourceWins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	first, err := s.Create(t.Context(), meta.NewKafkaTopic("Orders_1"))
	if err != nil {
		t.Fatal(err)
	}
	topic := awaitReason(t, s, first.Meta().Name, "Reconciled")
	// Even a forged age does not take a topic away.
	second := "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: second, creationTimestamp: 2001-01-01T00:00:00Z}\nspec: {topicName: Orders_1, partitions: 9}\n"
	path := filepath.Join(dir, "second.yaml")
	write(t, path, second)
	look(s, time.Second)
	refused := awaitReason(t, s, "second", "TopicNameConflict")
	if c := readyOf(refused); c.Status != "False" || !strings.Contains(c.Message, "Orders_1") || !strings.Contains(c.Message, first.Meta().Name) {
		t.Fatalf("%+v", c)
	}
	if _, ok := refused.InForce(); ok {
		t.Fatal("the second is in force")
	}
	if text := read(t, path); !strings.HasPrefix(text, second) || !strings.Contains(text, "TopicNameConflict") {
		t.Fatal(text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(s, time.Second)
	look(s, time.Minute)
	if _, err := s.Get(t.Context(), meta.KindTopic, "second"); !errors.Is(err, meta.ErrNotFound) {
		t.Fatal(err)
	}
	if now := mustTopic(t, s, first.Meta().Name); now.Status.TopicID != topic.Status.TopicID {
		t.Fatal("the first lost its id")
	}
	// A copied file, status and all, is a new topic; the id stays with the first.
	copied := strings.Replace(strings.Replace(read(t, filepath.Join(dir, "kafkatopic-"+first.Meta().Name+".yaml")), "name: "+first.Meta().Name, "name: copied", 1), "topicName: Orders_1", "topicName: Copied", 1)
	write(t, filepath.Join(dir, "copied.yaml"), strings.Replace(copied, "creationTimestamp", "was", 1))
	look(s, time.Second)
	other := awaitReason(t, s, "copied", "Reconciled")
	if other.Status.TopicID == topic.Status.TopicID || other.Status.TopicName != "Copied" {
		t.Fatalf("%+v", other.Status)
	}
}

func TestCollidingName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x.yaml"), manifestOf("a.b", "  partitions: 1\n")+"---\n"+manifestOf("under", "  topicName: a_b\n")+"---\n"+manifestOf("slash", "  topicName: a/b\n"))
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	awaitReason(t, s, "a.b", "Reconciled")
	awaitReason(t, s, "under", "TopicNameCollision")
	awaitReason(t, s, "slash", "InvalidTopicName")
	if err := s.Delete(t.Context(), meta.KindTopic, "a.b", ""); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, s, "under", "Reconciled")
	if text := read(t, filepath.Join(dir, "x.yaml")); strings.Contains(text, "a.b\n") || strings.Count(text, "apiVersion") != 2 {
		t.Fatal(text)
	}
}

func TestLostStatusKeepsTheID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	plain := manifestOf("orders", "  partitions: 1\n")
	write(t, path, plain)
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	id := awaitReason(t, s, "orders", "Reconciled").Status.TopicID
	created := mustTopic(t, s, "orders").Metadata.CreationTimestamp

	write(t, path, plain) // by hand, while we run
	look(s, time.Second)
	if text := read(t, path); !strings.Contains(text, id.String()) {
		t.Fatalf("the status is not written back:\n%s", text)
	}

	// While no broker runs.
	dir2 := t.TempDir()
	if err := os.CopyFS(dir2, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir2, "a.yaml"), plain)
	s2 := openStore(t, dir2)
	startReconciler(t, s2, nil)
	topic := mustTopic(t, s2, "orders")
	if topic.Status.TopicID != id || !topic.Metadata.CreationTimestamp.Equal(created) || topic.Metadata.Generation != 1 {
		t.Fatalf("%+v", topic)
	}

	// Journal gone, too: the id of the data.
	dir3 := t.TempDir()
	write(t, filepath.Join(dir3, "a.yaml"), plain)
	s3 := openStore(t, dir3)
	startReconciler(t, s3, func(o *kube.ReconcilerOptions) {
		o.ExistingTopicID = func(string) (meta.UUID, bool) { return id, true }
	})
	if mustTopic(t, s3, "orders").Status.TopicID != id {
		t.Fatal("the id was rotated under data")
	}
	// Not for a topic that is made later.
	if err := s3.Delete(t.Context(), meta.KindTopic, "orders", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s3.Create(t.Context(), meta.NewKafkaTopic("orders")); err != nil {
		t.Fatal(err)
	}
	if awaitReason(t, s3, "orders", "Reconciled").Status.TopicID == id {
		t.Fatal("a new topic has an old id")
	}
}

func TestRefusedSpecsAreLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), manifestOf("a", "  partitions: 2\n  config: {bad: 1}\n"))
	s := openStore(t, dir)
	var log strings.Builder
	for range 2 { // a start says it, too
		r := startReconciler(t, s, func(o *kube.ReconcilerOptions) { o.Logger = logTo(&log) })
		awaitReason(t, s, "a", "InvalidConfig")
		r.Close()
	}
	if strings.Count(log.String(), "unknown topic config name: bad") != 2 {
		t.Errorf("%s", log.String())
	}
	if _, err := s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"spec":{"config":null}}`)); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	r := startReconciler(t, s, func(o *kube.ReconcilerOptions) { o.Logger = logTo(&log) })
	awaitReason(t, s, "a", "Reconciled")
	r.Close()
	for _, want := range []string{`msg="topic created" topic=a`, "is in force again"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
}

// watchedStore counts watches, and can end the one that is under way.
type watchedStore struct {
	meta.ResourceStore
	mu      sync.Mutex
	watches int
	end     context.CancelFunc
}

func (s *watchedStore) Watch(ctx context.Context, kind meta.Kind, revision string) (<-chan meta.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, s.end = context.WithCancel(ctx)
	s.watches++
	return s.ResourceStore.Watch(ctx, kind, revision)
}

func (s *watchedStore) endWatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

func (s *watchedStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watches
}

// The reconciler lists anew when its watch has ended, and at no other time: with many
// topics a list per change is what makes a broker slow.
func TestOneWatchIsEnough(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	store := &watchedStore{ResourceStore: s}
	startReconciler(t, store, nil)
	for i := range 20 {
		name := fmt.Sprint("t", i)
		if _, err := s.Create(t.Context(), meta.NewKafkaTopic(name)); err != nil {
			t.Fatal(err)
		}
		awaitReason(t, s, name, "Reconciled")
	}
	if got := store.count(); got != 1 {
		t.Errorf("%d watches for 20 topics", got)
	}
	store.endWatch()
	eventually(t, "it watches again", func() bool { return store.count() == 2 })
	if _, err := s.Create(t.Context(), meta.NewKafkaTopic("after")); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, s, "after", "Reconciled")
	if got := store.count(); got != 2 {
		t.Errorf("%d watches", got)
	}
}
