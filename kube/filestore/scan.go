package filestore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/meta"
)

// A scan makes the store follow what users did to the files. Its order matters:
// first all changed files are read, then each resource is given its file (it may
// have moved), then changed resources are published, then those without a file
// are missed and, after the grace, deleted. Caller of everything here holds
// writeMu.

// modifiedGranularityMs: a file changed this short a time ago is read again
// although size and time are as before, since a second change may hide there.
const modifiedGranularityMs = 2000

var (
	errNowADirectory = errors.New("it is a directory now; to delete what the file held, remove the directory")
	errDangling      = errors.New("it is a link that leads nowhere; to delete what the file held, remove the link")
)

func isRegular(stat vfs.Entry) bool { return !stat.Dir && !stat.Link && !stat.Irregular }

func isResourceFileName(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"))
}

// walk lists the resource files. Directories that vanish meanwhile are skipped;
// a root that can't be listed is an error.
// +checklocks:s.writeMu
func (s *Store) walk() (map[string]vfs.Entry, error) {
	found := make(map[string]vfs.Entry)
	s.dirs = s.dirs[:0]
	return found, s.walkDir(s.options.Dir, 0, found)
}

// +checklocks:s.writeMu
func (s *Store) walkDir(dir string, depth int, found map[string]vfs.Entry) error {
	entries, err := s.fs.List(dir)
	if err != nil {
		return err
	}
	s.dirs = append(s.dirs, dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name)
		switch {
		case strings.HasPrefix(entry.Name, "."):
		case entry.Dir && entry.Link:
			// It leads back into the tree or out of it. (What Kubernetes mounts are
			// links to files, through a directory whose name begins with a dot.)
			if !s.linksLogged[path] && len(s.linksLogged) < limits.ResourceFiles {
				s.linksLogged[path] = true
				s.logger.Warn("a link to a directory is not followed for resources; link to its files instead", "link", path)
			}
		case entry.Dir && s.files[path] != nil:
			found[path] = vfs.Entry{Name: entry.Name, Dir: true} // it was a file: that is no removal
		case entry.Dir:
			if depth+1 == limits.ResourceDirDepth {
				s.logger.Warn("a directory of resources lies too deep and is not read", "dir", path, "maxDepth", limits.ResourceDirDepth)
			} else if err := s.walkDir(path, depth+1, found); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case isResourceFileName(entry.Name):
			if len(found) == limits.ResourceFiles {
				return fmt.Errorf("more than %d resource files", limits.ResourceFiles)
			}
			stat, err := s.fs.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist) && entry.Link:
				found[path] = vfs.Entry{Name: entry.Name, Link: true} // its target is away, perhaps for a moment
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return err
			default:
				found[path] = stat
			}
		}
	}
	return nil
}

// firstScan reads everything at once and remembers in the journal which
// resources were lost while nobody watched; nothing is deleted for them. What a
// crash left half-written is removed.
// +checklocks:s.writeMu
func (s *Store) firstScan(now time.Time) error {
	defer s.flushJournal()
	found, err := s.walk()
	if err != nil {
		return err
	}
	for _, dir := range s.dirs {
		entries, err := s.fs.List(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if !entry.Dir && isTempName(entry.Name) {
				if err := ignoreMissing(s.fs.Remove(filepath.Join(dir, entry.Name))); err != nil {
					s.logger.Warn("a half-written resource file can't be removed", "file", filepath.Join(dir, entry.Name), "error", err)
				}
			}
		}
	}
	for _, path := range sortedPaths(found) {
		before := s.lastGood(path)
		s.files[path] = before
		s.readChanged(path, found[path])
		if s.files[path] == before {
			delete(s.files, path) // it vanished
		}
	}
	s.settle(now)
	s.putBackLostInternals(now)
	for key, entry := range s.journal.entries {
		if s.places[key] == nil && entry.LostSince.IsZero() {
			lost := *entry
			lost.LostSince = now
			if err := s.journal.put(&lost, false); err != nil {
				return err
			}
			s.logger.Warn("a resource's file was removed while no broker ran", "resource", key.String())
		}
	}
	return nil
}

// lastGood makes up what a file held before the start from what the journal knows.
// +checklocks:s.writeMu
func (s *Store) lastGood(path string) *resourceFile {
	file := &resourceFile{unordered: true}
	for _, key := range sortedKeys(s.journal.entries) {
		entry := s.journal.entries[key]
		if entry.Path != s.journal.relative(path) || entry.Spec == nil || !entry.LostSince.IsZero() {
			continue
		}
		object, err := entry.object()
		if err != nil {
			s.logger.Warn("the last good state of a resource can't be read from the journal", "resource", key.String(), "error", err)
			continue
		}
		file.documents = append(file.documents, parsedDocument{key: key, object: object})
		file.goodBytes = entry.FileBytes
	}
	return file
}

