package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/meta"
)

// Store is the ResourceStore over YAML files.
type Store struct {
	options Options
	fs      vfs.FS
	logger  *slog.Logger

	// writeMu serialises everything that touches files: scans and writes.
	writeMu sync.Mutex
	// +checklocks:writeMu
	journal *journal
	// files are by path.
	// +checklocks:writeMu
	files map[string]*resourceFile
	// places has the same keys as objects.
	// +checklocks:writeMu
	places map[resourceKey]*placement
	// ids says who holds a topic id in its status.
	// +checklocks:writeMu
	ids map[meta.UUID]resourceKey
	// retired holds ids of topics that were deleted; the journal has them, too.
	// +checklocks:writeMu
	retired map[meta.UUID]bool
	// holding: the directory is gone, nothing is deleted or written.
	// +checklocks:writeMu
	holding bool
	// unsettled: what files hold is to be compared with the resources although no
	// file has changed.
	// +checklocks:writeMu
	unsettled bool
	// dirs were seen by the last scan.
	// +checklocks:writeMu
	dirs []string
	// gitLogged is the state of git that a line was written about.
	// +checklocks:writeMu
	gitLogged string
	// linksLogged are links to directories that a line was written about.
	// +checklocks:writeMu
	linksLogged map[string]bool
	// claimed are the new paths of the batch under way.
	// +checklocks:writeMu
	claimed map[string]bool
	// claims counts the resources that claim a name (claimOf), those of the batch under
	// way included.
	// +checklocks:writeMu
	claims map[string]int
	// newcomers are those of the settling under way.
	// +checklocks:writeMu
	newcomers newcomers
	// batchNames are the resources of that batch.
	// +checklocks:writeMu
	batchNames []meta.Object

	// unreadable is the number of files that are broken, as of the last settling.
	unreadable atomic.Int64

	// admitter decides the status of topics that are created; nil: nobody does.
	admitter atomic.Pointer[meta.TopicAdmitter]

	// queueMu guards what waits for the writer; a leaf.
	queueMu sync.Mutex
	// +checklocks:queueMu
	queue []*fileWrite

	// mu guards memory only. Objects in the map are immutable: a change puts
	// another one there.
	mu sync.Mutex
	// +checklocks:mu
	objects map[resourceKey]meta.Object
	// history holds the latest changes; history[i] has revision first+i.
	// +checklocks:mu
	history []meta.Event
	// +checklocks:mu
	first uint64
	// revision is that of the last change.
	// +checklocks:mu
	revision uint64
	// changed is closed by the next change; nil until a watcher waits.
	// +checklocks:mu
	changed chan struct{}

	notifier *notifier
}

var (
	_ meta.ResourceStore = (*Store)(nil)
	_ meta.TopicHistory  = (*Store)(nil)
)

// resourceFile is what the last look at a file found.
type resourceFile struct {
	sizeBytes, modifiedMs int64
	sum                   [sha256.Size]byte
	documents             []parsedDocument
	broken                error // not nil: documents are those of the last good content
	irregular             bool  // a named pipe or the like, never read

	// goodBytes is the size of the last good content when that ended with a newline,
	// else 0.
	goodBytes int64
	identity  string // fileIdentity
	// lines are lineSums of the last good content; nil when only the journal knows it.
	lines []uint64
	// unordered: documents come from the journal, which does not know their places.
	unordered bool
	// candidate is valid content that takes resources away in a way that nobody may
	// have meant; broken says so. It comes into force when other files hold them.
	candidate      []parsedDocument
	candidateBytes int64
	candidateLines []uint64
	lossLogged     string // what of that was logged
	reported       bool   // a line said that a document of it is ignored
}

// parsedDocument is one segment of a file. The object is nil when the segment
// is empty or foreign; it is as written in the file, without what the journal
// adds.
type parsedDocument struct {
	key    resourceKey
	object meta.Object
	note   string // what of it has no effect, most likely by mistake
}

