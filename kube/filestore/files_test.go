package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/meta"
)

func names(t *testing.T, s meta.ResourceStore) string {
	t.Helper()
	objects, _, err := s.List(t.Context(), meta.KindTopic)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, object := range objects {
		out = append(out, object.Meta().Name)
	}
	return strings.Join(out, " ")
}

func TestStoreContract(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	ctx := t.Context()
	_, err := s.Get(ctx, meta.KindTopic, "a")
	wantError(t, err, meta.ErrNotFound)
	wantError(t, s.Delete(ctx, meta.KindTopic, "a", ""), meta.ErrNotFound)
	bad := meta.NewKafkaTopic("a")
	bad.Metadata.Name = "No Name"
	_, err = s.Create(ctx, bad)
	wantError(t, err, meta.ErrInvalid)

	first, err := s.Create(ctx, meta.NewKafkaTopic("a"))
	if err != nil {
		t.Fatal(err)
	}
	if m := first.Meta(); m.UID == "" || m.ResourceVersion == "" || m.Generation != 1 || m.CreationTimestamp.IsZero() {
		t.Fatalf("%+v", m)
	}
	_, err = s.Create(ctx, meta.NewKafkaTopic("a"))
	wantError(t, err, meta.ErrAlreadyExists)

	// A stale writer loses, and says so.
	mine := first.Clone().(*meta.KafkaTopic)
	three := int32(3)
	mine.Spec.Partitions = &three
	mine.Metadata.Labels = map[string]string{"team": "a"}
	second, err := s.Update(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	if m := second.Meta(); m.Generation != 2 || m.UID != first.Meta().UID || m.ResourceVersion == first.Meta().ResourceVersion {
		t.Fatalf("%+v", m)
	}
	_, err = s.Update(ctx, mine)
	wantError(t, err, meta.ErrConflict)
	_, err = s.UpdateStatus(ctx, mine)
	wantError(t, err, meta.ErrConflict)
	_, err = s.Patch(ctx, meta.KindTopic, "a", []byte(`{"metadata":{"resourceVersion":"1"},"spec":{"partitions":4}}`))
	wantError(t, err, meta.ErrConflict)
	_, err = s.Patch(ctx, meta.KindTopic, "a", []byte(`{"spec":{"partitions":"many"}}`))
	wantError(t, err, meta.ErrInvalid)
	_, err = s.Patch(ctx, meta.KindTopic, "a", []byte(`[`))
	wantError(t, err, meta.ErrInvalid)
	_, err = s.Patch(ctx, meta.KindTopic, "b", []byte(`{}`))
	wantError(t, err, meta.ErrNotFound)
	wantError(t, s.Delete(ctx, meta.KindTopic, "a", "other-uid"), meta.ErrConflict)

	// Nothing changed: nothing written, same version. A label alone is no new generation.
	same, err := s.Patch(ctx, meta.KindTopic, "a", []byte(`{"spec":{"partitions":3},"metadata":{"labels":{"team":"a"}}}`))
	if err != nil || same.Meta().ResourceVersion != second.Meta().ResourceVersion {
		t.Fatal(same, err)
	}
	labelled, err := s.Patch(ctx, meta.KindTopic, "a", []byte(`{"metadata":{"labels":{"team":null,"x":"1"}}}`))
	if err != nil || labelled.Meta().Generation != 2 || len(labelled.Meta().Labels) != 1 || labelled.Meta().Labels["x"] != "1" {
		t.Fatal(labelled, err)
	}
	// A returned object is the caller's: changing it changes nothing inside.
	labelled.Meta().Labels["x"] = "2"
	if mustTopic(t, s, "a").Metadata.Labels["x"] != "1" {
		t.Fatal("the store shares its objects")
	}
	if err := s.Delete(ctx, meta.KindTopic, "a", first.Meta().UID); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Create(ctx, meta.NewKafkaTopic("a")); err != nil || again.Meta().UID == first.Meta().UID {
		t.Fatal(again, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Get(cancelled, meta.KindTopic, "a")
	wantError(t, err, context.Canceled)
}

// next receives one event.
func next(t *testing.T, events <-chan meta.Event) meta.Event {
	t.Helper()
	select {
	case event, ok := <-events:
		if !ok {
			t.Fatal("the watch ended")
		}
		return event
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
	}
	panic("unreachable")
}

func TestWatchResumes(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	create := func(name string) {
		t.Helper()
		if _, err := s.Create(ctx, meta.NewKafkaTopic(name)); err != nil {
			t.Fatal(err)
		}
	}
	create("a")
	events, err := s.Watch(ctx, meta.KindTopic, "")
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, events); e.Type != meta.Added || e.Object.Meta().Name != "a" {
		t.Fatalf("%+v", e)
	}
	if e := next(t, events); e.Type != meta.Synced {
		t.Fatalf("%+v", e)
	}
	create("b")
	added := next(t, events)
	if added.Type != meta.Added || added.Object.Meta().Name != "b" {
		t.Fatalf("%+v", added)
	}
	create("c")
	if _, err := s.Patch(ctx, meta.KindTopic, "b", []byte(`{"spec":{"partitions":2}}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(ctx, meta.KindTopic, "a", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(ctx, &meta.KafkaUser{Metadata: meta.ObjectMeta{Name: "u"}}); err != nil {
		t.Fatal(err)
	}
	// A second watcher resumes behind b and sees the same three, in order.
	resumed, err := s.Watch(ctx, meta.KindTopic, added.Revision)
	if err != nil {
		t.Fatal(err)
	}
	for _, watch := range []<-chan meta.Event{events, resumed} {
		got := ""
		for range 3 {
			e := next(t, watch)
			got += e.Type.String() + " " + e.Object.Meta().Name + ";"
		}
		if got != "Added c;Modified b;Deleted a;" {
			t.Errorf("%s", got)
		}
	}
	users, err := s.Watch(ctx, meta.KindUser, "")
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, users); e.Object.Meta().Name != "u" {
		t.Errorf("%+v", e)
	}
	for _, revision := range []string{"1", "99999999999999999", "x"} {
		if _, err := s.Watch(ctx, meta.KindTopic, revision); !errors.Is(err, meta.ErrGone) {
			t.Errorf("%s: %v", revision, err)
		}
	}
	cancel()
	for range events {
	}
}

// A watcher that does not read is cut off; the store's memory stays bounded.
func TestSlowWatcherIsCutOff(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	events, err := s.Watch(t.Context(), meta.KindTopic, "")
	if err != nil {
		t.Fatal(err)
	}
	object := meta.NewKafkaTopic("a")
	publish := func(times int) {
		s.writeMu.Lock()
		defer s.writeMu.Unlock()
		for range times {
			s.publish(meta.Modified, object.Copy(), true)
		}
	}
	// The watcher's sender stands at a full channel, with nothing newer in its hands
	// than what fills it, before the history moves on.
	publish(limits.ResourceWatchBuffer + 1)
	eventually(t, "the channel is full", func() bool { return len(events) == cap(events) })
	publish(limits.ResourceWatchHistory + 10)
	s.mu.Lock()
	kept := len(s.history)
	s.mu.Unlock()
	if kept > limits.ResourceWatchHistory {
		t.Errorf("%d events are kept", kept)
	}
	seen := 0
	for range events {
		seen++
	}
	if seen > limits.ResourceWatchHistory {
		t.Errorf("%d events after being cut off", seen)
	}
}

func TestEditsByHand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	path := filepath.Join(dir, "deep", "er", "topics.yml")
	a, b := manifestOf("a", "  partitions: 1\n"), manifestOf("b", "  partitions: 1\n")
	foreign := "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
	write(t, path, "# two topics\n---\n"+a+"---\n"+b+"---\n"+foreign+"---\n")
	write(t, filepath.Join(dir, ".hidden.yaml"), manifestOf("hidden", " {}\n"))
	write(t, filepath.Join(dir, ".git", "x.yaml"), manifestOf("git", " {}\n"))
	write(t, filepath.Join(dir, "a.yaml~"), manifestOf("backup", " {}\n"))
	write(t, filepath.Join(dir, "a.yaml.swp"), "\x00")
	write(t, filepath.Join(dir, "4913"), "")
	look(s, time.Minute)
	if got := names(t, s); got != "a b" {
		t.Fatal(got)
	}
	uid := mustTopic(t, s, "b").Metadata.UID
	events, err := s.Watch(t.Context(), meta.KindTopic, s.revisionText())
	if err != nil {
		t.Fatal(err)
	}

	// Both move to other files, one at a time; a git checkout removes and writes.
	write(t, filepath.Join(dir, "a.yaml"), a)
	write(t, path, "---\n"+b)
	look(s, time.Minute)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	look(s, time.Millisecond)
	write(t, filepath.Join(dir, "0-b.yaml"), b)
	look(s, time.Minute)
	if got := mustTopic(t, s, "b"); got.Metadata.UID != uid || got.Metadata.Generation != 1 {
		t.Fatalf("%+v", got)
	}
	// An edit is a new generation; the same resource in another file is ignored.
	write(t, filepath.Join(dir, "0-b.yaml"), strings.Replace(b, "partitions: 1", "partitions: 2", 1))
	write(t, filepath.Join(dir, "z-b.yaml"), strings.Replace(b, "partitions: 1", "partitions: 9", 1))
	look(s, time.Minute)
	if got := mustTopic(t, s, "b"); *got.Spec.Partitions != 2 || got.Metadata.Generation != 2 {
		t.Fatalf("%+v", got)
	}
	if err := os.Remove(filepath.Join(dir, "0-b.yaml")); err != nil {
		t.Fatal(err)
	}
	look(s, time.Minute)
	if got := mustTopic(t, s, "b"); *got.Spec.Partitions != 9 || got.Metadata.UID != uid {
		t.Fatalf("%+v", got)
	}
	if e := next(t, events); e.Type != meta.Modified || *e.Object.(*meta.KafkaTopic).Spec.Partitions != 2 {
		t.Fatalf("a move is no change: %+v", e)
	}
	// Gone for longer than the grace: deleted.
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	look(s, 0)
	if names(t, s) != "a b" {
		t.Fatal("deleted without grace")
	}
	// A write to what a user has just removed does not bring it back.
	_, err = s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"spec":{"partitions":7}}`))
	wantError(t, err, meta.ErrNotFound)
	look(s, time.Minute)
	if got := names(t, s); got != "b" {
		t.Fatal(got)
	}
}

func (s *Store) revisionText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return formatRevision(s.revision)
}

func TestBrokenFileKeepsTheLastGoodState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	good := manifestOf("a", "  partitions: 1\n")
	write(t, path, good)
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	id := awaitReason(t, s, "a", "Reconciled").Status.TopicID
	for i, bad := range []string{
		"apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: a\n",
		strings.Replace(good, "partitions: 1", "partitions: many", 1),
		strings.Replace(good, "name: a", "name: A_b", 1),
		good + "spec: {}\n",
		"just text\n",
		"kind: KafkaTopic\n",
		good + "---\n" + good,
		"\x00\x01\x02",
		"a: &a [*a]\n" + strings.Repeat("# long\n", 10),
	} {
		write(t, path, bad)
		look(s, time.Minute)
		look(s, time.Hour)
		topic := mustTopic(t, s, "a")
		condition := meta.FindCondition(topic.Status.Conditions, ConditionFileValid)
		if *topic.Spec.Partitions != 1 || topic.Status.TopicID != id || condition == nil || condition.Status != "False" || condition.Message == "" {
			t.Fatalf("%d: %+v", i, topic)
		}
		if read(t, path) != bad {
			t.Fatalf("%d: a broken file was written to", i)
		}
		_, err := s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"spec":{"partitions":7}}`))
		wantError(t, err, meta.ErrInvalid)
	}
	// A restart in this state: still the last good content.
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	moveJournal(t, copied, dir)
	again := openStore(t, copied)
	if topic := mustTopic(t, again, "a"); *topic.Spec.Partitions != 1 || topic.Status.TopicID != id || meta.FindCondition(topic.Status.Conditions, ConditionFileValid) == nil {
		t.Fatalf("%+v", topic)
	}
	// Repaired: the condition goes, the status comes back into the file.
	write(t, path, good)
	look(s, time.Minute)
	topic := mustTopic(t, s, "a")
	if meta.FindCondition(topic.Status.Conditions, ConditionFileValid) != nil || topic.Status.TopicID != id {
		t.Fatalf("%+v", topic)
	}
	if text := read(t, path); !strings.Contains(text, id.String()) || strings.Contains(text, "FileValid") {
		t.Fatal(text)
	}
}

// moveJournal makes the paths in a copied journal those of the copy.
func moveJournal(t *testing.T, dir, from string) {
	t.Helper()
	path := filepath.Join(dir, journalDir, journalFile)
	write(t, path, strings.ReplaceAll(read(t, path), from, dir))
}

func TestHugeFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "big.yaml"), manifestOf("big", "  partitions: 1\n")+strings.Repeat("#", limits.ResourceFileBytes))
	write(t, filepath.Join(dir, "small.yaml"), manifestOf("small", "  partitions: 1\n"))
	s := openStore(t, dir)
	if got := names(t, s); got != "small" {
		t.Fatal(got)
	}
	// As large as it may be, it is read; and one that has outgrown the bound says what it
	// said before.
	path := filepath.Join(dir, "small.yaml")
	fits := manifestOf("small", "  partitions: 2\n")
	fits += strings.Repeat("#", limits.ResourceFileBytes-len(fits)-1) + "\n"
	write(t, path, fits)
	look(s, time.Minute)
	if got := *mustTopic(t, s, "small").Spec.Partitions; got != 2 {
		t.Fatalf("%d partitions", got)
	}
	write(t, path, strings.Replace(fits, "partitions: 2", "partitions: 13", 1))
	look(s, time.Minute)
	topic := mustTopic(t, s, "small")
	if c := meta.FindCondition(topic.Status.Conditions, ConditionFileValid); *topic.Spec.Partitions != 2 || c == nil || !strings.Contains(c.Message, "at most") {
		t.Fatalf("%+v", topic)
	}
	_, err := s.Patch(t.Context(), meta.KindTopic, "small", []byte(`{"spec":{"partitions":3}}`))
	wantError(t, err, meta.ErrInvalid)
	huge := meta.NewKafkaTopic("huge")
	huge.Metadata.Annotations = map[string]string{"x": strings.Repeat("x", limits.ResourceFileBytes)}
	_, err = s.Create(t.Context(), huge)
	wantError(t, err, meta.ErrInvalid)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Fatal(entries, err)
	}
}

func TestPermissionsOfAUsersFileStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "closed.yaml")
	write(t, path, manifestOf("closed", "  partitions: 1\n"))
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	awaitReason(t, s, "closed", "Reconciled")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(read(t, path), "topicId") {
		t.Fatal(info.Mode(), err)
	}
}

// A user saves the file while the store is writing it: the edit wins, the writer
// is told.
func TestEditInTheMiddleOfAWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, manifestOf("a", "  partitions: 1\n"))
	edited := manifestOf("a", "  partitions: 2\n")
	armed := false
	fsys := &vfs.Faulty{FS: vfs.OS, Before: func(op vfs.Op) error {
		if armed && op.Kind == vfs.OpDatasync {
			armed = false
			write(t, path, edited)
		}
		return nil
	}}
	s, err := Open(Options{Dir: dir, FS: fsys, Logger: testLogger(t), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	topic := mustTopic(t, s, "a")
	topic.Status.PartitionCount = 1
	armed = true
	_, err = s.UpdateStatus(t.Context(), topic)
	wantError(t, err, meta.ErrConflict)
	if read(t, path) != edited {
		t.Fatal(read(t, path))
	}
	look(s, time.Minute)
	if got := mustTopic(t, s, "a"); *got.Spec.Partitions != 2 {
		t.Fatalf("%+v", got)
	}
	armed, edited = true, manifestOf("a", "  partitions: 4\n")
	_, err = s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"spec":{"partitions":3}}`))
	wantError(t, err, meta.ErrConflict)
	if left, err := filepath.Glob(filepath.Join(dir, ".kaas-*")); err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
}

