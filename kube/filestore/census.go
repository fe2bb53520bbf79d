package filestore

import "kaas/meta"

// ResourceState is a kind with what the condition Ready of a resource says: True,
// False or Unknown.
type ResourceState struct {
	Kind  meta.Kind
	Ready string
}

// Census counts the resources. It takes no lock that is held over a disk, and neither
// does UnreadableFiles: both are asked while one hangs. Secrets, which have no status, are left out.
func (s *Store) Census() map[ResourceState]int {
	counts := map[ResourceState]int{}
	for _, kind := range []meta.Kind{meta.KindTopic, meta.KindUser, meta.KindBrokerConfig, meta.KindGroupConfig, meta.KindClientMetrics} {
		for _, ready := range []string{"True", "False", "Unknown"} {
			counts[ResourceState{kind, ready}] = 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, object := range s.objects {
		if key.Kind == meta.KindSecret {
			continue
		}
		ready := "Unknown"
		if condition := meta.FindCondition(*conditionsOf(object), meta.ConditionReady); condition != nil && condition.Status != "" {
			ready = condition.Status
		}
		counts[ResourceState{key.Kind, ready}]++
	}
	return counts
}

// UnreadableFiles is how many files could not be read when they were last looked at.
func (s *Store) UnreadableFiles() int { return int(s.unreadable.Load()) }

// countUnreadable keeps what UnreadableFiles says.
// +checklocks:s.writeMu
func (s *Store) countUnreadable() {
	count := int64(0)
	for _, file := range s.files {
		if file.broken != nil {
			count++
		}
	}
	s.unreadable.Store(count)
}
