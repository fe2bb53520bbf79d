//go:build e2e

package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUserTools drives users, ACLs and quotas with Apache Kafka's own tools: the
// administrator comes by the plaintext listener, alice logs in by SCRAM. Steps
// build on one another.
func TestUserTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	login := freeAddress(t)
	b := startBroker(t, "listeners=PLAINTEXT://{address},SASL_PLAINTEXT://"+login, "sasl.enabled.mechanisms=SCRAM-SHA-512", "super.users=User:ANONYMOUS",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "advertised.listeners=PLAINTEXT://{address},SASL_PLAINTEXT://"+login)
	u := userSession{toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}, login}
	u.createUser(t, "alice")
	t.Run("passwords", u.passwords)
	t.Run("acls", u.acls)
	t.Run("denied", u.denied)
	t.Run("quotas", u.quotas)
	if code := b.stop(); code != 0 && !targetIsKafka() {
		t.Fatalf("exit code %d", code)
	}
	b.start()
	t.Run("restarted", u.restarted)
}

type userSession struct {
	toolSession
	login string // address of the listener with SASL
}

// createUser lays down a resource; Kafka needs none. The broker writes its status
// when it has taken it in.
func (u userSession) createUser(t *testing.T, name string) {
	t.Helper()
	if targetIsKafka() {
		return
	}
	path := filepath.Join(u.b.logDir, "resources", name+".yaml")
	text := "apiVersion: kaas.io/v1alpha1\nkind: KafkaUser\nmetadata:\n  name: " + name + "\nspec:\n  authentication:\n    type: scram-sha-512\n"
	must(t, os.WriteFile(path, []byte(text), 0o644))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) { // a poll of another process
		content, err := os.ReadFile(path)
		must(t, err)
		if strings.Contains(string(content), "reason: Reconciled") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the user is not reconciled:\n%s", content)
		}
	}
}

// as writes a client's settings and returns their file.
func (u userSession) as(t *testing.T, user, password string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.properties")
	must(t, os.WriteFile(path, []byte("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username=\""+
		user+"\" password=\""+password+"\";\n"), 0o600))
	return path
}

// loggedIn is the session of a client of the other listener.
func (u userSession) loggedIn() toolSession {
	return toolSession{b: u.b, bootstrap: []string{"--bootstrap-server", u.login}}
}

