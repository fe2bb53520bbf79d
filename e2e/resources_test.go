//go:build e2e

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func (b *broker) resource(name string) string { return filepath.Join(b.logDir, "resources", name) }

// awaitText waits until a resource file has a text in it, and returns the file.
func (b *broker) awaitText(t *testing.T, name, want string) string {
	t.Helper()
	var text string
	eventually(t, 20*time.Second, func() error {
		content, err := os.ReadFile(b.resource(name))
		if text = string(content); err == nil && !strings.Contains(text, want) {
			err = fmt.Errorf("no %q in %s:\n%s", want, name, text)
		}
		return err
	})
	return text
}

// A second resource for a topic, with status and all, is refused, and removing it takes
// no record away; neither does a restart in between.
func TestSecondResourceOfATopic(t *testing.T) {
	t.Parallel()
	if targetIsKafka() {
		t.Skip("Apache Kafka has no resources")
	}
	b := startBroker(t)
	b.createTopic(t, "orders", 1, nil)
	produced := b.client(t).ProduceSync(testContext(t), &kgo.Record{Topic: "orders", Value: []byte("kept")})
	must(t, produced.FirstErr())
	original := b.awaitText(t, "kafkatopic-orders.yaml", "Reconciled")
	copied := strings.NewReplacer("  name: orders\n", "  name: aaa\n", "spec:\n", "spec:\n  topicName: orders\n").Replace(original)
	must(t, os.WriteFile(b.resource("aaa.yaml"), []byte(copied), 0o644))
	mustContain(t, b.awaitText(t, "aaa.yaml", "TopicNameConflict"), "belongs to the older KafkaTopic orders")
	if code := b.stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	// While it does not run, the copy is as it was made: it has the topic's id again.
	must(t, os.WriteFile(b.resource("aaa.yaml"), []byte(copied), 0o644))
	b.start()
	b.awaitText(t, "aaa.yaml", "TopicNameConflict")
	b.awaitText(t, "kafkatopic-orders.yaml", "Reconciled")
	must(t, os.Remove(b.resource("aaa.yaml")))
	eventually(t, 20*time.Second, func() error {
		if strings.Contains(b.stderr.String(), `"resource":"KafkaTopic aaa"`) {
			return nil
		}
		return errors.New("the copy is not deleted")
	})
	if ends := b.endOffsets(t, "orders"); ends[0] != 1 {
		t.Errorf("end offsets %v", ends)
	}
	topics, err := b.admin(t).ListTopics(testContext(t), "orders")
	must(t, err)
	id := topics["orders"].ID
	mustContain(t, original, base64.RawURLEncoding.EncodeToString(id[:]))
}

// A user that is deleted can't log in any more, and its Secret and ACLs are gone.
func TestDeletedUser(t *testing.T) {
	t.Parallel()
	if targetIsKafka() {
		t.Skip("Apache Kafka has no resources")
	}
	login := freeAddress(t)
	b := startBroker(t, "listeners=PLAINTEXT://{address},SASL_PLAINTEXT://"+login, "sasl.enabled.mechanisms=SCRAM-SHA-512", "super.users=User:ANONYMOUS",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "advertised.listeners=PLAINTEXT://{address},SASL_PLAINTEXT://"+login)
	userSession{toolSession{b: b}, login}.createUser(t, "alice")
	secret := b.awaitText(t, "secret-alice.yaml", "password:")
	_, after, _ := strings.Cut(secret, "  password: ")
	password, _, _ := strings.Cut(after, "\n")
	password = strings.Trim(password, `"'`)
	log := func() error {
		client, err := kgo.NewClient(kgo.SeedBrokers(login), kgo.SASL(scram.Auth{User: "alice", Pass: password}.AsSha512Mechanism()))
		must(t, err)
		defer client.Close()
		ctx, cancel := context.WithTimeout(testContext(t), 10*time.Second)
		defer cancel()
		return client.Ping(ctx)
	}
	must(t, log())
	all := kadm.NewACLs().Allow("User:alice").AllowHosts("*").Topics("orders").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
	created, err := b.admin(t).CreateACLs(testContext(t), all)
	must(t, err)
	must(t, created[0].Err)
	must(t, os.Remove(b.resource("alice.yaml")))
	eventually(t, 20*time.Second, func() error {
		if _, err := os.Stat(b.resource("secret-alice.yaml")); err == nil {
			return errors.New("the Secret is still there")
		}
		if log() == nil {
			return errors.New("the login is still taken")
		}
		found, err := b.admin(t).DescribeACLs(testContext(t), all)
		if err == nil && len(found[0].Described) > 0 {
			err = fmt.Errorf("%+v", found[0].Described)
		}
		return err
	})
}

