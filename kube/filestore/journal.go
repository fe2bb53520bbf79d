package filestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kaas/internal/limits"
	"kaas/internal/vfs"
	"kaas/meta"
)

// journalDir holds what is ours below the resources' directory. Its name begins
// with a dot and the file's ends in no suffix that kubectl reads.
const (
	journalDir  = ".kaas"
	journalFile = "journal"
)

// resourceKey identifies a resource.
type resourceKey struct {
	Kind meta.Kind
	Name string
}

func (k resourceKey) String() string { return string(k.Kind) + " " + k.Name }

func keyOf(object meta.Object) resourceKey {
	return resourceKey{object.ResourceKind(), object.Meta().Name}
}

// journalEntry is what a resource's file can't be trusted to keep, because its
// user may write the file anew.
type journalEntry struct {
	Kind       meta.Kind       `json:"kind"`
	Name       string          `json:"name"`
	UID        string          `json:"uid,omitempty"`
	FirstSeen  time.Time       `json:"firstSeen,omitzero"`
	Generation int64           `json:"generation,omitempty"`
	SpecHash   string          `json:"specHash,omitempty"` // of the spec that Generation counts
	Status     json.RawMessage `json:"status,omitempty"`
	// Path, Labels, Annotations and Spec are the last good content, for a start
	// that finds the file broken. Spec is left out when it is larger than
	// limits.ResourceJournalSpecBytes.
	// Path is relative to the resources' directory, which may be spelt or lie
	// elsewhere at the next start.
	Path string `json:"path,omitempty"`
	// File was Path with the directory, as that was spelt; read only.
	File string `json:"file,omitempty"`
	// FileBytes is the size of that file when it ended with a newline.
	FileBytes   int64             `json:"fileBytes,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec,omitempty"`
	LostSince   time.Time         `json:"lostSince,omitzero"` // the file was gone at a start
	Deleted     bool              `json:"deleted,omitempty"`
	TopicID     meta.UUID         `json:"topicId,omitzero"` // of a deleted topic
}

func (e *journalEntry) key() resourceKey { return resourceKey{e.Kind, e.Name} }

// journal is an append-only file of JSON lines; the last line of a resource
// counts. Lines are collected and written once per batch of writes, or look at the
// files. They are synced then when nothing else holds what they say: deletions, and
// what was taken in from files that others wrote. What the store's own files hold
// as well is read from them at the next start if a power cut takes the line. A torn
// last line is cut.
//
// Owner: Store.writeMu.
type journal struct {
	fs      vfs.FS
	dir     string // of the resources
	file    vfs.File
	size    int64
	lines   int
	entries map[resourceKey]*journalEntry
	// retired are the lines of deleted topics, at most limits.RetiredTopicIDs of the
	// latest.
	retired []*journalEntry

	pending  []byte // lines that flush writes
	unsynced bool   // some of them, or of those before, must be synced
	stale    bool   // a flush failed: the file lacks lines
}

// relative is a path as entries have it.
func (j *journal) relative(path string) string {
	if inside, ok := strings.CutPrefix(path, filepath.Clean(j.dir)+string(filepath.Separator)); ok {
		return inside
	}
	return path
}

// upgrade makes an entry of an older kaas one of today.
func (j *journal) upgrade(entry *journalEntry) {
	if entry.File == "" || entry.Path != "" {
		return
	}
	entry.Path = j.relative(entry.File)
	if entry.Path == entry.File {
		// Written under another spelling of the directory: its last name is the same.
		name := string(filepath.Separator) + filepath.Base(filepath.Clean(j.dir)) + string(filepath.Separator)
		if at := strings.LastIndex(entry.File, name); at >= 0 {
			entry.Path = entry.File[at+len(name):]
		}
	}
	entry.File = ""
}

// retire remembers a deleted topic's line; the oldest half goes when there are too
// many.
func (j *journal) retire(entry *journalEntry) {
	if len(j.retired) >= limits.RetiredTopicIDs {
		j.retired = append([]*journalEntry(nil), j.retired[len(j.retired)/2:]...)
	}
	j.retired = append(j.retired, entry)
}

func (j *journal) path() string { return filepath.Join(j.dir, journalDir, journalFile) }

