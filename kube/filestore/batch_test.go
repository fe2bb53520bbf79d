package filestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"kaas/internal/vfs"
	"kaas/meta"
)

func topicsNamed(n int) []meta.Object {
	var objects []meta.Object
	for i := range n {
		one := int32(1)
		topic := meta.NewKafkaTopic(fmt.Sprint("t", i))
		topic.Spec.Partitions = &one
		objects = append(objects, topic)
	}
	return objects
}

func TestBatchSharesSyncs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk := &stopFS{FS: vfs.OS, left: 1 << 30}
	s, err := Open(Options{Dir: dir, FS: disk, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const n = 40
	count := func(want int, what string, write func()) {
		t.Helper()
		disk.mu.Lock()
		files, dirs := disk.syncs, disk.dirSyncs
		disk.mu.Unlock()
		write()
		disk.mu.Lock()
		defer disk.mu.Unlock()
		if disk.dirSyncs-dirs != 1 || disk.syncs-files != want {
			t.Errorf("%s: %d syncs of directories, %d of files", what, disk.dirSyncs-dirs, disk.syncs-files)
		}
	}
	var created []meta.Object
	count(n, "create", func() {
		for _, result := range s.CreateAll(t.Context(), topicsNamed(n)) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
			created = append(created, result.Object)
		}
	})
	count(n, "status", func() {
		for _, object := range created {
			object.(*meta.KafkaTopic).Status.PartitionCount = 1
		}
		for _, result := range s.UpdateStatusAll(t.Context(), created) {
			if result.Err != nil {
				t.Fatal(result.Err)
			}
		}
	})
	// The journal alone knows of deletions: one sync for all of them.
	count(1, "delete", func() {
		var deletions []meta.Deletion
		for _, object := range created {
			deletions = append(deletions, meta.Deletion{Kind: meta.KindTopic, Name: object.Meta().Name})
		}
		for _, err := range s.DeleteAll(t.Context(), deletions) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Writes of one batch that touch the same resource, or the same file, see one
// another.
func TestBatchKeepsOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "two.yaml"), manifestOf("a", "  partitions: 1\n")+"---\n"+manifestOf("b", "  partitions: 1\n"))
	s := openStore(t, dir)
	twice := append(topicsNamed(2), topicsNamed(1)...)
	results := s.CreateAll(t.Context(), twice)
	if results[0].Err != nil || results[1].Err != nil || !errors.Is(results[2].Err, meta.ErrAlreadyExists) {
		t.Errorf("%v %v %v", results[0].Err, results[1].Err, results[2].Err)
	}
	var both []meta.Object
	for _, name := range []string{"a", "b"} {
		object, err := s.Get(t.Context(), meta.KindTopic, name)
		if err != nil {
			t.Fatal(err)
		}
		object.(*meta.KafkaTopic).Status.PartitionCount = 7
		both = append(both, object)
	}
	for _, result := range s.UpdateStatusAll(t.Context(), both) {
		if result.Err != nil {
			t.Error(result.Err)
		}
	}
	errs := s.DeleteAll(t.Context(), []meta.Deletion{{Kind: meta.KindTopic, Name: "a"}, {Kind: meta.KindTopic, Name: "a"}, {Kind: meta.KindTopic, Name: "b"}, {Kind: meta.KindTopic, Name: "no"}})
	if errs[0] != nil || !errors.Is(errs[1], meta.ErrNotFound) || errs[2] != nil || !errors.Is(errs[3], meta.ErrNotFound) {
		t.Error(errs)
	}
	again := openStore(t, dir)
	if got := describe(t, again); got != "t0 partitions=1 id= config=map[];t1 partitions=1 id= config=map[];" {
		t.Error(got)
	}
}

// A batch that is cut at any step leaves each file old or new, and what was
// acknowledged is there.
func TestBatchKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	const n = 4
	for steps, finished := 0, false; !finished; steps++ {
		if steps > 200 {
			t.Fatal("the batch does not end")
		}
		dir := t.TempDir()
		disk := &stopFS{FS: vfs.OS, left: 1 << 30}
		s, err := Open(Options{Dir: dir, FS: disk, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		disk.mu.Lock()
		disk.left = steps
		disk.mu.Unlock()
		acknowledged := make(map[string]bool)
		finished = true
		for i, result := range s.CreateAll(t.Context(), topicsNamed(n)) {
			acknowledged[fmt.Sprint("t", i)] = result.Err == nil
			finished = finished && result.Err == nil
		}
		_ = s.Close() // its file system is dead
		again := openStore(t, dir)
		objects, _, err := again.List(t.Context(), meta.KindTopic)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if topic := object.(*meta.KafkaTopic); topic.Spec.Partitions == nil || *topic.Spec.Partitions != 1 {
				t.Fatalf("killed after %d steps: %+v", steps, topic)
			}
			delete(acknowledged, object.Meta().Name)
		}
		for name, was := range acknowledged {
			if was {
				t.Fatalf("killed after %d steps: %s was acknowledged and is gone", steps, name)
			}
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".kaas-*")); err != nil || len(left) != 0 {
			t.Fatalf("killed after %d steps: left behind %v, %v", steps, left, err)
		}
	}
}

// Writers that come at the same time share batches, and each has its own result.
func TestConcurrentWritersShareBatches(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	var group sync.WaitGroup
	for i, object := range topicsNamed(50) {
		group.Go(func() {
			created, err := s.Create(t.Context(), object)
			if err != nil {
				t.Error(err)
				return
			}
			topic := created.(*meta.KafkaTopic)
			topic.Status.PartitionCount = int32(i + 1)
			if _, err := s.UpdateStatus(t.Context(), topic); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := s.Delete(t.Context(), meta.KindTopic, topic.Metadata.Name, topic.Metadata.UID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	objects, _, err := s.List(t.Context(), meta.KindTopic)
	if err != nil || len(objects) != 25 {
		t.Fatal(len(objects), err)
	}
	for _, object := range objects {
		if topic := object.(*meta.KafkaTopic); "t"+fmt.Sprint(topic.Status.PartitionCount-1) != topic.Metadata.Name {
			t.Errorf("%+v", topic)
		}
	}
}
