package bench

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"kaas/bench/rig"
)

// quantiles collects p50, p99 and p99.9 of runs, in milliseconds.
type quantiles struct{ p50, p99, p999 []float64 }

func (q *quantiles) add(l rig.Latencies) {
	q.p50, q.p99, q.p999 = append(q.p50, l.At(0.5)), append(q.p99, l.At(0.99)), append(q.p999, l.At(0.999))
}

func (q *quantiles) figures(scenario, side, what string) []figure {
	return []figure{newFigure(scenario, side, what+" p50", "ms", "", q.p50), newFigure(scenario, side, what+" p99", "ms", "", q.p99), newFigure(scenario, side, what+" p99.9", "ms", "", q.p999)}
}

func sayLatency(out io.Writer, scenario, side string, l rig.Latencies) {
	fmt.Fprintf(out, "%-24s %-22s %7d answers, p50 %.3f p99 %.3f p99.9 %.3f ms\n", scenario, side, len(l), l.At(0.5), l.At(0.99), l.At(0.999))
}

const tailRate = 1000

// pacedTail is 1,000 records of 1 KB a second, each a request, at intended times.
func pacedTail(address, topic string, length time.Duration) *rig.Paced {
	return &rig.Paced{Address: address, Frames: smallFrames(topic, 1, 1, 1100), Check: rig.ProduceAnswer(topic), Connections: 1, Rate: tailRate, WarmUp: time.Second, Length: length}
}

const trickleBytes = 100e6 // a second

// tailRun is one way to run the fixed rate: on which subject, with a reader that follows or without, and among trouble or not.
type tailRun struct {
	name             string
	subject          int
	follow, troubled bool
	ack, read        quantiles
}

