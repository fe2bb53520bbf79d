package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// volumes is a store over two directories of a disk, of which one can be taken away.
type volumes struct {
	*harness
	a, b string
	id   string // directory.id of b
}

func startVolumes(t *testing.T, change ...func(*Options)) *volumes {
	root := t.TempDir()
	v := &volumes{a: filepath.Join(root, "a"), b: filepath.Join(root, "b")}
	v.harness = start(t, append(change, func(o *Options) { o.Dirs = []string{v.a, v.b} })...)
	v.id = v.s.dirs[1].ID
	return v
}

func (v *volumes) rename(from, to string) {
	v.t.Helper()
	if err := os.Rename(from, to); err != nil {
		v.t.Fatal(err)
	}
}

// unmount leaves an empty directory where b was; mount brings it back.
func (v *volumes) unmount() {
	v.t.Helper()
	v.rename(v.b, v.b+".away")
	if err := os.Mkdir(v.b, 0o755); err != nil {
		v.t.Fatal(err)
	}
}

func (v *volumes) mount() {
	v.t.Helper()
	if err := os.Remove(v.b); err != nil { // it is empty
		v.t.Fatal(err)
	}
	v.rename(v.b+".away", v.b)
}

func (v *volumes) known() string {
	v.t.Helper()
	b, err := os.ReadFile(filepath.Join(v.a, layout.KnownDirsName))
	if err != nil {
		v.t.Fatal(err)
	}
	return string(b)
}

// giveUp is what the operator does whose disk is lost.
func (v *volumes) giveUp() {
	v.t.Helper()
	lines := slices.DeleteFunc(strings.SplitAfter(v.known(), "\n"), func(line string) bool { return strings.HasPrefix(line, v.id+" ") })
	if err := os.WriteFile(filepath.Join(v.a, layout.KnownDirsName), []byte(strings.Join(lines, "")), 0o644); err != nil {
		v.t.Fatal(err)
	}
}

// TestMissingDirectoryIsWaitedFor: partitions of a log directory that is not mounted, or no longer listed, are offline and
// not made anew; the others serve, what is new is made, and all is as before when the directory is back. Only where the
// operator gives it up empty ones are made.
func TestMissingDirectoryIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, unmounted := range []bool{true, false} {
		for _, clean := range []bool{true, false} {
			for _, lost := range []bool{true, false} {
				t.Run(fmt.Sprint("unmounted ", unmounted, ", clean ", clean, ", lost ", lost), func(t *testing.T) {
					t.Parallel()
					testMissingDirectory(t, unmounted, clean, lost)
				})
			}
		}
	}
}

func testMissingDirectory(t *testing.T, unmounted, clean, lost bool) {
	v := startVolumes(t, func(o *Options) { o.JournalBytes = smallJournal })
	topics := []string{"t1", "t2", "t3", "t4"}
	var inA, inB []string
	for _, topic := range topics {
		p := v.partition(topic)
		put(t, p, records(topic))
		if p.Dir() == v.b {
			inB = append(inB, topic)
		} else {
			inA = append(inA, topic)
		}
	}
	if len(inB) != 2 {
		t.Fatalf("in b: %v", inB)
	}
	both := v.o.Dirs
	if clean {
		v.stop()
	} else {
		v.kill()
	}
	if unmounted {
		v.unmount()
	} else {
		v.o.Dirs = both[:1]
	}
	for range 2 { // a second start knows it, too
		v.open()
		v.missed(inA, inB)
		v.crash()
		v.missed(inA, inB)
		v.stop()
	}
	if unmounted {
		if entries, err := os.ReadDir(v.b); err != nil || len(entries) != 0 {
			t.Fatalf("the mount point was written to: %v, %v", entries, err)
		}
	}
	if lost {
		v.giveUp()
		v.open()
		for _, topic := range inB {
			if p := v.partition(topic); p.LogEndOffset() != 0 {
				t.Errorf("%s has %d records", topic, p.LogEndOffset())
			}
		}
	} else {
		if v.o.Dirs = both; unmounted {
			v.mount()
		}
		v.open()
		for _, topic := range inB {
			expect(t, v.partition(topic), topic)
		}
	}
	for _, topic := range append(inA, "new") {
		expect(t, v.partition(topic), topic)
	}
	if why, n := v.s.Known().Waiting(); why != "" || n != 0 || !v.s.Known().Complete() {
		t.Errorf("%q %d", why, n)
	}
}

