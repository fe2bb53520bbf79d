//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDumpLog opens the files of a data directory with Apache Kafka's own
// kafka-dump-log: logs of several segments in every codec, both indexes, the
// producer snapshots and the log of the committed offsets.
func TestDumpLog(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	const perCodec = 4_000
	random := rand.New(rand.NewPCG(1, 1))
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	// The smallest segment that Kafka 4 takes, so that there are several.
	b.createTopic(t, "dumped", 1, map[string]*string{"segment.bytes": ptr("1048576"), "index.interval.bytes": ptr("4096")})
	for _, codec := range codecs {
		client := b.client(t, kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(32<<10))
		ctx, cancel := context.WithTimeout(testContext(t), time.Minute)
		for i := range perCodec {
			client.Produce(ctx, &kgo.Record{
				Topic: "dumped", Key: fmt.Appendf(nil, "key-%d", i), Value: value(random),
				Headers: []kgo.RecordHeader{{Key: "number", Value: fmt.Append(nil, i)}},
			}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
			})
		}
		must(t, client.Flush(ctx))
		cancel()
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset("dumped", 0, 4711, -1)
	committed, err := b.admin(t).CommitOffsets(testContext(t), "dump-readers", offsets)
	must(t, err)
	must(t, committed.Error())

	wantExit := 0
	if targetIsKafka() {
		wantExit = 143 // a JVM that ends on SIGTERM says so
	}
	if code := b.stop(); code != wantExit {
		t.Errorf("after SIGTERM the broker ended with code %d, not %d", code, wantExit)
	}

	partition := filepath.Join(b.logDir, "dumped-0")
	dumpLogs(t, partition, perCodec*len(codecs))
	dumpIndexes(t, partition)
	dumpSnapshots(t, partition)
	dumpCommittedOffsets(t, b)
}

// value returns text that every codec makes smaller, but not so small that a
// log of it would fit one segment.
func value(random *rand.Rand) []byte {
	words := [...]string{"partition", "segment", "offset", "leader", "epoch", "batch", "record", "index"}
	var text []byte
	for range 24 {
		text = fmt.Appendf(text, "%s-%08x ", words[random.IntN(len(words))], random.Uint32())
	}
	return text
}

// complaints are what the tool prints of a file that is not right.
var complaints = regexp.MustCompile(`(?i)mismatch|corrupt|invalid|isvalid: false|non-?consecutive|not in order|out of order|exception|error|could not`)

func mustNotComplain(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if complaints.MatchString(line) {
			t.Fatalf("kafka-dump-log complains: %s", line)
		}
	}
}

func dumpLogs(t *testing.T, partition string, records int) {
	t.Helper()
	logs := files(t, partition, "*.log")
	if len(logs) < 3 {
		t.Fatalf("several segments were to be written, there are %d", len(logs))
	}
	out := kafkaTool(t, nil, "kafka-dump-log", "--deep-iteration", "--files", strings.Join(logs, ","))
	mustNotComplain(t, out)
	if n := strings.Count(out, "| offset: "); n != records {
		t.Fatalf("kafka-dump-log sees %d records, %d were produced", n, records)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		mustContain(t, out, "compresscodec: "+codec)
	}
	last := fmt.Sprintf("| offset: %d ", records-1)
	mustContain(t, out, "| offset: 0 ", last)
}

func dumpIndexes(t *testing.T, partition string) {
	t.Helper()
	indexes := files(t, partition, "*.index")
	out := kafkaTool(t, nil, "kafka-dump-log", "--index-sanity-check", "--files", strings.Join(indexes, ","))
	mustNotComplain(t, out)
	if n := strings.Count(out, "passed sanity check"); n != len(indexes) {
		t.Fatalf("%d of %d indexes passed:\n%s", n, len(indexes), out)
	}
	// Without a flag the tool looks up every entry in the log.
	out = kafkaTool(t, nil, "kafka-dump-log", "--files", strings.Join(indexes, ","))
	mustNotComplain(t, out)
	if n := strings.Count(out, "offset: "); n < 10 {
		t.Fatalf("the offset indexes hold %d entries; a log of this size has more:\n%s", n, out)
	}
	timeIndexes := files(t, partition, "*.timeindex")
	out = kafkaTool(t, nil, "kafka-dump-log", "--files", strings.Join(timeIndexes, ","))
	mustNotComplain(t, out)
	mustContain(t, out, "timestamp: ")
}

func dumpSnapshots(t *testing.T, partition string) {
	t.Helper()
	snapshots := files(t, partition, "*.snapshot")
	// Kafka's broker loads them by what the tool reads them with (ProducerStateManager.readSnapshot), ours behind its entries, too.
	if !slices.ContainsFunc(snapshots, func(path string) bool {
		content, err := os.ReadFile(path)
		must(t, err)
		return bytes.Contains(content, []byte("kaaswin1"))
	}) {
		t.Fatal("no snapshot holds older batches: that Kafka reads such a one was not tested")
	}
	out := kafkaTool(t, nil, "kafka-dump-log", "--files", strings.Join(snapshots, ","))
	mustNotComplain(t, out)
	mustContain(t, out, "producerId: ", "producerEpoch: 0")
}

func dumpCommittedOffsets(t *testing.T, b *broker) {
	t.Helper()
	logs := files(t, b.logDir, "__consumer_offsets-*/*.log")
	out := kafkaTool(t, nil, "kafka-dump-log", "--deep-iteration", "--offsets-decoder", "--files", strings.Join(logs, ","))
	mustNotComplain(t, out)
	mustContain(t, out, "dump-readers", `"offset":4711`)
}

func files(t *testing.T, directory, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(directory, pattern))
	must(t, err)
	if len(found) == 0 {
		t.Fatalf("no file matches %s in %s", pattern, directory)
	}
	return found
}
