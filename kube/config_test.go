package kube_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/kube"
	"kaas/meta"
)

func startConfigs(t *testing.T, store meta.ResourceStore) (*appliedConfig, *kube.ConfigReconciler) {
	t.Helper()
	applied := &appliedConfig{}
	r, err := kube.StartConfigs(t.Context(), kube.ConfigOptions{
		Kind: meta.KindGroupConfig, Store: store, Logger: testLogger(t),
		Check: func(_ string, values map[string]string) error {
			for key := range values {
				if strings.HasPrefix(key, "bad") {
					return errors.New("Unknown group config name: " + key)
				}
			}
			return nil
		},
		Apply: func(configs meta.NamedConfigs) {
			applied.mu.Lock()
			defer applied.mu.Unlock()
			applied.now = fmt.Sprint(configs)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return applied, r
}

// Configs of groups: refused whole or taken whole, what is in force stays over a
// restart, the oldest of two wins, files by hand count, other kinds do not.
func TestNamedConfigWholeLife(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	manifest := func(kind, name, spec string) string {
		return "apiVersion: kaas.io/v1alpha1\nkind: " + kind + "\nmetadata:\n  name: " + name + "\nspec:\n" + spec
	}
	write(t, filepath.Join(dir, "g.yaml"), manifest("KafkaGroupConfig", "plain", "  name: A/b\n  config: {consumerSessionTimeoutMs: 5}\n"))
	write(t, filepath.Join(dir, "m.yaml"), manifest("KafkaClientMetrics", "plain", "  config: {interval.ms: 5}\n"))
	s := openStore(t, dir)
	applied, r := startConfigs(t, s)
	expect := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return applied.load() == want })
	}
	reason := func(name, want string) {
		t.Helper()
		eventually(t, name+" is "+want, func() bool {
			object, err := s.Get(context.Background(), meta.KindGroupConfig, name)
			if err != nil {
				return false
			}
			c := object.(*meta.KafkaConfig)
			ready := meta.FindCondition(c.Status.Conditions, meta.ConditionReady)
			return ready != nil && ready.Reason == want && c.Status.ObservedGeneration == c.Metadata.Generation
		})
	}
	expect("map[A/b:map[consumer.session.timeout.ms:5]]")
	reason("plain", "Reconciled")
	// Refused whole; what was in force stays, over a restart, too.
	if _, err := s.Patch(t.Context(), meta.KindGroupConfig, "plain", []byte(`{"spec":{"config":{"bad.key":"1","consumerSessionTimeoutMs":6}}}`)); err != nil {
		t.Fatal(err)
	}
	reason("plain", "InvalidConfig")
	expect("map[A/b:map[consumer.session.timeout.ms:5]]")
	r.Close()
	applied, r = startConfigs(t, s)
	defer func() { r.Close() }()
	if got := applied.load(); got != "map[A/b:map[consumer.session.timeout.ms:5]]" {
		t.Error(got)
	}
	if _, err := s.Patch(t.Context(), meta.KindGroupConfig, "plain", []byte(`{"spec":{"config":{"bad.key":null}}}`)); err != nil {
		t.Fatal(err)
	}
	expect("map[A/b:map[consumer.session.timeout.ms:6]]")
	// A second one of the same group is harmless and says so.
	second := meta.NewKafkaConfig(meta.KindGroupConfig, "A/b")
	second.Spec.Config = map[string]any{"c.d": "1"}
	if _, err := s.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	reason(second.Metadata.Name, "ConfigConflict")
	expect("map[A/b:map[consumer.session.timeout.ms:6]]")
	if err := s.Delete(t.Context(), meta.KindGroupConfig, "plain", ""); err != nil {
		t.Fatal(err)
	}
	expect("map[A/b:map[c.d:1]]")
	reason(second.Metadata.Name, "Reconciled")
	// By hand, with nothing set: it has no effect and is no mistake.
	write(t, filepath.Join(dir, "e.yaml"), manifest("KafkaGroupConfig", "empty", "  config: {}\n"))
	look(s, time.Minute)
	reason("empty", "Reconciled")
	expect("map[A/b:map[c.d:1]]")
}
