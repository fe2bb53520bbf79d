//go:build e2e || conformance

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas/e2e/process"
)

// readyTimeout bounds a start. kaas needs milliseconds; the reference broker
// is a JVM that formats its directory first.
const readyTimeout = 90 * time.Second

// broker is one broker process under test. Its fields belong to the test's
// goroutine, except stderr, which the copying goroutine of os/exec fills.
type broker struct {
	t          *testing.T
	address    string
	directory  string // parent of the log directory and of server.properties
	properties string // path of server.properties
	logDir     string
	command    *exec.Cmd
	exited     chan struct{} // closed when command has been waited for
	stderr     *process.Tail
	reference  bool     // Apache Kafka, whatever the target is
	flags      []string // of kaas
}

// targetIsKafka tells whether the tests are being checked against Apache
// Kafka itself instead of against kaas.
func targetIsKafka() bool { return os.Getenv("KAAS_E2E_TARGET") == "kafka" }

// startBroker starts a broker on a free port with an empty directory and
// waits until it answers. Each setting is one line of server.properties, in which
// {address} is that of the plaintext listener.
func startBroker(t *testing.T, settings ...string) *broker {
	t.Helper()
	return startOne(t, targetIsKafka(), nil, settings...)
}

// startReference starts Apache Kafka, for tests that compare two brokers.
func startReference(t *testing.T, settings ...string) *broker {
	t.Helper()
	return startOne(t, true, nil, settings...)
}

func startOne(t *testing.T, reference bool, flags []string, settings ...string) *broker {
	t.Helper()
	directory := t.TempDir()
	b := &broker{
		reference:  reference,
		flags:      flags,
		t:          t,
		address:    freeAddress(t),
		directory:  directory,
		properties: filepath.Join(directory, "server.properties"),
		logDir:     filepath.Join(directory, "data"),
	}
	lines := append([]string{
		"listeners=PLAINTEXT://" + b.address,
		"log.dirs=" + b.logDir,
		"group.initial.rebalance.delay.ms=0",
	}, settings...)
	if !b.reference {
		// The default port would make two brokers of one machine meet.
		lines = append(lines, "http.address=")
	}
	must(t, os.WriteFile(b.properties, []byte(strings.ReplaceAll(strings.Join(lines, "\n"), "{address}", b.address)+"\n"), 0o644))
	b.start()
	t.Cleanup(func() {
		b.kill9()
		if t.Failed() {
			t.Logf("last words of the broker:\n%s", b.stderr)
		}
	})
	return b
}

// start runs the broker and waits until it answers a Metadata request.
func (b *broker) start() {
	b.t.Helper()
	if b.reference {
		b.command = exec.Command(fromRoot(b.t, "e2e/kafka/broker"), b.properties)
	} else {
		binary := os.Getenv("KAAS_BIN")
		if binary == "" {
			b.t.Fatal("KAAS_BIN must name the built broker; run the tests with `make e2e`")
		}
		b.command = exec.Command(binary, append([]string{"broker", b.properties}, b.flags...)...)
	}
	if b.stderr == nil {
		b.stderr = &process.Tail{}
	}
	b.command.Stdout, b.command.Stderr = b.stderr, b.stderr
	b.command.WaitDelay = 5 * time.Second // a grandchild may keep the pipes open
	b.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(b.t, b.command.Start())
	exited, command := make(chan struct{}), b.command
	b.exited = exited
	go func() {
		// The state is read from command.ProcessState after exited closed.
		_ = command.Wait()
		close(exited)
	}()
	deadline := time.Now().Add(readyTimeout)
	for {
		select {
		case <-exited:
			b.t.Fatalf("the broker ended at its start: %v\n%s", command.ProcessState, b.stderr)
		default:
		}
		err := ping(b.address)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the broker did not answer within %v: %v\n%s", readyTimeout, err, b.stderr)
		}
		time.Sleep(5 * time.Millisecond) // a poll of another process; nothing is assumed to have happened after it
	}
}

// kill9 ends the process as a power cut would, as far as the process knows.
func (b *broker) kill9() {
	_ = b.command.Process.Kill() // the process may have ended already
	<-b.exited
}

// stop asks the broker to end and returns its exit code.
func (b *broker) stop() int {
	b.t.Helper()
	must(b.t, b.command.Process.Signal(syscall.SIGTERM))
	select {
	case <-b.exited:
	case <-time.After(60 * time.Second):
		b.t.Fatalf("the broker did not end within 60 s of SIGTERM\n%s", b.stderr)
	}
	return b.command.ProcessState.ExitCode()
}

