package leftover

import (
	"log/slog"

	"kaas/logstore"
	"kaas/meta"
)

// FinishDeletions removes, at the start, the data of topics whose deletion a crash
// cut short. The resources know that; without that word data is never removed.
func FinishDeletions(store *logstore.Store, resources meta.ResourceStore, objects []meta.Object, logger *slog.Logger) {
	history, ok := resources.(meta.TopicHistory)
	if !ok {
		return
	}
	lives := make(map[meta.UUID]bool, len(objects))
	for _, object := range objects {
		if topic, ok := object.(*meta.KafkaTopic); ok {
			lives[topic.Status.TopicID] = true
		}
	}
	for _, p := range store.All() {
		id := meta.UUID(p.TopicID())
		if id.IsZero() || lives[id] || !history.TopicDeleted(id) {
			continue
		}
		if err := store.Delete(p.Topic(), p.ID()); err != nil {
			logger.Error("the data of a deleted topic could not be removed", "topic", p.Topic(), "partition", p.ID(), "topicId", id.String(), "error", err)
			continue
		}
		logger.Info("the data of a deleted topic is removed; its deletion was cut short", "topic", p.Topic(), "partition", p.ID(), "topicId", id.String())
	}
}

// SetAside runs once, after a list that was read without error: directories
// whose topic has no resource are renamed and kept. When there is not a single
// topic resource but there are partitions, the resources are missing rather than
// the topics deleted, so nothing is touched and unclaimed is how many there are.
func SetAside(store *logstore.Store, resources meta.ResourceStore, objects []meta.Object, logger *slog.Logger) (unclaimed int) {
	if history, ok := resources.(meta.TopicHistory); ok {
		if n := history.Unreadable(); n > 0 {
			logger.Warn("no directory without a topic is set aside, since resource files can't be read and may hold their topics", "files", n)
			return 0
		}
	}
	if len(objects) == 0 {
		n := len(store.All())
		if n > 0 {
			logger.Error("there are partitions on disk but no topic resources at all; they are kept as they are and not served. Is the log directory with resources/ in log.dirs, and mounted? Restore the resources, or move the partition directories away", "partitions", n, "resources", store.Known().Resources())
		}
		return n
	}
	if err := store.Known().AllAsked(); err != nil {
		logger.Error("that a log directory is not needed any more could not be noted; the next start tries again", "error", err)
	}
	type claim struct {
		id         meta.UUID
		partitions int32
	}
	claims := make(map[string][]claim, len(objects))
	for _, object := range objects {
		if topic, ok := object.(*meta.KafkaTopic); ok {
			name := topic.ClaimedName()
			claims[name] = append(claims[name], claim{topic.Status.TopicID, topic.Status.PartitionCount})
		}
	}
	err := store.Stray(func(name string, partition int32, id [16]byte) bool {
		for _, c := range claims[name] {
			// A resource without an id has not been reconciled yet: it may be this topic.
			if c.id.IsZero() || c.id == id && partition < c.partitions {
				return true
			}
		}
		return false
	})
	if err != nil {
		logger.Error("directories without a topic could not be set aside; they are not served", "error", err)
	}
	return 0
}
