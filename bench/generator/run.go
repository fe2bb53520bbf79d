package generator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// unansweredPatience is how long records of acks=0 may not come before they count as lost.
const unansweredPatience = 3 * time.Second

// run is a plan under way.
type run struct {
	plan      Plan
	security  security
	begin     time.Time
	keys      [][]byte
	starts    map[int32]int64 // offset at the begin, by partition
	consumers []*consumer     // those that have something to read
	made      bool            // the topic, by this run
	idle      []net.Conn

	// Counted from the begin, warm-up included.
	sent, acknowledged, acknowledgedBytes, failed atomic.Int64
	unanswered, unsent                            atomic.Int64 // no answer came; given up before it was sent
	consumed, consumedBytes                       atomic.Int64
	firstFailure                                  atomic.Pointer[error]
	// When the last answer came and the last records were read, in nanoseconds since
	// 1970; 0: never.
	lastAnswer, lastRead atomic.Int64
	drainBegin           time.Time // backlog: when consumers began; read after all of them have ended

	produceLatency, endToEnd, connects *recorder
}

// Point is one interval of a run.
type Point struct {
	Kind        string  `json:"kind"` // interval
	Second      float64 `json:"second"`
	WarmUp      bool    `json:"warmUp,omitempty"`
	ProducedPS  float64 `json:"producedPerSec"`
	ProducedMB  float64 `json:"producedMBPerSec"`
	ConsumedPS  float64 `json:"consumedPerSec"`
	ConsumedMB  float64 `json:"consumedMBPerSec"`
	LagRecords  int64   `json:"lagRecords"` // acknowledged and not yet read
	Failed      int64   `json:"failed"`
	Produce     Latency `json:"produce"`
	EndToEnd    Latency `json:"endToEnd"`
	CPUFraction float64 `json:"generatorCPUs"` // processors that the generator itself kept busy
}

// Summary is a whole run, without its warm-up.
type Summary struct {
	Kind    string  `json:"kind"` // summary
	Time    string  `json:"time"`
	Plan    Plan    `json:"plan"`
	Seconds float64 `json:"seconds"`
	Sent    int64   `json:"sent"`
	Acked   int64   `json:"acknowledged"`
	Failed  int64   `json:"failed"` // with an error
	// Sent and never answered, and those whose time had come and that were not sent any more.
	Unanswered  int64 `json:"unanswered"`
	Unsent      int64 `json:"unsent"`
	Interrupted bool  `json:"interrupted"` // by a signal
	Consumed    int64 `json:"consumed"`
	// Of the measured intervals.
	ProducedPS   float64 `json:"producedPerSec"`
	ProducedMB   float64 `json:"producedMBPerSec"`
	ConsumedPS   float64 `json:"consumedPerSec"`
	ConsumedMB   float64 `json:"consumedMBPerSec"`
	DrainSeconds float64 `json:"drainSeconds"` // backlog: until everything was read
	MostLag      int64   `json:"mostLagRecords"`
	LastLag      int64   `json:"lastLagRecords"`
	Produce      Latency `json:"produce"`
	EndToEnd     Latency `json:"endToEnd"`
	Connect      Latency `json:"connect"`
	Elapsed      float64 `json:"elapsedSeconds"` // with the warm-up, and until everything was read
	Processors   int     `json:"processors"`     // of the generator's host
	CPUSeconds   float64 `json:"generatorCPUSeconds"`
	CPUPerGB     float64 `json:"generatorCPUSecondsPerGB"`
}

// Result is what Run returns.
type Result struct {
	Summary Summary
	Points  []Point
	curves  map[string][2][]float64
}

// measured tells whether an intended time lies behind the warm-up.
func (r *run) measured(intended time.Time) bool {
	return !intended.Before(r.begin.Add(r.plan.WarmUp))
}

