package admin

import (
	"strings"
	"testing"

	"kaas/meta/config"
)

// TestTopicsOfOtherSystems: what the systems around Kafka set on the topics that they
// make, and what they read back, is honoured. Where the lists come from:
// docs/design/admin.md.
func TestTopicsOfOtherSystems(t *testing.T) {
	t.Parallel()
	h := newHarness(t, harnessOptions{})
	for name, configs := range map[string][]string{
		"_schemas":                   {"cleanup.policy", "compact"},
		"connect-offsets":            {"cleanup.policy", "compact"},
		"app-store-changelog":        {"cleanup.policy", "compact", "message.timestamp.type", "CreateTime"},
		"app-window-store-changelog": {"cleanup.policy", "compact,delete", "retention.ms", "172800000", "message.timestamp.type", "CreateTime"},
		"app-versioned-changelog":    {"cleanup.policy", "compact", "min.compaction.lag.ms", "172800000", "message.timestamp.type", "CreateTime"},
		"app-repartition":            {"cleanup.policy", "delete", "segment.bytes", "52428800", "retention.ms", "-1", "message.timestamp.type", "CreateTime"},
		"mirrored":                   {"retention.ms", "1000", "max.message.bytes", "2000000", "segment.ms", "60000", "compression.type", "producer"},
	} {
		h.mustCreate(name, 1, configs...)
		for i := 0; i < len(configs); i += 2 {
			if got := h.described(onTopic, name, configs[i]); !strings.HasPrefix(got, configs[i+1]+" 1 ") {
				t.Errorf("%s: %s is %q, want %q", name, configs[i], got, configs[i+1])
			}
		}
	}
	// A registry looks at cleanup.policy before its first start has set it, too, and
	// MirrorMaker takes every key away whose source has the default.
	h.mustCreate("plain", 1)
	if got := h.described(onTopic, "plain", "cleanup.policy"); !strings.HasPrefix(got, "delete 5 ") {
		t.Errorf("the default cleanup.policy is %q", got)
	}
	var deletions []operation
	for _, entry := range config.DefaultBroker().DescribeTopic(nil) {
		deletions = append(deletions, operation{entry.Key.Name, opDelete, "-"})
	}
	if code, message := h.incremental(1, false, onTopic, "mirrored", deletions...); code != 0 {
		t.Errorf("deletion of all keys: %d %s", code, message)
	}
	if left := h.overrides("mirrored"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
