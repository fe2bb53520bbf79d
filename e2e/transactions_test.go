//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The consume-transform-produce loop of TestExactlyOnceOverKills.
const (
	loopInputs     = 12_000
	loopPartitions = 3
	loopKills      = 10
	loopGroup      = "exactly-once"
)

// TestExactlyOnceOverKills copies records from one topic to another in
// transactions that also carry the consumer's offsets, while the broker
// is killed with -9 ten times and one of two workers is replaced at times. Every
// input appears exactly once under read_committed.
func TestExactlyOnceOverKills(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := startBroker(t, "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
	b.createTopic(t, "in", loopPartitions, nil)
	b.createTopic(t, "out", loopPartitions, nil)
	input := b.client(t, kgo.DefaultProduceTopic("in"))
	for number := range uint64(loopInputs) {
		input.Produce(testContext(t), &kgo.Record{Value: binary.BigEndian.AppendUint64(nil, number)}, nil)
	}
	must(t, input.Flush(testContext(t)))

	var copied, restarts atomic.Int64
	ctx, stop := context.WithCancel(testContext(t))
	done := make(chan error, 2)
	for worker := range 2 {
		go func() {
			// franz-go gives up a transaction whose end meets a broker that is away; the
			// program starts again then, as one would.
			var err error
			for ctx.Err() == nil {
				if err = copyInTransactions(ctx, b.address, fmt.Sprint("worker-", worker), &copied); err != nil {
					restarts.Add(1)
				}
			}
			done <- err
		}()
	}
	admin := b.admin(t)
	for range loopKills {
		wanted := copied.Load() + 200 + random.Int64N(900)
		eventually(t, 60*time.Second, func() error {
			got := copied.Load()
			if got >= wanted {
				return nil
			}
			// A commit whose answer a kill took is not in copied: whether anything is left
			// to copy, only the group's offsets tell.
			offsets, err := admin.FetchOffsets(testContext(t), loopGroup)
			if err != nil {
				return fmt.Errorf("offsets of the group: %w", err)
			}
			var consumed int64
			offsets.Each(func(o kadm.OffsetResponse) { consumed += o.At })
			if consumed < loopInputs {
				return fmt.Errorf("%d records are copied, %d are waited for, the group has consumed %d; %s", got, wanted, consumed, openTransactions(t, admin))
			}
			return nil
		})
		b.kill9()
		b.start()
	}
	seen := readCommitted(t, b, "out", loopInputs)
	stop()
	for range 2 {
		if err := <-done; err != nil {
			t.Logf("a worker's last words: %v", err)
		}
	}
	for number, times := range seen {
		if times != 1 {
			t.Errorf("input %d appears %d times", number, times)
		}
	}
	t.Logf("%d inputs over %d kills; the workers began anew %d times", loopInputs, loopKills, restarts.Load())
	if len(seen) != loopInputs {
		t.Errorf("%d of %d inputs appear", len(seen), loopInputs)
	}
}

// openTransactions tells which partitions hold back read_committed, and what the
// coordinator thinks of their producers.
func openTransactions(t *testing.T, admin *kadm.Client) string {
	committed, err := admin.ListCommittedOffsets(testContext(t), "in", "out", "__consumer_offsets")
	if err != nil {
		return err.Error()
	}
	ends, err := admin.ListEndOffsets(testContext(t), "in", "out", "__consumer_offsets")
	if err != nil {
		return err.Error()
	}
	held := kadm.TopicsSet{}
	var text strings.Builder
	committed.Each(func(stable kadm.ListedOffset) {
		if end, found := ends.Lookup(stable.Topic, stable.Partition); found && stable.Offset < end.Offset {
			held.Add(stable.Topic, stable.Partition)
			fmt.Fprintf(&text, "%s-%d is stable up to %d of %d; ", stable.Topic, stable.Partition, stable.Offset, end.Offset)
		}
	})
	if len(held) > 0 {
		producers, err := admin.DescribeProducers(testContext(t), held)
		fmt.Fprintf(&text, "producers %+v %v; ", producers, err)
	}
	transactions, err := admin.ListTransactions(testContext(t), nil, nil)
	fmt.Fprintf(&text, "transactions %+v %v", transactions, err)
	return text.String()
}

// copyInTransactions is one worker. What a transaction that failed has read is
// read again by whoever owns the partition then.
func copyInTransactions(ctx context.Context, address, id string, copied *atomic.Int64) error {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(address), kgo.TransactionalID(id), kgo.ConsumerGroup(loopGroup),
		kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic("out"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.TransactionTimeout(5*time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(200*time.Millisecond))
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		fetches := session.PollRecords(ctx, 100)
		if ctx.Err() != nil {
			return nil
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return fmt.Errorf("%s: begin: %w", id, err)
		}
		var failed atomic.Bool
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Value: r.Value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Store(true)
				}
			})
		})
		// Whether all were written is known after the flush; End flushes too, but has been told by then what to try.
		if err := session.Client().Flush(ctx); err != nil {
			return fmt.Errorf("%s: flush: %w", id, err)
		}
		committed, err := session.End(ctx, kgo.TransactionEndTry(!failed.Load()))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: end: %w", id, err)
		}
		if committed {
			copied.Add(int64(fetches.NumRecords()))
		}
	}
}

