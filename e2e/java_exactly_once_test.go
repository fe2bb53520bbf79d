//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas/e2e/process"
)

// javaProgram is a program of e2e/conformance that runs until it is killed.
type javaProgram struct {
	kill  func()
	words *process.Tail
}

// startJava starts one; the test's cleanup ends it.
func startJava(t *testing.T, heap, program string, arguments ...string) *javaProgram {
	t.Helper()
	command := javaCommand(t, javaClassPath(t), heap, program, arguments...)
	p := &javaProgram{words: &process.Tail{}}
	command.Stdout, command.Stderr = p.words, p.words
	must(t, command.Start())
	p.kill = func() {
		_ = command.Process.Kill() // SIGKILL; it may have been killed before
		_ = command.Wait()         // of a killed process: the status says nothing, and a second call is refused
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("last words of %s:\n%s", program, p.words)
		}
	})
	return p
}

// TestStreamsWordCountOverKills counts words with Kafka Streams and exactly_once_v2.
// The program is killed with -9 and started again, once with its state and once
// without, and so is the broker, twice. Without a cache each word's counts are
// records of their own: under read_committed they are 1, 2, 3, … up to how often the
// word was written, each once and in order.
func TestStreamsWordCountOverKills(t *testing.T) {
	t.Parallel()
	needJava(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := startBroker(t, "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
	b.createTopic(t, "lines", 3, nil)
	b.createTopic(t, "counts", 3, nil)
	state := filepath.Join(t.TempDir(), "state")
	start := func() *javaProgram {
		return startJava(t, "-Xmx256M", "WordCount", b.address, "word-count", state, "lines", "counts")
	}
	streams := start()
	written := map[string]int{}
	counts := newCounts(t, b)
	for _, round := range []struct {
		name string
		then func()
	}{
		{"streams killed", func() { streams.kill(); streams = start() }},
		{"broker killed", func() { b.kill9(); b.start() }},
		{"streams killed, state lost", func() { streams.kill(); must(t, os.RemoveAll(state)); streams = start() }},
		{"both killed", func() { b.kill9(); streams.kill(); b.start(); streams = start() }},
		{"end", func() {}},
	} {
		words := writeLines(t, b, random, 1_000, written)
		// In the midst of the counting, not behind it.
		counts.waitFor(t, words/4+random.IntN(words/2))
		round.then()
		t.Logf("%s when %d words were counted", round.name, counts.total())
	}
	total := 0
	for _, n := range written {
		total += n
	}
	counts.waitFor(t, total-counts.total())
	for _, word := range slices.Sorted(maps.Keys(written)) {
		if counts.seen[word] != written[word] {
			t.Errorf("%s was written %d times and counted %d times", word, written[word], counts.seen[word])
		}
	}
	counts.nothingMore(t)
	t.Logf("%d words of %d kinds were counted once each", total, len(written))
}

// writeLines writes lines of words, adds them to written and returns how many words
// they were.
func writeLines(t *testing.T, b *broker, random *rand.Rand, lines int, written map[string]int) int {
	t.Helper()
	producer := b.client(t, kgo.DefaultProduceTopic("lines"))
	const perLine = 4
	for range lines {
		var words []string
		for range perLine {
			word := fmt.Sprint("word-", random.IntN(40))
			words = append(words, word)
			written[word]++
		}
		producer.Produce(testContext(t), &kgo.Record{Value: []byte(strings.Join(words, " "))}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	must(t, producer.Flush(testContext(t)))
	return lines * perLine
}

// wordCounts reads the counts under read_committed and judges each.
type wordCounts struct {
	consumer *kgo.Client
	seen     map[string]int // the last count of each word
}

func newCounts(t *testing.T, b *broker) *wordCounts {
	t.Helper()
	return &wordCounts{seen: map[string]int{}, consumer: b.client(t, kgo.ConsumeTopics("counts"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(50*time.Millisecond))}
}

func (c *wordCounts) total() int {
	total := 0
	for _, n := range c.seen {
		total += n
	}
	return total
}

// read takes what comes within the time and returns how many counts that was.
func (c *wordCounts) read(t *testing.T, within time.Duration) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(testContext(t), within)
	defer cancel()
	n := 0
	c.consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		n++
		word, count := string(r.Key), int(binary.BigEndian.Uint64(r.Value))
		if count != c.seen[word]+1 {
			t.Fatalf("the count of %s goes from %d to %d at offset %d of partition %d", word, c.seen[word], count, r.Offset, r.Partition)
		}
		c.seen[word] = count
	})
	return n
}

// waitFor reads so many counts more.
func (c *wordCounts) waitFor(t *testing.T, more int) {
	t.Helper()
	for deadline := time.Now().Add(100 * time.Second); more > 0; {
		more -= c.read(t, time.Second)
		if more > 0 && time.Now().After(deadline) {
			t.Fatalf("%d counts are committed, %d more are due", c.total(), more)
		}
	}
}

func (c *wordCounts) nothingMore(t *testing.T) {
	t.Helper()
	if n := c.read(t, 2*time.Second); n > 0 {
		t.Errorf("%d counts too many", n)
	}
}

// TestJavaLoopOverKills is TestExactlyOnceOverKills with the plain clients of Java, in
// a group of each protocol at once.
func TestJavaLoopOverKills(t *testing.T) {
	t.Parallel()
	needJava(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := startBroker(t, "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
		"group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=500", "group.consumer.session.timeout.ms=6000", "group.consumer.min.session.timeout.ms=6000")
	groups := []string{"in-classic", "in-consumer"}
	for _, topic := range append([]string{"in"}, groups...) {
		b.createTopic(t, topic, loopPartitions, nil)
	}
	input := b.client(t, kgo.DefaultProduceTopic("in"))
	for number := range uint64(loopInputs) {
		input.Produce(testContext(t), &kgo.Record{Value: binary.BigEndian.AppendUint64(nil, number)}, nil)
	}
	must(t, input.Flush(testContext(t)))
	startJava(t, "-Xmx256M", "CopyLoop", b.address, "in")
	admin := b.admin(t)
	consumed := func(group string) (total int64, err error) {
		offsets, err := admin.FetchOffsets(testContext(t), group)
		offsets.Each(func(o kadm.OffsetResponse) { total += o.At })
		return total, err
	}
	kills := loopKills
	if targetIsKafka() {
		// Apache Kafka 4.4.0 has hung here at the fourth kill: both transactions of the classic
		// group CompleteAbort, and open for good in __consumer_offsets.
		kills = 2
	}
	for kill := range kills {
		at := map[string]int64{}
		wanted := map[string]int64{}
		eventually(t, 60*time.Second, func() error {
			for _, group := range groups {
				got, err := consumed(group)
				if err != nil {
					return err
				}
				at[group] = got
				if wanted[group] == 0 {
					wanted[group] = min(loopInputs, got+100+random.Int64N(500))
				}
				if got < wanted[group] {
					return fmt.Errorf("%d are waited for in group %s, %d are consumed; %s", wanted[group], group, got, openTransactions(t, admin))
				}
			}
			return nil
		})
		t.Logf("kill %d when %v of %d inputs were consumed", kill+1, at, loopInputs)
		b.kill9()
		b.start()
	}
	for _, topic := range groups {
		seen := readCommitted(t, b, topic, loopInputs)
		for number, times := range seen {
			if times != 1 {
				t.Errorf("input %d appears %d times in %s", number, times, topic)
			}
		}
		if len(seen) != loopInputs {
			t.Errorf("%d of %d inputs appear in %s", len(seen), loopInputs, topic)
		}
	}
}
