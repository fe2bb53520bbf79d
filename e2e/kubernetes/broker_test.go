//go:build kubernetes

package kubernetes

import (
	"context"
	"net"
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

// broker is a standalone kaas. Who comes by its plaintext listener may do everything,
// users log in by the other one.
type broker struct {
	t         *testing.T
	address   string
	sasl      string
	resources string
	log       *process.Tail
	command   *exec.Cmd
	ended     chan struct{}
}

// startBroker starts a broker whose resources' directory holds these files already.
func startBroker(t *testing.T, files map[string]string) *broker {
	t.Helper()
	dir := t.TempDir()
	address, err := process.FreeAddress()
	must(t, err)
	sasl, err := process.FreeAddress()
	must(t, err)
	b := &broker{t: t, address: address, sasl: sasl, resources: filepath.Join(dir, "data", "resources"), log: &process.Tail{}}
	must(t, os.MkdirAll(b.resources, 0o755))
	for name, text := range files {
		b.write(name, text)
	}
	settings := []string{
		"listeners=PLAINTEXT://" + b.address + ",SASL_PLAINTEXT://" + b.sasl, "log.dirs=" + filepath.Join(dir, "data"), "http.address=",
		"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS",
	}
	properties := filepath.Join(dir, "server.properties")
	must(t, os.WriteFile(properties, []byte(strings.Join(settings, "\n")+"\n"), 0o644))
	binary := os.Getenv("KAAS_BIN")
	if binary == "" {
		t.Fatal("KAAS_BIN must name the built broker; run the tests with `make kubernetes`")
	}
	b.command = exec.Command(binary, "broker", properties)
	b.command.Stdout, b.command.Stderr = b.log, b.log
	b.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, b.command.Start())
	b.ended = make(chan struct{})
	go func() {
		_ = b.command.Wait() // stop looks at the state
		close(b.ended)
	}()
	t.Cleanup(func() {
		_ = b.command.Process.Kill() // it may have ended
		<-b.ended
		if t.Failed() {
			t.Logf("last words of the broker:\n%s", b.log)
		}
	})
	eventually(t, "the broker answers", func() bool {
		connection, err := net.Dial("tcp", b.address)
		if err == nil {
			_ = connection.Close() // nothing was sent
		}
		return err == nil
	})
	return b
}

// stop ends the broker; what it writes is written then.
func (b *broker) stop() {
	b.t.Helper()
	must(b.t, b.command.Process.Signal(syscall.SIGTERM))
	<-b.ended
	if code := b.command.ProcessState.ExitCode(); code != 0 {
		b.t.Fatalf("exit code %d", code)
	}
}

func (b *broker) write(name, text string) {
	b.t.Helper()
	// As git and kubectl's users do: a new file in the old one's place.
	path := filepath.Join(b.resources, name)
	must(b.t, os.WriteFile(path+".new", []byte(text), 0o644))
	must(b.t, os.Rename(path+".new", path))
}

// files are the broker's resources by the name of their file.
func (b *broker) files() map[string]string {
	b.t.Helper()
	entries, err := os.ReadDir(b.resources)
	must(b.t, err)
	out := map[string]string{}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".yaml") {
			text, err := os.ReadFile(filepath.Join(b.resources, entry.Name()))
			must(b.t, err)
			out[entry.Name()] = string(text)
		}
	}
	return out
}

func (b *broker) client(options ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.address)}, options...)...)
	must(b.t, err)
	b.t.Cleanup(client.Close)
	return client
}

func (b *broker) admin() *kadm.Client { return kadm.NewClient(b.client()) }

func (b *broker) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

var must, eventually = process.Must, process.Eventually
