package generator

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumer is one client that reads; client is nil when there is nothing for it.
type consumer struct {
	client   *kgo.Client
	assigned atomic.Int64 // partitions that its group has given it
}

// openConsumers makes the clients and waits until a group has dealt out its
// partitions: how long members take to find one another is no latency of a
// record. In a backlog nothing is fetched before resume.
func (r *run) openConsumers(ctx context.Context) error {
	for number := range r.plan.Consumers {
		c := &consumer{}
		options := append(r.clientOptions(), kgo.FetchMaxWait(500*time.Millisecond))
		if r.plan.Group != "" { // it begins where prepare has put it
			given := func(sign int64) func(context.Context, *kgo.Client, map[string][]int32) {
				return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
					c.assigned.Add(sign * int64(len(topics[r.plan.Topic])))
				}
			}
			options = append(options, kgo.ConsumerGroup(r.plan.Group), kgo.ConsumeTopics(r.plan.Topic), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
				kgo.OnPartitionsAssigned(given(1)), kgo.OnPartitionsRevoked(given(-1)), kgo.OnPartitionsLost(given(-1)))
		} else {
			mine := map[int32]kgo.Offset{}
			for p, end := range r.starts {
				if int(p)%r.plan.Consumers == number {
					mine[p] = kgo.NewOffset().At(end)
				}
			}
			if len(mine) == 0 {
				continue
			}
			options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.plan.Topic: mine}))
		}
		var err error
		if c.client, err = kgo.NewClient(options...); err != nil {
			return err
		}
		if r.plan.Backlog {
			c.client.PauseFetchTopics(r.plan.Topic)
		}
		r.consumers = append(r.consumers, c)
	}
	if r.plan.Group == "" {
		return nil
	}
	for deadline := time.Now().Add(r.plan.Timeout); ; {
		total, least := int64(0), int64(len(r.starts))
		for _, c := range r.consumers {
			total, least = total+c.assigned.Load(), min(least, c.assigned.Load())
		}
		if total == int64(len(r.starts)) && (least > 0 || len(r.consumers) > len(r.starts)) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("group %s: %d of %d partitions were dealt out within %v", r.plan.Group, total, len(r.starts), r.plan.Timeout)
		}
		if !sleepUntil(ctx, time.Now().Add(10*time.Millisecond)) {
			return ctx.Err()
		}
	}
}

func (r *run) closeConsumers() {
	for _, c := range r.consumers {
		c.client.Close()
	}
}

// consume runs one consumer until ctx ends, which is when everything that was
// acknowledged has been read.
func (r *run) consume(ctx context.Context, number int) error {
	client := r.consumers[number].client
	client.ResumeFetchTopics(r.plan.Topic)
	begin, read, most, each := time.Now(), int64(0), -1, r.plan.Reading/float64(len(r.consumers))
	if each > 0 {
		most = max(1, int(each/20)) // some at a time, or the lag would come in leaps
	}
	for {
		if each > 0 && !sleepUntil(ctx, begin.Add(time.Duration(float64(read)/each*1e9))) {
			return nil
		}
		fetches := client.PollRecords(ctx, most)
		if ctx.Err() != nil {
			return nil
		}
		for _, failure := range fetches.Errors() {
			if !errors.Is(failure.Err, context.Canceled) {
				return fmt.Errorf("consumer %d, partition %d: %w", number, failure.Partition, failure.Err)
			}
		}
		now := time.Now()
		var records, bytes int64
		fetches.EachRecord(func(record *kgo.Record) {
			records++
			bytes += int64(len(record.Value))
			if intended, ok := stampOf(record.Value); ok && !r.plan.Backlog && r.measured(intended) {
				r.endToEnd.record(now.Sub(intended))
			}
		})
		if records > 0 {
			r.lastRead.Store(now.UnixNano())
		}
		read += records
		r.consumed.Add(records)
		r.consumedBytes.Add(bytes)
	}
}
