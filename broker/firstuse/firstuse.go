package firstuse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// Topics makes topics on first use. Its exported fields are set before the first
// request and not changed after.
type Topics struct {
	Config *config.Broker
	Clock  func() time.Time
	Logger *slog.Logger

	// stalledUntilMs: a reply waited in vain; until then the others hardly wait
	// (wait). Unix time, 0 at first. A single word: whichever of several writers
	// comes last is as good as the others.
	stalledUntilMs atomic.Int64
}

// Create makes the topics and waits until they are served, but not longer than a
// reply may; what was begun goes on.
func (t *Topics) Create(creator meta.TopicCreator, names []string) {
	ctx, cancel := context.WithTimeout(context.Background(), t.wait())
	defer cancel()
	for _, name := range names {
		partitions, overrides := t.shape(name)
		err := creator.EnsureTopic(ctx, name, partitions, overrides)
		if errors.Is(err, context.DeadlineExceeded) {
			t.stalledUntilMs.Store(t.Clock().Add(limits.AutoCreateStalledMs * time.Millisecond).UnixMilli())
		}
		if err != nil {
			t.Logger.Warn("a topic could not be created on first use", "topic", name, "error", err)
		}
	}
}

// wait is how long a reply may wait for topics. Replies leave a connection in
// order, so a client's Fetch waits behind its FindCoordinator: where topics do not
// come to be (a full disk), one reply in limits.AutoCreateStalledMs waits long, and
// the others answer nearly at once, as Kafka's always do.
func (t *Topics) wait() time.Duration {
	if t.Clock().UnixMilli() < t.stalledUntilMs.Load() {
		return limits.AutoCreateStalledWaitMs * time.Millisecond
	}
	return limits.AutoCreateWaitMs * time.Millisecond
}

// shape is with how many partitions and which settings a topic is made: an internal
// topic has its own (Kafka: DefaultAutoTopicCreationManager.creatableTopic).
func (t *Topics) shape(name string) (partitions int32, overrides map[string]string) {
	switch name {
	case meta.ConsumerOffsetsTopic:
		return t.Config.OffsetsTopicNumPartitions, compacted(t.Config.OffsetsTopicSegmentBytes)
	case meta.TransactionStateTopic:
		return t.Config.TransactionStateLogNumPartitions, compacted(t.Config.TransactionStateLogSegmentBytes)
	}
	return -1, nil
}

func compacted(segmentBytes int32) map[string]string {
	return map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": fmt.Sprint(segmentBytes)}
}