// Rescan looks at all files, by their content and as if it were that moment, instead
// of waiting for the notifier.
func (s *Store) Rescan(now time.Time) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	for _, file := range s.files {
		file.modifiedMs = 0 // the kernel's file times are too coarse to tell two edits apart
	}
	s.scan(now)
}

// scan looks at all files and returns how soon it wants to look again; 0 means
// at the next notification or rescan.
// +checklocks:s.writeMu
func (s *Store) scan(now time.Time) time.Duration {
	defer s.flushJournal()
	found, err := s.walk()
	if err != nil {
		s.hold(err)
		return 0
	}
	var again time.Duration
	changed := s.unsettled
	s.unsettled = false
	for _, path := range sortedPaths(found) {
		stat := found[path]
		file := s.files[path]
		age := now.UnixMilli() - stat.ModifiedMs
		if file != nil && file.sizeBytes == stat.SizeBytes && file.modifiedMs == stat.ModifiedMs && (age > modifiedGranularityMs || age < 0) {
			continue
		}
		if age >= 0 && age < s.options.Debounce.Milliseconds() && (file == nil || file.modifiedMs != stat.ModifiedMs) {
			again = s.options.Debounce // still being written, perhaps
			continue
		}
		if isRegular(stat) && openForWriting(s.fs, path) {
			again = max(again, s.options.Debounce, limits.ResourceWriterPoll)
			continue
		}
		if s.readChanged(path, stat) {
			changed = true
		}
	}
	for path := range s.files {
		if _, ok := found[path]; !ok {
			delete(s.files, path)
			changed = true
		}
	}
	if s.allGone() {
		return 0
	}
	if s.holding {
		s.holding = false
		s.logger.Info("the resources directory is back", "dir", s.options.Dir)
		changed = true
	}
	if changed || s.anyMissing() {
		if wait := s.settle(now); wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again
}

// allGone guards against a vanished volume and the like: when our own journal is
// not there and no resource file either, the directory is not the one that was
// opened, and nothing may be concluded from what it lacks. When only the journal
// is missing (somebody swept untracked files), it is written anew.
// +checklocks:s.writeMu
func (s *Store) allGone() bool {
	if s.journal.present() {
		return false
	}
	if len(s.files) == 0 && len(s.places) > 0 {
		s.hold(errors.New("it is empty and its journal is missing"))
		return true
	}
	if err := s.journal.rewrite(); err != nil {
		s.hold(err)
		return true
	}
	s.logger.Warn("the resource journal was removed and is written anew", "file", s.journal.path())
	s.putBack()
	return false
}

// putBack writes the files of all resources that have none. It is for a directory
// that was replaced or swept together with the journal (git clean -fdx, a fresh
// clone): files that are missing there say nothing about what their owner wants,
// and a topic is not deleted by accident.
// +checklocks:s.writeMu
func (s *Store) putBack() {
	owners := s.assignOwners()
	for _, key := range sortedKeys(s.places) {
		if _, ok := owners[key]; ok {
			continue
		}
		path, err := s.newPath(key)
		var text string
		if err == nil {
			text, err = encodeManifest(s.current(key))
		}
		if err == nil {
			err = s.storeFile(path, text)
		}
		if err != nil {
			s.hold(fmt.Errorf("the file of %s can't be put back: %w", key, err))
			return
		}
		s.places[key] = &placement{path: path}
		s.logger.Warn("a resource's file vanished together with the journal and is put back; remove it to delete the resource", "resource", key.String(), "file", path)
	}
}

// +checklocks:s.writeMu
func (s *Store) hold(err error) {
	if !s.holding {
		s.logger.Error("the resources directory can't be read; resources stay as they are until it is back", "dir", s.options.Dir, "error", err)
	}
	s.holding = true
}

// +checklocks:s.writeMu
func (s *Store) anyMissing() bool {
	for _, place := range s.places {
		if !place.missingSince.IsZero() {
			return true
		}
	}
	return false
}

// readChanged reads a file and says whether its content is new.
// +checklocks:s.writeMu
func (s *Store) readChanged(path string, stat vfs.Entry) bool {
	old := s.files[path]
	next := &resourceFile{sizeBytes: stat.SizeBytes, modifiedMs: stat.ModifiedMs, irregular: stat.Irregular, identity: fileIdentity(s.fs, path)}
	var content []byte
	var err error
	switch {
	case stat.Dir:
		err = errNowADirectory
	case stat.Link:
		err = errDangling
	case stat.Irregular:
		err = vfs.ErrIrregular // opening it may wait for ever
	default:
		content, err = readFile(s.fs, path, limits.ResourceFileBytes)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil {
		next.sum = sha256.Sum256(content)
		if old != nil && old.sum == next.sum {
			old.sizeBytes, old.modifiedMs, old.identity = stat.SizeBytes, stat.ModifiedMs, next.identity
			return false
		}
		if next.documents, err = parseFile(string(content)); err == nil {
			next.setGood(string(content))
			if err = judgeEnd(old, content); err == nil {
				err = judgeCut(old, next)
			}
		}
		if err == nil && judgeLoss(old, next) {
			s.files[path] = next // settle decides, and logs
			return true
		}
	}
	if err != nil {
		next.broken = err
		if old != nil { // the last good state stays
			next.keepGood(old)
		}
		if old == nil || old.broken == nil || old.broken.Error() != err.Error() {
			s.logger.Error("a resource file can't be read; what it said before stays in force", "file", path, "error", err)
		}
	} else if old != nil && old.broken != nil && (old.candidate == nil || old.lossLogged != "") {
		s.logger.Info("a resource file is whole again", "file", path)
	}
	if err == nil {
		for i, document := range next.documents {
			if document.note != "" {
				s.logger.Warn("a part of a resource file has no effect", "file", path, "document", i+1, "part", document.note)
			}
		}
	}
	s.files[path] = next
	return true
}

// parseFile reads all documents; one that is broken breaks the file. Foreign
// documents are none of our business.
func parseFile(text string) ([]parsedDocument, error) {
	segments := splitDocuments(text)
	documents := make([]parsedDocument, len(segments))
	for i, segment := range segments {
		object, note, err := parseManifest(segment)
		if err != nil {
			if len(segments) > 1 {
				return nil, fmt.Errorf("document %d: %w; until that is mended, what changed in the other documents of the file is not taken either", i+1, err)
			}
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		documents[i].note = note
		if object == nil {
			continue
		}
		documents[i].key, documents[i].object = keyOf(object), object
		for j := range i {
			if documents[j].object != nil && documents[j].key == documents[i].key {
				return nil, fmt.Errorf("documents %d and %d are both %s", j+1, i+1, documents[i].key)
			}
		}
	}
	return documents, nil
}

// refresh takes in one file before it is written to.
// +checklocks:s.writeMu
func (s *Store) refresh(path string) error {
	stat, err := s.fs.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		delete(s.files, path)
		s.settle(s.options.Clock())
		return nil
	}
	if err != nil {
		return err
	}
	if isRegular(stat) && openForWriting(s.fs, path) {
		return fmt.Errorf("%s is being written by somebody else: %w", path, meta.ErrConflict)
	}
	// Always by content: a user may have written within the same millisecond.
	if s.readChanged(path, stat) {
		s.settle(s.options.Clock())
	}
	return nil
}

// settle gives each resource its file and publishes what changed. It returns how
// long until the next missing resource may be deleted, 0 when none is missing.
// +checklocks:s.writeMu
func (s *Store) settle(now time.Time) time.Duration {
	s.acceptMoves()
	s.countUnreadable()
	owners := s.assignOwners()
	s.newcomers = s.findNewcomers(owners)
	for _, key := range sortedKeys(owners) {
		path := owners[key]
		file := s.files[path]
		place := s.places[key]
		if place == nil {
			place = &placement{}
			s.places[key] = place
		}
		moved := place.path != path && place.path != ""
		place.path, place.missingSince = path, time.Time{}
		s.apply(key, path, file.documents[file.index(key)].object)
		if moved {
			s.remember(s.current(key), false)
		}
	}
	s.newcomers = newcomers{}
	var wait time.Duration
	for _, key := range sortedKeys(s.places) {
		place := s.places[key]
		if _, ok := owners[key]; ok {
			continue
		}
		if place.missingSince.IsZero() {
			place.missingSince = now
		}
		left := s.options.DeleteGrace - now.Sub(place.missingSince)
		if left <= 0 && s.heldByGit() {
			return limits.ResourceWriterPoll
		}
		if left <= 0 && isInternal(key, s.current(key)) {
			s.putBackInternal(key, s.current(key))
			continue
		}
		if left <= 0 {
			s.logger.Info("a resource's file was removed, so the resource is deleted", "resource", key.String(), "file", place.path)
			s.unpublish(key)
			continue
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// assignOwners decides which file each resource comes from: the one it came from
// so far while that holds it, else the first by name. Others are reported once.
// +checklocks:s.writeMu
func (s *Store) assignOwners() map[resourceKey]string {
	owners := make(map[resourceKey]string)
	for _, path := range sortedPaths(s.files) {
		for _, document := range s.files[path].documents {
			if document.object == nil {
				continue
			}
			key := document.key
			other, taken := owners[key]
			if !taken {
				owners[key] = path
				continue
			}
			winner, loser := other, path
			if place := s.places[key]; place != nil && place.path == path {
				winner, loser = path, other
			}
			owners[key] = winner
			if file := s.files[loser]; !file.reported {
				file.reported = true
				s.logger.Warn("a resource stands in two files; the second is ignored", "resource", key.String(), "file", winner, "ignored", loser)
			}
		}
	}
	return owners
}

// apply publishes a resource as its file has it, if that is a change.
// +checklocks:s.writeMu
func (s *Store) apply(key resourceKey, path string, parsed meta.Object) {
	file := s.files[path]
	current := s.current(key)
	next := sharingSpec(parsed)
	event := meta.Modified
	if current == nil {
		event = meta.Added
		s.adopt(next)
	} else {
		s.inherit(next, current)
		changed := next.Meta().Generation != current.Meta().Generation
		if !changed && sameMeta(next.Meta(), current.Meta()) {
			s.noteFile(current, file)
			if file.broken == nil {
				s.restoreStatus(key, parsed, s.current(key))
			}
			return
		}
	}
	s.noteFile(s.publish(event, next, false), file)
	if event == meta.Added && file.broken == nil {
		s.restoreStatus(key, parsed, s.current(key))
	}
}

// sharingSpec is a copy that may get another status and other fields of metadata. The
// spec, which nobody changes in place, is the same: that of a user may be large.
func sharingSpec(parsed meta.Object) meta.Object {
	if user, ok := parsed.(*meta.KafkaUser); ok {
		shared := *user
		return &shared
	}
	return parsed.Clone()
}

// adopt completes an object that the store sees for the first time, or again
// after a restart, from the journal.
// +checklocks:s.writeMu
func (s *Store) adopt(object meta.Object) {
	key, metadata := keyOf(object), object.Meta()
	metadata.Generation = max(1, observedGeneration(object))
	if metadata.UID == "" {
		metadata.UID = uuid.NewString()
	}
	if topic, ok := object.(*meta.KafkaTopic); ok {
		// A file that was copied together with its status: the id stays with the
		// resource that has it, or deleting the copy would look like deleting that.
		if _, taken := s.ids[topic.Status.TopicID]; taken || s.retired[topic.Status.TopicID] || s.newcomers.copies[key] {
			topic.Status, metadata.Generation = meta.KafkaTopicStatus{}, 1
		}
	}
	entry := s.journal.entries[key]
	if entry == nil && s.newcomers.late[key] {
		metadata.CreationTimestamp = time.Time{} // what its file says is another's age, or made up
	}
	if entry != nil {
		metadata.UID = entry.UID
		spec, _, err := encodeSpecStatus(object)
		generation := entry.Generation
		if err != nil || hashText(spec) != entry.SpecHash {
			generation++
		}
		metadata.Generation = max(metadata.Generation, generation)
		// A topic id in the file is at least as new as the journal, whose lines
		// are not synced; without one the file was written anew by its user.
		if topic, ok := object.(*meta.KafkaTopic); entry.Status != nil && !(ok && !topic.Status.TopicID.IsZero()) {
			if err := setStatus(object, entry.Status); err != nil {
				s.logger.Warn("a status in the resource journal can't be read", "resource", key.String(), "error", err)
			}
		}
		if !entry.FirstSeen.IsZero() {
			metadata.CreationTimestamp = entry.FirstSeen
		}
	}
	if metadata.CreationTimestamp.IsZero() {
		metadata.CreationTimestamp = s.options.Clock().UTC().Truncate(time.Millisecond)
	}
}

// inherit completes an object from its predecessor.
// +checklocks:s.writeMu
func (s *Store) inherit(object, current meta.Object) {
	metadata, before := object.Meta(), current.Meta()
	metadata.UID, metadata.Generation, metadata.ResourceVersion = before.UID, before.Generation, before.ResourceVersion
	metadata.CreationTimestamp = before.CreationTimestamp
	_, status, err := encodeSpecStatus(current)
	if err == nil {
		err = setStatus(object, status)
	}
	if err != nil {
		s.logger.Warn("a status can't be carried over", "resource", keyOf(object).String(), "error", err)
	}
	if !sameSpec(object, current) {
		metadata.Generation++
	}
}

func sameSpec(a, b meta.Object) bool {
	specA, _, errA := encodeSpecStatus(a)
	specB, _, errB := encodeSpecStatus(b)
	return errA == nil && errB == nil && reflect.DeepEqual(specA, specB)
}

func observedGeneration(object meta.Object) int64 {
	switch o := object.(type) {
	case *meta.KafkaTopic:
		return o.Status.ObservedGeneration
	case *meta.KafkaUser:
		return o.Status.ObservedGeneration
	case *meta.KafkaBrokerConfig:
		return o.Status.ObservedGeneration
	case *meta.KafkaConfig:
		return o.Status.ObservedGeneration
	}
	return 0
}

// restoreStatus writes the status block back when an edit by hand lost or changed
// it without changing anything else. (After a change of spec the reconciler
// writes a new one anyway.)
// +checklocks:s.writeMu
func (s *Store) restoreStatus(key resourceKey, parsed, current meta.Object) {
	_, inFile, err := encodeSpecStatus(parsed)
	_, want, wantErr := encodeSpecStatus(current)
	if err = errors.Join(err, wantErr); err == nil && string(inFile) != string(want) && want != nil {
		err = s.patchFile(key, []blockChange{{key: "status", replace: want}})
	}
	if err != nil {
		s.logger.Warn("the status of a resource can't be written back to its file", "resource", key.String(), "error", err)
	}
}

// Conditions that the store itself sets, present and False only while there is
// something to say.
const (
	// ConditionFileValid: the resource's file can't be read and its last good content
	// is in force.
	ConditionFileValid = "FileValid"
	// ConditionFieldsKnown: spec has a field that kaas does not know, most likely by
	// mistake; the rest of it is in force.
	ConditionFieldsKnown = "FieldsKnown"
)

// noteFile keeps the store's own conditions of a resource.
// +checklocks:s.writeMu
func (s *Store) noteFile(current meta.Object, file *resourceFile) {
	if current.ResourceKind() == meta.KindSecret {
		return // it has no status
	}
	wanted := map[string]meta.Condition{}
	if file.broken != nil {
		reason := "CannotParse"
		if file.candidate != nil {
			reason = "ResourceMissing"
		}
		wanted[ConditionFileValid] = meta.Condition{Reason: reason, Message: file.broken.Error()}
	} else if at := file.index(keyOf(current)); at >= 0 && file.documents[at].note != "" {
		wanted[ConditionFieldsKnown] = meta.Condition{Reason: "UnknownField", Message: file.documents[at].note + "; it has no effect"}
	}
	same := true
	for _, kind := range []string{ConditionFileValid, ConditionFieldsKnown} {
		have := meta.FindCondition(*conditionsOf(current), kind)
		want, present := wanted[kind]
		same = same && (have != nil) == present && (have == nil || have.Message == want.Message)
	}
	if same {
		return
	}
	next := current.Clone()
	conditions := conditionsOf(next)
	*conditions = slices.DeleteFunc(*conditions, func(c meta.Condition) bool {
		return c.Type == ConditionFileValid || c.Type == ConditionFieldsKnown
	})
	for _, kind := range slices.Sorted(maps.Keys(wanted)) {
		condition := wanted[kind]
		condition.Type, condition.Status = kind, "False"
		condition.ObservedGeneration, condition.LastTransitionTime = next.Meta().Generation, s.options.Clock().UTC().Truncate(time.Second)
		*conditions = append(*conditions, condition)
	}
	s.publish(meta.Modified, next, false)
}

func conditionsOf(object meta.Object) *[]meta.Condition {
	switch o := object.(type) {
	case *meta.KafkaTopic:
		return &o.Status.Conditions
	case *meta.KafkaUser:
		return &o.Status.Conditions
	case *meta.KafkaBrokerConfig:
		return &o.Status.Conditions
	case *meta.KafkaConfig:
		return &o.Status.Conditions
	}
	panic(fmt.Sprintf("BUG: no conditions in a %T", object))
}

func sortedPaths[V any](m map[string]V) []string {
	paths := make([]string, 0, len(m))
	for path := range m {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

func sortedKeys[V any](m map[resourceKey]V) []resourceKey {
	keys := make([]resourceKey, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}
