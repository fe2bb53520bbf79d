//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestDeletedTopicsOffsetsStayGone: with a topic go the offsets that groups committed of
// it, and they come back neither with a restart nor with a topic of its name.
func TestDeletedTopicsOffsetsStayGone(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	for _, topic := range []string{"gone", "kept"} {
		b.createTopic(t, topic, 1, nil)
	}
	var offsets kadm.Offsets
	offsets.AddOffset("gone", 0, 5, -1)
	offsets.AddOffset("kept", 0, 7, -1)
	eventually(t, 30*time.Second, func() error { // the coordinator's topic has to be made first
		return b.admin(t).CommitAllOffsets(testContext(t), "readers", offsets)
	})
	committed := func() error {
		fetched, err := b.admin(t).FetchOffsets(testContext(t), "readers")
		if err != nil {
			return err
		}
		if err := fetched.Error(); err != nil {
			return err
		}
		if _, there := fetched.Lookup("gone", 0); there {
			return fmt.Errorf("the offset of the deleted topic is there: %v", fetched)
		}
		if kept, _ := fetched.Lookup("kept", 0); kept.At != 7 {
			return fmt.Errorf("the other offset is %d", kept.At)
		}
		return nil
	}
	deleted, err := b.admin(t).DeleteTopics(testContext(t), "gone")
	must(t, err)
	must(t, deleted.Error())
	eventually(t, 30*time.Second, committed)
	b.stop()
	b.start()
	eventually(t, 30*time.Second, committed)
	b.createTopic(t, "gone", 1, nil)
	eventually(t, 30*time.Second, committed)
}
