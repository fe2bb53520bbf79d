package kube_test

import (
	"context"
	"sync"
	"testing"

	"kaas/meta"
)

// editBefore edits a resource just before its first status is written, so that the
// write is a conflict.
type editBefore struct {
	meta.ResourceStore
	once  sync.Once
	patch string
	t     *testing.T
}

func (s *editBefore) UpdateStatus(ctx context.Context, object meta.Object) (meta.Object, error) {
	s.once.Do(func() {
		if _, err := s.Patch(ctx, object.ResourceKind(), object.Meta().Name, []byte(s.patch)); err != nil {
			s.t.Error(err)
		}
	})
	return s.ResourceStore.UpdateStatus(ctx, object)
}

// A config that is in force stays so when the edit that follows is refused, also when
// its own status could not be written any more.
func TestRefusedEditBeforeTheStatus(t *testing.T) {
	t.Parallel()
	const patch = `{"spec":{"config":{"bad.key":"1","a.b":"2"}}}`
	id := int32(3)
	broker := meta.NewKafkaBrokerConfig(&id)
	broker.Spec.Config = map[string]any{"a.b": "1"}
	group := meta.NewKafkaConfig(meta.KindGroupConfig, "g")
	group.Spec.Config = map[string]any{"a.b": "1"}
	for _, test := range []struct {
		name   string
		object meta.Object
		start  func(*testing.T, meta.ResourceStore) (func() string, func())
		want   string
	}{
		{"broker", broker, func(t *testing.T, s meta.ResourceStore) (func() string, func()) {
			applied, r := startBrokerConfig(t, s)
			return applied.load, r.Close
		}, "map[] map[a.b:1]"},
		{"group", group, func(t *testing.T, s meta.ResourceStore) (func() string, func()) {
			applied, r := startConfigs(t, s)
			return applied.load, r.Close
		}, "map[g:map[a.b:1]]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := &editBefore{ResourceStore: openStore(t, t.TempDir()), patch: patch, t: t}
			load, stop := test.start(t, s)
			created, err := s.Create(t.Context(), test.object)
			if err != nil {
				t.Fatal(err)
			}
			status := func() *meta.ConfigStatus {
				object, err := s.Get(t.Context(), created.ResourceKind(), created.Meta().Name)
				if err != nil {
					t.Fatal(err)
				}
				return object.(interface{ ConfigStatus() *meta.ConfigStatus }).ConfigStatus()
			}
			eventually(t, "the edit is refused", func() bool {
				ready := meta.FindCondition(status().Conditions, meta.ConditionReady)
				return ready != nil && ready.Reason == "InvalidConfig"
			})
			if got := status().Config["a.b"]; got != "1" {
				t.Errorf("status says a.b=%q", got)
			}
			if got := load(); got != test.want {
				t.Errorf("in force: %s", got)
			}
			stop()
			load, stop = test.start(t, s)
			if got := load(); got != test.want {
				t.Errorf("in force after a restart: %s", got)
			}
			stop()
		})
	}
}
