package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/logstore/checkpoint"
	"kaas/logstore/layout"
)

// Known are the log directories that partitions may lie in, by directory.id, as the file of layout.KnownDirsName says. One
// that is not there (a disk that is not mounted, an element that is no longer in log.dirs) may hold any partition that is in
// no other, so none of those is made anew: KIP-858's replica in a directory that is not registered.
type Known struct {
	fs     vfs.FS
	logger *slog.Logger
	home   string // the log directory with the file, the resources and the producer ids

	unused map[string]bool  // elements of log.dirs that are not used: where a missing one should be, or that failed; immutable after Open
	failed map[string]error // why an element of log.dirs can't be used; immutable after Open
	looks  map[string]look  // by absolute path; immutable after Open

	mu      sync.Mutex
	entries []knownDir              // of the file; owner: mu
	missing []knownDir              // those that are not there, or failed; owner: mu
	made    map[[16]byte]int32      // topics accepted since the start: the first new partition; only while one is missing; owner: mu
	waiting map[checkpoint.Key]bool // partitions that were asked for and not made; owner: mu
}

// knownDir is a log directory; the id is empty when it could not be read.
type knownDir struct{ id, path string }

// describe names a directory, and why it can't be used.
func (k *Known) describe(d knownDir) string {
	text := d.path
	if d.id != "" {
		text += fmt.Sprintf(" (directory.id %s)", d.id)
	}
	if err := k.failed[d.path]; err != nil {
		text += fmt.Sprintf(" (it %v)", err)
	}
	return text
}

// fail takes an element of log.dirs out of use, as Kafka does (LogManager.createAndValidateLogDirs): what may lie in it waits.
// The home can't be spared. The reason begins with "can't be". Called during Open.
func (k *Known) fail(path string, reason error) error {
	if path == k.home {
		return fmt.Errorf("log directory %s of log.dirs %w", path, reason)
	}
	k.unused[path], k.failed[absolute(path)] = true, reason
	return nil
}

// openKnown finds the home among the elements of log.dirs and tells which of those can be used: an element without
// meta.properties where a known directory was is an empty mount point rather than a new disk, and is left alone.
func openKnown(fsys vfs.FS, logger *slog.Logger, paths []string) (k *Known, usable []string, err error) {
	k = &Known{fs: fsys, logger: logger, unused: map[string]bool{}, failed: map[string]error{}, looks: map[string]look{}, made: map[[16]byte]int32{}, waiting: map[checkpoint.Key]bool{}}
	looks := make([]look, len(paths))
	for i, path := range paths {
		looks[i] = lookAt(fsys, path)
		k.looks[absolute(path)] = looks[i]
	}
	if k.home, err = findHome(logger, looks); err != nil {
		return nil, nil, err
	}
	present, unformatted := map[string]bool{}, map[string]bool{}
	for _, l := range looks {
		if l.err != nil {
			if err := k.fail(l.path, fmt.Errorf("can't be used: %w", l.err)); err != nil {
				return nil, nil, err
			}
			continue
		}
		present[l.meta.DirectoryID], unformatted[l.path] = true, !l.formatted
	}
	if err := k.read(); err != nil {
		return nil, nil, err
	}
	for _, path := range paths {
		if unformatted[path] && slices.ContainsFunc(k.entries, func(d knownDir) bool { return d.path == absolute(path) && !present[d.id] }) {
			k.unused[path] = true
		}
		if !k.unused[path] {
			usable = append(usable, path)
		}
	}
	return k, usable, nil
}

// look is what can be seen of an element of log.dirs without a change.
type look struct {
	path             string
	meta             checkpoint.MetaProperties
	formatted        bool // it has meta.properties
	known, resources bool // it has the file of log directories, or the resources
	err              error
	unreadable       bool // with err: it may hold anything, unless it is no directory
}

