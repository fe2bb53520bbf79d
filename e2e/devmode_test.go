//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestDevModeTools: what Kafka's tools say of a broker in dev mode, which keeps
// everything in memory and has no resources.
func TestDevModeTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	if targetIsKafka() {
		t.Skip("Kafka has no dev mode")
	}
	b := startOne(t, false, []string{"--dev"})
	s := toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}
	const refusal = "broker is not running in cluster mode"
	mustContain(t, s.refused(t, "kafka-topics", "--create", "--topic", "wanted"), refusal, "ClusterAuthorizationException")
	s.tool(t, "line\n", "kafka-console-producer", "--topic", "auto")
	if out := strings.TrimSpace(s.tool(t, "", "kafka-topics", "--list", "--exclude-internal")); out != "auto" {
		t.Errorf("listed: %q", out)
	}
	mustContain(t, s.refused(t, "kafka-topics", "--alter", "--topic", "auto", "--partitions", "5"), refusal)
	mustContain(t, s.refused(t, "kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "auto", "--add-config", "retention.ms=5"), refusal)
	mustContain(t, s.refused(t, "kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config", "SCRAM-SHA-512=[password=x]"), refusal)
	mustContain(t, s.tool(t, "", "kafka-configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", "auto"), "retention.ms=604800000")
	s.tool(t, "", "kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "auto")
	if out := s.tool(t, "", "kafka-acls", "--list"); strings.Contains(out, "alice") {
		t.Errorf("an ACL was kept:\n%s", out)
	}
	s.tool(t, "", "kafka-topics", "--delete", "--topic", "auto")
	if out := strings.TrimSpace(s.tool(t, "", "kafka-topics", "--list", "--exclude-internal")); out != "" {
		t.Errorf("listed: %q", out)
	}
}
