package filestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kaas/internal/vfs"
	"kaas/meta"
)

// stopFS lets a number of changes of the file system through and fails all that
// come after, as if the process had been killed before them; the write that it
// dies in is half done. It counts syncs, and is for many goroutines.
type stopFS struct {
	vfs.FS
	mu              sync.Mutex
	left            int
	syncs, dirSyncs int
}

var errKilled = errors.New("killed")

func (f *stopFS) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left <= 0 {
		return errKilled
	}
	f.left--
	return nil
}

func (f *stopFS) OpenFile(name string, flag vfs.Flag) (vfs.File, error) {
	if flag&vfs.ReadOnly == 0 {
		if err := f.step(); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &stopFile{file, f}, nil
}

func (f *stopFS) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}

func (f *stopFS) Remove(name string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

func (f *stopFS) SyncDir(dir string) error {
	if err := f.step(); err != nil {
		return err
	}
	f.mu.Lock()
	f.dirSyncs++
	f.mu.Unlock()
	return f.FS.SyncDir(dir)
}

type stopFile struct {
	vfs.File
	fs *stopFS
}

func (f *stopFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.step(); err != nil {
		n, writeErr := f.File.WriteAt(p[:len(p)/2], off)
		return n, errors.Join(err, writeErr)
	}
	return f.File.WriteAt(p, off)
}

func (f *stopFile) Datasync() error {
	if err := f.fs.step(); err != nil {
		return err
	}
	f.fs.mu.Lock()
	f.fs.syncs++
	f.fs.mu.Unlock()
	return f.File.Datasync()
}

func (f *stopFile) Truncate(size int64) error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// The life of some resources is cut at every step. Afterwards each is as the
// last acknowledged write left it, or as the one that was cut would have; ids and
// uids stay; and the store works.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	id := meta.NewUUID()
	finished := false
	for steps := 0; !finished; steps++ {
		if steps > 500 {
			t.Fatal("the scenario does not end")
		}
		dir := t.TempDir()
		byHand := filepath.Join(dir, "hand.yaml")
		write(t, byHand, handWritten)
		acknowledged, complete := liveUntilKilled(t, dir, id, steps)
		finished = complete
		s := openStore(t, dir)
		state := describe(t, s)
		if state != acknowledged.before && state != acknowledged.after {
			t.Fatalf("killed after %d steps: state is\n%s\nneither what was acknowledged\n%s\nnor what was under way\n%s", steps, state, acknowledged.before, acknowledged.after)
		}
		if left, err := filepath.Glob(filepath.Join(dir, ".kaas-*")); err != nil || len(left) != 0 {
			t.Fatalf("killed after %d steps: left behind %v, %v", steps, left, err)
		}
		if text := read(t, byHand); !strings.HasPrefix(text, "# the orders of the shop\n") {
			t.Fatalf("killed after %d steps:\n%s", steps, text)
		}
		if _, err := s.Create(t.Context(), meta.NewKafkaTopic("after")); err != nil {
			t.Fatalf("killed after %d steps: %v", steps, err)
		}
	}
}

// acknowledgement is the state before and after the step that was cut.
type acknowledgement struct{ before, after string }

