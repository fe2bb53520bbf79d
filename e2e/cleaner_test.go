//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	cleanerSeed  = flag.Uint64("cleaner.seed", 0, "seed of the comparison of the cleaners; 0: by the clock")
	cleanerSteps = flag.Int("cleaner.steps", 100, "random things that are done to a topic before it is cleaned")
)

// keyValue is one record; a nil value is a tombstone.
type keyValue struct {
	key   string
	value []byte
}

func keyedBatch(t *testing.T, timestampMs int64, codec byte, records []keyValue) []byte {
	t.Helper()
	var b []byte
	for i, r := range records {
		record := binary.AppendVarint([]byte{0, 0}, int64(i))
		record = append(binary.AppendVarint(record, int64(len(r.key))), r.key...)
		if r.value == nil {
			record = binary.AppendVarint(record, -1)
		} else {
			record = append(binary.AppendVarint(record, int64(len(r.value))), r.value...)
		}
		record = append(record, 0)
		b = append(binary.AppendVarint(b, int64(len(record))), record...)
	}
	return batchOf(timestampMs, codec, int32(len(records)), packed(t, codec, b))
}

// cleaned drives the same random records into one topic of both brokers.
type cleaned struct {
	*pair
	t       *testing.T
	random  *rand.Rand
	brokers [2]*broker
	clients [2][2]*kgo.Client // per transactional id, per side
	open    [2]bool
	stamp   int64
}

// TestLogAsKafkas: what a log takes and what its cleaner leaves, on a kaas and an Apache Kafka that get the same bytes.
func TestLogAsKafkas(t *testing.T) {
	t.Parallel()
	needJava(t)
	settings := []string{"log.cleaner.backoff.ms=50", "log.cleaner.dedupe.buffer.size=2097152", "log.retention.check.interval.ms=1000",
		"log.segment.delete.delay.ms=0", "transaction.state.log.num.partitions=1", "offsets.topic.num.partitions=1"}
	brokers := [2]*broker{startBroker(t, settings...), startReference(t, settings...)}
	t.Run("bad batches", func(t *testing.T) { compareBadBatches(t, brokers) })
	t.Run("cleaner", func(t *testing.T) { compareCleaners(t, brokers) })
}

// compareCleaners: random keys, tombstones, codecs, interleaved transactions with both outcomes; both brokers' cleaners run
// until there is nothing left to clean, and Apache Kafka's own kafka-dump-log finds the same records in the files of both:
// same offsets, timestamps, keys, values, control records. Two rounds, because tombstones and markers go in a later one than
// that which meets them first. It stops the brokers.
func compareCleaners(t *testing.T, brokers [2]*broker) {
	seed := *cleanerSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-cleaner.seed)", seed)
	topics := map[string]string{"kept-tombstones": "3600000", "no-tombstones": "0"}
	var names []string
	for name, deleteRetentionMs := range topics {
		names = append(names, name)
		for _, b := range brokers {
			b.createTopic(t, name, 1, map[string]*string{
				"cleanup.policy": ptr("compact"), "segment.bytes": ptr("1048576"), "min.cleanable.dirty.ratio": ptr("0.001"),
				"delete.retention.ms": ptr(deleteRetentionMs), "max.message.bytes": ptr("900000"),
			})
		}
	}
	slices.Sort(names)
	for n, name := range names {
		c := &cleaned{t: t, brokers: brokers, random: rand.New(rand.NewPCG(seed, uint64(n))), stamp: time.Now().UnixMilli() - 100_000}
		c.pair = pairOf(t, brokers, name)
		for id := range c.clients {
			for side, b := range brokers {
				c.clients[id][side] = b.client(t, kgo.TransactionalID(fmt.Sprint(name, "-", id)), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(name))
			}
		}
		for range 2 {
			c.write()
			c.awaitCleaner()
		}
		for range 4 { // how many rounds each cleaner took for it is chance; what may go in a later one goes now
			c.fill()
			c.awaitCleaner()
		}
	}
	for _, b := range brokers {
		b.stop()
	}
	var dumps [2][]string
	for side, b := range brokers {
		for _, name := range names {
			dumps[side] = append(dumps[side], dumpRecords(t, filepath.Join(b.logDir, name+"-0"))...)
		}
	}
	for i := range max(len(dumps[0]), len(dumps[1])) {
		var lines [2]string
		for side := range sides {
			if i < len(dumps[side]) {
				lines[side] = dumps[side][i]
			}
		}
		if lines[0] != lines[1] {
			for side := range sides {
				from, to := min(max(i-5, 0), len(dumps[side])), min(i+5, len(dumps[side]))
				for _, line := range dumps[side][from:to] {
					t.Logf("%-5s %.200s", sides[side], strings.TrimSpace(line))
				}
			}
			t.Fatalf("record %d that is left:\n%-5s %.200s\n%-5s %.200s", i, sides[0], lines[0], sides[1], lines[1])
		}
	}
	t.Logf("%d records are left on both sides", len(dumps[0]))
	compareCheckpoints(t, brokers, names)
	if !targetIsKafka() {
		dumpCompacted(t, brokers[0], names)
	}
}