// openJournal reads the journal, or begins one, and rewrites it when most of it
// is superseded. Entries lost for longer than limits.ResourceLostRetention go.
func openJournal(fsys vfs.FS, dir string, logger *slog.Logger, now time.Time) (*journal, error) {
	j := &journal{fs: fsys, dir: dir, entries: make(map[resourceKey]*journalEntry)}
	if err := fsys.MkdirAll(filepath.Join(dir, journalDir)); err != nil {
		return nil, err
	}
	content, err := readFile(fsys, j.path(), 1<<40)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := bytes.LastIndexByte(content, '\n') + 1
	if whole < len(content) {
		logger.Warn("the resource journal ends in a torn line, which is cut", "file", j.path(), "bytes", len(content)-whole)
	}
	for line := range bytes.Lines(content[:whole]) {
		entry := new(journalEntry)
		if err := json.Unmarshal(line, entry); err != nil || entry.Kind == "" || entry.Name == "" {
			logger.Warn("a line of the resource journal can't be read and is skipped", "file", j.path(), "line", j.lines+1, "error", err)
		} else if entry.Deleted {
			delete(j.entries, entry.key())
			if !entry.TopicID.IsZero() {
				j.retire(entry)
			}
		} else {
			j.upgrade(entry)
			j.entries[entry.key()] = entry
		}
		j.lines++
	}
	for key, entry := range j.entries {
		if !entry.LostSince.IsZero() && now.Sub(entry.LostSince) > limits.ResourceLostRetention {
			delete(j.entries, key)
			j.lines += limits.ResourceJournalSlack // write it anew
		}
	}
	if j.lines > 2*(len(j.entries)+len(j.retired))+limits.ResourceJournalSlack || content == nil {
		return j, j.rewrite()
	}
	return j, j.reopen(int64(whole))
}

