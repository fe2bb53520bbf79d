package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/meta"
)

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

const handWritten = `# the orders of the shop
apiVersion: kaas.io/v1alpha1
kind: KafkaTopic
metadata:
  name: orders   # plain
spec:
  # three are enough
  partitions: 3
  config:
    retention.ms: 600000   # ten minutes
    "cleanup.policy": 'delete'

# the end
`

func TestHandWrittenFileKeepsItsText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "shop", "topics.yaml")
	write(t, path, handWritten)
	s := openStore(t, dir)
	topic := mustTopic(t, s, "orders")
	if *topic.Spec.Partitions != 3 || topic.Metadata.UID == "" || topic.Metadata.Generation != 1 {
		t.Fatalf("%+v", topic)
	}
	topic.Status.TopicID, topic.Status.TopicName, topic.Status.PartitionCount = meta.NewUUID(), "orders", 3
	topic.Status.Conditions = []meta.Condition{{Type: meta.ConditionReady, Status: "True", Reason: "Reconciled"}}
	stored, err := s.UpdateStatus(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, path)
	if !strings.HasPrefix(text, handWritten[:strings.Index(handWritten, "\n# the end")]) || !strings.Contains(text, "# the end") {
		t.Fatalf("the user's text changed:\n%s", text)
	}
	before := read(t, path)
	if _, err := s.UpdateStatus(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if text := read(t, path); text != before {
		t.Fatalf("written without a change:\n%s", text)
	}
	// An admin request changes spec: comments stay, the rest of the file, too.
	if _, err := s.Patch(t.Context(), meta.KindTopic, "orders", []byte(`{"spec":{"partitions":5,"config":{"retention.ms":null,"segment.ms":700000}}}`)); err != nil {
		t.Fatal(err)
	}
	text = read(t, path)
	for _, want := range []string{"# the orders of the shop\n", "name: orders   # plain\n", "# three are enough", "partitions: 5", "segment.ms: 700000", "# the end", stored.(*meta.KafkaTopic).Status.TopicID.String()} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "retention.ms") || strings.Count(text, "# the end") != 1 || strings.Count(text, "# three are enough") != 1 {
		t.Errorf("wrong text:\n%s", text)
	}
	if topic := mustTopic(t, s, "orders"); topic.Metadata.Generation != 2 || *topic.Spec.Partitions != 5 {
		t.Errorf("%+v", topic)
	}
}

// A slip of the pen is not silent.
func TestPartsWithoutEffectAreLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "field.yaml"), manifestOf("field", "  partitons: 7\n"))
	write(t, filepath.Join(dir, "kind.yaml"), strings.Replace(manifestOf("kind", "  partitions: 1\n"), "KafkaTopic", "KafkaTopics", 1))
	write(t, filepath.Join(dir, "version.yaml"), strings.Replace(manifestOf("version", "  partitions: 1\n"), "kaas.io/v1alpha1", "kafka.strimzi.io/v1beta2", 1))
	write(t, filepath.Join(dir, "other.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n")
	write(t, filepath.Join(dir, "others.yaml"), "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
	write(t, filepath.Join(dir, "list.yaml"), "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: kaas.io/v1alpha1, kind: KafkaTopic, metadata: {name: a}}\n")
	write(t, filepath.Join(dir, "good.yaml"), manifestOf("good", "  partitions: 1\n  replicas: 3\n  topicName: Good\n  config: {retentionMs: 1}\n"))
	var log strings.Builder
	s, err := Open(Options{Dir: dir, Logger: logTo(&log), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"field.yaml", "partitons", "kind.yaml", "KafkaTopics", "version.yaml", "kafka.strimzi.io/v1beta2", "a List is not read"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
	if strings.Count(log.String(), "has no effect") != 2 || strings.Count(log.String(), "can't be read") != 2 {
		t.Errorf("%s", log.String())
	}
}

// Clients would take the new topic, whose records are others, for the old one.
func TestDeletedTopicsIDDoesNotComeBackWithItsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, manifestOf("a", "  partitions: 1\n"))
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	before := awaitReason(t, s, "a", "Reconciled").Status.TopicID
	saved := read(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(s, 0)
	look(s, time.Minute)
	if names(t, s) != "" {
		t.Fatal(names(t, s))
	}
	write(t, path, saved)
	look(s, time.Minute)
	if after := awaitReason(t, s, "a", "Reconciled").Status.TopicID; after == before {
		t.Errorf("the new topic has the id of the deleted one, %v", after)
	}
}
