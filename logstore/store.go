package logstore

import "context"

// Store is a set of partitions in one or more log directories.
type Store struct{}

// Open takes the directories' locks, reads meta.properties and recovers every partition.
func Open(ctx context.Context, o Options) (*Store, error) { panic("logstore: not yet") }

func (s *Store) ClusterID() string                            { panic("logstore: not yet") }
func (s *Store) All() []*Partition                            { panic("logstore: not yet") }
func (s *Store) Get(topic string, partition int32) *Partition { panic("logstore: not yet") }

// Ensure opens or creates the partition's directory.
func (s *Store) Ensure(topic string, topicID [16]byte, partition int32, c Config) (*Partition, error) {
	panic("logstore: not yet")
}

// Delete closes the partition, renames its directory aside in one step and removes it later.
func (s *Store) Delete(topic string, partition int32) error { panic("logstore: not yet") }

// Stray renames directories that keep does not claim to *-stray.
func (s *Store) Stray(keep func(topic string, partition int32, id [16]byte) bool) error {
	panic("logstore: not yet")
}

// NextProducerID returns an id that was never returned before, over all restarts.
func (s *Store) NextProducerID() (int64, error) { panic("logstore: not yet") }

// Close flushes, writes checkpoints and snapshots and marks the shutdown as clean.
func (s *Store) Close(ctx context.Context) error { panic("logstore: not yet") }
