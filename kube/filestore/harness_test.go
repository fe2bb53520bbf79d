package filestore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kaas/kube"
	"kaas/meta"
)

// eventually waits for what another goroutine does; it fails after a long time
// only, so that a slow machine does not.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(end) {
			t.Fatalf("not true in time: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func startReconciler(t *testing.T, store meta.ResourceStore, change func(*kube.ReconcilerOptions)) *kube.Reconciler {
	t.Helper()
	o := kube.ReconcilerOptions{
		Store: store, Logger: testLogger(t), DefaultPartitions: func() int32 { return 2 }, MaxPartitions: func() int32 { return 1000 },
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

func manifestOf(name, spec string) string {
	return "apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata:\n  name: " + name + "\nspec:\n" + spec
}

func readyOf(t *meta.KafkaTopic) meta.Condition {
	if c := meta.FindCondition(t.Status.Conditions, meta.ConditionReady); c != nil {
		return *c
	}
	return meta.Condition{}
}

func awaitReason(t *testing.T, s meta.ResourceStore, name, reason string) *meta.KafkaTopic {
	t.Helper()
	var topic *meta.KafkaTopic
	eventually(t, name+" has reason "+reason, func() bool {
		object, err := s.Get(context.Background(), meta.KindTopic, name)
		if err != nil {
			return false
		}
		topic = object.(*meta.KafkaTopic)
		return readyOf(topic).Reason == reason && topic.Status.ObservedGeneration == topic.Metadata.Generation
	})
	return topic
}
