package filestore

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"kaas/meta"
)

// A file that is being written is seen in the middle of it: emptied, cut within a
// name or a number, each time perhaps valid YAML. Its resources have data, so what
// a file says is believed only as far as a half-written one can't say it:
//
//   - content that lost its final newline and is shorter than the last good one is
//     not complete (judgeEnd);
//   - a resource that is no longer in its file stays, unless another file holds it
//     now, or it was cut out of a file of several documents that is otherwise in
//     order (judgeLoss, acceptMoves);
//   - content that is, line for line, the beginning of the last good one and lacks
//     resources or parts of a spec may be cut behind a newline: it is not believed
//     until something else stands in it, a comment at its end for example (cutOff).
//     A file that took the other one's place (git, rename) was not cut in it.
//
// And a file that somebody has open for writing is not read at all until it is
// closed, where the operating system can tell (openForWriting).
//
// Both are kept as broken files are: what was in force stays, and a condition says
// why. Removing a file is never the middle of a write and deletes.

// setGood notes what judgeEnd and cutOff compare with.
func (f *resourceFile) setGood(text string) {
	if f.goodBytes = 0; strings.HasSuffix(text, "\n") {
		f.goodBytes = int64(len(text))
	}
	f.lines = lineSums(text)
}

// keepGood carries over what a file says while its new content is not believed.
func (f *resourceFile) keepGood(old *resourceFile) {
	f.documents, f.goodBytes, f.lines, f.unordered = old.documents, old.goodBytes, old.lines, old.unordered
}

var lineSeed = maphash.MakeSeed()

// lineSums has, for each complete line, the hash of the text up to its end.
func lineSums(text string) []uint64 {
	var hash maphash.Hash
	hash.SetSeed(lineSeed)
	sums := make([]uint64, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		if strings.HasSuffix(line, "\n") {
			_, _ = hash.WriteString(line) // never fails
			sums = append(sums, hash.Sum64())
		}
	}
	return sums
}

// cutOff says that the new content is the beginning of the old one, up to the end of
// a line.
func cutOff(old, next *resourceFile) bool {
	n := len(next.lines)
	return old != nil && old.identity == next.identity && n > 0 && n < len(old.lines) && next.goodBytes > 0 && next.lines[n-1] == old.lines[n-1]
}

// judgeCut refuses content that is the beginning of the old one and lacks a part of
// what a resource said. (That it lacks whole resources is judgeLoss' business.)
func judgeCut(old, next *resourceFile) error {
	if !cutOff(old, next) {
		return nil
	}
	for _, document := range next.documents {
		if document.object == nil {
			continue
		}
		at := old.index(document.key)
		if at < 0 {
			continue
		}
		before := old.documents[at].object
		if !sameSpec(document.object, before) || !sameMeta(document.object.Meta(), before.Meta()) {
			return fmt.Errorf("its end may be missing: it is what it was up to line %d, and %s lacks what came behind. If that is meant, add a line at the end, a comment for example", len(next.lines), document.key)
		}
	}
	return nil
}

func (f *resourceFile) keys() []resourceKey { return resourcesOf(f.documents) }

func resourcesOf(documents []parsedDocument) []resourceKey {
	var keys []resourceKey
	for _, document := range documents {
		if document.object != nil {
			keys = append(keys, document.key)
		}
	}
	return keys
}

// judgeEnd refuses content whose end seems to be missing.
func judgeEnd(old *resourceFile, content []byte) error {
	if old == nil || len(old.keys()) == 0 || int64(len(content)) >= old.goodBytes || bytes.HasSuffix(content, []byte("\n")) {
		return nil
	}
	return fmt.Errorf("its end is missing: %d bytes without a newline at the end, before there were %d with one. If it is complete, end it with a newline; to delete what it held, remove the file", len(content), old.goodBytes)
}

// judgeLoss says whether the new content of a file lacks resources that it held, in
// a way that may not be meant. Then it is made next's candidate.
func judgeLoss(old, next *resourceFile) bool {
	if old == nil {
		return false
	}
	lost := lostKeys(old.documents, next.documents)
	cut := cutOff(old, next)
	if len(lost) == 0 || !cut && cleanCut(old, next) {
		return false
	}
	next.candidate, next.candidateBytes, next.candidateLines = next.documents, next.goodBytes, next.lines
	next.keepGood(old)
	next.lossLogged = old.lossLogged
	next.broken = lossError(lost, lostKeys(next.candidate, old.documents), cut)
	return true
}

// lostKeys are the resources of before that after does not have.
func lostKeys(before, after []parsedDocument) []resourceKey {
	have := resourcesOf(after)
	return slices.DeleteFunc(resourcesOf(before), func(key resourceKey) bool { return slices.Contains(have, key) })
}

// cleanCut says that documents were taken out of a file of several which is in order
// otherwise: it is whole, still holds others, and no document changed its name.
func cleanCut(old, next *resourceFile) bool {
	before, after := old.keys(), resourcesOf(next.documents)
	kept := slices.ContainsFunc(after, func(key resourceKey) bool { return slices.Contains(before, key) })
	if len(before) < 2 || next.goodBytes == 0 || !kept {
		return false
	}
	if old.unordered {
		return true // while no broker ran: the data is set aside, not deleted
	}
	for i, document := range old.documents {
		if document.object == nil || slices.Contains(after, document.key) || i >= len(next.documents) {
			continue
		}
		if other := next.documents[i]; other.object != nil && !slices.Contains(before, other.key) {
			return false
		}
	}
	return true
}