// missed checks what a start without b serves.
func (v *volumes) missed(inA, inB []string) {
	t := v.t
	t.Helper()
	for _, topic := range inB {
		_, err := v.s.Ensure(topic, topicID, 0, DefaultConfig())
		if !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), v.b) || !strings.Contains(err.Error(), v.id) {
			t.Fatalf("%s: %v", topic, err)
		}
	}
	for _, topic := range inA {
		expect(t, v.partition(topic), topic)
	}
	if v.s.Get("new", 0) == nil {
		if _, err := v.s.Ensure("new", otherID, 0, DefaultConfig()); !errors.Is(err, ErrStorage) {
			t.Fatalf("nobody said that it is new: %v", err)
		}
		v.s.Known().Accepted(topicID, 0)
		put(t, v.partition("new"), records("new"))
	}
	if err := v.s.Known().AllAsked(); err != nil {
		t.Fatal(err)
	}
	why, n := v.s.Known().Waiting()
	for _, want := range append(inB, v.b, v.id, layout.KnownDirsName) {
		if !strings.Contains(why, want) {
			t.Errorf("%q does not name %s", why, want)
		}
	}
	if n != len(inB) || !strings.Contains(v.known(), v.id) {
		t.Errorf("%d partitions wait, of %v; known:\n%s", n, inB, v.known())
	}
	if err := v.s.Delete("none", 0); err != nil {
		t.Error(err)
	}
	if got := v.s.Known().Missing(); !slices.Equal(got, []string{v.b}) {
		t.Errorf("missing: %v", got)
	}
}

// TestEmptiedDirectoryIsForgotten: a directory whose partitions were moved away may be taken out.
func TestEmptiedDirectoryIsForgotten(t *testing.T) {
	t.Parallel()
	v := startVolumes(t)
	topics := []string{"t1", "t2"}
	for _, topic := range topics {
		p := v.partition(topic)
		put(t, p, records(topic))
		if p.Dir() != v.a {
			moveTo(t, p, v.a)
		}
	}
	v.stop()
	v.o.Dirs = v.o.Dirs[:1]
	v.open()
	for _, topic := range topics {
		expect(t, v.partition(topic), topic)
	}
	if err := v.s.Known().AllAsked(); err != nil {
		t.Fatal(err)
	}
	if !v.s.Known().Complete() || strings.Contains(v.known(), v.id) {
		t.Errorf("it is still known:\n%s", v.known())
	}
	v.partition("new")
}

// TestKnownDirectoriesAreLearnt: data of a kaas without the file, and log.dirs in another order.
func TestKnownDirectoriesAreLearnt(t *testing.T) {
	t.Parallel()
	v := startVolumes(t)
	if err := os.Mkdir(filepath.Join(v.a, layout.ResourcesName), 0o755); err != nil {
		t.Fatal(err)
	}
	v.stop()
	if err := os.Remove(filepath.Join(v.a, layout.KnownDirsName)); err != nil {
		t.Fatal(err)
	}
	v.o.Dirs = []string{v.b, v.a}
	for range 2 {
		v.open()
		if home := v.s.Known().Home(); home != v.a {
			t.Fatalf("home is %s", home)
		}
		for _, d := range v.s.dirs {
			if !strings.Contains(v.known(), d.ID+" "+d.path+"\n") {
				t.Errorf("%s is not in\n%s", d.path, v.known())
			}
		}
		v.stop()
	}
	v.open()
}