// tailLatency runs a fixed rate against the raw loop, a quiet broker, and a
// broker that has a cold backfill, readers that never read and idle polls.
func tailLatency(o options, out io.Writer) (figures []figure, err error) {
	const scenario, length = "tail", 8 * time.Second
	l := rig.Load{Topic: "tail", Partitions: 1, BatchBytes: 1100, ValueBytes: 900}
	quiet, raw := side{"kaas", startKaas(neverFlush), 1}, side{rawSide + rawSendfile, startRaw(rawSendfile), 1}
	subjects, err := startAll(o, l, raw, quiet, quiet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(subjects)) }()
	troubled := subjects[2]
	if err := fillCold(troubled, int64(4*trickleBytes*(length.Seconds()+2))); err != nil { // for each run among trouble
		return nil, troubled.explain(err)
	}
	runs := []tailRun{{name: "raw-ping-pong"}, {name: "kaas", subject: 1}, {name: "kaas-troubled", subject: 2, troubled: true},
		{name: "raw-ping-pong", follow: true}, {name: "kaas", subject: 1, follow: true}, {name: "kaas-troubled", subject: 2, follow: true, troubled: true}}
	sent := make([]int64, len(subjects)) // records of a subject, each of which a later reader would find
	var late []float64
	from, cold := int64(0), int64(0)
	err = turns(1, len(runs), func(i int) error {
		if err := rig.WarmMemory(512 << 20); err != nil {
			return err
		}
		r := &runs[i]
		p := pacedTail(subjects[r.subject].address, "tail", length)
		if r.follow {
			p.Follow, p.Next = "tail", sent[r.subject]
		}
		var latencies rig.Latencies
		err := o.Meter.during(func() (err error) {
			if r.troubled {
				var read int64
				latencies, read, err = amongTrouble(p, troubled, &from)
				cold += read
			} else {
				latencies, err = p.Run()
			}
			return err
		})
		if err != nil {
			return subjects[r.subject].explain(fmt.Errorf("%s: %w", r.name, err))
		}
		sent[r.subject] += int64(((p.WarmUp + p.Length).Seconds()) * tailRate)
		late = append(late, p.Late.At(0.99))
		r.ack.add(latencies)
		sayLatency(out, scenario, r.name+followed(r.follow), latencies)
		if r.follow {
			r.read.add(p.Delivered)
			sayLatency(out, scenario, r.name+", read", p.Delivered)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return append(tailFigures(scenario, runs, cold), newFigure(scenario, loadSide, "p99 by which the sender itself was late", "ms", "in each latency", late)), nil
}

func followed(follow bool) string {
	if follow {
		return ", followed"
	}
	return ""
}

// tailFigures of the runs: raw, quiet and troubled without a reader, then with one.
func tailFigures(scenario string, runs []tailRun, cold int64) (figures []figure) {
	for _, r := range runs {
		figures = append(figures, r.ack.figures(scenario, r.name, "ack"+followed(r.follow))...)
		if r.follow {
			figures = append(figures, r.read.figures(scenario, r.name, "read at the tail")...)
		}
	}
	what := "1,000 requests of 1 KB a second at intended times, acks=1, nothing forced"
	trouble := fmt.Sprintf("trouble: a cold backfill (%d MB), 8 stalled readers, 1,000 idle polls", cold/1e6)
	ratio := func(name, note string, ours, theirs []float64, most float64) {
		figures = append(figures, newFigure(scenario, "kaas", name, "1", note, ratios(ours, theirs)).atMost(most))
	}
	ratio("ack p99, ratio to the raw ping-pong", what, runs[1].ack.p99, runs[0].ack.p99, 4)
	ratio("ack p99, followed, ratio to the raw ping-pong", what+", and a reader at the tail", runs[4].ack.p99, runs[3].ack.p99, 4)
	ratio("read at the tail, p99, ratio to the raw ping-pong", "from the intended time of a record to the reader that follows", runs[4].read.p99, runs[3].read.p99, 4)
	figures = append(figures, newFigure(scenario, "kaas", "ack p99", "ms", kafkaReference+" (2.1 ms)", runs[1].ack.p99).atMost(0.5*2.1))
	ratio("ack p99.9, troubled against quiet", trouble, runs[2].ack.p999, runs[1].ack.p999, 2)
	ratio("ack p99.9, followed, troubled against quiet", trouble, runs[5].ack.p999, runs[4].ack.p999, 2)
	ratio("read at the tail, p99.9, troubled against quiet", trouble, runs[5].read.p999, runs[4].read.p999, 2)
	return figures
}

// fillCold writes a backlog, and starts the broker again with none of it in
// memory: pages that are mapped cannot be dropped.
func fillCold(s *subject, bytes int64) error {
	l := rig.CostOfAByte(1)
	l.Topic, l.Partitions, l.Producers, l.Consumers = "old", 1, 1, 0
	d := rig.NewDriver(l, s.address)
	if err := d.CreateTopic([][2]string{{"flush.messages", neverFlush}}); err != nil {
		return err
	}
	idle := rig.NewDriver(rig.Load{Topic: "still", Partitions: 1000, BatchBytes: 200, ValueBytes: 100}, s.address)
	if err := idle.CreateTopic(nil); err != nil {
		return err
	}
	if _, err := d.Run(bytes); err != nil {
		return err
	}
	s.Stop()
	if err := rig.Evict(filepath.Join(s.dir, "data")); err != nil {
		return err
	}
	return s.again()
}

// amongTrouble runs the paced load while others misuse the broker.
func amongTrouble(p *rig.Paced, s *subject, from *int64) (latencies rig.Latencies, cold int64, err error) {
	polls, err := rig.StartPolls(s.address, "still", 1000, 1000, 60_000)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, polls.Close()) }()
	deaf, err := rig.StartDeaf(s.address, "old", 1, 8)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, deaf.Close()) }()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		read, err := rig.Trickle(s.address, "old", 0, trickleBytes, from, stop)
		cold = read
		done <- err
	}()
	time.Sleep(time.Second)
	latencies, err = p.Run()
	close(stop)
	return latencies, cold, errors.Join(err, <-done)
}