func liveUntilKilled(t *testing.T, dir string, id meta.UUID, steps int) (acknowledgement, bool) {
	t.Helper()
	killable := &stopFS{FS: vfs.OS, left: steps}
	s, err := Open(Options{Dir: dir, FS: killable, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	fresh := "orders partitions=3 id= config=map[cleanup.policy:delete retention.ms:600000];"
	if err != nil {
		return acknowledgement{fresh, fresh}, false
	}
	defer func() { _ = s.Close() }() // its file system is dead
	before := fresh
	for _, step := range scenario(t.Context(), s, id) {
		after := normalise(step.after, id)
		if err := step.do(); err != nil {
			return acknowledgement{before, after}, false
		}
		before = after
	}
	return acknowledgement{before, before}, true
}

// storeWrite is one step of the scenario and the state after it.
type storeWrite struct {
	do    func() error
	after string
}

func scenario(ctx context.Context, s *Store, id meta.UUID) []storeWrite {
	setStatus := func() error {
		object, err := s.Get(ctx, meta.KindTopic, "orders")
		if err != nil {
			return err
		}
		topic := object.(*meta.KafkaTopic)
		topic.Status = meta.KafkaTopicStatus{TopicID: id, TopicName: "orders", PartitionCount: 3}
		_, err = s.UpdateStatus(ctx, topic)
		return err
	}
	return []storeWrite{
		{setStatus, "orders partitions=3 id=ID config=map[cleanup.policy:delete retention.ms:600000];"},
		{func() error { _, err := s.Create(ctx, meta.NewKafkaTopic("Other_1")); return err }, "kaas-topic-X partitions=- id= config=map[];orders partitions=3 id=ID config=map[cleanup.policy:delete retention.ms:600000];"},
		{func() error {
			_, err := s.Patch(ctx, meta.KindTopic, "orders", []byte(`{"spec":{"partitions":5,"config":{"retention.ms":null}}}`))
			return err
		}, "kaas-topic-X partitions=- id= config=map[];orders partitions=5 id=ID config=map[cleanup.policy:delete];"},
		{func() error { return s.Delete(ctx, meta.KindTopic, meta.TopicResourceName("Other_1"), "") }, "orders partitions=5 id=ID config=map[cleanup.policy:delete];"},
	}
}

func normalise(state string, id meta.UUID) string {
	return strings.NewReplacer("id=ID", "id="+id.String(), "kaas-topic-X", meta.TopicResourceName("Other_1")).Replace(state)
}

func describe(t *testing.T, s meta.ResourceStore) string {
	t.Helper()
	objects, _, err := s.List(t.Context(), meta.KindTopic)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, object := range objects {
		topic := object.(*meta.KafkaTopic)
		partitions, id := "-", ""
		if topic.Spec.Partitions != nil {
			partitions = fmt.Sprint(*topic.Spec.Partitions)
		}
		if !topic.Status.TopicID.IsZero() {
			id = topic.Status.TopicID.String()
		}
		overrides, err := topic.ConfigOverrides()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s partitions=%s id=%s config=%v;", topic.Metadata.Name, partitions, id, overrides)
	}
	return out.String()
}

// A torn or damaged journal costs nothing that the files still say.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	if _, err := s.Create(t.Context(), meta.NewKafkaTopic("a")); err != nil {
		t.Fatal(err)
	}
	id := awaitReason(t, s, "a", "Reconciled").Status.TopicID
	text := read(t, filepath.Join(dir, journalDir, journalFile))
	for i, damaged := range []string{"", "\n\n", text[:len(text)-7], "{\n" + text, strings.Repeat("x", 1000) + "\n" + text[:20], `{"kind":"KafkaTopic","name":"ghost","status":{}}` + "\n"} {
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(copied, journalDir, journalFile), damaged)
		again := openStore(t, copied)
		if got := mustTopic(t, again, "a"); got.Status.TopicID != id || names(t, again) != "a" {
			t.Errorf("%d: %+v", i, got)
		}
		if _, err := again.Create(t.Context(), meta.NewKafkaTopic("b")); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// The power fails before every change of the disk, with several outcomes of what
// was not yet synced: acknowledged writes are there, the one under way is whole
// or absent, and ids and the user's text stay.
func TestPowerFailsAtEveryStep(t *testing.T) {
	t.Parallel()
	const seed = 20
	random := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	disk := vfs.NewRecording()
	const dir = "/data/resources"
	if err := disk.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	byHand := dir + "/hand.yaml"
	if err := replaceFile(disk, byHand, []byte(handWritten), nil); err != nil {
		t.Fatal(err)
	}
	for _, synced := range []string{"/", "/data"} {
		if err := disk.SyncDir(synced); err != nil {
			t.Fatal(err)
		}
	}
	fresh := "orders partitions=3 id= config=map[cleanup.policy:delete retention.ms:600000];"
	before, after := fresh, fresh
	failures := 0
	check := func(vfs.Op) error {
		for outcome := range 4 {
			choose := random.IntN
			if outcome == 0 {
				choose = nil
			}
			left, err := disk.Clone(choose)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(Options{Dir: dir, FS: left, Logger: slog.New(slog.DiscardHandler), NoNotify: true})
			if err != nil {
				t.Fatal(err)
			}
			if state := describe(t, s); state != before && state != after {
				failures++
				t.Errorf("state is\n%s\nneither what was acknowledged\n%s\nnor what was under way\n%s", state, before, after)
			}
			if text, err := readFile(left, byHand, 1<<20); err != nil || !strings.HasPrefix(string(text), "# the orders of the shop\n") {
				failures++
				t.Errorf("the user's file is %q, %v", text, err)
			}
			if err := errors.Join(s.Close(), left.Close()); err != nil {
				t.Error(err)
			}
		}
		if failures > 3 {
			t.FailNow()
		}
		return nil
	}
	s, err := Open(Options{Dir: dir, FS: &vfs.Faulty{FS: disk, Before: check}, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	id := meta.NewUUID()
	for _, write := range scenario(t.Context(), s, id) {
		after = normalise(write.after, id)
		if err := write.do(); err != nil {
			t.Fatal(err)
		}
		before = after
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// The journal alone knows that a topic was deleted: the power may fail right after
// the deletion was acknowledged, and the id does not come back with the file.
func TestDeletionSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	disk := vfs.NewRecording()
	const dir = "/data/resources"
	if err := errors.Join(disk.MkdirAll(dir), disk.SyncDir("/"), disk.SyncDir("/data")); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir, FS: disk, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	startReconciler(t, s, nil)
	created, err := s.Create(t.Context(), meta.NewKafkaTopic("a"))
	if err != nil {
		t.Fatal(err)
	}
	id := created.(*meta.KafkaTopic).Status.TopicID
	path := dir + "/kafkatopic-a.yaml"
	text, err := readFile(disk, path, 1<<20)
	if err != nil || id.IsZero() {
		t.Fatal(id, err)
	}
	if err := s.Delete(t.Context(), meta.KindTopic, "a", ""); err != nil {
		t.Fatal(err)
	}
	left, err := disk.Clone(nil) // nothing that was not synced
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(left, path, text, nil); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Options{Dir: dir, FS: left, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(again.Close(), left.Close()); err != nil {
			t.Error(err)
		}
	})
	if topic := mustTopic(t, again, "a"); !topic.Status.TopicID.IsZero() || !again.TopicDeleted(id) {
		t.Errorf("the id of a deleted topic is back: %+v", topic.Status)
	}
}
