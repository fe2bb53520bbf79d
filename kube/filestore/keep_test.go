package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaas/internal/vfs"
	"kaas/kube"
	"kaas/meta"
)

// settled looks twice, with the deletion's grace between.
func settled(s *Store) {
	look(s, time.Minute)
	look(s, time.Hour)
}

// A file that is rewritten is seen at every length. At none of them a resource
// goes, appears or changes; whole again, everything is as before.
func TestHalfWrittenFileChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	write(t, one, manifestOf("orders", "  partitions: 1\n  config:\n    retention.ms: 600000\n"))
	write(t, two, manifestOf("first", "  partitions: 1\n")+"---\n"+manifestOf("second", "  partitions: 12\n"))
	look(s, time.Minute)
	want := "first orders second"
	for _, name := range strings.Fields(want) {
		awaitReason(t, s, name, "Reconciled")
	}
	spec := func(name string) string {
		topic := mustTopic(t, s, name)
		return fmt.Sprint(*topic.Spec.Partitions, topic.Spec.Config, topic.Status.TopicID, topic.Metadata.Generation)
	}
	texts := map[string]string{one: read(t, one), two: read(t, two)}
	before := spec("orders") + spec("first") + spec("second")
	for path, text := range texts {
		for cut := 0; cut < len(text); cut++ {
			write(t, path, text[:cut])
			settled(s)
			if got, after := names(t, s), spec("orders")+spec("first")+spec("second"); got != want || after != before {
				t.Fatalf("%q: topics %s\n%s\n%s", text[:cut], got, before, after)
			}
			// Behind a newline, where only status is missing, it is written back.
			if !strings.HasSuffix(text[:cut], "\n") && read(t, path) != text[:cut] {
				t.Fatalf("%q was written to", text[:cut])
			}
		}
		write(t, path, text)
		settled(s)
		if got := names(t, s); got != want || read(t, path) != text {
			t.Fatal(got, read(t, path))
		}
	}
	for name := range strings.FieldsSeq(want) {
		if meta.FindCondition(mustTopic(t, s, name).Status.Conditions, ConditionFileValid) != nil {
			t.Errorf("%s: FileValid stays", name)
		}
	}
}

// A file that is cut behind a newline is valid, and yet takes nothing away. What its
// user means is believed.
func TestFileCutBehindANewline(t *testing.T) {
	t.Parallel()
	const whole = "  partitions: 3\n  config:\n    retention.ms: -1\n    cleanup.policy: compact\n"
	for i, tc := range []struct{ after, want string }{
		{"  partitions: 3\n  config:\n    retention.ms: -1\n", "-1 compact False"},
		{"  partitions: 3\n  config:\n", "-1 compact False"},
		{"  partitions: 3\n", "-1 compact False"},
		{"  partitions: 3\n  config:\n    retention.ms: -1\n# that is all\n", "-1 <nil> "},
		{"  partitions: 3\n  config:\n    retention.ms: -1\n\n", "-1 <nil> "},
		{"  partitions: 3\n  config:\n    cleanup.policy: compact\n", "<nil> compact "},
		{whole + "    max.message.bytes: 7\n", "-1 compact "},
	} {
		dir := t.TempDir()
		s := openStore(t, dir)
		path := filepath.Join(dir, "x.yaml")
		write(t, path, manifestOf("a", whole))
		look(s, time.Minute)
		write(t, path, manifestOf("a", tc.after))
		settled(s)
		topic := mustTopic(t, s, "a")
		condition := meta.FindCondition(topic.Status.Conditions, ConditionFileValid)
		if condition == nil {
			condition = &meta.Condition{}
		}
		got := fmt.Sprint(topic.Spec.Config["retention.ms"], " ", topic.Spec.Config["cleanup.policy"], " ", condition.Status)
		if got != tc.want {
			t.Errorf("%d: %s, want %s (%s)", i, got, tc.want, condition.Message)
		}
		replace(t, path, manifestOf("a", whole)) // as git does: that is no cut, whatever it lacks
		settled(s)
		if topic := mustTopic(t, s, "a"); fmt.Sprint(topic.Spec.Config["retention.ms"]) != "-1" || meta.FindCondition(topic.Status.Conditions, ConditionFileValid) != nil {
			t.Errorf("%d: whole again: %+v", i, topic)
		}
	}
}

