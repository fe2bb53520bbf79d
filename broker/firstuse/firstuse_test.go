package firstuse

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// stalledCreator is a full disk: the resource is there, the topic never is.
type stalledCreator struct{ waits []time.Duration }

func (c *stalledCreator) EnsureTopic(ctx context.Context, name string, _ int32, _ map[string]string) error {
	deadline, _ := ctx.Deadline()
	c.waits = append(c.waits, time.Until(deadline))
	return fmt.Errorf("topic %s is not served yet: %w", name, context.DeadlineExceeded)
}

func TestTopicsThatDoNotComeToBeHoldUpOneReplyOnly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	creator := &stalledCreator{}
	topics := &Topics{Config: config.DefaultBroker(), Clock: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)}
	for _, name := range []string{meta.ConsumerOffsetsTopic, meta.ConsumerOffsetsTopic, "t"} {
		topics.Create(creator, []string{name})
	}
	now = now.Add(limits.AutoCreateStalledMs * time.Millisecond)
	topics.Create(creator, []string{"t"})
	var long []bool
	for _, wait := range creator.waits {
		long = append(long, wait > limits.AutoCreateStalledWaitMs*time.Millisecond)
	}
	if want := []bool{true, false, false, true}; !slices.Equal(long, want) {
		t.Errorf("waits %v", creator.waits)
	}
}

// The settings of the internal topics are ones that a topic may have; a wrong one
// would leave groups or transactions without a coordinator.
func TestInternalTopicsCanBeMade(t *testing.T) {
	t.Parallel()
	topics := &Topics{Config: config.DefaultBroker()}
	for _, name := range []string{meta.ConsumerOffsetsTopic, meta.TransactionStateTopic} {
		partitions, overrides := topics.shape(name)
		if partitions != 50 {
			t.Errorf("%s has %d partitions", name, partitions)
		}
		if _, err := config.ParseTopic(topics.Config, overrides); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