// TestGitPull does what docs/resources.md says of git: topics in a repository, a broker
// on a clone, changes by requests and by others.
func TestGitPull(t *testing.T) {
	t.Parallel()
	if targetIsKafka() {
		t.Skip("Apache Kafka has no resources")
	}
	git := needProgram(t, "git", "apt-get install git")
	root := t.TempDir()
	in := func(dir string, arguments ...string) string {
		t.Helper()
		return run(t, nil, git, append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, arguments...)...)
	}
	origin, mine := filepath.Join(root, "origin.git"), filepath.Join(root, "mine")
	run(t, nil, git, "init", "-q", "--bare", "-b", "main", origin)
	run(t, nil, git, "clone", "-q", origin, mine)
	save := func(name, text string) { must(t, os.WriteFile(filepath.Join(mine, name), []byte(text), 0o644)) }
	push := func(what string) {
		t.Helper()
		in(mine, "add", "-A")
		in(mine, "commit", "-qm", what)
		in(mine, "push", "-q", "origin", "HEAD:main")
	}
	manifest := func(name string, partitions int) string {
		return fmt.Sprintf("apiVersion: kaas.io/v1alpha1\nkind: KafkaTopic\nmetadata:\n  name: %s\nspec:\n  partitions: %d\n", name, partitions)
	}
	save(".gitattributes", "*.yaml filter=kaas\n*.yml  filter=kaas\n")
	save(".gitignore", ".kaas*\nsecret-*.yaml\nkafkatopic-kaas-topic-189fe61b60351069.yaml\nkafkatopic-kaas-topic-0709864dfb33e156.yaml\n")
	save("orders.yaml", "# the shop's\n"+manifest("orders", 1))
	save("old.yaml", manifest("old", 1))
	push("topics")

	b := startBroker(t)
	must(t, exec.Command("rm", "-rf", b.resource("")).Run())
	if code := b.stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	run(t, nil, git, "clone", "-q", origin, b.resource(""))
	in(b.resource(""), "config", "filter.kaas.clean", "sed '/^status:/,/^---/{/^---/!d;}'")
	b.start()
	topics := func(want string) {
		t.Helper()
		eventually(t, 20*time.Second, func() error {
			all, err := b.admin(t).ListTopics(testContext(t))
			if err != nil {
				return err
			}
			got := ""
			for _, topic := range all.Sorted() {
				got += fmt.Sprintf("%s %d, ", topic.Topic, len(topic.Partitions))
			}
			if got != want {
				return fmt.Errorf("%s, want %s\n%s", got, want, b.stderr)
			}
			return nil
		})
	}
	commit := func(what string) {
		t.Helper()
		in(b.resource(""), "add", "-A")
		in(b.resource(""), "commit", "-qm", what)
	}
	takeOverAndPull := func() (string, error) {
		out, err := exec.Command("sh", "-c", "cd "+b.resource("")+` && export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
git add -A && { git diff --cached --quiet || git commit -qm 'admin requests'; } && git pull -q --no-rebase --no-edit`).CombinedOutput()
		return string(out), err
	}
	topics("old 1, orders 1, ")
	b.awaitText(t, "orders.yaml", "Reconciled")
	ids, err := b.admin(t).ListTopics(testContext(t))
	must(t, err)

	// Others: one grows, one goes, one comes. Here: one comes by a request.
	save("orders.yaml", "# the shop's\n"+manifest("orders", 3))
	must(t, os.Remove(filepath.Join(mine, "old.yaml")))
	save("new.yaml", manifest("new", 2))
	push("changes")
	b.createTopic(t, "requested", 1, nil)
	if out, err := takeOverAndPull(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	topics("new 2, orders 3, requested 1, ")
	now, err := b.admin(t).ListTopics(testContext(t))
	must(t, err)
	if now["orders"].ID != ids["orders"].ID {
		t.Errorf("the topic's id was %s and is %s", ids["orders"].ID, now["orders"].ID)
	}
	mustContain(t, b.awaitText(t, "orders.yaml", "partitionCount: 3"), "# the shop's\n")
	in(b.resource(""), "push", "-q", "origin", "HEAD:main")
	in(mine, "pull", "-q", "--rebase", "origin", "main")
	if text := run(t, nil, git, "-C", mine, "show", "HEAD:kafkatopic-requested.yaml"); strings.Contains(text, "status:") || !strings.Contains(text, "partitions: 1") {
		t.Errorf("in the repository stands\n%s", text)
	}

	// Both change one line: a file with marks of a conflict changes nothing.
	save("orders.yaml", "# the shop's\n"+manifest("orders", 5))
	push("five")
	grown, err := b.admin(t).UpdatePartitions(testContext(t), 4, "orders")
	must(t, err)
	must(t, grown.Error())
	if out, err := takeOverAndPull(); err == nil {
		t.Fatalf("no conflict:\n%s", out)
	}
	b.awaitText(t, "orders.yaml", "<<<<<<<")
	eventually(t, 20*time.Second, func() error {
		if !strings.Contains(b.stderr.String(), "orders.yaml") {
			return errors.New("the broker says nothing of the broken file")
		}
		return nil
	})
	topics("new 2, orders 4, requested 1, ")
	must(t, os.WriteFile(b.resource("orders.yaml"), []byte("# the shop's\n"+manifest("orders", 5)), 0o644))
	commit("five it is")
	topics("new 2, orders 5, requested 1, ")
	if now, err = b.admin(t).ListTopics(testContext(t)); err != nil || now["orders"].ID != ids["orders"].ID {
		t.Errorf("the topic's id was %s and is %s (%v)", ids["orders"].ID, now["orders"].ID, err)
	}

	// A rebase that stops half-way has taken away the file of a later commit: the topic stays.
	in(b.resource(""), "push", "-q", "origin", "HEAD:main")
	in(mine, "pull", "-q", "--rebase", "origin", "main")
	save("orders.yaml", "# the shop's\n"+manifest("orders", 6))
	push("six")
	grown, err = b.admin(t).UpdatePartitions(testContext(t), 7, "orders")
	must(t, err)
	must(t, grown.Error())
	commit("seven")
	b.createTopic(t, "later", 1, nil)
	commit("later")
	if out, _, err := try(t, nil, git, "-C", b.resource(""), "-c", "user.name=t", "-c", "user.email=t@example.org", "pull", "-q", "--rebase"); err == nil {
		t.Fatalf("no conflict:\n%s", out)
	}
	if _, err := os.Stat(b.resource("kafkatopic-later.yaml")); err == nil {
		t.Fatal("the file of the later commit is there; this test shows nothing")
	}
	eventually(t, 20*time.Second, func() error {
		if !strings.Contains(b.stderr.String(), "git is in the middle of something") {
			return errors.New("nothing is held")
		}
		return nil
	})
	topics("later 1, new 2, orders 7, requested 1, ")
	in(b.resource(""), "rebase", "--abort")
	b.awaitText(t, "kafkatopic-later.yaml", "Reconciled")
	topics("later 1, new 2, orders 7, requested 1, ")
}
