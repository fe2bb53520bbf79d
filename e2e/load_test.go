//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestLoadGenerator runs `kaas bench load` in both loops, as a backlog, in a
// group and with connections beside, and takes its counts.
func TestLoadGenerator(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	for name, arguments := range map[string][]string{
		"open":    {"--rate", "1000", "--duration", "1s", "--warm-up", "200ms", "--keys", "10", "--idle-connections", "20", "--churn", "20"},
		"closed":  {"--records", "5000", "--delete-topic", "--in-flight", "100", "--payload", "compressible", "--compression", "lz4"},
		"backlog": {"--records", "5000", "--backlog", "--acks", "1"},
		"group":   {"--records", "500", "--group", "load", "--consumers", "1"},
		"lag":     {"--rate", "1000", "--duration", "1s", "--warm-up", "0s", "--consume-rate", "100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			html := filepath.Join(t.TempDir(), "load.html")
			out := run(t, nil, os.Getenv("KAAS_BIN"), append([]string{"bench", "load", "--bootstrap", b.address, "--quiet", "--timeout", "2m", "--ndjson", "-", "--html", html}, arguments...)...)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			var summary struct {
				Kind                           string
				Plan                           struct{ Topic string }
				Sent, Acknowledged, Consumed   int64
				Failed, LastLagRecords         int64
				Produce, EndToEnd, Connect     struct{ Count int64 }
				DrainSeconds, ProducedMBPerSec float64
			}
			must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &summary))
			if summary.Kind != "summary" || summary.Sent == 0 || summary.Acknowledged != summary.Sent || summary.Consumed+summary.LastLagRecords != summary.Sent || summary.Failed != 0 || summary.Produce.Count == 0 {
				t.Errorf("%+v", summary)
			}
			switch name {
			case "open":
				if summary.Sent != 1200 || summary.Produce.Count != 1000 || summary.EndToEnd.Count != 1000 || summary.Connect.Count != 20 {
					t.Errorf("%+v", summary)
				}
			case "lag": // a tenth of a second's at once, for each of two consumers, and what a busy machine adds
				if summary.Sent != 1000 || summary.LastLagRecords < 500 {
					t.Errorf("%+v", summary)
				}
			case "closed", "backlog":
				if summary.Sent != 5000 {
					t.Errorf("%+v", summary)
				}
			}
			topics, err := b.admin(t).ListTopics(t.Context(), summary.Plan.Topic)
			must(t, err)
			if topics.Has(summary.Plan.Topic) != (name != "closed") { // which was told to delete it
				t.Errorf("topic %s: %v", summary.Plan.Topic, topics.Names())
			}
			page, err := os.ReadFile(html)
			must(t, err)
			mustContain(t, string(page), "uPlot", `"title":"Throughput, MB/s"`)
		})
	}
}

// TestLoadThatEndsEarly: an interrupt shows what there is until then, and a broker that dies costs the timeout and is said.
func TestLoadThatEndsEarly(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		how  func(b *broker, load *exec.Cmd)
		want []string
	}{
		"interrupt": {func(_ *broker, load *exec.Cmd) { must(t, load.Process.Signal(os.Interrupt)) }, []string{"interrupted: what is shown is of the time until then"}},
		"death":     {func(b *broker, _ *exec.Cmd) { b.kill9() }, []string{"records", "connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t)
			_, err := b.admin(t).CreateTopic(t.Context(), 4, 1, nil, "early")
			must(t, err)
			load := exec.Command(os.Getenv("KAAS_BIN"), "bench", "load", "--bootstrap", b.address, "--topic", "early", "--rate", "500", "--duration", "4s", "--warm-up", "0s", "--timeout", "1s")
			var out, problems bytes.Buffer
			load.Stdout, load.Stderr = &out, &problems
			must(t, load.Start())
			awaitRecords(t, b, "early", 200)
			end.how(b, load)
			if err := load.Wait(); err == nil || load.ProcessState.ExitCode() != 1 {
				t.Errorf("it ended with %v", err)
			}
			mustContain(t, problems.String(), end.want...)
			mustContain(t, out.String(), "produced", "acknowledged", "end to end", "the generator itself used")
			if strings.Contains(problems.String(), "MB/s") {
				t.Errorf("progress where there is no terminal:\n%s", &problems)
			}
		})
	}
}

// awaitRecords waits until a topic holds so many.
func awaitRecords(t *testing.T, b *broker, topic string, count int64) {
	t.Helper()
	admin := b.admin(t)
	for deadline := time.Now().Add(readyTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		must(t, err)
		var there int64
		ends.Each(func(o kadm.ListedOffset) { there += max(o.Offset, 0) })
		if there >= count {
			return
		}
	}
	t.Fatalf("%s does not hold %d records", topic, count)
}

// TestPreparedFrames runs `kaas bench frames` in both loops; it leaves no topic.
func TestPreparedFrames(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	frames := func(arguments ...string) string {
		return run(t, nil, os.Getenv("KAAS_BIN"), append([]string{"bench", "frames", "--bootstrap", b.address}, arguments...)...)
	}
	mustContain(t, frames("--megabytes", "4"), "bytes in and out", "the generator itself used")
	mustContain(t, frames("--rate", "200", "--duration", "500ms", "--warm-up", "100ms", "--batch-bytes", "1100", "--value-bytes", "1000"), "100 requests at intended times", "p99.9", "the generator itself used")
	topics, err := b.admin(t).ListTopics(t.Context())
	must(t, err)
	if len(topics) != 0 {
		t.Errorf("topics are left: %v", topics.Names())
	}
}

// TestCompareWithAnAddress runs two rows of `kaas bench compare` against a broker that runs, and shows them with `kaas bench
// table`.
func TestCompareWithAnAddress(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	results := t.TempDir()
	out := run(t, nil, os.Getenv("KAAS_BIN"), "bench", "compare", "--rival", b.address, "--warm-up", "0s", "--rounds", "1", "--megabytes", "2",
		"--rows", "storm;16 KB", "--results", results, "--data", t.TempDir())
	mustContain(t, out, "throughput, ratio to rival", "not durable on either side", "durable on both sides: flush.messages=1", "CPU of the load itself", "0 scenarios failed")
	out = run(t, nil, os.Getenv("KAAS_BIN"), "bench", "table", "--results", results, "--all")
	mustContain(t, out, "3 storm ≥ 5 × Kafka, side by side", "not measured", "throughput, ratio to rival")
	topics, err := b.admin(t).ListTopics(t.Context())
	must(t, err)
	if len(topics) != 0 {
		t.Errorf("topics are left: %v", topics.Names())
	}
}
