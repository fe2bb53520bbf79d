package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"kaas/internal/limits"
	"kaas/meta"
)

// Group commit of resource files. Who writes queues its writes and takes writeMu;
// whoever gets it first does all that wait at that moment as one batch: the new
// files are written and synced in parallel, renamed, and each directory is synced
// once. A write is published, and its caller returns, after the sync that covers
// it, so that a batch promises no less than a single write.
//
// What a crash leaves: of each file of the batch the old or the new content. A
// batch is not atomic as a whole; its writes were independent.

// fileWrite is one write of a resource. done, result and err are guarded by
// writeMu; the rest is set by its maker.
type fileWrite struct {
	key resourceKey
	op  writeOp

	object   meta.Object                               // creation
	text     string                                    // creation
	version  string                                    // change, status: the resourceVersion that must be current; "" is any
	patchFor func(meta.Object) (map[string]any, error) // change
	status   json.RawMessage                           // status
	uid      string                                    // deletion
	cause    error                                     // failed

	done   bool
	result meta.Object
	err    error
}

type writeOp uint8

const (
	writeFailed writeOp = iota // before it could be queued; it keeps its place among the results
	writeCreation
	writeChange
	writeStatus
	writeDeletion
)

// fileChange is one file to write or remove, and the event that tells of it when it
// is durable. Without a path nothing on disk changes.
type fileChange struct {
	path, text string
	remove     bool
	released   string // the file that goes on without the resource that is deleted
	event      meta.EventType
	object     meta.Object

	documents []parsedDocument
	err       error
}

func failedWrite(key resourceKey, err error) *fileWrite {
	return &fileWrite{key: key, op: writeFailed, cause: err}
}

// prepare decides what a write changes in which file; nil: nothing does, and object
// or err is the result.
// +checklocks:s.writeMu
func (s *Store) prepare(w *fileWrite) (change *fileChange, object meta.Object, err error) {
	switch w.op {
	case writeCreation:
		return s.prepareCreation(w)
	case writeChange:
		return s.prepareChange(w)
	case writeStatus:
		return s.prepareStatus(w)
	case writeDeletion:
		return s.prepareDeletion(w)
	}
	return nil, nil, w.cause
}

// announce publishes a change that is durable.
// +checklocks:s.writeMu
func (s *Store) announce(change *fileChange) meta.Object {
	switch change.event {
	case meta.Deleted:
		if change.released != "" {
			s.release(change.released, keyOf(change.object))
		}
		s.unpublish(keyOf(change.object))
		return nil
	case meta.Added:
		s.places[keyOf(change.object)] = &placement{path: change.path}
	}
	return s.publish(change.event, change.object, change.path != "").Clone()
}

// one does a single write, with those of others that wait.
func (s *Store) one(ctx context.Context, write *fileWrite) (meta.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.submit(write)
	return write.result, write.err
}

// UpdateStatusAll implements meta.BatchWriter.
func (s *Store) UpdateStatusAll(ctx context.Context, objects []meta.Object) []meta.WriteResult {
	return s.all(ctx, objects, s.statusUpdate)
}

func (s *Store) all(ctx context.Context, objects []meta.Object, writeOf func(meta.Object) *fileWrite) []meta.WriteResult {
	writes := make([]*fileWrite, len(objects))
	for i, object := range objects {
		if err := ctx.Err(); err != nil {
			writes[i] = failedWrite(keyOf(object), err)
			continue
		}
		writes[i] = writeOf(object)
	}
	s.submit(writes...)
	results := make([]meta.WriteResult, len(writes))
	for i, write := range writes {
		results[i] = meta.WriteResult{Object: write.result, Err: write.err}
	}
	return results
}

// DeleteAll implements meta.BatchWriter.
func (s *Store) DeleteAll(ctx context.Context, deletions []meta.Deletion) []error {
	writes := make([]*fileWrite, len(deletions))
	for i, d := range deletions {
		writes[i] = s.deletion(resourceKey{d.Kind, d.Name}, d.UID)
		if err := ctx.Err(); err != nil {
			writes[i] = failedWrite(writes[i].key, err)
		}
	}
	s.submit(writes...)
	errs := make([]error, len(writes))
	for i, write := range writes {
		errs[i] = write.err
	}
	return errs
}

