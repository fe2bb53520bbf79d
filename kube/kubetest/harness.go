package kubetest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/kube"
	"kaas/meta"
)

// Logger writes to the test's log.
func Logger(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(line)))
	return len(line), nil
}

// LogTo collects a log.
func LogTo(out *strings.Builder) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, nil))
}

// Eventually waits for what another goroutine does; it fails after a long time and many
// polls only, so that a machine that is slow, or stood still, does not make it fail.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	end := time.Now().Add(20 * time.Second)
	for polls := 0; !condition(); polls++ {
		if polls > 2000 && time.Now().After(end) {
			t.Fatalf("not true in time: %s", what)
		}
		<-poll.C
	}
}

// Write makes or replaces a file, and the directories above it.
func Write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Read is the content of a file.
func Read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TopicManifest is a KafkaTopic; spec is its lines, indented by two.
func TopicManifest(name, spec string) string {
	return "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata:\n  name: " + name + "\nspec:\n" + spec
}

// StartReconciler reconciles topics until the test ends: two partitions are the
// default, 1,000 the bound, and config keys that begin with "bad" are refused.
func StartReconciler(t *testing.T, store meta.ResourceStore, change func(*kube.ReconcilerOptions)) *kube.Reconciler {
	t.Helper()
	o := kube.ReconcilerOptions{
		Store: store, Logger: Logger(t), DefaultPartitions: func() int32 { return 2 }, MaxPartitions: func() int32 { return 1000 },
		ValidateConfig: func(overrides map[string]string) error {
			for key := range overrides {
				if strings.HasPrefix(key, "bad") {
					return errors.New("unknown topic config name: " + key)
				}
			}
			return nil
		},
	}
	if change != nil {
		change(&o)
	}
	r, err := kube.StartReconciler(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// Topic is the topic of that resource name as the store has it.
func Topic(t *testing.T, s meta.ResourceStore, name string) *meta.KafkaTopic {
	t.Helper()
	object, err := s.Get(t.Context(), meta.KindTopic, name)
	if err != nil {
		t.Fatal(err)
	}
	return object.(*meta.KafkaTopic)
}

// Ready is the condition Ready of a topic; without one its fields are empty.
func Ready(t *meta.KafkaTopic) meta.Condition {
	if c := meta.FindCondition(t.Status.Conditions, meta.ConditionReady); c != nil {
		return *c
	}
	return meta.Condition{}
}

// AwaitReason waits until the status says, of the latest edit, that reason.
func AwaitReason(t *testing.T, s meta.ResourceStore, name, reason string) *meta.KafkaTopic {
	t.Helper()
	var topic *meta.KafkaTopic
	Eventually(t, name+" has reason "+reason, func() bool {
		object, err := s.Get(context.Background(), meta.KindTopic, name)
		if err != nil {
			return false
		}
		topic = object.(*meta.KafkaTopic)
		return Ready(topic).Reason == reason && topic.Status.ObservedGeneration == topic.Metadata.Generation
	})
	return topic
}
