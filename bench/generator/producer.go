package generator

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas/bench/pacing"
)

func (r *run) producerOptions() []kgo.Opt {
	p := &r.plan
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(p.Topic), kgo.ProducerLinger(p.Linger), kgo.ProducerBatchMaxBytes(p.BatchBytes),
		kgo.MaxBufferedRecords(max(1<<16, p.InFlight)), kgo.RecordDeliveryTimeout(p.Timeout),
		kgo.ProducerBatchCompression(map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		}[p.Compression]),
		kgo.RequiredAcks(map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[p.Acks]),
	}
	if !p.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return append(r.clientOptions(), options...)
}

// stopPatience is how long a run that is interrupted waits for answers.
const stopPatience = 2 * time.Second

// produce runs one producer until the run's end, and waits for the answers until the context of these ends.
func (r *run) produce(ctx, answers context.Context, number int) error {
	client, err := kgo.NewClient(r.producerOptions()...)
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
		} else if r.plan.tooLate(time.Now(), r.begin) {
			r.unsent.Add(pace.left(intended, r.begin.Add(r.plan.WarmUp+r.plan.Duration)))
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
		client.Produce(answers, record, func(record *kgo.Record, err error) {
			r.produced(record, intended, err)
			pool.Put(record)
			if closed {
				<-window
			}
		})
	}
	// Each record ends by itself within the client's time for it; this is for a client that forgets one.
	flush, cancel := context.WithTimeout(answers, r.plan.Timeout+stopPatience)
	defer cancel()
	if client.Flush(flush) != nil {
		abort, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		_ = client.AbortBufferedRecords(abort) // they are counted as unanswered, or never
	}
	return nil
}

// tooLate tells whether the run has been over for so long that what is still to be sent is given up.
func (p *Plan) tooLate(now, begin time.Time) bool {
	return p.Duration > 0 && now.After(begin.Add(p.WarmUp+p.Duration+p.Timeout))
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

// left is how many records of this producer are due from a time on.
func (p *pace) left(from, end time.Time) int64 {
	return int64(math.Ceil(float64(end.Sub(from)) / p.every))
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
