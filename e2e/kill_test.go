//go:build e2e

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The producer of TestKillAndRestart; partition p's records carry 0, 1, 2, …
const (
	killTopic      = "survivors"
	killPartitions = 3
	killCount      = 5
	killBuffered   = 2_000
)

// TestKillAndRestart produces with idempotence while the broker is killed
// with -9 and started again five times. Afterwards every acknowledged record
// is there once, in order and at the offset that was acknowledged, and
// nothing is there that was not produced. Offsets that a group committed
// before a kill are there after it.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := startBroker(t)
	b.createTopic(t, killTopic, killPartitions, nil)
	producer := startNumberedProducer(t, b)
	for kill := range killCount {
		// Let some thousand more records be acknowledged, so that each kill comes in
		// the midst of traffic and at another place.
		wanted := producer.acknowledged.Load() + 1_000 + random.Int64N(15_000)
		eventually(t, 60*time.Second, func() error {
			if got := producer.acknowledged.Load(); got < wanted {
				return fmt.Errorf("after %d kills %d records are acknowledged, %d are waited for", kill, got, wanted)
			}
			return producer.failure()
		})
		commitOffset(t, b, int64(kill+1))
		b.kill9()
		b.start()
		if at := committedOffset(t, b); at != int64(kill+1) {
			t.Fatalf("kill %d: the group had committed %d; after the restart it is at %d", kill+1, kill+1, at)
		}
	}
	acknowledged := producer.finish(t)
	checkSurvivors(t, b, acknowledged)
}

// numberedProducer sends numbered records to each partition until it is told
// to finish.
type numberedProducer struct {
	client       *kgo.Client
	stop         chan struct{}
	done         sync.WaitGroup
	acknowledged atomic.Int64

	mu      sync.Mutex
	offsets [killPartitions][]int64 // guarded by mu: by record number, the acknowledged offset
	err     error                   // guarded by mu: the first failure
}

func startNumberedProducer(t *testing.T, b *broker) *numberedProducer {
	t.Helper()
	p := &numberedProducer{stop: make(chan struct{})}
	// Idempotence and acks=all are franz-go's defaults. A gap in what the broker
	// knows of the producer must end the test instead of being papered over.
	p.client = b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.StopProducerOnDataLossDetected(),
		kgo.MaxBufferedRecords(killBuffered), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerBatchMaxBytes(16<<10), kgo.ProducerLinger(time.Millisecond))
	for partition := range int32(killPartitions) {
		p.done.Go(func() { p.produce(partition) })
	}
	return p
}

func (p *numberedProducer) produce(partition int32) {
	for number := uint64(0); ; number++ {
		select {
		case <-p.stop:
			return
		default:
		}
		record := &kgo.Record{Topic: killTopic, Partition: partition, Value: binary.BigEndian.AppendUint64(make([]byte, 0, 128), number)[:128]}
		// Produce blocks while killBuffered records wait.
		p.client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if err == nil && uint64(len(p.offsets[partition])) != number {
				err = fmt.Errorf("record %d of partition %d was acknowledged before record %d", number, partition, len(p.offsets[partition]))
			}
			if err != nil {
				if p.err == nil {
					p.err = fmt.Errorf("record %d of partition %d: %w", number, partition, err)
				}
				return
			}
			p.offsets[partition] = append(p.offsets[partition], r.Offset)
			p.acknowledged.Add(1)
		})
	}
}

func (p *numberedProducer) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// finish ends the producer after all its records have been acknowledged and
// returns, by partition and record number, the offsets.
func (p *numberedProducer) finish(t *testing.T) [killPartitions][]int64 {
	t.Helper()
	close(p.stop)
	p.done.Wait()
	ctx, cancel := context.WithTimeout(testContext(t), time.Minute)
	defer cancel()
	must(t, p.client.Flush(ctx))
	must(t, p.failure())
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offsets
}

// checkSurvivors reads the topic from its begin.
func checkSurvivors(t *testing.T, b *broker, acknowledged [killPartitions][]int64) {
	t.Helper()
	total := 0
	for partition, offsets := range acknowledged {
		total += len(offsets)
		if end := b.endOffsets(t, killTopic)[int32(partition)]; end != int64(len(offsets)) {
			t.Errorf("partition %d ends at %d; %d records were produced and acknowledged", partition, end, len(offsets))
		}
	}
	consumer := b.client(t, kgo.ConsumeTopics(killTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	var next [killPartitions]uint64
	ctx, cancel := context.WithTimeout(testContext(t), time.Minute)
	defer cancel()
	for read := 0; read < total; {
		fetches := consumer.PollFetches(ctx)
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			number := binary.BigEndian.Uint64(r.Value)
			if number != next[r.Partition] {
				t.Fatalf("partition %d, offset %d holds record %d; record %d was due", r.Partition, r.Offset, number, next[r.Partition])
			}
			if at := acknowledged[r.Partition][number]; at != r.Offset {
				t.Fatalf("partition %d: record %d was acknowledged at offset %d and lies at %d", r.Partition, number, at, r.Offset)
			}
			next[r.Partition]++
			read++
		})
	}
	t.Logf("%d records were acknowledged over %d kills and read back", total, killCount)
}

const killGroup = "bookkeeper"

func commitOffset(t *testing.T, b *broker, at int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset(killTopic, 0, at, -1)
	response, err := b.admin(t).CommitOffsets(testContext(t), killGroup, offsets)
	must(t, err)
	must(t, response.Error())
}

func committedOffset(t *testing.T, b *broker) int64 {
	t.Helper()
	admin := b.admin(t)
	at := int64(-1)
	// While the coordinator loads, the answer is an error that asks to come again.
	eventually(t, 30*time.Second, func() error {
		offsets, err := admin.FetchOffsets(testContext(t), killGroup)
		if err != nil {
			return err
		}
		if err := offsets.Error(); err != nil {
			return err
		}
		found, ok := offsets.Lookup(killTopic, 0)
		if !ok {
			return fmt.Errorf("the group has no offset in partition 0 of %s: %s", killTopic, strconv.Itoa(len(offsets)))
		}
		at = found.At
		return nil
	})
	return at
}