// readCommitted counts the numbers in a topic until all have been seen and nothing
// more comes.
func readCommitted(t *testing.T, b *broker, topic string, numbers int) map[uint64]int {
	t.Helper()
	consumer := b.client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	seen := map[uint64]int{}
	read := func(wait time.Duration) int {
		ctx, cancel := context.WithTimeout(testContext(t), wait)
		defer cancel()
		n := 0
		consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			seen[binary.BigEndian.Uint64(r.Value)]++
			n++
		})
		return n
	}
	for vain := 0; len(seen) < numbers; vain++ { // counted, not timed: the machine may have stood still
		if vain == 90 {
			t.Fatalf("%d of %d numbers are committed; %s", len(seen), numbers, openTransactions(t, b.admin(t)))
		}
		if read(time.Second) > 0 {
			vain = 0
		}
	}
	for read(time.Second) > 0 {
	}
	return seen
}

// TestKafkaTransactionTools drives transactions with Apache Kafka's own tools.
func TestKafkaTransactionTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	s := toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}
	b.createTopic(t, "load", 2, nil)
	const records = 20_000
	out := s.tool(t, "", "kafka-producer-perf-test", "--topic", "load", "--num-records", fmt.Sprint(records), "--record-size", "100",
		"--throughput", "-1", "--transactional-id", "perf", "--transaction-duration-ms", "50")
	mustContain(t, out, fmt.Sprintf("%d records sent", records))
	out = s.tool(t, "", "kafka-console-consumer", "--topic", "load", "--from-beginning", "--isolation-level", "read_committed",
		"--max-messages", fmt.Sprint(records), "--timeout-ms", "30000")
	if n := strings.Count(out, "\n"); n != records {
		t.Fatalf("%d records are committed, %d were sent", n, records)
	}

	// A transaction that stays open is found, and aborted.
	client := b.client(t, kgo.TransactionalID("hanging"), kgo.DefaultProduceTopic("load"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, client.BeginTransaction())
	must(t, client.ProduceSync(testContext(t), &kgo.Record{Value: []byte("open")}).FirstErr())
	out = s.tool(t, "", "kafka-transactions", "list")
	mustContain(t, out, "hanging", "Ongoing", "perf", "CompleteCommit")
	mustContain(t, s.tool(t, "", "kafka-transactions", "describe", "--transactional-id", "hanging"), "Ongoing", "load-0")
	out = s.tool(t, "", "kafka-transactions", "describe-producers", "--topic", "load", "--partition", "0")
	start := ""
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) >= 6 && fields[5] != "None" && fields[0] != "ProducerId" {
			start = fields[5]
		}
	}
	if start == "" {
		t.Fatalf("no open transaction is shown:\n%s", out)
	}
	s.tool(t, "", "kafka-transactions", "abort", "--topic", "load", "--partition", "0", "--start-offset", start)
	out = s.tool(t, "", "kafka-transactions", "describe-producers", "--topic", "load", "--partition", "0")
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) >= 6 && fields[5] == start {
			t.Fatalf("the transaction is still open:\n%s", out)
		}
	}

	out = s.tool(t, "", "kafka-console-consumer", "--topic", "__transaction_state", "--from-beginning", "--timeout-ms", "5000",
		"--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter")
	mustContain(t, out, `"transactionalId":"perf"`, `"transactionalId":"hanging"`)
}

