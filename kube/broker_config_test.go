package kube_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"kaas/kube"
	"kaas/meta"
)

// appliedConfig collects what a reconciler put in force.
type appliedConfig struct {
	mu  sync.Mutex
	now string
}

func (a *appliedConfig) load() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

func startBrokerConfig(t *testing.T, store meta.ResourceStore) (*appliedConfig, *kube.BrokerConfigReconciler) {
	t.Helper()
	applied := &appliedConfig{}
	r, err := kube.StartBrokerConfig(t.Context(), kube.BrokerConfigOptions{
		Store: store, Logger: testLogger(t), NodeID: 3,
		Check: func(_ bool, values map[string]string) error {
			for key := range values {
				if strings.HasPrefix(key, "bad") {
					return errors.New("read only: " + key)
				}
			}
			return nil
		},
		Apply: func(cluster, broker map[string]string) {
			applied.mu.Lock()
			defer applied.mu.Unlock()
			applied.now = fmt.Sprint(cluster, broker)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return applied, r
}

func brokerConfigManifest(name, spec string) string {
	return "apiVersion: kaas.io/v1alpha1\nkind: KafkaBrokerConfig\nmetadata:\n  name: " + name + "\nspec:\n" + spec
}

func TestBrokerConfigWholeLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "all.yaml"), brokerConfigManifest("all", "  config: {logRetentionMs: 5}\n"))
	write(t, filepath.Join(dir, "other.yaml"), brokerConfigManifest("other", "  brokerId: 4\n  config: {x.y: 5}\n"))
	s := openStore(t, dir)
	applied, r := startBrokerConfig(t, s)
	expect := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return applied.load() == want })
	}
	reason := func(name, want string) {
		t.Helper()
		eventually(t, name+" is "+want, func() bool {
			object, err := s.Get(context.Background(), meta.KindBrokerConfig, name)
			if err != nil {
				return false
			}
			c := object.(*meta.KafkaBrokerConfig)
			ready := meta.FindCondition(c.Status.Conditions, meta.ConditionReady)
			return ready != nil && ready.Reason == want && c.Status.ObservedGeneration == c.Metadata.Generation
		})
	}
	expect("map[log.retention.ms:5] map[]")
	id := int32(3)
	own := meta.NewKafkaBrokerConfig(&id)
	own.Spec.Config = map[string]any{"a.b": "1"}
	if _, err := s.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	expect("map[log.retention.ms:5] map[a.b:1]")
	// Refused whole; what was in force stays, over a restart, too.
	if _, err := s.Patch(t.Context(), meta.KindBrokerConfig, "broker-3", []byte(`{"spec":{"config":{"bad.key":"1","a.b":"2"}}}`)); err != nil {
		t.Fatal(err)
	}
	reason("broker-3", "InvalidConfig")
	expect("map[log.retention.ms:5] map[a.b:1]")
	r.Close()
	applied, r = startBrokerConfig(t, s)
	if got := applied.load(); got != "map[log.retention.ms:5] map[a.b:1]" {
		t.Error(got)
	}
	if _, err := s.Patch(t.Context(), meta.KindBrokerConfig, "broker-3", []byte(`{"spec":{"config":{"bad.key":null}}}`)); err != nil {
		t.Fatal(err)
	}
	expect("map[log.retention.ms:5] map[a.b:2]")
	// A second one for the same brokers is harmless and says so.
	second := meta.NewKafkaBrokerConfig(nil)
	second.Metadata.Name, second.Spec.Config = "second", map[string]any{"c.d": "1"}
	if _, err := s.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	reason("second", "BrokerConfigConflict")
	if got := applied.load(); got != "map[log.retention.ms:5] map[a.b:2]" {
		t.Error(got)
	}
	if err := s.Delete(t.Context(), meta.KindBrokerConfig, "all", ""); err != nil {
		t.Fatal(err)
	}
	expect("map[c.d:1] map[a.b:2]")
	reason("second", "Reconciled")
	r.Close()
}