// replace puts another file in the place of one.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// What is not written to its end is not read, however long that takes, nor written
// over.
func TestFileOpenForWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "x.yaml")
	write(t, path, manifestOf("a", "  partitions: 3\n"))
	s := openStore(t, dir)
	writer, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString(manifestOf("b", "  partitions: 7\n") + "---\n"); err != nil {
		t.Fatal(err)
	}
	if !openForWriting(vfs.OS, path) {
		t.Skip("this file system has no leases")
	}
	settled(s)
	if got := names(t, s); got != "a" {
		t.Error(got)
	}
	if _, err := s.Patch(t.Context(), meta.KindTopic, "a", []byte(`{"spec":{"partitions":4}}`)); !errors.Is(err, meta.ErrConflict) {
		t.Error(err)
	}
	if _, err := writer.WriteString(manifestOf("a", "  partitions: 5\n")); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if got := names(t, s); got != "a b" || *mustTopic(t, s, "a").Spec.Partitions != 5 {
		t.Error(got)
	}
}

// A link whose target is away, and a directory of the file's name, are no removal.
func TestFileThatIsNoneAnyMore(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	target, link, plain := filepath.Join(elsewhere, "a"), filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, target, manifestOf("a", "  partitions: 1\n"))
	write(t, plain, manifestOf("b", "  partitions: 1\n"))
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir)
	if err := errors.Join(os.Remove(target), os.Remove(plain), os.Mkdir(plain, 0o755)); err != nil {
		t.Fatal(err)
	}
	settled(s)
	for _, name := range []string{"a", "b"} {
		if meta.FindCondition(mustTopic(t, s, name).Status.Conditions, ConditionFileValid) == nil {
			t.Error(name, "has no condition")
		}
	}
	again := openStore(t, dir) // beside the first one: it reads only
	if got := names(t, again); got != "a" {
		t.Errorf("after a start: %s", got)
	}
	write(t, target, manifestOf("a", "  partitions: 2\n"))
	if err := os.Remove(plain); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if got := names(t, s); got != "a" || *mustTopic(t, s, "a").Spec.Partitions != 2 {
		t.Error(got)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if got := names(t, s); got != "" {
		t.Error(got)
	}
}

