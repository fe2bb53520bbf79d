package group

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"
)

// Logs that Apache Kafka 4.4 wrote for consumer groups are read, cut after any batch:
// every record is known and the group that they make is sound.
func TestKafkasConsumerLogs(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]string{
		"testdata/kafka-4.4-members.log": {"Stable 2/2 m1:2", "Reconciling 3/3 m1:2 m2:3", "Stable 3/3 m1:3 m2:3", "Empty 7/7", "Stable 8/8 m4:8"},
		"testdata/kafka-4.4-upgrade.log": {"classic", "Stable 2/2 member:2 m1:2", "Empty 4/4"},
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		log := coordtest.NewLog()
		seen := map[string]bool{}
		for len(data) > 0 {
			view, rest, err := batch.Next(data)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := log.Append(bytes.Clone(view)); err != nil {
				t.Fatal(err)
			}
			data = rest
			config := DefaultConfig()
			s, err := coord.NewSteps(NewMachine(&config), log, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if s.Machine.unknownRecords > 0 {
				t.Errorf("%s: %d records are unknown", file, s.Machine.unknownRecords)
			}
			if err := checkMachine(s.Machine); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			for _, id := range s.Machine.sortedIDs() {
				seen[loadedText(s.Machine.groups[id])] = true
			}
		}
		for _, text := range want {
			if !seen[text] {
				t.Errorf("%s: never %q, but %v", file, text, seen)
			}
		}
	}
}

func loadedText(g *group) string {
	c := g.consumer
	if c == nil {
		return "classic"
	}
	text := fmt.Sprintf("%s %d/%d", c.state(), c.epoch, c.assignmentEpoch)
	for _, mem := range c.ordered() {
		id := mem.id
		if len(id) > 10 {
			id = "member"
		}
		text += fmt.Sprintf(" %s:%d", id, mem.epoch)
	}
	return text
}