func lookAt(fsys vfs.FS, path string) (l look) {
	l.path = path
	st, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l // it is made
	case err == nil && !st.Dir:
		l.err = errors.New("it is no directory")
		return l
	case err == nil:
		_, err = fsys.List(path)
	}
	has := func(name string) bool {
		if err != nil {
			return false
		}
		var statErr error
		if _, statErr = fsys.Stat(filepath.Join(path, name)); statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
			err = statErr
		}
		return statErr == nil
	}
	l.known, l.resources = has(layout.KnownDirsName), has(layout.ResourcesName)
	if l.err, l.unreadable = err, err != nil; err == nil {
		l.meta, l.formatted, l.err = checkpoint.ReadMeta(fsys, path)
		l.formatted = l.formatted || l.err != nil
	}
	return l
}

// findHome is the directory with the file, else the first with resources, else the first: the order of log.dirs may change. When
// that is not known, because one can't be read that may be it, nothing is begun anew in another.
func findHome(logger *slog.Logger, looks []look) (string, error) {
	for _, has := range []func(l look) bool{func(l look) bool { return l.known }, func(l look) bool { return l.resources }} {
		var homes []string
		for _, l := range looks {
			if has(l) {
				homes = append(homes, l.path)
			}
		}
		if len(homes) > 1 {
			logger.Error("more than one log directory claims to have the resources; the first is used", "dirs", homes)
		}
		if len(homes) > 0 {
			return homes[0], nil
		}
	}
	for _, l := range looks {
		if l.unreadable {
			return "", fmt.Errorf("log directory %s, which may hold the resources, can't be used: %w", l.path, l.err)
		}
	}
	for _, l := range looks { // a first start
		if l.err == nil {
			return l.path, nil
		}
	}
	return "", fmt.Errorf("log directory %s can't be used, and there is no other one in log.dirs that can: %w", looks[0].path, looks[0].err)
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

func (k *Known) file() string { return filepath.Join(k.home, layout.KnownDirsName) }

func (k *Known) read() error {
	b, err := vfs.ReadFile(k.fs, k.file(), limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, path, ok := strings.Cut(line, " ")
		if _, err := checkpoint.ParseUUID(id); !ok || err != nil {
			return fmt.Errorf("%s: %q is no directory.id and path; put the line right, or delete it if that log directory is lost for good", k.file(), line)
		}
		k.entries = append(k.entries, knownDir{id, strings.TrimSpace(path)})
	}
	return nil
}

// settle notes the directories that are there, durably, before a partition can be made in one of them, and says which are
// missing. A broker that never had more than one directory has no file.
func (k *Known) settle(dirs []*Dir) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := slices.Clone(k.entries)
	present := map[string]bool{}
	for _, d := range dirs {
		present[d.ID] = true
		entry := knownDir{d.ID, absolute(d.Path)}
		at := slices.IndexFunc(k.entries, func(e knownDir) bool { return e.id == d.ID })
		if at < 0 {
			k.entries = append(k.entries, entry)
		} else {
			k.entries[at] = entry
		}
	}
	for _, e := range k.entries {
		if !present[e.id] {
			k.missing = append(k.missing, e)
		}
	}
	for path := range k.failed {
		l := k.looks[path]
		if (l.unreadable || l.formatted) && !slices.ContainsFunc(k.missing, func(d knownDir) bool { return d.path == path }) {
			k.missing = append(k.missing, knownDir{l.meta.DirectoryID, path}) // else nothing can be in it
		}
	}
	for _, d := range k.missing {
		k.logger.Error("a log directory is missing, or can't be used: partitions that are in no other are offline until it is back", "dir", k.describe(d), "do", k.advice())
	}
	if len(k.entries) < 2 && len(before) == 0 || slices.Equal(before, k.entries) {
		return nil
	}
	return k.write(k.entries)
}

func (k *Known) advice() string {
	return "mend or mount it, or name it in log.dirs again, and restart; only if it is lost for good, with its records: stop, delete its line in " + absolute(k.file()) + ", start"
}

// write replaces the file.
func (k *Known) write(entries []knownDir) error {
	var b strings.Builder
	b.WriteString("# Log directories that hold partitions: directory.id and path. What is in none that is there waits for those that are not.\n" +
		"# Only if one is lost for good, with its records: stop the broker, delete its line, start.\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s\n", e.id, e.path)
	}
	return vfs.WriteFileAtomic(k.fs, k.file(), k.home, []byte(b.String()))
}

// Home is the log directory that holds what belongs to no partition: resources, producer ids.
func (k *Known) Home() string { return k.home }