// TestHangingTransaction: transactional records of which no coordinator knows hold
// read_committed back, as after a fault of a client or a broker of old. Apache
// Kafka's tool finds them and nothing else, and ends them.
func TestHangingTransaction(t *testing.T) {
	t.Parallel()
	needJava(t)
	// With the verification the broker refuses to make one.
	b := startBroker(t, "transaction.partition.verification.enable=false")
	s := toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}
	b.createTopic(t, "load", 2, nil)
	for _, id := range []string{"open", "idle"} {
		client := b.client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic("load"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		must(t, client.BeginTransaction())
		must(t, client.ProduceSync(testContext(t), &kgo.Record{Value: []byte("open")}).FirstErr())
		if id == "idle" {
			must(t, client.EndTransaction(testContext(t), kgo.TryCommit))
		}
	}
	p := pair{topic: "load"}
	metadata, err := b.admin(t).Metadata(testContext(t), "load")
	must(t, err)
	p.ids[0] = [16]byte(metadata.Topics["load"].ID)
	conn, err := net.Dial("tcp", b.address)
	must(t, err)
	defer conn.Close()
	const producerID, producerEpoch = 777_777, 3
	hour := time.Now().Add(-time.Hour).UnixMilli()
	request := p.produce(0, 11, -1, 1, rawBatch(hour, func(b []byte) {
		b[22] |= 0x10 // transactional
		binary.BigEndian.PutUint64(b[43:], producerID)
		binary.BigEndian.PutUint16(b[51:], producerEpoch)
		binary.BigEndian.PutUint32(b[53:], 0)
	}, "hanging")).(*kmsg.ProduceRequest)
	request.TransactionID = ptr("forgotten")
	if code := exchange(t, conn, request).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("error %d", code)
	}
	plain := b.client(t, kgo.DefaultProduceTopic("load"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, plain.ProduceSync(testContext(t), &kgo.Record{Partition: 1, Value: []byte("behind")}).FirstErr())
	stable := func() int64 {
		offsets, err := b.admin(t).ListCommittedOffsets(testContext(t), "load")
		must(t, err)
		at, _ := offsets.Lookup("load", 1)
		return at.Offset
	}
	start := b.endOffsets(t, "load")[1] - 2
	if at := stable(); at != start {
		t.Fatalf("the last stable offset is %d, the hanging transaction begins at %d", at, start)
	}

	// The open transaction is younger than a quarter of an hour, and known.
	find := func(arguments ...string) []string {
		t.Helper()
		return slices.DeleteFunc(rows(s.tool(t, "", "kafka-transactions", append([]string{"find-hanging"}, arguments...)...)), func(row string) bool { return strings.HasPrefix(row, "Topic ") })
	}
	for _, where := range [][]string{{"--broker-id", "1"}, {"--topic", "load"}, {"--topic", "load", "--partition", "1"}, {"--topic", "load", "--max-transaction-timeout", "0"}} {
		found := find(where...)
		if want := fmt.Sprintf("load 1 %d %d -1 %d ", producerID, producerEpoch, start); len(found) != 1 || !strings.HasPrefix(found[0], want) {
			t.Fatalf("%v finds %q, not %q alone", where, found, want)
		}
	}
	if found := find("--topic", "load", "--partition", "0", "--max-transaction-timeout", "0"); len(found) != 0 {
		t.Fatalf("an open transaction is taken for a hanging one: %q", found)
	}
	s.tool(t, "", "kafka-transactions", "abort", "--topic", "load", "--partition", "1", "--start-offset", fmt.Sprint(start))
	if found := find("--topic", "load"); len(found) != 0 {
		t.Fatalf("still found: %q", found)
	}
	if at, end := stable(), b.endOffsets(t, "load")[1]; at != end || end != start+3 {
		t.Fatalf("the last stable offset is %d of %d; the marker should stand at %d", at, end, start+2)
	}
	out := s.tool(t, "", "kafka-console-consumer", "--topic", "load", "--partition", "1", "--offset", "0", "--max-messages", "1", "--timeout-ms", "30000", "--isolation-level", "read_committed")
	if strings.TrimSpace(out) != "behind" {
		t.Fatalf("under read_committed the first record is %q", out)
	}

	mustBeStates := func(out string, wanted ...string) {
		t.Helper()
		var got []string
		for _, row := range rows(out) {
			if f := strings.Fields(row); f[0] != "TransactionalId" {
				got = append(got, f[0]+" "+f[len(f)-1])
			}
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("%v should be listed:\n%s", wanted, out)
		}
	}
	mustBeStates(s.tool(t, "", "kafka-transactions", "list"), "idle CompleteCommit", "open Ongoing")
	mustBeStates(s.tool(t, "", "kafka-transactions", "list", "--duration-filter", "0"), "idle CompleteCommit", "open Ongoing")
	mustBeStates(s.tool(t, "", "kafka-transactions", "list", "--duration-filter", "3600000"))
	mustBeStates(s.tool(t, "", "kafka-transactions", "list", "--transactional-id-pattern", "id.*"), "idle CompleteCommit")
	s.tool(t, "", "kafka-transactions", "forceTerminateTransaction", "--transactionalId", "open")
	eventually(t, 30*time.Second, func() error {
		if out := s.tool(t, "", "kafka-transactions", "describe", "--transactional-id", "open"); !strings.Contains(out, "\tEmpty ") {
			return fmt.Errorf("the transaction was to be aborted:\n%s", out)
		}
		return nil
	})
}