// What takes a resource out of a file and is no deletion, and what is one.
func TestResourceMissingInItsFile(t *testing.T) {
	t.Parallel()
	a, b, c := manifestOf("a", "  partitions: 1\n"), manifestOf("b", "  partitions: 1\n"), manifestOf("c", "  partitions: 1\n")
	for i, tc := range []struct{ before, after, want string }{
		{a, "", "a"},
		{a, "# nothing\n", "a"},
		{a, strings.Replace(a, "KafkaTopic", "Kafka", 1), "a"},
		{a, strings.Replace(a, "kaas.io/v1alpha1", "v1", 1), "a"},
		{a, strings.Replace(a, "kaas.io/v1alpha1", "kaas.io/v2", 1), "a"},
		{a, b, "a"},
		{a + "---\n" + b, c, "a b"},
		{a + "---\n" + b, a + "---\n" + c, "a b"}, // renamed in its place
		{a + "---\n" + b, "# nothing\n", "a b"},
		{a + "---\n" + b, strings.TrimSuffix(a, "\n"), "a b"},
		{a + "---\n" + b, a, "a b"}, // cut behind a newline, perhaps
		{a + "---\n" + b, a + "---\n", "a b"},
		{a + "---\n" + b, a + "# b is gone\n", "a"},
		{a + "---\n" + b, b, "b"},
		{a + "---\n" + b + "---\n", "---\n" + a + "---\n", "a"},
		{a + "---\n" + b, b + "---\n" + c, "b c"},
		{a, b + "---\n" + a, "a b"},
	} {
		dir := t.TempDir()
		s := openStore(t, dir)
		path := filepath.Join(dir, "x.yaml")
		write(t, path, tc.before)
		look(s, time.Minute)
		write(t, path, tc.after)
		settled(s)
		if got := names(t, s); got != tc.want {
			t.Errorf("%d: %s, want %s", i, got, tc.want)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		settled(s)
		if got := names(t, s); got != "" {
			t.Errorf("%d: %s after the file's removal", i, got)
		}
	}
}

// The same while no broker ran.
func TestHalfWrittenFileAtTheStart(t *testing.T) {
	t.Parallel()
	good := manifestOf("orders", "  partitions: 1\n  config:\n    retention.ms: 600000\n")
	for _, cut := range []string{"", "KafkaTopic", "orders", "600000"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.yaml")
		write(t, path, good)
		s := openStore(t, dir) // stays open: the journal is written at once
		uid := mustTopic(t, s, "orders").Metadata.UID
		text := good[:strings.Index(good, cut)+len(cut)]
		if len(text) > 0 {
			text = text[:len(text)-2]
		}
		write(t, path, text)
		again := openStore(t, dir)
		if got := names(t, again); got != "orders" {
			t.Fatalf("%q: %s", text, got)
		}
		topic := mustTopic(t, again, "orders")
		if topic.Metadata.UID != uid || topic.Spec.Config["retention.ms"] == nil || fmt.Sprint(topic.Spec.Config["retention.ms"]) != "600000" {
			t.Fatalf("%q: %+v", text, topic)
		}
	}
}

// Resources change places between files in any order of the writes.
func TestResourcesExchangeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	x, y := filepath.Join(dir, "x.yaml"), filepath.Join(dir, "y.yaml")
	a, b := manifestOf("a", "  partitions: 1\n"), manifestOf("b", "  partitions: 2\n")
	write(t, x, a)
	write(t, y, b)
	look(s, time.Minute)
	write(t, x, b)
	settled(s) // only half of it is there
	if got := names(t, s); got != "a b" {
		t.Fatal(got)
	}
	write(t, y, strings.Replace(a, "partitions: 1", "partitions: 7", 1))
	settled(s)
	if got := mustTopic(t, s, "a"); *got.Spec.Partitions != 7 || meta.FindCondition(got.Status.Conditions, ConditionFileValid) != nil {
		t.Fatalf("%+v", got)
	}
	if err := os.Remove(y); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if got := names(t, s); got != "b" {
		t.Fatal(got)
	}
}

// A topic that was renamed in its file can be deleted with a Kafka tool; then the
// file's new name comes into force.
func TestRenamedInItsFileThenDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	path := filepath.Join(dir, "x.yaml")
	write(t, path, manifestOf("old", "  partitions: 1\n"))
	look(s, time.Minute)
	write(t, path, manifestOf("new", "  partitions: 1\n"))
	settled(s)
	condition := meta.FindCondition(mustTopic(t, s, "old").Status.Conditions, ConditionFileValid)
	if condition == nil || condition.Status != "False" || !strings.Contains(condition.Message, "KafkaTopic new") {
		t.Fatalf("%+v", condition)
	}
	_, err := s.Patch(t.Context(), meta.KindTopic, "old", []byte(`{"spec":{"partitions":7}}`))
	wantError(t, err, meta.ErrInvalid)
	if err := s.Delete(t.Context(), meta.KindTopic, "old", ""); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if got := names(t, s); got != "new" {
		t.Fatal(got)
	}
}