// pairOf is newPair for a topic that is there.
func pairOf(t *testing.T, brokers [2]*broker, topic string) *pair {
	t.Helper()
	p := newPair(t, brokers, "beside-"+topic, 1)
	p.topic = topic
	for side, b := range brokers {
		metadata, err := b.admin(t).Metadata(testContext(t), topic)
		must(t, err)
		p.ids[side] = [16]byte(metadata.Topics[topic].ID)
		eventually(t, 30*time.Second, func() error {
			offsets, err := b.admin(t).ListEndOffsets(testContext(t), topic)
			if err != nil {
				return err
			}
			return offsets.Error()
		})
	}
	return p
}

func (c *cleaned) key() string { return fmt.Sprint("key-", c.random.IntN(40)) }

func (c *cleaned) value() []byte {
	if c.random.IntN(5) == 0 {
		return nil
	}
	b := make([]byte, 20+c.random.IntN(4000))
	for i := range b {
		b[i] = "0123456789abcdef"[c.random.IntN(16)]
	}
	return b
}

// write does random things and closes the segment that they stand in.
func (c *cleaned) write() {
	for range *cleanerSteps {
		c.stamp += c.random.Int64N(100)
		switch n := c.random.IntN(100); {
		case n < 60:
			var records []keyValue
			for range 1 + c.random.IntN(5) {
				records = append(records, keyValue{c.key(), c.value()})
			}
			c.put(keyedBatch(c.t, c.stamp, codecs[c.random.IntN(len(codecs))], records))
		case n < 90:
			c.transactional(c.random.IntN(2), keyValue{c.key(), c.value()})
		default:
			c.end(c.random.IntN(2), c.random.IntN(2) == 0)
		}
	}
	for id := range c.open {
		c.transactional(id, keyValue{c.key(), c.value()})
		c.end(id, id == 0)
	}
	c.fill()
}

// fill closes the segment that is written to: the second of two records of its size rolls.
func (c *cleaned) fill() {
	for i := range 2 {
		c.put(keyedBatch(c.t, c.stamp, 0, []keyValue{{fmt.Sprint("filler-", i), make([]byte, 800_000)}}))
	}
}

func (c *cleaned) put(records []byte) {
	c.t.Helper()
	answers := c.same(c.t, "append", func(side int) kmsg.Request { return c.produce(side, 9, -1, 0, slices.Clone(records)) }, evenProduce)
	if code := answers[0].(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		c.t.Fatalf("append: error %d", code)
	}
}

func (c *cleaned) transactional(id int, r keyValue) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(testContext(c.t), time.Minute)
	defer cancel()
	for side := range sides {
		client := c.clients[id][side]
		if !c.open[id] {
			must(c.t, client.BeginTransaction())
		}
		must(c.t, client.ProduceSync(ctx, &kgo.Record{Key: []byte(r.key), Value: r.value, Timestamp: time.UnixMilli(c.stamp)}).FirstErr())
	}
	c.open[id] = true
}

func (c *cleaned) end(id int, commit bool) {
	c.t.Helper()
	if !c.open[id] {
		return
	}
	c.open[id] = false
	marker := c.brokers[0].endOffsets(c.t, c.topic)[0]
	ctx, cancel := context.WithTimeout(testContext(c.t), time.Minute)
	defer cancel()
	for side := range sides {
		must(c.t, c.clients[id][side].EndTransaction(ctx, kgo.TransactionEndTry(commit)))
	}
	// The marker is written after the answer: what comes next must get the same offset on both sides.
	eventually(c.t, 30*time.Second, func() error {
		var ends [2]int64
		for side, b := range c.brokers {
			ends[side] = b.endOffsets(c.t, c.topic)[0]
		}
		if ends[0] != marker+1 || ends[1] != marker+1 {
			return fmt.Errorf("the logs end at %v, the marker goes to %d", ends, marker)
		}
		return nil
	})
}

// awaitCleaner waits until both cleaners' checkpoints stand at the active segment.
func (c *cleaned) awaitCleaner() {
	c.t.Helper()
	eventually(c.t, time.Minute, func() error {
		for side, b := range c.brokers {
			logs := files(c.t, filepath.Join(b.logDir, c.topic+"-0"), "*.log")
			active := strings.TrimLeft(strings.TrimSuffix(filepath.Base(logs[len(logs)-1]), ".log"), "0")
			text, err := os.ReadFile(filepath.Join(b.logDir, "cleaner-offset-checkpoint"))
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
				return slices.Equal(strings.Fields(line), []string{c.topic, "0", active})
			}) {
				return fmt.Errorf("%s: the segment that is written to begins at %s, the cleaner's checkpoint says\n%s", sides[side], active, text)
			}
		}
		return nil
	})
}

