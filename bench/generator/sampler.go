package generator

import (
	"runtime"
	"time"
)

// sampler makes a Point of each interval. One goroutine owns its fields until
// stop has returned.
type sampler struct {
	r        *run
	progress func(Point)
	ended    chan struct{}
	done     chan struct{}
	points   []Point

	at                                          time.Time
	acknowledged, acknowledgedBytes             int64
	consumed, consumedBytes                     int64
	cpu, firstCPU                               time.Duration
	measuredFrom, measuredTo                    time.Time
	measuredAcknowledged, measuredAcknowledgedB int64
	measuredConsumed, measuredConsumedB         int64
	mostLag, lastLag                            int64
}

func newSampler(r *run, progress func(Point)) *sampler {
	cpu := OwnCPU()
	s := &sampler{r: r, progress: progress, ended: make(chan struct{}), done: make(chan struct{}), at: r.begin, cpu: cpu, firstCPU: cpu}
	go s.follow()
	return s
}

func (s *sampler) follow() {
	defer close(s.done)
	ticker := time.NewTicker(s.r.plan.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.sample()
		case <-s.ended:
			s.sample()
			return
		}
	}
}

func (s *sampler) stop() {
	close(s.ended)
	<-s.done
}

func (s *sampler) sample() {
	now, r := time.Now(), s.r
	seconds := now.Sub(s.at).Seconds()
	// Consumed first: what is read between the two loads must not make the lag negative.
	consumed, consumedBytes := r.consumed.Load(), r.consumedBytes.Load()
	acknowledged, acknowledgedBytes := r.acknowledged.Load(), r.acknowledgedBytes.Load()
	cpu := OwnCPU()
	produce, endToEnd := latencyOf(r.produceLatency.exchange()), latencyOf(r.endToEnd.exchange())
	r.connects.exchange()
	p := Point{
		Kind: "interval", Second: now.Sub(r.begin).Seconds(), WarmUp: s.at.Before(r.begin.Add(r.plan.WarmUp)),
		ProducedPS: float64(acknowledged-s.acknowledged) / seconds, ProducedMB: float64(acknowledgedBytes-s.acknowledgedBytes) / seconds / 1e6,
		ConsumedPS: float64(consumed-s.consumed) / seconds, ConsumedMB: float64(consumedBytes-s.consumedBytes) / seconds / 1e6,
		Failed: r.failed.Load() + r.unanswered.Load(), Produce: produce, EndToEnd: endToEnd, CPUFraction: (cpu - s.cpu).Seconds() / seconds,
	}
	if r.plan.Consumers > 0 {
		p.LagRecords = max(acknowledged-consumed, 0)
		s.mostLag, s.lastLag = max(s.mostLag, p.LagRecords), p.LagRecords
	}
	if !p.WarmUp {
		if s.measuredFrom.IsZero() {
			s.measuredFrom = s.at
		}
		s.measuredTo = now
		s.measuredAcknowledged += acknowledged - s.acknowledged
		s.measuredAcknowledgedB += acknowledgedBytes - s.acknowledgedBytes
		s.measuredConsumed += consumed - s.consumed
		s.measuredConsumedB += consumedBytes - s.consumedBytes
	}
	s.at, s.cpu = now, cpu
	s.acknowledged, s.acknowledgedBytes, s.consumed, s.consumedBytes = acknowledged, acknowledgedBytes, consumed, consumedBytes
	s.points = append(s.points, p)
	if s.progress != nil && seconds > r.plan.Interval.Seconds()/2 { // the rates of a moment at the end say nothing
		s.progress(p)
	}
}

// result is asked for after stop.
func (s *sampler) result() *Result {
	r := s.r
	seconds := max(s.measuredTo.Sub(s.measuredFrom).Seconds(), 1e-9)
	// Each side's rate counts until its own end: a run goes on until everything was read.
	begin := s.measuredFrom
	producing := between(begin, r.lastAnswer.Load())
	if r.plan.Backlog {
		begin = r.drainBegin
	}
	consuming := between(begin, r.lastRead.Load())
	summary := Summary{
		Kind: "summary", Time: r.begin.UTC().Format(time.RFC3339), Plan: r.plan, Seconds: seconds,
		Sent: r.sent.Load(), Acked: s.acknowledged, Failed: r.failed.Load(), Unanswered: r.unanswered.Load(), Unsent: r.unsent.Load(), Consumed: s.consumed,
		ProducedPS: float64(s.measuredAcknowledged) / producing, ProducedMB: float64(s.measuredAcknowledgedB) / producing / 1e6,
		ConsumedPS: float64(s.measuredConsumed) / consuming, ConsumedMB: float64(s.measuredConsumedB) / consuming / 1e6,
		MostLag: s.mostLag, LastLag: s.lastLag, Produce: latencyOf(r.produceLatency.total), EndToEnd: latencyOf(r.endToEnd.total), Connect: latencyOf(r.connects.total),
		Elapsed: s.at.Sub(r.begin).Seconds(), Processors: runtime.NumCPU(), CPUSeconds: (s.cpu - s.firstCPU).Seconds(),
	}
	if r.plan.Backlog {
		summary.DrainSeconds = consuming
	}
	if moved := s.acknowledgedBytes + s.consumedBytes; moved > 0 {
		summary.CPUPerGB = summary.CPUSeconds / (float64(moved) / 1e9)
	}
	curves := map[string][2][]float64{}
	for name, recorder := range map[string]*recorder{"produce": r.produceLatency, "end to end": r.endToEnd, "connect": r.connects} {
		if x, y := curve(recorder.total); len(x) > 1 {
			curves[name] = [2][]float64{x, y}
		}
	}
	return &Result{Summary: summary, Points: s.points, curves: curves}
}

// between is the time from begin to an end in nanoseconds since 1970, in seconds, and never nothing.
func between(begin time.Time, endNs int64) float64 {
	return max(time.Unix(0, endNs).Sub(begin).Seconds(), 1e-3)
}