func (r *run) produced(record *kgo.Record, intended time.Time, err error) {
	switch {
	case err == nil:
	case errors.Is(err, kgo.ErrAborting) || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		r.unanswered.Add(1)
		return
	default:
		r.failed.Add(1)
		r.firstFailure.CompareAndSwap(nil, &err)
		return
	}
	now := time.Now()
	r.acknowledged.Add(1)
	r.acknowledgedBytes.Add(int64(len(record.Value)))
	r.lastAnswer.Store(now.UnixNano())
	if r.measured(intended) {
		r.produceLatency.record(now.Sub(intended))
	}
}

// prepare makes the topic if it does not exist and notes where it ends.
func (r *run) prepare(ctx context.Context) error {
	client, err := kgo.NewClient(r.clientOptions()...)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if r.plan.Topic == "" {
		r.plan.Topic = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	}
	configs := map[string]*string{}
	for _, setting := range r.plan.TopicConfigs {
		key, value, _ := strings.Cut(setting, "=")
		configs[key] = &value
	}
	topics, err := admin.ListTopics(ctx, r.plan.Topic)
	if err != nil {
		return err
	}
	switch err := topics[r.plan.Topic].Err; {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		made, err := admin.CreateTopic(ctx, r.plan.Partitions, 1, configs, r.plan.Topic)
		if err != nil {
			if made.ErrMessage != "" {
				err = fmt.Errorf("%w (%s)", err, made.ErrMessage)
			}
			return fmt.Errorf("create topic %s: %w", r.plan.Topic, err)
		}
		r.made = true
	case err != nil:
		return fmt.Errorf("topic %s: %w", r.plan.Topic, err)
	}
	r.starts = map[int32]int64{}
	for deadline := time.Now().Add(r.plan.Timeout); ; {
		ends, err := admin.ListEndOffsets(ctx, r.plan.Topic)
		if err == nil {
			err = ends.Error()
		}
		if err == nil {
			ends.Each(func(o kadm.ListedOffset) { r.starts[o.Partition] = o.Offset })
			return r.placeGroup(ctx, admin)
		}
		if time.Now().After(deadline) || !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
			return fmt.Errorf("topic %s is not served: %w", r.plan.Topic, err)
		}
	}
}

// leave deletes the topic if that is wanted and the run has made it.
func (r *run) leave(ctx context.Context) error {
	if !r.made || !r.plan.DeleteTopic {
		return nil
	}
	client, err := kgo.NewClient(r.clientOptions()...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.plan.Timeout)
	defer cancel()
	deleted, err := kadm.NewClient(client).DeleteTopic(ctx, r.plan.Topic)
	if err == nil {
		err = deleted.Err
	}
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", r.plan.Topic, err)
	}
	return nil
}

// placeGroup commits for the group that it has read all that was there before.
func (r *run) placeGroup(ctx context.Context, admin *kadm.Client) error {
	if r.plan.Group == "" || r.plan.Consumers == 0 {
		return nil
	}
	var offsets kadm.Offsets
	for p, end := range r.starts {
		offsets.AddOffset(r.plan.Topic, p, end, -1)
	}
	if err := admin.CommitAllOffsets(ctx, r.plan.Group, offsets); err != nil {
		return fmt.Errorf("--group %s: to begin where the topic ends now: %w; a group with members can't be taken", r.plan.Group, err)
	}
	return nil
}

// Run does what the plan says; each interval is handed to progress.
func Run(ctx context.Context, plan Plan, progress func(Point)) (result *Result, err error) {
	if err := plan.validate(); err != nil {
		return nil, err
	}
	login, err := readSecurity(plan.CommandConfig)
	if err != nil {
		return nil, err
	}
	r := &run{plan: plan, security: login, produceLatency: newRecorder(), endToEnd: newRecorder(), connects: newRecorder()}
	for i := range plan.Keys {
		r.keys = append(r.keys, fmt.Appendf(nil, "key-%d", i))
	}
	// What can't be is told before a topic is made.
	if _, err := newPayload(&plan, 0); err != nil {
		return nil, err
	}
	if err := kgo.ValidateOpts(r.producerOptions()...); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.leave(ctx)) }()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		for _, conn := range r.idle {
			_ = conn.Close() // nothing was left to send
		}
	}()
	if err := r.openIdle(ctx); err != nil {
		return nil, err
	}
	defer r.closeConsumers()
	if err := r.openConsumers(ctx); err != nil {
		return nil, err
	}
	r.begin = time.Now()
	s := newSampler(r, progress)
	err = r.work(ctx)
	s.stop()
	result = s.result()
	result.Summary.Interrupted = ctx.Err() != nil
	return result, errors.Join(err, r.shortfall(ctx))
}

