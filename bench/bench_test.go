package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"kaas/bench/goals"
	"kaas/bench/rig"
)

// TestMain lets the test binary be the raw loop's process, as `kaas bench`
// lets the broker's binary be.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "bench" {
		command := Command()
		command.SetArgs(os.Args[2:])
		if err := command.Execute(); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRawLoop moves some megabytes through the raw loop, both ways of
// sending, with the driver's own checks of offsets and acknowledgements.
func TestRawLoop(t *testing.T) {
	t.Parallel()
	for _, how := range []string{rawSendfile, rawMapped, rawSync} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s, err := startRaw(how)(options{DataParent: t.TempDir()}, rig.CostOfAByte(1))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.close(); err != nil {
					t.Error(err)
				}
			}()
			for range 2 { // the second goes on where the first has ended
				moved, err := s.driver.Run(8 << 20)
				if err != nil {
					t.Fatalf("%v\n%s", err, s.Output)
				}
				if moved.Bytes < 8<<20 || moved.Produces*int64(s.driver.BatchLen()) != moved.Bytes || moved.Fetches == 0 {
					t.Errorf("moved %+v", moved)
				}
			}
			used, err := s.CPU()
			if err != nil || used.Total <= 0 {
				t.Errorf("the loop has used %v, %v", used, err)
			}
		})
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, err := newRow(dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Figures = []figure{newFigure("s", "kaas", "CPU", "s/GB", "", []float64{3, 1, 2, 10}).atMost(2), failure("broken", errors.New("the disk is gone\nand more"))}
	for range 2 {
		if _, err := r.save(filepath.Join(dir, "results"), r.Figures); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "results", time.Now().UTC().Format("2006-01-02")+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 4 {
		t.Fatalf("two runs of two figures:\n%s", text)
	}
	var back struct {
		header
		figure
	}
	if err := json.Unmarshal([]byte(lines[2]), &back); err != nil || back.Median != 2.5 || back.High != 10 || back.Verdict != missed || back.Target != "≤ 2" || back.Commit == "" || back.Host.Cores < 1 {
		t.Errorf("%v in %s", err, lines[2])
	}
	if table := tableOf(r.Figures); !strings.Contains(table, "missed") || !strings.Contains(table, "FAILED: the disk is gone\n") {
		t.Error(table)
	}
	if v := verdicts(r.Figures); v != "0 targets met, 1 missed, 1 scenarios failed" {
		t.Error(v)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	f := newFigure("s", "kaas", "n", "1", "", []float64{1, 2, 3})
	if f.atMost(2).Verdict != met || f.atMost(1.9).Verdict != missed || f.atLeast(2).Verdict != met || f.atLeast(2.1).Verdict != missed {
		t.Error("a bound is met by the median that equals it")
	}
	if newFigure("s", "kaas", "n", "1", "", nil).atMost(1).Verdict != missed {
		t.Error("what was not measured has met its target")
	}
}

// A scenario that fails, hangs or panics is a row, and what it has measured
// before is kept.
func TestScenariosThatFail(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(options, io.Writer) ([]figure, error){
		"error": func(options, io.Writer) ([]figure, error) {
			return []figure{newFigure("error", "kaas", "n", "1", "", []float64{1})}, errors.New("no")
		},
		"panic": func(options, io.Writer) ([]figure, error) { panic("no") },
		"late": func(o options, _ io.Writer) ([]figure, error) {
			child, err := rig.StartProcess("sleep", "100")
			if err != nil {
				return nil, err
			}
			o.Children.add(child)
			awaitKilled(t, child)
			return nil, nil
		},
	} {
		s := scenario{name: name, limit: time.Second, run: run}
		figures := s.measure(t.Context(), options{}, io.Discard)
		if len(figures) == 0 || figures[len(figures)-1].Verdict != failed {
			t.Errorf("%s: %+v", name, figures)
		}
		if name == "late" && !strings.Contains(figures[len(figures)-1].Note, "more than 1s") || name == "error" && len(figures) != 3 {
			t.Errorf("%s: %+v", name, figures)
		}
	}
}

// awaitKilled waits for the end of a child, which must not be its own.
func awaitKilled(t *testing.T, child *rig.Process) {
	t.Helper()
	<-child.Exited
	if child.Command.ProcessState.Success() {
		t.Error("it ended by itself")
	}
}

// TestInterruptedScenario: a signal ends what runs, and what a scenario starts after that.
func TestInterruptedScenario(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	s := scenario{name: "long", run: func(o options, _ io.Writer) ([]figure, error) {
		for i := range 2 {
			child, err := rig.StartProcess("sleep", "100")
			if err != nil {
				return nil, err
			}
			o.Children.add(child)
			if i == 0 {
				interrupt()
			}
			awaitKilled(t, child)
		}
		return nil, errors.New("its children are gone")
	}}
	figures := s.measure(ctx, options{}, io.Discard)
	if note := figures[len(figures)-1].Note; !strings.HasPrefix(note, "interrupted") {
		t.Errorf("%q", note)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	if err := runAll(ctx, options{Rows: "acls", Results: dir, DataParent: dir, Broker: "/nowhere"}, &out); !errors.Is(err, errInterrupted) {
		t.Errorf("%v\n%s", err, &out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("rows of an interrupted scenario, or its directory: %v %v", files, err)
	}
}

// TestScenarioPlan: those with targets come first, and a run of all takes half an hour at most.
func TestScenarioPlan(t *testing.T) {
	t.Parallel()
	total := 0
	for _, s := range scenarios() {
		total += s.seconds
		if s.seconds <= 0 || s.most(2) < 2*s.usually(2) || s.usually(4) != 2*s.usually(2) || s.usually(1) != s.usually(2) {
			t.Errorf("%s: %d s, at most %v", s.name, s.seconds, s.most(2))
		}
	}
	if total > 30*60 {
		t.Errorf("all scenarios take %d s", total)
	}
	parts := compareOptions{options: options{Rounds: 2}, Rate: 1000}.parts([2]*contender{}, io.Discard)
	for _, p := range parts[:len(parts)-1] { // the last one only looks
		if p.seconds <= 0 || 2*toGo([]part{p}) > mostOfAPart {
			t.Errorf("%s: %d s, at most %v", p.scenario, p.seconds, mostOfAPart)
		}
	}
	if whole := toGo(parts); whole > 25*time.Minute {
		t.Errorf("a comparison takes %v", whole)
	}
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name, s.name+", 64 KB")
	}
	names = append(append(names, compareRows()...), "1000 records/s of 1 KB at intended times, acks=1")
	if unknown := goals.Unknown(names); len(unknown) > 0 {
		t.Errorf("these targets name no scenario and no row of a comparison: %q", unknown)
	}
}

// TestPartsOfAComparison: a part that fails is a row, one whose sides are gone has them again, and a signal ends the
// sides.
func TestPartsOfAComparison(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var sides [2]*contender
	for i := range sides {
		c := &contender{name: []string{"kaas", "rival"}[i], dir: t.TempDir()}
		left := filepath.Join(c.dir, "data", "left")
		if err := os.MkdirAll(left, 0o755); err != nil {
			t.Fatal(err)
		}
		if c.address, err = rig.FreeAddress(); err != nil {
			t.Fatal(err)
		}
		c.command = []string{self, "bench", "echo-loop", c.address}
		if err := c.start(); err != nil {
			t.Fatal(err)
		}
		sides[i] = c
	}
	defer func() {
		if err := closeSides(sides); err != nil {
			t.Error(err)
		}
	}()
	o := compareOptions{}
	last := func(figures []figure) figure {
		return figures[slices.IndexFunc(figures, func(f figure) bool { return f.Verdict == failed })]
	}
	part := part{"p", "p", 1, func() ([]figure, error) { sides[0].kill(); return nil, errors.New("no answer") }}
	if f := last(o.measure(t.Context(), part, sides, io.Discard)); f.Note != "no answer" {
		t.Errorf("%+v", f)
	}
	for _, side := range sides { // both begin anew
		<-side.process.Exited
		if _, err := os.Stat(filepath.Join(side.dir, "data")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what the part has left is there: %v", err)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	part.run = func() ([]figure, error) {
		for _, side := range sides {
			conn, err := net.Dial("tcp", side.address)
			if err != nil {
				return nil, err
			}
			_ = conn.Close()
		}
		interrupt()
		for _, side := range sides {
			<-side.process.Exited
		}
		return nil, nil
	}
	if f := last(o.measure(ctx, part, sides, io.Discard)); f.Note != "interrupted" {
		t.Errorf("%+v", f)
	}
}

func TestSelected(t *testing.T) {
	t.Parallel()
	if chosen, err := selected("tail, com.*"); err != nil || len(chosen) != 2 || chosen[0].name != "tail" || chosen[1].name != "commits" {
		t.Errorf("%v %v", chosen, err)
	}
	if _, err := selected("none"); err == nil || !strings.Contains(err.Error(), "there are bytes drain") {
		t.Error(err)
	}
	if chosen, err := selected(""); err != nil || len(chosen) != len(scenarios()) {
		t.Errorf("%v %v", chosen, err)
	}
}

func TestTurns(t *testing.T) {
	t.Parallel()
	var order []int
	if err := turns(2, 2, func(i int) error { order = append(order, i); return nil }); err != nil || !slices.Equal(order, []int{0, 1, 1, 0, 0, 1, 1, 0}) {
		t.Errorf("%v %v", order, err)
	}
}

func TestParseBenchmarks(t *testing.T) {
	t.Parallel()
	text := "goos: linux\nBenchmarkAuthorize/deny-2   \t  100\t  52.5 ns/op\t 0 B/op\t 0 allocs/op\nBenchmarkAuthorize/deny-2   \t  100\t  53.5 ns/op\t 0 B/op\t 0 allocs/op\nPASS\n"
	f := parseBenchmarks("micro", "auth", text)
	if len(f) != 2 || f[0].Name != "Authorize/deny" || f[0].Median != 53 || f[1].Unit != "allocs/op" || f[1].Verdict != met {
		t.Errorf("%+v", f)
	}
}

// Each row of a comparison says what an acknowledgement meant, and the ratios to Apache Kafka that have a target are judged.
func TestContestFigures(t *testing.T) {
	t.Parallel()
	sides := [2]*contender{{name: "kaas", process: &rig.Process{}}, {name: kafkaRival, process: &rig.Process{}}}
	run := func(cpu time.Duration, took time.Duration) []bout {
		return []bout{{Outcome: rig.Outcome{Bytes: 1e9, Produces: 1000, Fetches: 1000, Took: took}, cpu: cpu}}
	}
	wanted := map[string]string{}
	for _, c := range contests() {
		for _, f := range judged(c, contestFigures(c, sides, [2][]bout{run(time.Second, time.Second), run(5*time.Second, 11*time.Second)})) {
			word := "not durable on either side"
			if c.durable {
				word = "durable on both sides"
			}
			if !strings.HasPrefix(f.Note, word) {
				t.Errorf("%s, %s: %q", c.name, f.Name, f.Note)
			}
			if f.Verdict != "" {
				wanted[c.name] = f.Name + " " + f.Target + " " + f.Verdict
			}
		}
	}
	sides[1].refused = true
	for _, c := range contests() {
		if f := contestFigures(c, sides, [2][]bout{run(time.Second, time.Second), run(time.Second, time.Second)})[0]; !strings.Contains(f.Note, "the rival refuses flush.messages") {
			t.Errorf("%s: %q", c.name, f.Note)
		}
	}
	for name, want := range map[string]string{
		"produce and follow, 64 KB batches, 16 partitions":        "CPU per GB, ratio to kafka ≤ 0.25 met",
		"produce and follow, 256 KB batches, 16 partitions":       "CPU per GB, ratio to kafka ≤ 0.25 met",
		"16 KB batches, 100 partitions and connections, acks=all": "throughput, ratio to kafka ≥ 10 met",
		"4 KB batches, 100 partitions and connections, acks=all":  "throughput, ratio to kafka ≥ 10 met",
		"64 KB batches, 100 partitions and connections, acks=all": "throughput, ratio to kafka ≥ 10 met",
		"storm: 1 to 10 keyed records of 100 B, 200 connections":  "requests per CPU second, ratio to kafka ≥ 5 met",
		"read a backlog, 1 MiB fetches on 2 connections":          "CPU per GB, ratio to kafka ≤ 1 met",
		"8 readers at the tail":                                   "CPU per GB, ratio to kafka ≤ 0.35 met",
	} {
		if wanted[name] != want {
			t.Errorf("%s: %q instead of %q", name, wanted[name], want)
		}
		delete(wanted, name)
	}
	if len(wanted) > 0 {
		t.Errorf("also judged: %v", wanted)
	}
	if err := checkRows("storm;no such"); err != nil {
		t.Error(err)
	}
	if err := checkRows("no such"); err == nil || !strings.Contains(err.Error(), "8 readers at the tail") {
		t.Error(err)
	}
	if only := chosen(" storm ;latency"); !only("storm: 1 to 10") || !only(latencyRows) || only(restRows) || !chosen("")(restRows) || chosen("4 KB batches")("64 KB batches") {
		t.Error("rows are chosen by parts of their names")
	}
}

// TestMeter: who loads a full machine says so.
func TestMeter(t *testing.T) {
	t.Parallel()
	var none *meter
	m := &meter{}
	for _, m := range []*meter{none, m} {
		if err := m.during(func() error { time.Sleep(20 * time.Millisecond); return errors.New("no") }); err == nil {
			t.Error("an error is lost")
		}
	}
	if f := m.figures("s"); len(f) != 2 || f[0].Side != loadSide || len(f[0].Values) != 1 || f[0].Median < 0 || f[1].Median < 0 {
		t.Errorf("%+v", f)
	}
	if f := (&meter{}).figures("s"); f != nil {
		t.Errorf("nothing was metered: %+v", f)
	}
	processors := float64(runtime.NumCPU())
	if !saturated(processors/2, 0) || saturated(processors/2, processors/4) || saturated(processors/10, 0) {
		t.Error("saturated is a full machine of which the load has a large part")
	}
}