// position is where a record's batch stands: the files may be cut differently.
var position = regexp.MustCompile(`(producerId|producerEpoch|coordinatorEpoch|CreateTime|sequence|position): ?-?\d+`)

// dumpRecords are the records of a partition as kafka-dump-log prints them, without the numbers of the producers.
func dumpRecords(t *testing.T, partition string) []string {
	t.Helper()
	out := kafkaTool(t, nil, "kafka-dump-log", "--deep-iteration", "--print-data-log", "--files", strings.Join(files(t, partition, "*.log"), ","))
	mustNotComplain(t, out)
	var records []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "| offset: ") {
			records = append(records, maskProducer(line))
		}
	}
	if len(records) < 20 {
		t.Fatalf("%d records are left in %s:\n%.2000s", len(records), partition, out)
	}
	return records
}

func maskProducer(line string) string {
	control := strings.Contains(line, "endTxnMarker")
	return position.ReplaceAllStringFunc(line, func(field string) string {
		if strings.HasPrefix(field, "CreateTime") && !control {
			return field // a marker has the time of its broker
		}
		name, _, _ := strings.Cut(field, ":")
		return name
	})
}

// compareCheckpoints: what Kafka's tool does not read, the checkpoint files, says the same of the topics on both sides after a
// clean stop.
func compareCheckpoints(t *testing.T, brokers [2]*broker, topics []string) {
	t.Helper()
	for _, name := range []string{"recovery-point-offset-checkpoint", "cleaner-offset-checkpoint", "log-start-offset-checkpoint", "leader-epoch-checkpoint"} {
		for _, topic := range topics {
			var said [2]string
			for side, b := range brokers {
				file := filepath.Join(b.logDir, name)
				if name == "leader-epoch-checkpoint" {
					file = filepath.Join(b.logDir, topic+"-0", name)
				}
				said[side] = checkpointed(t, file, topic)
			}
			if said[0] != said[1] {
				t.Errorf("%s of %s: %s says %q, %s %q", name, topic, sides[0], said[0], sides[1], said[1])
			}
			t.Logf("%s of %s: %q", name, topic, said[0])
		}
	}
}

// checkpointed reads a checkpoint file as Kafka's CheckpointFile does (blanks at the end of a line, in which kaas has its
// checksums, are nothing to it), and returns its lines about a topic, or all of a file that
// has no topics in it.
func checkpointed(t *testing.T, file, topic string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if n, err := strconv.Atoi(lines[min(1, len(lines)-1)]); err != nil || lines[0] != "0" || n != len(lines)-2 {
		t.Fatalf("%s is no checkpoint of version 0 with as many lines as it says:\n%s", file, text)
	}
	var found []string
	for _, line := range lines[2:] {
		if fields := strings.Fields(line); len(fields) == 2 || len(fields) == 3 && fields[0] == topic {
			found = append(found, strings.Join(fields, " "))
		}
	}
	return strings.Join(found, "; ")
}

// dumpCompacted reads the other files that compaction and transactions made with Kafka's tool.
func dumpCompacted(t *testing.T, b *broker, topics []string) {
	t.Helper()
	var all []string
	for _, topic := range topics {
		partition := filepath.Join(b.logDir, topic+"-0")
		indexes := files(t, partition, "*.index")
		out := kafkaTool(t, nil, "kafka-dump-log", "--index-sanity-check", "--files", strings.Join(indexes, ","))
		mustNotComplain(t, out)
		if n := strings.Count(out, "passed sanity check") + strings.Count(out, " is empty."); n != len(indexes) {
			t.Errorf("%d of %d indexes passed:\n%s", n, len(indexes), out)
		}
		all = append(all, indexes...)
		for _, pattern := range []string{"*.timeindex", "*.snapshot"} {
			all = append(all, files(t, partition, pattern)...)
		}
		aborted, err := filepath.Glob(filepath.Join(partition, "*.txnindex"))
		must(t, err)
		all = append(all, aborted...)
	}
	mustNotComplain(t, kafkaTool(t, nil, "kafka-dump-log", "--files", strings.Join(all, ",")))
	out := kafkaTool(t, nil, "kafka-dump-log", "--deep-iteration", "--transaction-log-decoder", "--files",
		strings.Join(files(t, b.logDir, "__transaction_state-*/*.log"), ","))
	mustNotComplain(t, out)
	mustContain(t, out, topics[0]+"-0", "CompleteCommit", "CompleteAbort")
}