// rewrite replaces the file by one line per resource, durably.
func (j *journal) rewrite() error {
	var content []byte
	keys := make([]resourceKey, 0, len(j.entries))
	for key := range j.entries {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	lines := slices.Clone(j.retired) // first: a namesake that lives comes behind
	for _, key := range keys {
		lines = append(lines, j.entries[key])
	}
	for _, entry := range lines {
		line, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		content = append(append(content, line...), '\n')
	}
	if err := j.fs.MkdirAll(filepath.Join(j.dir, journalDir)); err != nil {
		return err
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		return err
	}
	if err := replaceFile(j.fs, j.path(), content, nil); err != nil {
		return err
	}
	j.lines = len(lines)
	j.pending, j.unsynced, j.stale = j.pending[:0], false, false
	return j.reopen(int64(len(content)))
}

func (j *journal) reopen(size int64) error {
	if j.file != nil {
		if err := j.file.Close(); err != nil {
			return err
		}
		j.file = nil
	}
	file, err := j.fs.OpenFile(j.path(), vfs.Create)
	if err != nil {
		return err
	}
	j.file, j.size = file, size
	return file.Truncate(size)
}

// put records an entry; flush brings it to the disk. kept says that a file that is
// durable by then holds the same, so that the line need not be.
func (j *journal) put(entry *journalEntry, kept bool) error {
	if entry.Deleted {
		delete(j.entries, entry.key())
		if !entry.TopicID.IsZero() {
			j.retire(entry)
		}
	} else {
		j.entries[entry.key()] = entry
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	j.pending = append(append(j.pending, line...), '\n')
	j.lines++
	j.unsynced = j.unsynced || !kept
	return nil
}

// flush writes what was put since the last one, with one write and at most one sync.
// An error is for a log line: what was put stays in memory, and the next flush writes
// the whole journal anew.
func (j *journal) flush() error {
	if len(j.pending) == 0 && !j.stale {
		return nil
	}
	if j.file == nil {
		return fmt.Errorf("resource journal %s is not open", j.path())
	}
	if j.stale {
		if !j.present() {
			return fmt.Errorf("resource journal %s is gone", j.path()) // its volume, perhaps
		}
		return j.rewrite()
	}
	pending := j.pending
	j.pending = j.pending[:0]
	_, err := j.file.WriteAt(pending, j.size)
	if err == nil && j.unsynced {
		err = j.file.Datasync()
	}
	if err != nil {
		// What was written of a line is overwritten by the rewrite.
		j.stale = true
		return err
	}
	j.size += int64(len(pending))
	j.unsynced = false
	return nil
}

// drop forgets a resource: it was deleted, so its next namesake is a new one. The id
// of a topic is kept: it must not come back.
func (j *journal) drop(key resourceKey, topicID meta.UUID) error {
	if j.entries[key] == nil && topicID.IsZero() {
		return nil
	}
	return j.put(&journalEntry{Kind: key.Kind, Name: key.Name, Deleted: true, TopicID: topicID}, false)
}

// present says whether the file is where it was: false means that somebody
// removed the directory or unmounted what it lay on.
func (j *journal) present() bool {
	_, err := j.fs.Stat(j.path())
	return err == nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	err := errors.Join(j.flush(), j.file.Datasync(), j.file.Close())
	j.file = nil
	return err
}

// readFile reads a whole file of at most maxBytes.
func readFile(fsys vfs.FS, path string, maxBytes int64) ([]byte, error) {
	file, err := fsys.OpenFile(path, vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	size, err := file.Size()
	if err == nil && size > maxBytes {
		err = fmt.Errorf("%s has %d bytes; at most %d are read", path, size, maxBytes)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	content := make([]byte, size)
	n := 0
	for n < len(content) {
		read, err := file.ReadAt(content[n:], int64(n))
		n += read
		if err != nil || read == 0 {
			break // shorter than it was a moment ago: what there is
		}
	}
	return content[:n], file.Close()
}

// replaceFile makes path hold content, atomically and durably: a new file beside
// it is synced, renamed over it, and the directory synced. A crash leaves the old
// or the new content, and perhaps the file beside it, whose name readers skip.
// last, when given, is asked just before the rename and may still refuse.
func replaceFile(fsys vfs.FS, path string, content []byte, last func() error) error {
	err := stageFile(fsys, path, content)
	if err == nil && last != nil {
		err = last()
	}
	if err == nil {
		err = fsys.Rename(tempName(path), path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(fsys.Remove(tempName(path))))
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// tempName is the file beside path that will replace it.
func tempName(path string) string {
	dir, base := filepath.Split(path)
	return filepath.Join(dir, tempPrefix+shorten(base)+tempSuffix)
}

// stageFile writes and syncs the file beside path.
func stageFile(fsys vfs.FS, path string, content []byte) error {
	temp := tempName(path)
	file, err := fsys.OpenFile(temp, vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	if err = keepMode(fsys, path, temp); err == nil {
		_, err = file.WriteAt(content, 0)
	}
	if err == nil {
		err = file.Datasync()
	}
	return errors.Join(err, file.Close())
}

// Names of files that are being written.
const (
	tempPrefix = ".kaas-"
	tempSuffix = ".tmp"
)

// isTempName says whether a crash may have left the file behind.
func isTempName(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}

// secretPrefix begins the names of files that newPath makes for Secrets. They are
// the broker's own; what a user writes keeps the user's permissions.
const secretPrefix = "secret-"

// keepMode gives the file that will replace another one its permissions, before
// it has content: a user may have closed a file that holds credentials.
func keepMode(fsys vfs.FS, path, temp string) error {
	if fsys != vfs.OS {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(filepath.Base(path), secretPrefix):
		return os.Chmod(temp, 0o600)
	default:
		return ignoreMissing(err)
	}
	return os.Chmod(temp, info.Mode().Perm())
}

// shorten keeps the temporary name within 255 bytes.
func shorten(base string) string {
	if len(base) > 200 {
		sum := sha256.Sum256([]byte(base)) // names that begin alike may be written at the same time
		return base[:180] + hex.EncodeToString(sum[:8])
	}
	return base
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func compareKeys(a, b resourceKey) int {
	if a.Kind != b.Kind {
		if a.Kind < b.Kind {
			return -1
		}
		return 1
	}
	if a.Name < b.Name {
		return -1
	}
	if a.Name > b.Name {
		return 1
	}
	return 0
}

// object is the resource as the entry remembers it.
func (e *journalEntry) object() (meta.Object, error) {
	raw, err := json.Marshal(manifest{
		APIVersion: meta.APIVersion, Kind: e.Kind, Spec: e.Spec, Status: e.Status,
		Metadata: meta.ObjectMeta{Name: e.Name, Labels: e.Labels, Annotations: e.Annotations},
	})
	if err != nil {
		return nil, err
	}
	object, _, err := parseManifest(string(raw))
	return object, err
}