// submit returns when all the writes are done. Their results may be read then: what
// set them happened before writeMu was given up.
func (s *Store) submit(writes ...*fileWrite) {
	if len(writes) == 0 {
		return
	}
	s.queueMu.Lock()
	s.queue = append(s.queue, writes...)
	s.queueMu.Unlock()
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	last := writes[len(writes)-1] // the queue is done in order
	for !last.done {
		s.queueMu.Lock()
		n := min(len(s.queue), limits.ResourceBatch)
		batch := s.queue[:n:n]
		if s.queue = s.queue[n:]; len(s.queue) == 0 {
			s.queue = nil
		}
		s.queueMu.Unlock()
		s.commit(batch)
	}
}

// commit does the writes in order. One that touches what an earlier one of the
// batch changes sees that done.
// +checklocks:s.writeMu
func (s *Store) commit(writes []*fileWrite) {
	var pending []*fileWrite
	var changes []*fileChange
	keys := make(map[resourceKey]bool, len(writes))
	for _, write := range writes {
		place := s.places[write.key]
		if keys[write.key] || place != nil && s.claimed[place.path] {
			s.finish(pending, changes)
			pending, changes = nil, nil
			clear(keys)
		}
		change, object, err := s.prepare(write)
		if write.done = true; change == nil || err != nil {
			write.result, write.err = object, err
			continue
		}
		keys[write.key] = true
		if change.path != "" {
			s.claimed[change.path] = true
		}
		pending, changes = append(pending, write), append(changes, change)
	}
	s.finish(pending, changes)
}

// finish makes prepared writes durable and tells of them.
// +checklocks:s.writeMu
func (s *Store) finish(pending []*fileWrite, changes []*fileChange) {
	s.writeFiles(changes)
	for i, write := range pending {
		if err := changes[i].err; err != nil {
			write.err = unavailable(write.key, err)
		} else {
			write.result = s.announce(changes[i])
		}
	}
	s.flushJournal()
	clear(s.claimed)
	s.releaseNames()
}

// writeFiles makes all the changes durable, each for itself, and remembers the
// files as seen, so that the next scan finds nothing new in them. The paths differ.
// +checklocks:s.writeMu
func (s *Store) writeFiles(changes []*fileChange) {
	s.stage(changes)
	dirs := make(map[string][]*fileChange)
	for _, change := range changes {
		if change.path == "" || change.err != nil {
			continue
		}
		if change.err = s.replace(change); change.err == nil {
			dir := filepath.Dir(change.path)
			dirs[dir] = append(dirs[dir], change)
		}
	}
	for dir, inDir := range dirs {
		err := s.fs.SyncDir(dir)
		for _, change := range inDir {
			if change.err = err; err == nil && !change.remove {
				file := &resourceFile{sum: sha256.Sum256([]byte(change.text)), documents: change.documents, identity: fileIdentity(s.fs, change.path)}
				file.setGood(change.text)
				if entry, err := s.fs.Stat(change.path); err == nil {
					file.sizeBytes, file.modifiedMs = entry.SizeBytes, entry.ModifiedMs
				}
				s.files[change.path] = file
			}
		}
	}
}

// stage writes and syncs the new files beside the old ones, several at a time: each
// waits for the disk, and a file system shares what it does for them.
// +checklocks:s.writeMu
func (s *Store) stage(changes []*fileChange) {
	stage := func(change *fileChange) {
		if change.documents, change.err = parseFile(change.text); change.err != nil {
			change.err = fmt.Errorf("what is to be written to %s can't be read back: %w", change.path, change.err)
			return
		}
		if err := stageFile(s.fs, change.path, []byte(change.text)); err != nil {
			change.err = errors.Join(err, ignoreMissing(s.fs.Remove(tempName(change.path))))
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, limits.ResourceBatchWorkers)
	for _, change := range changes {
		if change.path == "" || change.remove {
			continue
		}
		if len(changes) == 1 {
			stage(change)
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			stage(change)
			<-slots
		})
	}
	group.Wait()
}

// replace puts the staged file in the place of the old one, or removes that.
// +checklocks:s.writeMu
func (s *Store) replace(change *fileChange) error {
	if change.remove {
		if err := ignoreMissing(s.fs.Remove(change.path)); err != nil {
			return err
		}
		delete(s.files, change.path)
		return nil
	}
	err := stillAsRead(s.fs, change.path, s.files[change.path])
	if err == nil {
		err = s.fs.Rename(tempName(change.path), change.path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(s.fs.Remove(tempName(change.path))))
	}
	return nil
}
