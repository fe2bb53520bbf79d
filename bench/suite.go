package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"
	"time"
)

// scenario is what ROWS selects: it starts what it needs, measures, and ends
// what it has started. The figures that it has are kept even with an error.
type scenario struct {
	name    string
	about   string
	seconds int           // that it takes by default, on two processors
	limit   time.Duration // after which its children are killed; 0: by what it takes
	run     func(o options, out io.Writer) ([]figure, error)
}

// usualRounds are those by which scenarios are said to take what they take.
const usualRounds = 2

// most is when a scenario is given up.
func (s scenario) most(rounds int) time.Duration {
	if s.limit > 0 {
		return s.limit
	}
	return max(4*time.Minute, 3*s.usually(rounds))
}

func (s scenario) usually(rounds int) time.Duration {
	return time.Duration(s.seconds) * time.Second * time.Duration(max(rounds, usualRounds)) / usualRounds
}

// targeted are the scenarios of the targets, in the order of these, and what profiles cost: they come first, and a table of
// them when they are through.
func targeted() []scenario {
	return []scenario{
		{"bytes", "the cost of a byte: produce and follow, against the raw loop", 25, 0, costOfBytes},
		{"drain", "a warm backlog, against sendfile and mmap", 10, 0, drain},
		{"fan-out", "8 readers at the tail", 10, 0, fanOut},
		{"storm", "small keyed requests of 200 connections, against a bare gnet echo", 20, 0, storm},
		{"durable", "acks=all after fdatasync: throughput in bursts and sustained, and latency by partitions", 320, 0, durable},
		{"tail", "latency at a fixed rate, with and without a reader at the tail, quiet and among cold reads, stalled readers and idle polls", 120, 0, tailLatency},
		{"start-up", "exec to ready, to the first acknowledged produce, idle memory", 25, 0, startUp},
		{"idle", "1,000 idle partitions and 1,000 idle consumers, against a raw loop of the same polls", 75, 0, idleConsumers},
		{"partitions", "10 to 10,000 partitions: cost of a request, against bare writes; idle, open time", 60, 0, manyPartitions},
		{"connections", "10 to 5,000 connections: cost of a request, against a bare gnet echo", 25, 0, manyConnections},
		{"profiling", "what pushing profiles to a Pyroscope server costs", 130, 0, profilingCost},
	}
}

// scenarios are those of `make bench`, in their order.
func scenarios() []scenario {
	return append(targeted(),
		scenario{"pgo", "what the build's profile gains", 70, 0, profileGain},
		scenario{"append", "produce only, against the raw loop", 10, 0, appendOnly},
		scenario{"groups", "1,000 members in one group, 1,000 groups of 3", 35, 0, groups},
		scenario{"commits", "offset commits of small groups", 25, 0, commits},
		scenario{"admin", "1,000 topics made one by one and in one request", 20, 0, manyTopics},
		scenario{"acls", "100,000 ACLs", 20, 0, manyACLs},
		scenario{"recovery", "a start after kill -9", 60, 0, recovery},
		scenario{"micro", "Go benchmarks of single packages, among them authorisation", 90, 0, micro},
	)
}

// selected returns the scenarios whose names match one of the words.
func selected(words string) (chosen []scenario, err error) {
	all := scenarios()
	if words == "" {
		return all, nil
	}
	var names []string
	for word := range strings.FieldsFuncSeq(words, func(r rune) bool { return r == ',' || r == ' ' }) {
		expression, err := regexp.Compile("^(?:" + word + ")$")
		if err != nil {
			return nil, fmt.Errorf("--rows: %w", err)
		}
		names = append(names, word)
		for _, s := range all {
			if expression.MatchString(s.name) {
				chosen = append(chosen, s)
			}
		}
	}
	if len(chosen) == 0 {
		var known []string
		for _, s := range all {
			known = append(known, s.name)
		}
		return nil, fmt.Errorf("--rows %s: there is no such scenario; there are %s", strings.Join(names, " "), strings.Join(known, " "))
	}
	return chosen, nil
}

// quietLoad is the load average above which a run is not alone.
const quietLoad = 0.5

