package admin

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/logstore"
)

func (h *harness) moveTo(version int16, dir, topic string, partition int32) int16 {
	h.t.Helper()
	request := kmsg.NewPtrAlterReplicaLogDirsRequest()
	target := kmsg.NewAlterReplicaLogDirsRequestDir()
	target.Dir = dir
	asked := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	asked.Topic, asked.Partitions = topic, []int32{partition}
	target.Topics = append(target.Topics, asked)
	request.Dirs = append(request.Dirs, target)
	answer := h.call(request, version).(*kmsg.AlterReplicaLogDirsResponse)
	if len(answer.Topics) != 1 || answer.Topics[0].Topic != topic || len(answer.Topics[0].Partitions) != 1 || answer.Topics[0].Partitions[0].Partition != partition {
		h.t.Fatalf("%+v", answer)
	}
	return answer.Topics[0].Partitions[0].ErrorCode
}

// The codes are those of Apache Kafka 4.4, but for a move, which is not built.
func TestAlterReplicaLogDirs(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	store, err := logstore.Open(t.Context(), logstore.Options{Dirs: []string{first, second}, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's context has ended by now, and a store that is not given time leaves its work.
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	log, err := store.Ensure("t", [16]byte{1}, 0, logstore.Config{SegmentBytes: 1 << 20, SegmentIndexBytes: 1 << 10, IndexIntervalBytes: 4096, MaxMessageBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	other := first
	if log.Dir() == first {
		other = second
	}
	denied := false
	h := newHarness(t, harnessOptions{authorizer: denier(func(op auth.Operation, resource auth.ResourceType, _ string) bool {
		return denied && op == auth.OperationAlter && resource == auth.ResourceCluster
	})})
	h.admin.Logs = store
	for version := int16(1); version <= 2; version++ {
		for i, test := range []struct {
			dir, topic string
			partition  int32
			want       int16
		}{
			{log.Dir(), "t", 0, 0}, {log.Dir() + "/", "t", 0, 0}, {log.Dir(), "t", 7, 3}, {log.Dir(), "nope", 0, 3},
			{filepath.Join(first, "deeper"), "t", 0, 57}, {"relative", "t", 0, 57}, {"", "nope", 0, 57}, {other, "t", 0, 0},
		} {
			if got := h.moveTo(version, test.dir, test.topic, test.partition); got != test.want {
				t.Errorf("v%d, %d: %d, want %d", version, i, got, test.want)
			}
		}
	}
	denied = true
	if got := h.moveTo(2, log.Dir(), "t", 0); got != 31 {
		t.Error(got)
	}
}