func lossError(lost, added []resourceKey, cut bool) error {
	if cut {
		return fmt.Errorf("it is what it was up to a line behind which %s stood: its end may be missing. If that is meant, to delete that with its data, add a line at the end, a comment for example", joinKeys(lost))
	}
	if len(added) > 0 {
		return fmt.Errorf("it held %s and now holds %s: a resource is not renamed in its file. To have both, write a file for each; to delete the old one with its data, remove the file first, or delete it with a Kafka tool", joinKeys(lost), joinKeys(added))
	}
	return fmt.Errorf("it no longer holds %s; to delete that with its data, remove the file, or delete it with a Kafka tool", joinKeys(lost))
}

func joinKeys(keys []resourceKey) string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.String()
	}
	return strings.Join(names, ", ")
}

// acceptMoves puts candidates into force whose missing resources other files hold.
// It begins with all of them accepted and takes back, until nothing changes, those
// that would lose a resource: so two files may exchange theirs.
// +checklocks:s.writeMu
func (s *Store) acceptMoves() {
	accepted := make(map[string]bool)
	for path, file := range s.files {
		if file.candidate != nil {
			accepted[path] = true
		}
	}
	if len(accepted) == 0 {
		return
	}
	for changed := true; changed; {
		changed = false
		holders := make(map[resourceKey]bool)
		for path, file := range s.files {
			documents := file.documents
			if accepted[path] {
				documents = file.candidate
			}
			for _, key := range resourcesOf(documents) {
				holders[key] = true
			}
		}
		for path := range accepted {
			file := s.files[path]
			if slices.ContainsFunc(lostKeys(file.documents, file.candidate), func(key resourceKey) bool { return !holders[key] }) {
				delete(accepted, path)
				changed = true
			}
		}
	}
	for _, path := range sortedPaths(s.files) {
		file := s.files[path]
		if accepted[path] {
			file.documents, file.goodBytes, file.lines = file.candidate, file.candidateBytes, file.candidateLines
			file.candidate, file.broken, file.unordered = nil, nil, false
		} else if file.candidate != nil && file.lossLogged != file.broken.Error() {
			file.lossLogged = file.broken.Error()
			s.logger.Error("a resource file lacks what it held; what it said before stays in force", "file", path, "error", file.broken)
		}
	}
}

// lostBy says whether the resource's file is in order but for the lack of the
// resource.
// +checklocks:s.writeMu
func (s *Store) lostBy(key resourceKey) bool {
	place := s.places[key]
	if place == nil || s.files[place.path] == nil {
		return false
	}
	file := s.files[place.path]
	return file.candidate != nil && !slices.Contains(resourcesOf(file.candidate), key)
}

// release makes a file forget a resource that it lacks and that was deleted by
// other means.
// +checklocks:s.writeMu
func (s *Store) release(path string, key resourceKey) {
	file := s.files[path]
	file.documents = slices.DeleteFunc(slices.Clone(file.documents), func(d parsedDocument) bool { return d.object != nil && d.key == key })
	s.unsettled = true
}

// isInternal says whether a resource is one of the topics that the broker keeps its
// own state in: committed offsets, transactions.
func isInternal(key resourceKey, object meta.Object) bool {
	topic, ok := object.(*meta.KafkaTopic)
	return ok && key.Kind == meta.KindTopic && (meta.IsInternalTopicName(topic.KafkaName()) || meta.IsInternalTopicName(topic.Status.TopicName))
}

// putBackInternal writes the file of an internal topic that was removed. What it
// holds is not its user's but that of all groups and producers, so it takes an
// explicit request (DeleteTopics) to delete it, not a sweep of a directory.
// +checklocks:s.writeMu
func (s *Store) putBackInternal(key resourceKey, object meta.Object) {
	path, err := s.newPath(key)
	var text string
	if err == nil {
		text, err = encodeManifest(object)
	}
	if err == nil {
		err = s.storeFile(path, text)
	}
	if err != nil {
		s.logger.Error("the file of an internal topic can't be put back; the topic stays", "resource", key.String(), "error", err)
		return // it is missing still: the next look tries again
	}
	s.places[key] = &placement{path: path}
	if s.current(key) != nil {
		s.remember(s.current(key), true)
	}
	s.logger.Warn("the file of an internal topic was removed and is put back: it holds committed offsets or transactions. Delete the topic with a Kafka tool if that is meant", "resource", key.String(), "file", path)
}

// putBackLostInternals does the same for files that were removed while no broker
// ran, from what the journal knows. Not in a directory without any resource: that
// may be the wrong one.
// +checklocks:s.writeMu
func (s *Store) putBackLostInternals(now time.Time) {
	if len(s.places) == 0 {
		return
	}
	for _, key := range sortedKeys(s.journal.entries) {
		entry := s.journal.entries[key]
		if s.places[key] != nil || !entry.LostSince.IsZero() || entry.Spec == nil || key.Kind != meta.KindTopic {
			continue
		}
		if object, err := entry.object(); err == nil && isInternal(key, object) {
			s.putBackInternal(key, object)
		}
	}
	s.settle(now)
}

// Unreadable implements meta.TopicHistory.
func (s *Store) Unreadable() int {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	count := 0
	for _, file := range s.files {
		if file.broken != nil && !file.irregular {
			count++
		}
	}
	return count
}

// TopicDeleted implements meta.TopicHistory.
func (s *Store) TopicDeleted(id meta.UUID) bool {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	_, lives := s.ids[id]
	return s.retired[id] && !lives
}
