package filestore

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"kaas/internal/limits"
	"kaas/meta"
)

// Creation of resources. Topics ask the admitter for their status first, so that
// one write makes them and the reconciler has nothing to add.
//
// What the admitter knows may be behind the store by the changes that are on their
// way to it. So its decision stands only while, at the moment of the write, no other
// resource claims the topic's name or one that collides with it, and none has its
// id; else the resource is stored without a status, for the reconciler to judge.

// CreateAll implements meta.BatchWriter.
func (s *Store) CreateAll(ctx context.Context, objects []meta.Object) []meta.WriteResult {
	created := make([]meta.Object, len(objects))
	for i, object := range objects {
		created[i] = s.newResource(object)
	}
	withdraw := s.admit(ctx, created)
	results := s.all(ctx, created, creation)
	withdraw(results)
	return results
}

// newResource is the object with what the store decides.
func (s *Store) newResource(object meta.Object) meta.Object {
	created := object.Clone()
	metadata := created.Meta()
	metadata.UID, metadata.Generation = uuid.NewString(), 1
	metadata.CreationTimestamp = s.options.Clock().UTC().Truncate(time.Millisecond)
	return created
}

// SetTopicAdmitter implements meta.AdmittingStore.
func (s *Store) SetTopicAdmitter(admitter meta.TopicAdmitter) {
	if admitter == nil {
		s.admitter.Store(nil)
		return
	}
	s.admitter.Store(&admitter)
}

// admit asks for the status of topics. What it returns tells the admitter which of
// them were not stored.
func (s *Store) admit(ctx context.Context, objects []meta.Object) (withdraw func([]meta.WriteResult)) {
	admitter := s.admitter.Load()
	var topics []*meta.KafkaTopic
	for _, object := range objects {
		if topic, ok := object.(*meta.KafkaTopic); ok && topic.Status.TopicID.IsZero() {
			topics = append(topics, topic)
		}
	}
	if admitter == nil || len(topics) == 0 {
		return func([]meta.WriteResult) {}
	}
	(*admitter).Admit(ctx, topics)
	return func(results []meta.WriteResult) {
		var lost []*meta.KafkaTopic
		for i, object := range objects {
			topic, ok := object.(*meta.KafkaTopic)
			if !ok || topic.Status.TopicID.IsZero() {
				continue
			}
			if results[i].Err != nil {
				lost = append(lost, topic)
			}
		}
		if len(lost) > 0 {
			(*admitter).Withdraw(lost)
		}
	}
}

// creation is the write of a new resource.
func creation(object meta.Object) *fileWrite {
	key := keyOf(object)
	if !meta.IsResourceName(key.Name) || newObject(key.Kind) == nil {
		return failedWrite(key, fmt.Errorf("%s: metadata.name must be an RFC 1123 subdomain: %w", key, meta.ErrInvalid))
	}
	text, err := encodeManifest(object)
	if err != nil {
		return failedWrite(key, fmt.Errorf("%s: %w", key, err))
	}
	if len(text) > limits.ResourceFileBytes {
		return failedWrite(key, fmt.Errorf("%s: %d bytes are more than a resource file may have (%d): %w", key, len(text), limits.ResourceFileBytes, meta.ErrInvalid))
	}
	return &fileWrite{key: key, op: writeCreation, object: object, text: text}
}

// +checklocks:s.writeMu
func (s *Store) prepareCreation(w *fileWrite) (*fileChange, meta.Object, error) {
	if err := s.writable(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", w.key, err)
	}
	if s.current(w.key) != nil {
		return nil, nil, fmt.Errorf("%s: %w", w.key, meta.ErrAlreadyExists)
	}
	object, text := w.object, w.text
	if topic, ok := object.(*meta.KafkaTopic); ok && !topic.Status.TopicID.IsZero() && s.contested(topic) {
		bare := topic.Copy()
		bare.Status = meta.KafkaTopicStatus{}
		var err error
		if text, err = encodeManifest(bare); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", w.key, err)
		}
		object = bare
	}
	path, err := s.newPath(w.key)
	if err != nil {
		return nil, nil, unavailable(w.key, err)
	}
	s.batchName(object)
	return &fileChange{path: path, text: text, event: meta.Added, object: object}, nil, nil
}

// contested says that a topic's name or id is not the resource's alone.
// +checklocks:s.writeMu
func (s *Store) contested(topic *meta.KafkaTopic) bool {
	_, taken := s.ids[topic.Status.TopicID]
	return taken || s.retired[topic.Status.TopicID] || s.claims[claimOf(topic)] > 0
}

// batchName claims the name for the batch under way; releaseNames ends that.
// +checklocks:s.writeMu
func (s *Store) batchName(object meta.Object) {
	s.claimName(object, +1)
	s.batchNames = append(s.batchNames, object)
}

// +checklocks:s.writeMu
func (s *Store) releaseNames() {
	for _, object := range s.batchNames {
		s.claimName(object, -1)
	}
	s.batchNames = s.batchNames[:0]
}