// shortfall says what a run lacks.
func (r *run) shortfall(ctx context.Context) (err error) {
	if failure := r.firstFailure.Load(); failure != nil {
		err = fmt.Errorf("%d records were not taken; the first: %w", r.failed.Load(), *failure)
	}
	if ctx.Err() != nil {
		return errors.Join(err, errors.New("interrupted: what is shown is of the time until then"))
	}
	if n := r.unanswered.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d records had no answer within %v", n, r.plan.Timeout))
	}
	if n := r.unsent.Load(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d records were still to be sent %v after the last intended time, and are in no latency: the rate is more than the brokers or this generator can do", n, r.plan.Timeout))
	}
	return err
}

// work runs producers, consumers and connections to their ends.
func (r *run) work(ctx context.Context) error {
	producing := ctx
	if r.plan.Duration > 0 {
		// The open loop ends by its intended times; this is for the others.
		var cancel context.CancelFunc
		producing, cancel = context.WithTimeout(ctx, r.plan.WarmUp+r.plan.Duration)
		defer cancel()
	}
	consuming, stopConsumers := context.WithCancel(ctx)
	defer stopConsumers()
	answers, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopPatience, giveUp) })()
	var producers, others sync.WaitGroup
	var failures failureList
	for i := range r.plan.Producers {
		paced := producing
		if r.plan.Rate > 0 {
			paced = ctx
		}
		producers.Go(func() { failures.add(r.produce(paced, answers, i)) })
	}
	if r.plan.Churn > 0 {
		until := ctx // its intended times end it
		if r.plan.Duration == 0 {
			until = consuming
		}
		others.Go(func() { failures.add(r.churn(until, answers)) })
	}
	if r.plan.Producers == 0 {
		producers.Go(func() { <-producing.Done() })
	}
	if r.plan.Backlog {
		producers.Wait()
		r.drainBegin = time.Now()
	}
	for i := range r.consumers {
		others.Go(func() { failures.add(r.consume(consuming, i)) })
	}
	producers.Wait()
	failures.add(r.awaitConsumers(ctx, &failures))
	stopConsumers()
	others.Wait()
	return failures.join()
}

// awaitConsumers waits until everything acknowledged has been read; reading
// must go on. Consumers with a rate of their own are not waited for. With acks=0 nobody knows what has come to the broker: then it waits
// until nothing more comes.
func (r *run) awaitConsumers(ctx context.Context, failures *failureList) error {
	if len(r.consumers) == 0 || r.plan.Producers == 0 || r.plan.Reading > 0 {
		return nil
	}
	patience := r.plan.Timeout
	if r.plan.Acks == "0" {
		patience = unansweredPatience
	}
	last, since := int64(-1), time.Now()
	for r.consumed.Load() < r.acknowledged.Load() && ctx.Err() == nil && failures.join() == nil {
		if now := r.consumed.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > patience {
			if r.plan.Acks == "0" {
				return nil // the table says how many came
			}
			return fmt.Errorf("%d records were acknowledged and only %d came back", r.acknowledged.Load(), r.consumed.Load())
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// failureList collects what went wrong, from any goroutine.
type failureList struct {
	mu sync.Mutex
	// +checklocks:mu
	errs []error
}

// add keeps an error, once: what befalls one client befalls all.
func (f *failureList) add(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(f.errs, func(other error) bool { return other.Error() == err.Error() }) {
		f.errs = append(f.errs, err)
	}
}

func (f *failureList) join() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// OwnCPU is the processor time of this process.
func OwnCPU() time.Duration {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(fmt.Sprintf("getrusage of the process itself: %v", err)) // it has no way to fail
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
