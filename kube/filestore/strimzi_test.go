package filestore

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"kaas/kube"
	"kaas/meta"
	"kaas/meta/config"
)

// strimzi is a topic as it stands in manifests for the Strimzi operator, with the
// config keys that are common there.
const strimzi = `apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata:
  name: my-topic
  namespace: kafka
  labels:
    strimzi.io/cluster: my-cluster
  annotations:
    strimzi.io/pause-reconciliation: "false"
spec:
  topicName: My_Topic
  partitions: 3
  replicas: 3
  config:
    retention.ms: 7200000
    segment.bytes: 1073741824
    retention.bytes: -1
    cleanup.policy: compact,delete
    compression.type: producer
    min.insync.replicas: 2
    unclean.leader.election.enable: false
    max.message.bytes: "2097164"
    min.cleanable.dirty.ratio: 0.5
    message.timestamp.type: CreateTime
`

// Manifests for Strimzi are taken with apiVersion changed.
func TestStrimziManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "topic.yaml"), strings.Replace(strimzi, "kafka.strimzi.io/v1beta2", meta.APIVersion, 1))
	s := openStore(t, dir)
	startReconciler(t, s, func(o *kube.ReconcilerOptions) {
		o.ValidateConfig = func(overrides map[string]string) error {
			_, err := config.ParseTopic(nil, overrides)
			return err
		}
	})
	topic := awaitReason(t, s, "my-topic", "Reconciled")
	inForce, ok := topic.InForce()
	want := map[string]string{
		"retention.ms": "7200000", "segment.bytes": "1073741824", "retention.bytes": "-1", "cleanup.policy": "compact,delete",
		"compression.type": "producer", "min.insync.replicas": "2", "unclean.leader.election.enable": "false", "max.message.bytes": "2097164",
		"min.cleanable.dirty.ratio": "0.5", "message.timestamp.type": "CreateTime",
	}
	if !ok || inForce.Name != "My_Topic" || inForce.PartitionCount != 3 || !maps.Equal(inForce.Config, want) {
		t.Errorf("%v %+v", ok, inForce)
	}
	if c := meta.FindCondition(topic.Status.Conditions, ConditionFieldsKnown); c != nil {
		t.Errorf("%+v", c)
	}
}

// A slip of the pen stands in status for as long as it is there; the rest is in
// force.
func TestUnknownFieldIsACondition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, manifestOf("a", "  partitons: 7\n  config: {retentionMs: 5}\n"))
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	topic := awaitReason(t, s, "a", "Reconciled")
	condition := meta.FindCondition(topic.Status.Conditions, ConditionFieldsKnown)
	if condition == nil || condition.Status != "False" || condition.Reason != "UnknownField" || !strings.Contains(condition.Message, "partitons") {
		t.Fatalf("%+v", topic.Status.Conditions)
	}
	if topic.Status.Config["retention.ms"] != "5" || topic.Status.PartitionCount != 2 {
		t.Errorf("%+v", topic.Status)
	}
	eventually(t, "the condition is in the file", func() bool { return strings.Contains(read(t, file), "FieldsKnown") })
	write(t, file, strings.Replace(read(t, file), "partitons: 7", "partitions: 7", 1))
	// A write takes in what its user has done to the file.
	if _, err := s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"metadata":{"labels":{"x":"y"}}}`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the condition is gone", func() bool {
		object, err := s.Get(t.Context(), meta.KindTopic, "a")
		if err != nil {
			t.Fatal(err)
		}
		now := object.(*meta.KafkaTopic)
		return meta.FindCondition(now.Status.Conditions, ConditionFieldsKnown) == nil && now.Status.PartitionCount == 7 && !strings.Contains(read(t, file), "FieldsKnown")
	})
}