// A store that refuses for a while is tried again.
func TestReconcilerTriesAgain(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	startReconciler(t, &refusingStore{ResourceStore: s, left: 2}, nil)
	if _, err := s.Create(t.Context(), meta.NewKafkaTopic("a")); err != nil {
		t.Fatal(err)
	}
	awaitReason(t, s, "a", "Reconciled")
}

type refusingStore struct {
	meta.ResourceStore
	left int // owner: the reconciler's goroutine
}

func (s *refusingStore) UpdateStatus(ctx context.Context, object meta.Object) (meta.Object, error) {
	if s.left > 0 {
		s.left--
		return nil, fmt.Errorf("disk full: %w", meta.ErrUnavailable)
	}
	return s.ResourceStore.UpdateStatus(ctx, object)
}

func TestVanishedDirectoryDeletesNothing(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, away := filepath.Join(parent, "resources"), filepath.Join(parent, "away")
	s := openStore(t, dir)
	for _, name := range []string{"a", "b"} {
		if _, err := s.Create(t.Context(), meta.NewKafkaTopic(name)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func() {
		t.Helper()
		for range 3 {
			look(s, time.Hour)
		}
		if got := names(t, s); got != "a b" {
			t.Fatal(got)
		}
		_, err := s.Create(t.Context(), meta.NewKafkaTopic("c"))
		wantError(t, err, meta.ErrUnavailable)
		_, err = s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"spec":{"partitions":7}}`))
		wantError(t, err, meta.ErrUnavailable)
		wantError(t, s.Delete(t.Context(), meta.KindTopic, "a", ""), meta.ErrUnavailable)
	}
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	refused()
	if err := os.Mkdir(dir, 0o755); err != nil { // the mount point of a volume that is gone
		t.Fatal(err)
	}
	refused()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	look(s, time.Hour)
	if _, err := s.Create(t.Context(), meta.NewKafkaTopic("c")); err != nil {
		t.Fatal(err)
	}
	// Only our own notes swept (git clean): written anew, nothing deleted.
	if err := os.RemoveAll(filepath.Join(dir, journalDir)); err != nil {
		t.Fatal(err)
	}
	look(s, time.Hour)
	if got := names(t, s); got != "a b c" {
		t.Fatal(got)
	}
	if _, err := os.Stat(filepath.Join(dir, journalDir, journalFile)); err != nil {
		t.Fatal(err)
	}
	// Swept together with files of ours, or replaced by a fresh clone: put back.
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, journalDir)), os.Remove(filepath.Join(dir, "kafkatopic-a.yaml"))); err != nil {
		t.Fatal(err)
	}
	look(s, time.Hour)
	look(s, time.Hour)
	if got := names(t, s); got != "a b c" || !strings.Contains(read(t, filepath.Join(dir, "kafkatopic-a.yaml")), "name: a\n") {
		t.Fatal(got)
	}
	// All files removed, the directory ours: that is a deletion.
	for _, name := range []string{"a", "b", "c"} {
		if err := os.Remove(filepath.Join(dir, "kafkatopic-"+name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	look(s, 0)
	look(s, time.Hour)
	if got := names(t, s); got != "" {
		t.Fatal(got)
	}
}

func TestNotificationsAreSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, Logger: testLogger(t), RescanInterval: time.Hour, Debounce: 5 * time.Millisecond, DeleteGrace: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, "sub", "a.yaml")
	write(t, path, manifestOf("a", "  partitions: 1\n"))
	eventually(t, "a is there", func() bool { return names(t, s) == "a" })
	write(t, path, manifestOf("a", "  partitions: 2\n"))
	eventually(t, "a has 2", func() bool { return *mustTopic(t, s, "a").Spec.Partitions == 2 })
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a is gone", func() bool { return names(t, s) == "" })
}

// Files as the reconciler leaves them do not change any more.
func TestQuietAfterReconcile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	write(t, filepath.Join(dir, "json.yaml"), `{"apiVersion": "kaas.io/v1alpha1", "kind": "KafkaTopic", "metadata": {"name": "json"}, "spec": {"config": {"retention.ms": 5}}}`)
	for i := range 3 {
		if _, err := s.Create(t.Context(), meta.NewKafkaTopic(fmt.Sprint("t", i))); err != nil {
			t.Fatal(err)
		}
	}
	look(s, time.Minute)
	for _, name := range []string{"json", "t0", "t1", "t2"} {
		awaitReason(t, s, name, "Reconciled")
	}
	if text := read(t, filepath.Join(dir, "json.yaml")); !strings.HasPrefix(text, `{"apiVersion": "kaas.io/v1alpha1", "kind": "KafkaTopic", "metadata": {"name": "json"}, "spec": {"config": {"retention.ms": 5}}, "status": {`) {
		t.Fatal(text)
	}
	look(s, time.Minute) // the journal's lines come behind the status that was waited for
	before := snapshotDir(t, dir)
	for range 5 {
		look(s, time.Minute)
		if _, err := s.UpdateStatus(t.Context(), mustTopic(t, s, "json")); err != nil {
			t.Fatal(err)
		}
	}
	if after := snapshotDir(t, dir); after != before {
		t.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
}

func snapshotDir(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s %d\n%s\n", path, info.ModTime().UnixNano(), read(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
