package filestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/internal/vfs"
	"kaas/kube"
	"kaas/meta"
)

// A topic and its status are one write, one event, and nothing follows.
func TestTopicsAreCreatedWithTheirStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := &stopFS{FS: vfs.OS, left: 1 << 30}
	s, err := Open(Options{Dir: dir, FS: disk, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	startReconciler(t, s, nil)
	events, err := s.Watch(t.Context(), meta.KindTopic, "")
	if err != nil {
		t.Fatal(err)
	}
	if event := next(t, events); event.Type != meta.Synced {
		t.Fatal(event)
	}
	disk.mu.Lock()
	files, dirs := disk.syncs, disk.dirSyncs
	disk.mu.Unlock()
	const n = 40
	ids := map[string]meta.UUID{}
	for _, result := range s.CreateAll(t.Context(), topicsNamed(n)) {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		topic := result.Object.(*meta.KafkaTopic)
		if !topic.Ready() || topic.Status.ObservedGeneration != 1 || topic.Status.PartitionCount != 1 || topic.Status.TopicName != topic.Metadata.Name {
			t.Fatalf("%+v", topic)
		}
		ids[topic.Metadata.Name] = topic.Status.TopicID
		if text := read(t, filepath.Join(dir, "kafkatopic-"+topic.Metadata.Name+".yaml")); !strings.Contains(text, topic.Status.TopicID.String()) {
			t.Fatal(text)
		}
	}
	disk.mu.Lock()
	if disk.syncs-files != n || disk.dirSyncs-dirs != 1 {
		t.Errorf("%d syncs of files, %d of directories", disk.syncs-files, disk.dirSyncs-dirs)
	}
	disk.mu.Unlock()
	before := s.revisionText()
	for range n {
		event := next(t, events)
		topic := event.Object.(*meta.KafkaTopic)
		if event.Type != meta.Added || topic.Status.TopicID != ids[topic.Metadata.Name] || topic.Status.TopicID.IsZero() {
			t.Fatalf("%v %+v", event.Type, topic)
		}
	}
	// What is created behind them has been reconciled: so have they, without a write.
	if _, err := s.Create(t.Context(), meta.NewKafkaTopic("bad_name/")); err == nil {
		awaitReason(t, s, meta.TopicResourceName("bad_name/"), "InvalidTopicName")
	}
	if now := s.revisionText(); now < before {
		t.Fatal(now, before)
	}
	for name, id := range ids {
		if topic := mustTopic(t, s, name); topic.Status.TopicID != id || topic.Metadata.ResourceVersion > before {
			t.Errorf("written again: %+v", topic)
		}
	}
}

// hastyAdmitter admits everything, as one does that is behind the store.
type hastyAdmitter struct{ withdrawn []string }

func (a *hastyAdmitter) Admit(_ context.Context, topics []*meta.KafkaTopic) {
	for _, topic := range topics {
		topic.Status = meta.KafkaTopicStatus{TopicID: meta.NewUUID(), TopicName: topic.KafkaName(), PartitionCount: 1,
			Conditions: []meta.Condition{{Type: meta.ConditionReady, Status: "True", Reason: "Reconciled"}}}
	}
}

func (a *hastyAdmitter) Withdraw(topics []*meta.KafkaTopic) {
	for _, topic := range topics {
		a.withdrawn = append(a.withdrawn, topic.Metadata.Name)
	}
}

// An admission does not stand against what the store knows at the time of the write.
func TestAdmissionOfAContestedName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mine.yaml"), manifestOf("mine", "  topicName: Orders\n"))
	s := openStore(t, dir)
	admitter := &hastyAdmitter{}
	s.SetTopicAdmitter(admitter)
	named := func(resource, topic string) meta.Object {
		object := meta.NewKafkaTopic(topic)
		object.Metadata.Name, object.Spec.TopicName = resource, topic
		return object
	}
	results := s.CreateAll(t.Context(), []meta.Object{
		named("second", "Orders"), named("free", "free"), named("dot", "a.b"), named("under", "a_b"), named("mine", "mine"), named("free", "free"), named("Bad", "x"),
	})
	var got []string
	for _, result := range results {
		switch {
		case result.Err != nil:
			got = append(got, "error")
		case result.Object.(*meta.KafkaTopic).Status.TopicID.IsZero():
			got = append(got, "bare")
		default:
			got = append(got, "status")
		}
	}
	if want := "[bare status status bare error error error]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	if want := "[mine free Bad]"; fmt.Sprint(admitter.withdrawn) != want {
		t.Errorf("withdrawn: %v, want %s", admitter.withdrawn, want)
	}
	if err := s.Delete(t.Context(), meta.KindTopic, "dot", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), meta.KindTopic, "under", ""); err != nil {
		t.Fatal(err)
	}
	again, err := s.Create(t.Context(), named("under", "a_b"))
	if err != nil || again.(*meta.KafkaTopic).Status.TopicID.IsZero() {
		t.Errorf("%+v, %v", again, err)
	}
	s.mu.Lock()
	objects := len(s.objects)
	s.mu.Unlock()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	sum := 0
	for _, count := range s.claims {
		sum += count
	}
	if sum != objects {
		t.Errorf("%d names for %d topics", sum, objects)
	}
}