// TestVerifiableTools: Kafka's own verifying producer and consumer, in a group of each
// protocol. Each event is a line of JSON.
func TestVerifiableTools(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	s := toolSession{b: b, bootstrap: []string{"--bootstrap-server", b.address}}
	b.createTopic(t, "verified", 3, nil)
	type event struct {
		Name               string
		Sent, Acked, Count int64
		Success            bool
		Value              string
		Partition          int32
		Offset             int64
		Offsets            []struct {
			Partition int32
			Offset    int64
		}
	}
	events := func(out string) (all []event) {
		t.Helper()
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "{") {
				var e event
				must(t, json.Unmarshal([]byte(line), &e))
				all = append(all, e)
			}
		}
		return all
	}
	const records = 3_000
	successes := map[string]bool{}
	out := s.tool(t, "", "kafka-verifiable-producer", "--topic", "verified", "--max-messages", fmt.Sprint(records), "--repeating-keys", "30", "--value-prefix", "7")
	for _, e := range events(out) {
		switch e.Name {
		case "producer_send_success":
			successes[fmt.Sprintf("%s at %d-%d", e.Value, e.Partition, e.Offset)] = true
		case "producer_send_error":
			t.Errorf("%+v", e)
		case "tool_data":
			if e.Sent != records || e.Acked != records {
				t.Errorf("%+v", e)
			}
		}
	}
	if len(successes) != records {
		t.Fatalf("%d records of %d are acknowledged:\n%s", len(successes), records, lastLines(out))
	}
	for _, protocol := range []string{"classic", "consumer"} {
		read, committed, consumed := 0, map[int32]int64{}, int64(0)
		for _, e := range events(s.tool(t, "", "kafka-verifiable-consumer", "--topic", "verified", "--group-id", "verifiers-"+protocol, "--group-protocol", protocol, "--max-messages", fmt.Sprint(records), "--verbose")) {
			switch e.Name {
			case "record_data":
				if at := fmt.Sprintf("%s at %d-%d", e.Value, e.Partition, e.Offset); !successes[at] {
					t.Errorf("%s: %s was not acknowledged there", protocol, at)
				}
				read++
			case "records_consumed":
				consumed += e.Count
			case "offsets_committed":
				if !e.Success {
					t.Errorf("%+v", e)
				}
				for _, p := range e.Offsets {
					committed[p.Partition] = p.Offset
				}
			}
		}
		if read != records || consumed != records {
			t.Errorf("%s: %d records were read and %d reported of %d", protocol, read, consumed, records)
		}
		if ends := b.endOffsets(t, "verified"); !maps.Equal(committed, ends) {
			t.Errorf("%s: committed are %v of %v", protocol, committed, ends)
		}
	}
}

// TestJavaExactlyOnceOverKills is the same with Apache Kafka's own copier, a consume-
// transform-produce loop of the Java clients.
func TestJavaExactlyOnceOverKills(t *testing.T) {
	t.Parallel()
	needJava(t)
	b := startBroker(t)
	b.createTopic(t, "in", 1, nil)
	b.createTopic(t, "out", 1, nil)
	const records = 30_000
	input := b.client(t, kgo.DefaultProduceTopic("in"))
	for number := range uint64(records) {
		input.Produce(testContext(t), &kgo.Record{Value: []byte(fmt.Sprintf("%08d", number))}, nil)
	}
	must(t, input.Flush(testContext(t)))
	finished := make(chan string, 1)
	go func() {
		stdout, stderr, err := try(t, nil, fromRoot(t, "e2e/kafka/tool"), "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", b.address,
			"--transactional-id", "copier", "--consumer-group", "copiers", "--input-topic", "in", "--input-partition", "0", "--output-topic", "out",
			"--max-messages", fmt.Sprint(records), "--transaction-size", "50", "--group-mode", "--use-group-metadata")
		if err != nil {
			stdout += stderr + err.Error()
		}
		finished <- stdout
	}()
	kills := 0
	for done := false; !done && kills < loopKills; {
		before := b.endOffsets(t, "out")[0]
		eventually(t, 60*time.Second, func() error {
			select {
			case out := <-finished:
				done = true
				finished <- out
				return nil
			default:
			}
			if end := b.endOffsets(t, "out")[0]; end < before+200 {
				return fmt.Errorf("the copies end at %d", end)
			}
			return nil
		})
		if !done {
			b.kill9()
			b.start()
			kills++
		}
	}
	mustContain(t, <-finished, `"stage":"ShutdownComplete"`, fmt.Sprintf(`"totalProcessed":%d`, records))
	consumer := b.client(t, kgo.ConsumeTopics("out"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for next := 0; next < records; {
		fetches := consumer.PollFetches(testContext(t))
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Sprintf("%08d", next); string(r.Value) != want {
				t.Fatalf("offset %d holds %s, %s was due", r.Offset, r.Value, want)
			}
			next++
		})
	}
	t.Logf("%d records were copied once over %d kills", records, kills)
}