// Resources is the directory of the resource store.
func (k *Known) Resources() string { return filepath.Join(k.home, layout.ResourcesName) }

// Unused says that an element of log.dirs is not used, because a known directory is missing there or it can't be used.
func (k *Known) Unused(path string) bool { return k.unused[path] }

// Complete says that no directory is missing.
func (k *Known) Complete() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.missing) == 0
}

// Missing are the paths of those that are.
func (k *Known) Missing() (paths []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.missing {
		paths = append(paths, d.path)
	}
	return paths
}

// Accepted says that partitions of a topic, from this one on, are new: they lie in no directory yet.
func (k *Known) Accepted(topicID [16]byte, from int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.missing) == 0 {
		return
	}
	if first, ok := k.made[topicID]; !ok || from < first {
		k.made[topicID] = from
	}
}

// MayCreate is nil when the partition, which is in no directory that is there, can be in none that is missing.
func (k *Known) MayCreate(key checkpoint.Key, topicID [16]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.missing) == 0 {
		return nil
	}
	if first, ok := k.made[topicID]; ok && key.Partition >= first {
		delete(k.waiting, key) // of an earlier topic of the name
		return nil
	}
	k.waiting[key] = true
	return fmt.Errorf("it waits for the log directory %s, which is missing", k.names(k.missing))
}

// names are the missing directories. Caller: mu.
func (k *Known) names(dirs []knownDir) string {
	var names []string
	for _, d := range dirs {
		names = append(names, k.describe(d))
	}
	return strings.Join(names, " or ")
}

// Forget says that nobody asks for a partition any more.
func (k *Known) Forget(key checkpoint.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.waiting, key)
}

// Waiting says what is missed, by whom and what to do, "" when nobody waits, and how many partitions wait.
func (k *Known) Waiting() (why string, partitions int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) == 0 {
		return "", 0
	}
	return fmt.Sprintf("log directory %s is missing and %d partitions of %s wait for it: %s", k.names(k.missing), len(k.waiting), k.topics(), k.advice()), len(k.waiting)
}

// topics are the names of some that wait. Caller: mu.
func (k *Known) topics() string {
	seen := map[string]bool{}
	for key := range k.waiting {
		seen[key.Topic] = true
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	const named = 10
	if more := len(names) - named; more > 0 {
		names = append(names[:named:named], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// AllAsked is called when every partition of every topic has been asked for: a missing directory that nobody waits for was
// emptied before it was taken out, and is forgotten. What is missed otherwise is said once. Caller: who calls MayCreate.
func (k *Known) AllAsked() error {
	left, forgotten := k.unclaimed()
	if len(forgotten) == 0 {
		return nil
	}
	if err := k.write(left); err != nil { // not under mu: /readyz does not wait for a disk
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.logger.Info("a log directory is missing and no partition was in it: it is forgotten", "dirs", k.names(forgotten))
	k.entries, k.missing = left, slices.DeleteFunc(k.missing, func(e knownDir) bool { return slices.Contains(forgotten, e) })
	return nil
}

// unclaimed returns the directories that can be forgotten, and those that stay; none can while partitions wait, which it says.
func (k *Known) unclaimed() (left, forgotten []knownDir) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.waiting); n > 0 {
		k.logger.Error("partitions are offline, because a log directory is missing", "dirs", k.names(k.missing), "partitions", n, "topics", k.topics(), "do", k.advice())
		return nil, nil
	}
	forgotten = slices.DeleteFunc(slices.Clone(k.missing), func(e knownDir) bool { return k.failed[e.path] != nil })
	return slices.DeleteFunc(slices.Clone(k.entries), func(e knownDir) bool { return slices.Contains(forgotten, e) }), forgotten
}

// Fail is fail for a directory that was taken into use. Its lock is let go of. Called during Open.
func (k *Known) Fail(d *Dir, reason error) error {
	if err := errors.Join(k.fail(d.Path, fmt.Errorf("can't be recovered: %w", reason)), d.Unlock()); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := knownDir{d.ID, absolute(d.Path)}
	k.missing = append(k.missing, gone)
	k.logger.Error("a log directory can't be used: its partitions are offline until it is back", "dir", k.describe(gone), "do", k.advice())
	return nil
}
