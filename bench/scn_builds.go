package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"kaas/bench/goals"
	"kaas/bench/rig"
)

// microPackages are the packages whose Go benchmarks run, with a pattern.
var microPackages = [][2]string{
	{"./auth", "Authorize"}, {"./quota", "Charge"}, {"./internal/bufpool", "GetRelease"}, {"./broker", "Produce|Fetch|IdleSession|Wake"},
	{"./logstore", "Append|Read"}, {"./group", "OffsetCommit|Heartbeat"}, {"./netio", "Echo$"}, {"./policy", "Check"}, {"./cmd/kaas", "RequestEnded"},
}

const microLimit = 2 * time.Minute // of one package, most of it for the compiler

// benchmarkLine is compiled when it is wanted, not at each start of the broker.
var benchmarkLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(Benchmark\S+?)(?:-\d+)?\s+\d+\s+(.*)$`) })

// micro runs Go benchmarks; it needs the repository and the Go tool.
func micro(_ options, out io.Writer) (figures []figure, err error) {
	const scenario = "micro"
	if _, err := os.Stat("go.mod"); err != nil {
		return nil, errors.New("the benchmarks of single packages need the repository: run it there")
	}
	for _, p := range microPackages {
		var text bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), microLimit)
		command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", p[1], "-benchmem", "-benchtime", "100ms", "-count", "3", p[0])
		command.Stdout, command.Stderr = &text, &text
		failure := command.Run()
		cancel()
		if failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w: %s", p[0], failure, goals.FirstLine(text.String())))
			continue
		}
		figures = append(figures, parseBenchmarks(scenario, strings.TrimPrefix(p[0], "./"), text.String())...)
	}
	fmt.Fprintf(out, "%-24s %d rows of %d packages\n", scenario, len(figures), len(microPackages))
	return figures, err
}

// parseBenchmarks reads what go test -bench prints: for each benchmark its
// time and its allocations. Authorisation has a target.
func parseBenchmarks(scenario, side, text string) (figures []figure) {
	type key struct{ name, unit string }
	var order []key
	values := map[key][]float64{}
	for line := range strings.Lines(text) {
		match := benchmarkLine().FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		fields := strings.Fields(match[2])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if unit := fields[i+1]; err == nil && (unit == "ns/op" || unit == "allocs/op") {
				k := key{match[1], unit}
				if values[k] == nil {
					order = append(order, k)
				}
				values[k] = append(values[k], value)
			}
		}
	}
	for _, k := range order {
		f := newFigure(scenario, side, strings.TrimPrefix(k.name, "Benchmark"), k.unit, "", values[k])
		if k.unit == "allocs/op" && strings.Contains(k.name, "Authorize") {
			f = f.atMost(0)
		}
		figures = append(figures, f)
	}
	return figures
}

// stormCosts measures CPU a request of several brokers in turn.
func stormCosts(o options, scenario string, names []string, subjects []*subject, out io.Writer) (costs [][]float64, err error) {
	const requests = 300_000
	costs = make([][]float64, len(subjects))
	storms := make([]*rig.Storm, len(subjects))
	for i, s := range subjects {
		storms[i] = stormOf(s.address, "storm", rig.ProduceAnswer("storm"))
		if _, err := storms[i].Run(requests / 5); err != nil {
			return nil, s.explain(err)
		}
	}
	err = turns(2*o.Rounds, len(subjects), func(i int) error {
		if err := rig.WarmMemory(512 << 20); err != nil {
			return err
		}
		cpu, err := cpuOf(subjects[i], func() error { _, err := storms[i].Run(requests); return err })
		if err != nil {
			return err
		}
		costs[i] = append(costs[i], 1e6*cpu/requests)
		fmt.Fprintf(out, "%-24s %-14s %.2f µs a request\n", scenario, names[i], 1e6*cpu/requests)
		return nil
	})
	return costs, err
}

// stormLoad is the topic of the storms.
func stormLoad() rig.Load {
	return rig.Load{Topic: "storm", Partitions: stormPartitions, BatchBytes: 200, ValueBytes: 100}
}

// profileGain compares the broker with a build of the same tree without the
// profile.
func profileGain(o options, out io.Writer) (figures []figure, err error) {
	const scenario = "pgo"
	if _, err := os.Stat(o.WithoutProfile); err != nil {
		return nil, fmt.Errorf("--without-profile: %w; make bench builds it", err)
	}
	plain := o
	plain.Broker = o.WithoutProfile
	names := []string{"kaas", "kaas-without-profile"}
	start := func(o options) func(options, rig.Load) (*subject, error) {
		return func(_ options, l rig.Load) (*subject, error) { return startKaas(neverFlush)(o, l) }
	}
	subjects, err := startAll(o, stormLoad(), side{names[0], start(o), 1}, side{names[1], start(plain), 1})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(subjects)) }()
	costs, err := stormCosts(o, scenario, names, subjects, out)
	if err != nil {
		return nil, err
	}
	figures = append(figures, newFigure(scenario, names[0], "CPU per request", "µs", "small requests", costs[0]), newFigure(scenario, names[1], "CPU per request", "µs", "small requests", costs[1]),
		newFigure(scenario, names[0], "CPU per request, ratio to a build without the profile", "1", "small requests", ratios(costs[0], costs[1])))
	samples, err := measureInTurn(o, scenario, rig.CostOfAByte(1), o.Rounds, []side{{names[0], start(o), 1}, {names[1], start(plain), 1}}, out)
	if err != nil {
		return figures, err
	}
	return append(figures, newFigure(scenario, names[0], "CPU per GB, ratio to a build without the profile", "1", "produce and follow, 64 KB batches", ratios(each(samples[0], cpuPerGB), each(samples[1], cpuPerGB)))), nil
}