func (f *resourceFile) index(key resourceKey) int {
	return slices.IndexFunc(f.documents, func(d parsedDocument) bool { return d.object != nil && d.key == key })
}

// placement says which file a resource comes from.
type placement struct {
	path         string
	missingSince time.Time // zero: it is there
}

// Open reads all resources and watches their files.
func Open(o Options) (*Store, error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Debounce == 0 {
		o.Debounce = limits.ResourceDebounce
	}
	if o.DeleteGrace == 0 {
		o.DeleteGrace = limits.ResourceDeleteGrace
	}
	if o.RescanInterval == 0 {
		o.RescanInterval = limits.ResourceRescanInterval
	}
	now := o.Clock()
	s := &Store{
		options: o, fs: o.FS, logger: o.Logger,
		files:   make(map[string]*resourceFile),
		places:  make(map[resourceKey]*placement),
		ids:     make(map[meta.UUID]resourceKey),
		retired: make(map[meta.UUID]bool),
		objects: make(map[resourceKey]meta.Object), claimed: make(map[string]bool), linksLogged: make(map[string]bool),
		claims: make(map[string]int),
	}
	// Revisions begin where no earlier process can have been, so that a
	// resourceVersion kept over a restart conflicts instead of matching.
	s.revision = uint64(now.UnixMicro())
	s.first = s.revision + 1
	if err := s.fs.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("resources directory: %w", err)
	}
	if err := s.fs.SyncDir(filepath.Dir(filepath.Clean(o.Dir))); err != nil {
		return nil, fmt.Errorf("resources directory: %w", err)
	}
	var err error
	if s.journal, err = openJournal(s.fs, o.Dir, o.Logger, now); err != nil {
		return nil, fmt.Errorf("resources directory %s: %w", o.Dir, err)
	}
	s.writeMu.Lock()
	for _, entry := range s.journal.retired {
		s.retire(entry.TopicID)
	}
	err = s.firstScan(now)
	s.writeMu.Unlock()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resources directory %s: %w", o.Dir, err), s.journal.close())
	}
	s.startNotifier()
	return s, nil
}

// Close ends the watching of files and closes the journal. Writes after it fail.
func (s *Store) Close() error {
	s.notifier.stop()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.holding = true
	return s.journal.close()
}

// Get implements meta.ResourceStore.
func (s *Store) Get(ctx context.Context, kind meta.Kind, name string) (meta.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	object := s.objects[resourceKey{kind, name}]
	s.mu.Unlock()
	if object == nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, meta.ErrNotFound)
	}
	return object.Clone(), nil
}

// List implements meta.ResourceStore.
func (s *Store) List(ctx context.Context, kind meta.Kind) ([]meta.Object, string, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	objects, revision := s.snapshot(kind)
	for i := range objects {
		objects[i] = objects[i].Clone()
	}
	return objects, formatRevision(revision), nil
}

// snapshot returns the present objects, sorted by name; they are shared.
func (s *Store) snapshot(kind meta.Kind) ([]meta.Object, uint64) {
	s.mu.Lock()
	var objects []meta.Object
	for key, object := range s.objects {
		if key.Kind == kind {
			objects = append(objects, object)
		}
	}
	revision := s.revision
	s.mu.Unlock()
	slices.SortFunc(objects, func(a, b meta.Object) int { return strings.Compare(a.Meta().Name, b.Meta().Name) })
	return objects, revision
}

func (s *Store) current(key resourceKey) meta.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[key]
}

// Create implements meta.ResourceStore.
func (s *Store) Create(ctx context.Context, object meta.Object) (meta.Object, error) {
	result := s.CreateAll(ctx, []meta.Object{object})[0]
	return result.Object, result.Err
}

