package bench

import (
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
	name  string
	about string
	limit time.Duration // after which its children are killed; 0 is usualLimit
	run   func(o options, out io.Writer) ([]figure, error)
}

const usualLimit = 2 * time.Minute

// scenarios are those of `make bench`, in their order.
func scenarios() []scenario {
	return []scenario{
		{"micro", "Go benchmarks of single packages, among them authorisation", 4 * time.Minute, micro},
		{"start-up", "exec to ready, to the first acknowledged produce, idle memory", 0, startUp},
		{"bytes", "the cost of a byte: produce and follow, against the raw loop", 0, costOfBytes},
		{"append", "produce only, against the raw loop", 0, appendOnly},
		{"drain", "a warm backlog, against sendfile and mmap", 0, drain},
		{"fan-out", "8 readers at the tail", 0, fanOut},
		{"storm", "small keyed requests of 200 connections, against a bare gnet echo", 0, storm},
		{"durable", "acks=all after fdatasync: throughput, and latency by partitions", 4 * time.Minute, durable},
		{"tail", "latency at a fixed rate, with and without a reader at the tail, quiet and among cold reads, stalled readers and idle polls", 4 * time.Minute, tailLatency},
		{"idle", "1,000 idle partitions and 1,000 idle consumers", 0, idleConsumers},
		{"partitions", "10 to 10,000 partitions: cost of a request, idle, open time", 4 * time.Minute, manyPartitions},
		{"connections", "10 to 5,000 connections: cost of a request", 0, manyConnections},
		{"recovery", "a start after kill -9", 4 * time.Minute, recovery},
		{"groups", "1,000 members in one group, 1,000 groups of 3", 3 * time.Minute, groups},
		{"commits", "offset commits of small groups", 0, commits},
		{"admin", "1,000 topics made one by one and in one request", 4 * time.Minute, manyTopics},
		{"acls", "100,000 ACLs", 3 * time.Minute, manyACLs},
		{"profiling", "what pushing profiles to a Pyroscope server costs", 4 * time.Minute, profilingCost},
		{"pgo", "what the build's profile gains", 0, profileGain},
	}
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

// runAll runs scenarios, prints a table after each and saves the rows. A
// scenario that fails is a row that says so; the others run all the same.
func runAll(o options, out io.Writer) error {
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
	begin, path := time.Now(), ""
	for _, s := range chosen {
		fmt.Fprintf(out, "--- %s: %s\n", s.name, s.about)
		began := time.Now()
		figures := s.measure(o, out)
		fmt.Fprint(out, tableOf(figures))
		fmt.Fprintf(out, "%s took %.0f s\n", s.name, time.Since(began).Seconds())
		r.Figures = append(r.Figures, figures...)
		// At once: a run that is ended early leaves what it has.
		if path, err = r.save(o.Results, figures); err != nil {
			return fmt.Errorf("save the rows: %w", err)
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

// measure runs one scenario within its limit and turns what goes wrong into a
// row.
func (s scenario) measure(o options, out io.Writer) (figures []figure) {
	o.Children, o.Meter = &children{}, &meter{}
	began := time.Now()
	limit := s.limit
	if limit == 0 {
		limit = usualLimit
	}
	late := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		close(late)
		o.Children.killAll()
	})
	defer func() {
		if problem := recover(); problem != nil {
			figures = append(figures, failure(s.name, fmt.Errorf("%v\n%s", problem, debug.Stack())))
		}
		timer.Stop()
		o.Children.killAll()
	}()
	figures, err := s.run(o, out)
	select {
	case <-late:
		err = errors.Join(fmt.Errorf("it took more than %v", limit), err)
	default:
	}
	figures = append(append(figures, o.Meter.figures(s.name)...), newFigure(s.name, loadSide, "duration of the scenario", "s", "", []float64{time.Since(began).Seconds()}))
	if err != nil {
		figures = append(figures, failure(s.name, err))
	}
	return figures
}