// errInterrupted ends a run that a signal has ended early.
var errInterrupted = errors.New("interrupted: the rows of what had come to its end are kept")

// runAll runs scenarios, prints a table after each and saves the rows. A
// scenario that fails is a row that says so; the others run all the same. When
// ctx ends, what runs is given up, and what was measured before is kept.
func runAll(ctx context.Context, o options, out io.Writer) error {
	chosen, err := selected(o.Rows)
	if err != nil {
		return err
	}
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	if r.Host.Load1 > quietLoad {
		fmt.Fprintf(out, "the load average is %.1f: other work of this machine is in every figure\n", r.Host.Load1)
	}
	r.Settings = map[string]string{"megabytes": fmt.Sprint(o.Bytes / 1_000_000), "rounds": fmt.Sprint(o.Rounds), "starts": fmt.Sprint(o.Starts)}
	begin, path, first := time.Now(), "", len(targeted())
	for i, s := range chosen {
		var left time.Duration
		for _, later := range chosen[i:] {
			left += later.usually(o.Rounds)
		}
		fmt.Fprintf(out, "--- %d of %d, after %v, about %v to go: %s: %s\n", i+1, len(chosen), time.Since(begin).Round(time.Second), left, s.name, s.about)
		began := time.Now()
		figures := s.measure(ctx, o, out)
		fmt.Fprint(out, tableOf(figures))
		if ctx.Err() != nil {
			break // what it has is of a part of it
		}
		fmt.Fprintf(out, "%s took %.0f s\n", s.name, time.Since(began).Seconds())
		r.Figures = append(r.Figures, figures...)
		// At once: a run that is ended early leaves what it has.
		if path, err = r.save(o.Results, figures); err != nil {
			return fmt.Errorf("save the rows: %w", err)
		}
		if i+1 == first && o.Rows == "" {
			fmt.Fprintf(out, "=== the targets, after %v; what follows has none, or few\n%s=== %s\n", time.Since(begin).Round(time.Second), tableOf(targets(r.Figures)), verdicts(r.Figures))
		}
	}
	fmt.Fprintf(out, "=== %s\n%s=== %s, %.0f s in all\n", r.about(), tableOf(targets(r.Figures)), verdicts(r.Figures), time.Since(begin).Seconds())
	for _, f := range r.Figures {
		if f.Verdict == failed {
			fmt.Fprintf(out, "%s failed: %s\n", f.Scenario, f.Note)
		}
	}
	if path != "" {
		fmt.Fprintf(out, "%d rows were added to %s\n", len(r.Figures), path)
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// targets are the figures that have one, and those that failed.
func targets(figures []figure) (with []figure) {
	for _, f := range figures {
		if f.Verdict != "" {
			with = append(with, f)
		}
	}
	return with
}

// measure runs one scenario within its limit and until ctx ends, and turns
// what goes wrong into a row.
func (s scenario) measure(ctx context.Context, o options, out io.Writer) (figures []figure) {
	o.Children, o.Meter = &children{}, &meter{}
	began, limit := time.Now(), s.most(o.Rounds)
	defer func() {
		if problem := recover(); problem != nil {
			figures = append(figures, failure(s.name, fmt.Errorf("%v\n%s", problem, debug.Stack())))
		}
		o.Children.killAll()
	}()
	err := within(ctx, limit, o.Children.killAll, func() (err error) { figures, err = s.run(o, out); return err })
	figures = append(append(figures, o.Meter.figures(s.name)...), newFigure(s.name, loadSide, "duration of the scenario", "s", "", []float64{time.Since(began).Seconds()}))
	if err != nil {
		figures = append(figures, failure(s.name, err))
	}
	return figures
}

// within runs something that kill ends. It is killed when ctx ends and when it takes longer than most, and the error says which.
func within(ctx context.Context, most time.Duration, kill func(), run func() error) error {
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer context.AfterFunc(limited, kill)()
	err := run()
	switch {
	case ctx.Err() != nil:
		return errors.Join(errors.New("interrupted"), err)
	case limited.Err() != nil:
		return errors.Join(fmt.Errorf("it took more than %v", most), err)
	}
	return err
}