// newPath is a file name for a resource that has no file yet. Files that a user
// put under that name are not overwritten.
// +checklocks:s.writeMu
func (s *Store) newPath(key resourceKey) (string, error) {
	base := strings.ToLower(string(key.Kind)) + "-" + key.Name
	if len(base) > 230 {
		sum := sha256.Sum256([]byte(key.Name))
		base = base[:200] + "-" + hex.EncodeToString(sum[:8])
	}
	for attempt := 0; ; attempt++ {
		name := base
		if attempt > 0 {
			name = fmt.Sprintf("%s-%d", base, attempt)
		}
		path := filepath.Join(s.options.Dir, name+".yaml")
		_, err := s.fs.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && !s.claimed[path] {
			return path, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if attempt == limits.ResourceNameAttempts {
			return "", fmt.Errorf("%s and its numbered variants exist", path)
		}
	}
}

// Update implements meta.ResourceStore.
func (s *Store) Update(ctx context.Context, object meta.Object) (meta.Object, error) {
	return s.change(ctx, keyOf(object), object.Meta().ResourceVersion, func(current meta.Object) (map[string]any, error) {
		want, err := objectTree(object)
		if err != nil {
			return nil, err
		}
		have, err := objectTree(current)
		if err != nil {
			return nil, err
		}
		patch := make(map[string]any)
		if spec := diffPatch(treeAt(have, "spec"), treeAt(want, "spec")); len(spec) > 0 {
			patch["spec"] = spec
		}
		metadata := make(map[string]any)
		for _, field := range []string{"labels", "annotations"} {
			if diff := diffPatch(treeAt(have, "metadata", field), treeAt(want, "metadata", field)); len(diff) > 0 {
				metadata[field] = diff
			}
		}
		if len(metadata) > 0 {
			patch["metadata"] = metadata
		}
		return patch, nil
	})
}

func treeAt(tree map[string]any, path ...string) map[string]any {
	for _, key := range path {
		tree, _ = tree[key].(map[string]any)
	}
	return tree
}

// Patch implements meta.ResourceStore.
func (s *Store) Patch(ctx context.Context, kind meta.Kind, name string, mergePatch []byte) (meta.Object, error) {
	var patch map[string]any
	if err := decodeJSON(mergePatch, &patch); err != nil {
		return nil, fmt.Errorf("%s %s: merge patch: %w: %w", kind, name, err, meta.ErrInvalid)
	}
	version, _ := treeAt(patch, "metadata")["resourceVersion"].(string)
	return s.change(ctx, resourceKey{kind, name}, version, func(meta.Object) (map[string]any, error) {
		changes := make(map[string]any)
		if spec, ok := patch["spec"].(map[string]any); ok {
			changes["spec"] = spec
		}
		metadata := make(map[string]any)
		for _, field := range []string{"labels", "annotations"} {
			if value, ok := treeAt(patch, "metadata")[field]; ok {
				metadata[field] = value
			}
		}
		if len(metadata) > 0 {
			changes["metadata"] = metadata
		}
		return changes, nil
	})
}

// change applies a merge patch to metadata and spec of a resource: to its object
// and, as text, to its file.
func (s *Store) change(ctx context.Context, key resourceKey, version string, patchFor func(meta.Object) (map[string]any, error)) (meta.Object, error) {
	return s.one(ctx, &fileWrite{key: key, op: writeChange, version: version, patchFor: patchFor})
}

// +checklocks:s.writeMu
func (s *Store) prepareChange(w *fileWrite) (*fileChange, meta.Object, error) {
	current, err := s.writableResource(w.key, w.version)
	if err != nil {
		return nil, nil, err
	}
	patch, err := w.patchFor(current)
	if err != nil {
		return nil, nil, err
	}
	next, err := patched(w.key, current, patch)
	if err != nil || next == nil {
		return nil, current.Clone(), err
	}
	var changes []blockChange
	for _, block := range []string{"metadata", "spec"} {
		if inner, ok := patch[block].(map[string]any); ok {
			changes = append(changes, blockChange{key: block, merge: inner})
		}
	}
	path, text, err := s.patchText(w.key, changes)
	if err != nil {
		return nil, nil, err
	}
	return &fileChange{path: path, text: text, event: meta.Modified, object: next}, nil, nil
}

// patched is the object after a merge patch; nil when that changes nothing.
func patched(key resourceKey, current meta.Object, patch map[string]any) (meta.Object, error) {
	before, err := objectTree(current)
	if err != nil {
		return nil, err
	}
	after, err := objectTree(current)
	if err != nil {
		return nil, err
	}
	tree, ok := mergePatch(after, patch).(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s: %w", key, meta.ErrInvalid)
	}
	diff := diffPatch(before, tree)
	if len(diff) == 0 {
		return nil, nil
	}
	next, err := objectFromTree(key.Kind, tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", key, err, meta.ErrInvalid)
	}
	if _, changed := diff["spec"]; changed {
		next.Meta().Generation++
	}
	return next, nil
}

// UpdateStatus implements meta.ResourceStore.
func (s *Store) UpdateStatus(ctx context.Context, object meta.Object) (meta.Object, error) {
	return s.one(ctx, s.statusUpdate(object))
}

// statusUpdate is the write of a status.
func (s *Store) statusUpdate(object meta.Object) *fileWrite {
	key := keyOf(object)
	_, status, err := encodeSpecStatus(object)
	if err != nil {
		return failedWrite(key, err)
	}
	return &fileWrite{key: key, op: writeStatus, version: object.Meta().ResourceVersion, status: status}
}

// +checklocks:s.writeMu
func (s *Store) prepareStatus(w *fileWrite) (*fileChange, meta.Object, error) {
	current, err := s.writableResource(w.key, w.version)
	broken := errors.Is(err, errBrokenFile)
	if err != nil && !broken {
		return nil, nil, err
	}
	if broken {
		current = s.current(w.key)
	}
	_, have, err := encodeSpecStatus(current)
	if err != nil {
		return nil, nil, err
	}
	if string(have) == string(w.status) {
		return nil, current.Clone(), nil
	}
	next := current.Clone()
	if err := setStatus(next, w.status); err != nil {
		return nil, nil, err
	}
	change := &fileChange{event: meta.Modified, object: next}
	// A file that can't be parsed can't be patched: status is kept in memory
	// and in the journal, and goes into the file when that is whole again.
	if !broken {
		change.path, change.text, err = s.patchText(w.key, []blockChange{{key: "status", replace: orEmpty(w.status)}})
	}
	return change, nil, err
}

func orEmpty(status json.RawMessage) json.RawMessage {
	if status == nil {
		return json.RawMessage("{}")
	}
	return status
}

// Delete implements meta.ResourceStore. A file of one document is removed, from
// a file of several the document is cut.
func (s *Store) Delete(ctx context.Context, kind meta.Kind, name, uid string) error {
	_, err := s.one(ctx, s.deletion(resourceKey{kind, name}, uid))
	return err
}

// deletion is the write that removes a resource.
func (s *Store) deletion(key resourceKey, uid string) *fileWrite {
	return &fileWrite{key: key, op: writeDeletion, uid: uid}
}

// +checklocks:s.writeMu
func (s *Store) prepareDeletion(w *fileWrite) (*fileChange, meta.Object, error) {
	current, err := s.writableResource(w.key, "")
	released := errors.Is(err, errBrokenFile) && s.lostBy(w.key)
	if released {
		current, err = s.current(w.key), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if w.uid != "" && current.Meta().UID != w.uid {
		return nil, nil, fmt.Errorf("%s: another one has its name now: %w", w.key, meta.ErrConflict)
	}
	path := s.places[w.key].path
	if released { // the file does not hold it any more
		return &fileChange{released: path, event: meta.Deleted, object: current}, nil, nil
	}
	segments, at, err := s.readSegments(path, w.key)
	if err != nil {
		return nil, nil, unavailable(w.key, err)
	}
	rest := strings.Join(append(slices.Clone(segments[:at]), segments[at+1:]...), "")
	return &fileChange{path: path, text: rest, remove: onlyComments(rest), event: meta.Deleted, object: current}, nil, nil
}

func onlyComments(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && line != "..." && line[0] != '#' {
			return false
		}
	}
	return true
}

// errBrokenFile is the state of a resource whose file can't be read any more.
var errBrokenFile = errors.New("its file is broken")

// writableResource returns the current object if a write to it may go on. It
// first takes in what a user may have just done to the file.
// +checklocks:s.writeMu
func (s *Store) writableResource(key resourceKey, version string) (meta.Object, error) {
	if err := s.writable(); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if place := s.places[key]; place != nil {
		if err := s.refresh(place.path); err != nil {
			return nil, unavailable(key, err)
		}
	}
	current, place := s.current(key), s.places[key]
	if current == nil || !place.missingSince.IsZero() {
		return nil, fmt.Errorf("%s: %w", key, meta.ErrNotFound)
	}
	if version != "" && version != current.Meta().ResourceVersion {
		return nil, fmt.Errorf("%s: resourceVersion %s is not %s: %w", key, version, current.Meta().ResourceVersion, meta.ErrConflict)
	}
	if file := s.files[place.path]; file != nil && file.broken != nil {
		return nil, fmt.Errorf("%s: %w: repair %s first: %w: %w", key, errBrokenFile, place.path, file.broken, meta.ErrInvalid)
	}
	return current, nil
}

// +checklocks:s.writeMu
func (s *Store) writable() error {
	if s.holding || !s.journal.present() {
		return fmt.Errorf("the resources directory %s is gone or can't be read; put it back: %w", s.options.Dir, meta.ErrUnavailable)
	}
	return nil
}

// patchFile changes blocks of the resource's document in its file.
// +checklocks:s.writeMu
func (s *Store) patchFile(key resourceKey, changes []blockChange) error {
	path, text, err := s.patchText(key, changes)
	if err != nil {
		return err
	}
	if err := s.storeFile(path, text); err != nil {
		return unavailable(key, err)
	}
	return nil
}

// patchText is the file of the resource with blocks of its document changed.
// +checklocks:s.writeMu
func (s *Store) patchText(key resourceKey, changes []blockChange) (path, text string, err error) {
	path = s.places[key].path
	segments, at, err := s.readSegments(path, key)
	if err != nil {
		return "", "", unavailable(key, err)
	}
	if segments[at], err = patchDocument(segments[at], changes); err != nil {
		return "", "", fmt.Errorf("%s: %s: %w", key, path, err)
	}
	text = strings.Join(segments, "")
	if len(text) > limits.ResourceFileBytes {
		return "", "", fmt.Errorf("%s: %s would grow to %d bytes, more than a resource file may have (%d): %w", key, path, len(text), limits.ResourceFileBytes, meta.ErrInvalid)
	}
	return path, text, nil
}

// readSegments returns the documents of a file and the index of the resource's.
// +checklocks:s.writeMu
func (s *Store) readSegments(path string, key resourceKey) ([]string, int, error) {
	content, err := readFile(s.fs, path, limits.ResourceFileBytes)
	if err != nil {
		return nil, 0, err
	}
	file := s.files[path]
	if file == nil || sha256.Sum256(content) != file.sum {
		return nil, 0, fmt.Errorf("%s was changed at the same moment: %w", path, meta.ErrConflict)
	}
	at := file.index(key)
	segments := splitDocuments(string(content))
	if at < 0 || at >= len(segments) {
		return nil, 0, fmt.Errorf("%s no longer holds it", path)
	}
	return segments, at, nil
}

// stillAsRead refuses to replace a file that its user wrote in the milliseconds
// since it was read: the writer gets a conflict, and the edit is taken in by the
// next scan.
func stillAsRead(fsys vfs.FS, path string, known *resourceFile) error {
	content, err := readFile(fsys, path, limits.ResourceFileBytes)
	switch {
	case known == nil && errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && known != nil && sha256.Sum256(content) == known.sum:
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return fmt.Errorf("%s was changed at the same moment: %w", path, meta.ErrConflict)
}

// storeFile writes a file and remembers it as seen, so that the next scan finds
// nothing new in it.
// +checklocks:s.writeMu
func (s *Store) storeFile(path, text string) error {
	change := &fileChange{path: path, text: text}
	if s.writeFiles([]*fileChange{change}); change.err != nil {
		return change.err
	}
	return nil
}

// publish makes an object the current one. kept: its file says the same and is
// durable.
// +checklocks:s.writeMu
func (s *Store) publish(event meta.EventType, object meta.Object, kept bool) meta.Object {
	key := keyOf(object)
	s.claimName(object, +1)
	s.mu.Lock()
	before := s.objects[key]
	s.revision++
	object.Meta().ResourceVersion = formatRevision(s.revision)
	s.objects[key] = object
	s.record(meta.Event{Type: event, Object: object, Revision: formatRevision(s.revision)})
	s.mu.Unlock()
	s.claimName(before, -1)
	if topic, ok := object.(*meta.KafkaTopic); ok && !topic.Status.TopicID.IsZero() {
		s.ids[topic.Status.TopicID] = key
	}
	s.remember(object, kept)
	return object
}

// unpublish removes an object. Caller holds writeMu.
// +checklocks:s.writeMu
func (s *Store) unpublish(key resourceKey) {
	delete(s.places, key)
	s.mu.Lock()
	object := s.objects[key]
	delete(s.objects, key)
	s.revision++
	s.record(meta.Event{Type: meta.Deleted, Object: object, Revision: formatRevision(s.revision)})
	s.mu.Unlock()
	s.claimName(object, -1)
	var retired meta.UUID
	if topic, ok := object.(*meta.KafkaTopic); ok && s.ids[topic.Status.TopicID] == key {
		delete(s.ids, topic.Status.TopicID)
		s.retire(topic.Status.TopicID)
		retired = topic.Status.TopicID
	}
	if err := s.journal.drop(key, retired); err != nil {
		s.logger.Warn("the resource journal can't be written", "resource", key.String(), "error", err)
	}
}

// retire keeps the id of a deleted topic from coming back with a file that was
// saved with its status: clients would take the new topic for the old one.
// +checklocks:s.writeMu
func (s *Store) retire(id meta.UUID) {
	if len(s.retired) >= limits.RetiredTopicIDs {
		clear(s.retired)
	}
	s.retired[id] = true
}

// flushJournal ends whatever put lines into the journal.
// +checklocks:s.writeMu
func (s *Store) flushJournal() {
	if err := s.journal.flush(); err != nil {
		s.logger.Warn("the resource journal can't be written; it is written anew next time", "error", err)
	}
}

// remember makes the journal's entry of an object.
// +checklocks:s.writeMu
func (s *Store) remember(object meta.Object, kept bool) {
	if object.ResourceKind() == meta.KindSecret {
		return // no copy of a password, nor a hash that is quick to try
	}
	metadata := object.Meta()
	spec, status, err := encodeSpecStatus(object)
	if err == nil {
		entry := &journalEntry{
			Kind: object.ResourceKind(), Name: metadata.Name, UID: metadata.UID,
			FirstSeen: metadata.CreationTimestamp, Generation: metadata.Generation,
			SpecHash: hashText(spec), Status: status, Labels: metadata.Labels, Annotations: metadata.Annotations,
		}
		if place := s.places[keyOf(object)]; place != nil {
			entry.Path = s.journal.relative(place.path)
			if file := s.files[place.path]; file != nil {
				entry.FileBytes = file.goodBytes
			}
		}
		if len(spec) <= limits.ResourceJournalSpecBytes {
			entry.Spec = spec
		}
		err = s.journal.put(entry, kept)
	}
	if err != nil {
		s.logger.Warn("the resource journal can't be written", "resource", keyOf(object).String(), "error", err)
	}
}

func hashText(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// unavailable marks errors of the disk; a conflict is none.
func unavailable(key resourceKey, err error) error {
	if errors.Is(err, meta.ErrConflict) {
		return fmt.Errorf("%s: %w", key, err)
	}
	return fmt.Errorf("%s: %w: %w", key, err, meta.ErrUnavailable)
}

func sameMeta(a, b *meta.ObjectMeta) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && a.Namespace == b.Namespace
}
