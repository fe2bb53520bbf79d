package generator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumerClient reads the topic from where the run began, alone or as a
// member of the group.
func (r *run) consumerClient(number int) (*kgo.Client, error) {
	options := append(r.clientOptions(), kgo.FetchMaxWait(500*time.Millisecond))
	if r.plan.Group != "" { // it begins where prepare has put it
		options = append(options, kgo.ConsumerGroup(r.plan.Group), kgo.ConsumeTopics(r.plan.Topic), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
		return kgo.NewClient(options...)
	}
	mine := map[int32]kgo.Offset{}
	for p, end := range r.starts {
		if int(p)%r.plan.Consumers == number {
			mine[p] = kgo.NewOffset().At(end)
		}
	}
	if len(mine) == 0 {
		return nil, nil
	}
	return kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.plan.Topic: mine}))...)
}

// consume runs one consumer until ctx ends, which is when everything that was
// acknowledged has been read.
func (r *run) consume(ctx context.Context, number int) error {
	client, err := r.consumerClient(number)
	if err != nil || client == nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
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
		r.consumed.Add(records)
		r.consumedBytes.Add(bytes)
	}
}