func (u userSession) passwords(t *testing.T) {
	set := func(password string) {
		u.tool(t, "", "kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config", "SCRAM-SHA-512=[iterations=8192,password="+password+"]")
	}
	set("first")
	mustContain(t, u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "users"), "'alice'", "SCRAM-SHA-512=iterations=8192")
	u.loggedIn().tool(t, "", "kafka-topics", "--list", "--command-config", u.as(t, "alice", "first"))
	set("second")
	mustContain(t, u.loggedIn().refused(t, "kafka-topics", "--list", "--command-config", u.as(t, "alice", "first")), "SaslAuthenticationException")
	u.loggedIn().tool(t, "", "kafka-topics", "--list", "--command-config", u.as(t, "alice", "second"))
	if !targetIsKafka() {
		mustContain(t, u.refused(t, "kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "nobody", "--add-config", "SCRAM-SHA-512=[password=x]"), "ResourceNotFound")
	}
}

func (u userSession) acls(t *testing.T) {
	u.tool(t, "", "kafka-topics", "--create", "--topic", "orders")
	u.tool(t, "", "kafka-topics", "--create", "--topic", "secret")
	u.tool(t, "", "kafka-acls", "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "g")
	u.tool(t, "", "kafka-acls", "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
	u.tool(t, "", "kafka-acls", "--add", "--deny-principal", "User:alice", "--deny-host", "10.1.2.3", "--operation", "Delete", "--topic", "sec", "--resource-pattern-type", "prefixed")
	mustContain(t, u.tool(t, "", "kafka-acls", "--list"), "name=orders, patternType=LITERAL", "name=sec, patternType=PREFIXED", "host=10.1.2.3, operation=DELETE, permissionType=DENY", "operation=WRITE")
	if out := u.tool(t, "", "kafka-acls", "--list", "--topic", "secret", "--resource-pattern-type", "match"); !strings.Contains(out, "name=sec,") || strings.Contains(out, "name=orders") {
		t.Errorf("match:\n%s", out)
	}
	client := u.as(t, "alice", "second")
	u.loggedIn().tool(t, "hello\n", "kafka-console-producer", "--topic", "orders", "--command-config", client)
	mustContain(t, u.loggedIn().tool(t, "", "kafka-console-consumer", "--topic", "orders", "--group", "g", "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000", "--command-config", client), "hello")
	load := run(t, nil, os.Getenv("KAAS_BIN"), "bench", "load", "--bootstrap", u.login, "--command-config", client, "--topic", "orders", "--group", "g", "--records", "500", "--quiet")
	if mustContain(t, load, "500 acknowledged", "500 in all"); strings.Contains(load, " failed") || strings.Contains(load, " not ") {
		t.Errorf("some records were not acknowledged:\n%s", load)
	}
	u.written(t, "alice.yaml", "name: orders", "operations:", "type: deny")
}

func (u userSession) denied(t *testing.T) {
	client := u.as(t, "alice", "second")
	if out := u.loggedIn().tool(t, "", "kafka-topics", "--list", "--command-config", client); strings.TrimSpace(out) != "orders" {
		t.Errorf("alice sees %q", out)
	}
	mustContain(t, u.loggedIn().refused(t, "kafka-topics", "--create", "--topic", "mine", "--command-config", client), "AuthorizationException")
	mustContain(t, u.loggedIn().refused(t, "kafka-acls", "--list", "--command-config", client), "ClusterAuthorizationException")
	u.tool(t, "", "kafka-acls", "--remove", "--force", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
	if out := u.tool(t, "", "kafka-acls", "--list", "--topic", "orders"); strings.Contains(out, "operation=WRITE") || !strings.Contains(out, "operation=READ") {
		t.Errorf("after the removal:\n%s", out)
	}
}

func (u userSession) quotas(t *testing.T) {
	change := func(arguments ...string) {
		u.tool(t, "", "kafka-configs", append([]string{"--alter", "--entity-type", "users", "--entity-name", "alice"}, arguments...)...)
	}
	describe := func() string {
		return u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "alice")
	}
	change("--add-config", "producer_byte_rate=1048576,request_percentage=150")
	mustContain(t, describe(), "producer_byte_rate=1048576.0", "request_percentage=150.0")
	change("--delete-config", "producer_byte_rate")
	if out := describe(); strings.Contains(out, "producer_byte_rate") || !strings.Contains(out, "request_percentage=150.0") {
		t.Errorf("after the deletion:\n%s", out)
	}
	change("--add-config", "consumer_byte_rate=1073741824")
	u.written(t, "alice.yaml", "kaas.io/quota-override: consumer_byte_rate=1073741824,request_percentage=150")
}

// restarted: passwords, ACLs and quotas stand in the resources.
func (u userSession) restarted(t *testing.T) {
	mustContain(t, u.tool(t, "", "kafka-acls", "--list"), "name=orders, patternType=LITERAL", "name=sec, patternType=PREFIXED")
	if out := u.loggedIn().tool(t, "", "kafka-topics", "--list", "--command-config", u.as(t, "alice", "second")); strings.TrimSpace(out) != "orders" {
		t.Errorf("alice sees %q", out)
	}
	u.quotasRestarted(t)
}

// quotasRestarted: what kafka-configs has set is there, and goes by the same tool or by
// an edit of the file.
func (u userSession) quotasRestarted(t *testing.T) {
	describe := func() string {
		return u.tool(t, "", "kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "alice")
	}
	mustContain(t, describe(), "consumer_byte_rate=1.073741824E9", "request_percentage=150.0")
	u.tool(t, "", "kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice", "--delete-config", "request_percentage")
	if targetIsKafka() {
		return
	}
	u.written(t, "alice.yaml", "kaas.io/quota-override: consumer_byte_rate=1073741824\n")
	path := filepath.Join(u.b.logDir, "resources", "alice.yaml")
	edit := func(old, new string) {
		t.Helper()
		content, err := os.ReadFile(path)
		must(t, err)
		if !strings.Contains(string(content), old) {
			t.Fatalf("%q is not in\n%s", old, content)
		}
		must(t, os.WriteFile(path+".new", []byte(strings.Replace(string(content), old, new, 1)), 0o644))
		must(t, os.Rename(path+".new", path))
	}
	await := func(what string, condition func() bool) {
		t.Helper()
		eventually(t, 30*time.Second, func() error {
			if !condition() {
				return errors.New("not so: " + what)
			}
			return nil
		})
	}
	edit("=1073741824\n", "=512\n")
	await("the edited override is in force", func() bool { return strings.Contains(describe(), "consumer_byte_rate=512.0") })
	edit("=512\n", "=some\n")
	await("the bad one is refused", func() bool {
		content, err := os.ReadFile(path)
		must(t, err)
		return strings.Contains(string(content), "reason: InvalidQuotaOverride")
	})
	mustContain(t, describe(), "consumer_byte_rate=512.0")
	edit("    kaas.io/quota-override: consumer_byte_rate=some\n", "")
	await("the override has ended", func() bool { return !strings.Contains(describe(), "byte_rate") })
}