// client returns a franz-go client that is closed with the test.
func (b *broker) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.address)}, options...)...)
	must(t, err)
	t.Cleanup(client.Close)
	return client
}

func (b *broker) admin(t *testing.T) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.client(t))
}

// createTopic makes a topic and fails the test unless the broker agrees.
func (b *broker) createTopic(t *testing.T, name string, partitions int32, configs map[string]*string) {
	t.Helper()
	response, err := b.admin(t).CreateTopic(testContext(t), partitions, 1, configs, name)
	must(t, err)
	must(t, response.Err)
}

const listConfigResources = 74 // the key

// serves tells whether the broker advertises a key.
func (b *broker) serves(t *testing.T, key int16) bool {
	t.Helper()
	versions, err := b.admin(t).ApiVersions(testContext(t))
	must(t, err)
	for _, one := range versions {
		must(t, one.Err)
		if _, _, served := one.KeyVersions(key); served {
			return true
		}
	}
	return false
}

// endOffsets returns the end offset of each partition.
func (b *broker) endOffsets(t *testing.T, topic string) map[int32]int64 {
	t.Helper()
	listed, err := b.admin(t).ListEndOffsets(testContext(t), topic)
	must(t, err)
	must(t, listed.Error())
	ends := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { ends[o.Partition] = o.Offset })
	return ends
}

func ping(address string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DialTimeout(time.Second), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

// run executes a program to its end and returns its standard output; a
// program that fails, or takes longer than two minutes, fails the test.
func run(t *testing.T, stdin []byte, name string, arguments ...string) string {
	t.Helper()
	stdout, stderr, err := try(t, stdin, name, arguments...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(arguments, " "), err, lastLines(stdout), lastLines(stderr))
	}
	return stdout
}

// try is run for a program that is expected to fail.
func try(t *testing.T, stdin []byte, name string, arguments ...string) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, arguments...)
	command.WaitDelay = 5 * time.Second
	var out, errors bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(stdin), &out, &errors
	err = command.Run()
	return out.String(), errors.String(), err
}

// kafkaTool runs one of Apache Kafka's own tools to its end.
func kafkaTool(t *testing.T, stdin []byte, name string, arguments ...string) string {
	t.Helper()
	answer := runTool(t, string(stdin), name, arguments...)
	if answer.Code != 0 {
		t.Fatalf("%s %s: exit code %d\n%s\n%s", name, strings.Join(arguments, " "), answer.Code, lastLines(answer.Stdout), lastLines(answer.Stderr))
	}
	return answer.Stdout
}

// needProgram fails the test with the words that install a missing program.
func needProgram(t *testing.T, name, install string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed and this test needs it; install it with: %s", name, install)
	}
	return path
}

func needKcat(t *testing.T) string {
	t.Helper()
	return needProgram(t, "kcat", "apt-get install kcat")
}

func needJava(t *testing.T) {
	t.Helper()
	needProgram(t, "javac", "apt-get install openjdk-17-jdk-headless")
	needProgram(t, "mvn", "apt-get install maven")
}

// fromRoot turns a path of the repository into one that works from here.
func fromRoot(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(filepath.Join("..", path))
	must(t, err)
	return absolute
}

// freeAddress is an address that a broker can listen on later.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := process.FreeAddress()
	must(t, err)
	return address
}

// testContext ends a little before the test's own deadline, so that a hang is
// reported by the call that hangs.
func testContext(t *testing.T) context.Context {
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), deadline.Add(-5*time.Second))
	t.Cleanup(cancel)
	return ctx
}

// eventually polls until check returns nil; the last error fails the test. Polls count,
// too: a machine that stood still has not waited.
func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for polls := 0; ; polls++ {
		err := check()
		if err == nil {
			return
		}
		if polls > 20 && time.Now().After(deadline) {
			t.Fatalf("not within %v: %v", within, err)
		}
		time.Sleep(20 * time.Millisecond) // a poll, see above
	}
}

var must = process.Must

func mustContain(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Fatalf("this should contain %q:\n%s", want, lastLines(text))
		}
	}
}

func lastLines(text string) string {
	const most = 4 << 10
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

func ptr(value string) *string { return &value }
