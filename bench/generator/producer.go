package generator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas/bench/pacing"
)

func (r *run) producerClient() (*kgo.Client, error) {
	p := &r.plan
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(p.Topic), kgo.ProducerLinger(p.Linger), kgo.ProducerBatchMaxBytes(p.BatchBytes),
		kgo.MaxBufferedRecords(max(1<<16, p.InFlight)), kgo.RecordDeliveryTimeout(answerTimeout),
		kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		}[p.Compression]),
		kgo.RequiredAcks(map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[p.Acks]),
	}
	if !p.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return kgo.NewClient(append(r.clientOptions(), options...)...)
}

// produce runs one producer until the run's end and flushes it.
func (r *run) produce(ctx context.Context, number int) error {
	client, err := r.producerClient()
	if err != nil {
		return err
	}
	defer client.Close()
	values, err := newPayload(&r.plan, number)
	if err != nil {
		return err
	}
	window := make(chan struct{}, max(r.plan.InFlight, 1))
	pool := sync.Pool{New: func() any { return &kgo.Record{Value: make([]byte, values.size)} }}
	pace := newPace(r.begin, r.plan.Rate, r.plan.Producers, number)
	if r.plan.Rate > 0 {
		if err := pacing.Thread(); err != nil {
			return err
		}
	}
	for i := number; r.plan.Records == 0 || int64(i) < r.plan.Records; i += r.plan.Producers {
		intended, closed := time.Time{}, r.plan.Rate <= 0
		if closed {
			select {
			case window <- struct{}{}:
			case <-ctx.Done():
			}
			intended = time.Now()
		} else if intended = pace.next(); !r.plan.before(intended, r.begin) || !exactlyUntil(ctx, intended) {
			break
		}
		if ctx.Err() != nil {
			break
		}
		record := pool.Get().(*kgo.Record)
		*record = kgo.Record{Value: record.Value}
		values.fill(record.Value, intended)
		if len(r.keys) > 0 {
			record.Key = r.keys[i%len(r.keys)]
		}
		r.sent.Add(1)
		client.Produce(context.WithoutCancel(ctx), record, func(record *kgo.Record, err error) {
			r.produced(record, intended, err)
			pool.Put(record)
			if closed {
				<-window
			}
		})
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		return fmt.Errorf("producer %d: %w", number, errors.Join(errors.New("records were not answered"), err))
	}
	return nil
}

// pace hands out intended send times. Producers take turns, so that all of
// them together send at the rate without meeting.
type pace struct {
	begin time.Time
	every float64 // nanoseconds between two records of this producer
	sent  float64
}

func newPace(begin time.Time, rate float64, producers, number int) *pace {
	if rate <= 0 {
		return &pace{}
	}
	between := 1e9 / rate
	return &pace{begin: begin.Add(time.Duration(between * float64(number))), every: between * float64(producers)}
}

func (p *pace) next() time.Time {
	t := p.begin.Add(time.Duration(p.sent * p.every))
	p.sent++
	return t
}

// exactlyUntil is sleepUntil on a goroutine of pacing.Thread, exact to some microseconds. It looks at the run's end each
// tenth of a second. What is already late is sent at once: its latency counts from its time.
func exactlyUntil(ctx context.Context, t time.Time) bool {
	const look = 100 * time.Millisecond
	for time.Until(t) > look {
		pacing.Until(time.Now().Add(look))
		if ctx.Err() != nil {
			return false
		}
	}
	pacing.Until(t)
	return ctx.Err() == nil
}

// sleepUntil waits for a time, and reports false when the run ends before.
func sleepUntil(ctx context.Context, t time.Time) bool {
	left := time.Until(t)
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