// What is no regular file is not opened: a named pipe would be waited for, with
// the store's lock held.
func TestNamedPipeIsNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken.yaml")
	write(t, taken, manifestOf("taken", "  partitions: 1\n"))
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir)
	if err := errors.Join(os.Remove(taken), syscall.Mkfifo(taken, 0o644), os.Symlink("/dev/zero", filepath.Join(dir, "device.yaml"))); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if got := names(t, s); got != "taken" {
		t.Fatal(got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Create(ctx, meta.NewKafkaTopic("free")); err != nil {
		t.Fatal(err)
	}
	_, err := readFile(s.fs, filepath.Join(dir, "pipe.yaml"), 1<<20) // put there between the look and the reading
	if err == nil {
		t.Fatal("a named pipe is read")
	}
}

// Links to directories lead back or out; those to files are how Kubernetes mounts
// a ConfigMap.
func TestLinks(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "out.yaml"), manifestOf("out", "  partitions: 1\n"))
	write(t, filepath.Join(dir, "sub", "a.yaml"), manifestOf("a", "  partitions: 1\n"))
	write(t, filepath.Join(dir, "..2026", "b.yaml"), manifestOf("b", "  partitions: 1\n"))
	for link, to := range map[string]string{"loop": ".", "sub/up": "..", "out": outside, "..data": "..2026", "b.yaml": "..data/b.yaml"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	var log strings.Builder
	s, err := Open(Options{Dir: dir, Logger: logTo(&log), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	look(s, time.Minute)
	got := names(t, s)
	s.writeMu.Lock()
	files := len(s.files)
	s.writeMu.Unlock()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got != "a b" || files != 2 || strings.Count(log.String(), "not followed") != 3 || strings.Contains(log.String(), "in two files") {
		t.Errorf("%s in %d files\n%s", got, files, log.String())
	}
}

// A moved directory, or one that is spelt otherwise, is the same to the journal;
// so is one whose journal an older kaas wrote.
func TestJournalIsNotTiedToItsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "resources")
	write(t, filepath.Join(dir, "sub", "a.yaml"), manifestOf("a", "  partitions: 3\n"))
	s := openStore(t, dir)
	uid := mustTopic(t, s, "a").Metadata.UID
	s.writeMu.Lock()
	journal := read(t, s.journal.path())
	s.writeMu.Unlock()
	if strings.Contains(journal, dir) || !strings.Contains(journal, `"path":"sub/a.yaml"`) {
		t.Fatal(journal)
	}
	for _, old := range []string{`"path":"sub/a.yaml"`, `"file":"` + dir + `/sub/a.yaml"`, `"file":"data/resources/sub/a.yaml"`} {
		moved := filepath.Join(t.TempDir(), "resources")
		write(t, filepath.Join(moved, "sub", "a.yaml"), "a: [")
		write(t, filepath.Join(moved, journalDir, journalFile), strings.ReplaceAll(journal, `"path":"sub/a.yaml"`, old))
		again := openStore(t, moved)
		if topic := mustTopic(t, again, "a"); *topic.Spec.Partitions != 3 || topic.Metadata.UID != uid {
			t.Fatalf("%s: %+v", old, topic)
		}
	}
}

// Committed offsets are not lost with a file; an explicit deletion is one.
func TestInternalTopicsFileIsPutBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	resource := meta.TopicResourceName("__consumer_offsets")
	for _, name := range []string{"__consumer_offsets", "plain"} {
		if _, err := s.Create(t.Context(), meta.NewKafkaTopic(name)); err != nil {
			t.Fatal(err)
		}
	}
	awaitReason(t, s, "plain", "Reconciled")
	id := awaitReason(t, s, resource, "Reconciled").Status.TopicID
	path := filepath.Join(dir, "kafkatopic-"+resource+".yaml")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	settled(s)
	if topic := mustTopic(t, s, resource); topic.Status.TopicID != id || !strings.Contains(read(t, path), id.String()) {
		t.Fatalf("%+v", topic)
	}
	if err := os.Remove(path); err != nil { // while no broker runs
		t.Fatal(err)
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, copied)
	if topic := mustTopic(t, again, resource); topic.Status.TopicID != id || !strings.Contains(read(t, filepath.Join(copied, filepath.Base(path))), id.String()) {
		t.Fatalf("%+v", topic)
	}
	if err := again.Delete(t.Context(), meta.KindTopic, resource, ""); err != nil {
		t.Fatal(err)
	}
	settled(again)
	if got := names(t, again); got != "plain" {
		t.Fatal(got)
	}
}