// TestTopicMadeAnewWhileItsDirectoryIsMissing: the new one is served, and the old one is set aside and can come back.
func TestTopicMadeAnewWhileItsDirectoryIsMissing(t *testing.T) {
	t.Parallel()
	for _, swapped := range []bool{false, true} {
		for _, clean := range []bool{true, false} {
			v := startVolumes(t, func(o *Options) { o.JournalBytes = smallJournal })
			v.makeJournals()
			name := ""
			for i := range 2 {
				p := v.partition(fmt.Sprint("t", i))
				put(t, p, records("old"))
				if p.Dir() == v.b {
					name = p.Topic()
				}
			}
			if clean {
				v.stop()
			} else {
				v.kill()
			}
			v.unmount()
			v.open()
			v.s.Known().Accepted(otherID, 0)
			put(t, v.ensureID(name, otherID), records("new"))
			v.stop()
			v.mount()
			if swapped {
				v.o.Dirs = []string{v.b, v.a}
			}
			for range 2 {
				v.open()
				expect(t, v.ensureID(name, otherID), "new")
				if got := v.s.Offline(); len(got) != 0 {
					t.Errorf("offline: %v", got)
				}
				if got := straysOf(t, v.harness, name); len(got) != 1 || filepath.Dir(got[0]) != v.b {
					t.Errorf("set aside: %v", got)
				}
				v.kill()
			}
			v.open()
			p, err := v.s.Ensure(name, topicID, 0, DefaultConfig())
			if err != nil {
				t.Fatal(err)
			}
			expect(t, p, "old")
		}
	}
}

// TestMovedMarkWaits: the older directory of a move that was cut short may be in a log directory that is missing.
func TestMovedMarkWaits(t *testing.T) {
	t.Parallel()
	v := startVolumes(t)
	p := v.partition("t")
	put(t, p, records("x"))
	if p.Dir() != v.a {
		moveTo(t, p, v.a)
	}
	v.stop()
	newer, older := filepath.Join(v.a, "t-0"), filepath.Join(v.b, "t-0")
	if err := os.CopyFS(older, os.DirFS(newer)); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(newer, layout.MovedName)
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	v.unmount()
	v.open()
	put(t, v.partition("t"), records("y"))
	v.stop()
	v.mount()
	v.open()
	expect(t, v.partition("t"), "x", "y")
	if _, err := os.Stat(older); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the older one is left: %v", err)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark is left: %v", err)
	}
}

// TestPartitionInTwoDirectories: neither is served, and the log names both, once.
func TestPartitionInTwoDirectories(t *testing.T) {
	t.Parallel()
	v := startVolumes(t)
	p := v.partition("t")
	put(t, p, records("x"))
	from, to := p.path(), filepath.Join(map[string]string{v.a: v.b, v.b: v.a}[p.Dir()], "t-0")
	v.stop()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	v.open()
	for range 3 {
		_, err := v.s.Ensure("t", topicID, 0, DefaultConfig())
		if !errors.Is(err, ErrStorage) || !strings.Contains(err.Error(), from) || !strings.Contains(err.Error(), to) {
			t.Fatalf("%v", err)
		}
	}
	if n := strings.Count(v.logs.String(), "partition not opened"); n != 1 {
		t.Errorf("said %d times", n)
	}
	v.stop()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	v.open()
	expect(t, v.partition("t"), "x")
}

// TestKnownDirectoriesDamaged: what the operator has written wrong is no reason to make partitions anew.
func TestKnownDirectoriesDamaged(t *testing.T) {
	t.Parallel()
	v := startVolumes(t)
	v.stop()
	name := filepath.Join(v.a, layout.KnownDirsName)
	good := v.known()
	if err := os.WriteFile(name, []byte(good+"nonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), v.o); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "nonsense") {
		t.Fatalf("%v %v", s, err)
	}
	if err := os.WriteFile(name, []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	v.open()
	if _, found, err := checkpoint.ReadMeta(v.s.fs, v.b); !found || err != nil {
		t.Error(found, err)
	}
}