// A topic that could not be stored gives back its name and its partitions.
func TestFailedCreationIsWithdrawn(t *testing.T) {
	t.Parallel()
	failing := false
	disk := &vfs.Faulty{FS: vfs.OS, Before: func(op vfs.Op) error {
		if failing {
			return errors.New("disk full")
		}
		return nil
	}}
	s, err := Open(Options{Dir: t.TempDir(), FS: disk, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	startReconciler(t, s, func(o *kube.ReconcilerOptions) { o.MaxPartitions = func() int32 { return 10 } })
	sized := func(name string) *meta.KafkaTopic {
		ten := int32(10)
		topic := meta.NewKafkaTopic(name)
		topic.Spec.Partitions = &ten
		return topic
	}
	failing = true
	if _, err := s.Create(t.Context(), sized("a.b")); !errors.Is(err, meta.ErrUnavailable) {
		t.Fatal(err)
	}
	failing = false
	created, err := s.Create(t.Context(), sized("a_b"))
	if err != nil {
		t.Fatal(err)
	}
	name := created.Meta().Name
	if topic := awaitReason(t, s, name, "Reconciled"); topic.Status.PartitionCount != 10 {
		t.Errorf("%+v", topic)
	}
	crowded, err := s.Create(t.Context(), sized("c"))
	if err != nil || !crowded.(*meta.KafkaTopic).Status.TopicID.IsZero() {
		t.Fatal(crowded, err)
	}
	awaitReason(t, s, "c", "TooManyPartitions")
}

// A creation that is killed at any step leaves no topic, or one with its id.
func TestKilledCreationHasItsIDOrNothing(t *testing.T) {
	t.Parallel()
	for steps, finished := 0, false; !finished; steps++ {
		if steps > 200 {
			t.Fatal("the creation does not end")
		}
		dir := t.TempDir()
		disk := &stopFS{FS: vfs.OS, left: 1 << 30}
		s, err := Open(Options{Dir: dir, FS: disk, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		r, err := kube.StartReconciler(t.Context(), kube.ReconcilerOptions{Store: s, Logger: testLogger(t)})
		if err != nil {
			t.Fatal(err)
		}
		disk.mu.Lock()
		disk.left = steps
		disk.mu.Unlock()
		acknowledged := map[string]meta.UUID{}
		finished = true
		for _, result := range s.CreateAll(t.Context(), topicsNamed(3)) {
			if finished = finished && result.Err == nil; result.Err == nil {
				acknowledged[result.Object.Meta().Name] = result.Object.(*meta.KafkaTopic).Status.TopicID
			}
		}
		r.Close()
		_ = s.Close() // its file system is dead
		again := openStore(t, dir)
		objects, _, err := again.List(t.Context(), meta.KindTopic)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			topic := object.(*meta.KafkaTopic)
			if id, ok := acknowledged[topic.Metadata.Name]; topic.Status.TopicID.IsZero() || ok && id != topic.Status.TopicID {
				t.Fatalf("killed after %d steps: %+v", steps, topic)
			}
			delete(acknowledged, topic.Metadata.Name)
		}
		if len(acknowledged) > 0 {
			t.Fatalf("killed after %d steps: lost %v", steps, acknowledged)
		}
	}
}