// A deleted topic's id does not come back with a file that was saved with its
// status, however many starts later, nor with data whose removal a crash cut short.
func TestDeletedIDStaysDeletedOverStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, manifestOf("a", "  partitions: 1\n"))
	s := openStore(t, dir)
	startReconciler(t, s, nil)
	before := awaitReason(t, s, "a", "Reconciled").Status.TopicID
	saved := read(t, path)
	if err := s.Delete(t.Context(), meta.KindTopic, "a", ""); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{saved, manifestOf("a", "  partitions: 1\n")} {
		again := openStore(t, dir)
		again.writeMu.Lock()
		err := again.journal.rewrite() // as when there is much in it
		again.writeMu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
		third := openStore(t, dir)
		if !third.TopicDeleted(before) {
			t.Fatal("the deletion is forgotten")
		}
		startReconciler(t, third, func(o *kube.ReconcilerOptions) {
			o.ExistingTopicID = func(string) (meta.UUID, bool) { return before, true }
		})
		topic := awaitReason(t, third, "a", "Reconciled")
		if topic.Status.TopicID == before {
			t.Fatal("the new topic has the id of the deleted one")
		}
		if third.TopicDeleted(topic.Status.TopicID) {
			t.Fatal("a topic that lives counts as deleted")
		}
		if err := third.Delete(t.Context(), meta.KindTopic, "a", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that was broken at the start and that the journal does not know may hold
// any topic; whole again, it takes up its data.
func TestBrokenFileUnknownToTheJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	write(t, path, "a: [")
	s := openStore(t, dir)
	if s.Unreadable() != 1 {
		t.Fatal(s.Unreadable())
	}
	id := meta.NewUUID()
	startReconciler(t, s, func(o *kube.ReconcilerOptions) {
		o.ExistingTopicID = func(name string) (meta.UUID, bool) { return id, name == "a" }
	})
	write(t, path, manifestOf("a", "  partitions: 1\n"))
	look(s, time.Minute)
	if got := awaitReason(t, s, "a", "Reconciled").Status.TopicID; got != id || s.Unreadable() != 0 {
		t.Fatal(got, s.Unreadable())
	}
}

// Git takes files away and brings them back: while it is at work, nothing is deleted.
func TestNothingIsDeletedWhileGitIsAtWork(t *testing.T) {
	t.Parallel()
	for name, git := range map[string]func(dir string) string{
		"own":    func(dir string) string { return filepath.Join(dir, ".git") },
		"parent": func(dir string) string { return filepath.Join(filepath.Dir(dir), ".git") },
		"linked": func(dir string) string {
			write(t, filepath.Join(dir, ".git"), "gitdir: ../elsewhere/worktrees/a\n")
			return filepath.Join(filepath.Dir(dir), "elsewhere", "worktrees", "a")
		},
	} {
		for _, state := range gitStates {
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "resources")
				path := filepath.Join(dir, "a.yaml")
				write(t, path, manifestOf("a", "  partitions: 1\n"))
				var log strings.Builder
				s, err := Open(Options{Dir: dir, Logger: logTo(&log), NoNotify: true, RescanInterval: time.Hour, Debounce: time.Nanosecond})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				busy := filepath.Join(git(dir), state)
				write(t, busy, "")
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				for _, later := range []time.Duration{0, time.Minute, time.Hour} {
					look(s, later)
					if got := names(t, s); got != "a" {
						t.Fatalf("%q after %v", got, later)
					}
				}
				if strings.Count(log.String(), "git is in the middle") != 1 || !strings.Contains(log.String(), state) {
					t.Error(log.String())
				}
				if err := os.Remove(busy); err != nil {
					t.Fatal(err)
				}
				look(s, time.Minute)
				if got := names(t, s); got != "" {
					t.Errorf("%q is left", got)
				}
			})
		}
	}
}
