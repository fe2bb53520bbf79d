package goals

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// goal is one of the targets, and by which rows it is judged. Where a row compares with what was once measured of Apache
// Kafka on a like machine, another one compares side by side here: both are shown.
type goal struct {
	words          string
	scenario, name *regexp.Regexp // of its rows, whole
	open           bool           // no bound was set
}

func all() []goal {
	g := func(words, scenario, name string) goal {
		return goal{words: words, scenario: regexp.MustCompile("^(?:" + scenario + ")$"), name: regexp.MustCompile("^(?:" + name + ")$")}
	}
	list := []goal{
		g("1 cost of a byte ≤ 1.25 × raw", "bytes(, .*)?", "CPU, ratio to the cheaper raw loop"),
		g("1 cost of a byte ≤ 0.25 × Kafka, side by side", "produce and follow, (64|256) KB batches, 16 partitions", "CPU per GB, ratio to kafka"),
		g("1 cost of a byte ≤ 0.25 × Kafka's 3.1 s/GB elsewhere", "bytes(, .*)?", "CPU"),
		g("1 zero allocations per request", "bytes(, .*)?", "allocations"),
		g("2 backlog ≥ 0.95 × raw, GB per CPU s", "drain", "GB per CPU second, ratio to the cheaper raw loop"),
		g("2 backlog ≤ Kafka's CPU, side by side", "read a backlog.*", "CPU per GB, ratio to kafka"),
		g("2 backlog ≤ Kafka's 0.31 s/GB elsewhere", "drain", "CPU"),
		g("2 8 readers ≤ 0.35 × Kafka's CPU, side by side", "8 readers at the tail", "CPU per GB, ratio to kafka"),
		g("2 8 readers ≤ 0.35 × Kafka's 3.6 s/GB elsewhere", "fan-out", "CPU per GB produced"),
		g("3 storm ≥ 5 × Kafka, side by side", "storm: .*", "requests per CPU second, ratio to kafka"),
		g("3 storm ≥ 0.5 × a bare gnet echo", "storm", "requests per CPU second, ratio to a bare gnet echo"),
		g("4 durable throughput ≥ 0.9 × its own unsynced mode", "durable", "throughput.*, ratio to its own unsynced mode"),
		g("4 ack p99 ≤ 1.2 × bare append and fdatasync", "durable", "ack p99, ratio to a bare append and fdatasync"),
		g("4 ack p99, 100 partitions ≤ 1.3 × of 1", "durable", "ack p99, 100 partitions against 1"),
		g("4 durable at 100 partitions ≥ 10 × Kafka, side by side", "(4|16|64) KB batches, 100 partitions and connections, acks=all", "throughput, ratio to kafka"),
		g("5 tail p99 ≤ 4 × raw ping-pong", "tail", ".*p99(, followed)?, ratio to the raw ping-pong"),
		g("5 tail p99 ≤ 0.5 × Kafka, side by side", "1000 records/s of 1 KB at intended times, acks=1", ".*p99, ratio to kafka"),
		g("5 tail p99 ≤ 0.5 × Kafka's 2.1 ms elsewhere", "tail", "ack(, followed)? p99"),
		g("5 p99.9 among trouble ≤ 2 × quiet", "tail", `.*p99\.9(, followed)?, troubled against quiet`),
		g("6 exec to ready ≤ 30 ms", "start-up", "exec to ready"),
		g("6 exec to the first acknowledged produce ≤ 60 ms", "start-up", "exec to first acknowledged produce"),
		g("6 idle resident memory ≤ 16 MiB", "start-up", "resident memory, idle"),
		g("6 1,000 idle partitions and consumers ≤ 0.2 % CPU", "idle", "CPU, 1,000 partitions and consumers, .*"),
		g("7 cost per request ≤ 1.2 × from 10 to 10,000 partitions", "partitions", "CPU per request, 10,000 against 10 partitions"),
		g("7 cost per request ≤ 1.2 × from 10 to 5,000 connections", "connections", "CPU per request, 5,000 against 10 connections"),
		g("profiles ≤ 1.02 × none", "profiling", "CPU, ratio to no profiles"),
		g("the gain of the build's profile", "pgo", "CPU per .*, ratio to a build without the profile"),
	}
	list[len(list)-1].open = true
	return list
}

// Unknown are the targets whose rows belong to none of the scenarios.
func Unknown(scenarios []string) (words []string) {
	for _, g := range all() {
		if !slices.ContainsFunc(scenarios, g.scenario.MatchString) {
			words = append(words, g.words)
		}
	}
	return words
}

// counted says how many rows of targets have met them.
func counted(cells [][]string) string {
	count := map[string]int{}
	for _, row := range cells[1:] {
		count[row[7]]++
	}
	return fmt.Sprintf("%d rows of targets met, %d missed, %d failed, %d targets without a verdict\n", count[Met], count[Missed], count[Failed], count[""])
}

// hostsOf names the machines, which are one line for all rows as a rule.
func hostsOf(lines []Line) string {
	var names []string
	for _, l := range lines {
		h := l.Host
		name := fmt.Sprintf("%s, %d cores, %d GiB, Linux %s, %s, %s", h.CPU, h.Cores, h.MemoryGiB, h.Kernel, h.FileSystem, h.Go)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "no rows\n"
	}
	return "measured on " + strings.Join(names, "; and on ") + "\n"
}

// goalCells is one line a row of each target, with where and when it was measured.
func goalCells(lines []Line) [][]string {
	cells := [][]string{{"target", "row", "median", "min", "max", "n", "unit", "verdict", "commit", "load", "measured"}}
	for _, g := range all() {
		found := false
		for _, l := range lines {
			if !g.scenario.MatchString(l.Scenario) || l.Verdict != Failed && !(g.name.MatchString(l.Name) && (l.Verdict != "" || g.open)) {
				continue
			}
			found = true
			if l.Verdict == Failed {
				cells = append(cells, []string{g.words, l.Scenario + ": " + FirstLine(l.Note), "", "", "", "", "", Failed, l.revision(), fmt.Sprintf("%.1f", l.Host.Load1), l.Time})
				continue
			}
			row := l.Scenario
			if l.Side != "kaas" {
				row += ", " + l.Side
			}
			cells = append(cells, []string{g.words, row + ": " + l.Name, Short(l.Median), Short(l.Low), Short(l.High), fmt.Sprint(len(l.Values)), l.Unit, l.Verdict, l.revision(), fmt.Sprintf("%.1f", l.Host.Load1), l.Time})
		}
		if !found {
			cells = append(cells, []string{g.words, "not measured", "", "", "", "", "", "", "", "", ""})
		}
	}
	return cells
}

// The verdicts of a document stand between these lines.
const (
	verdictsBegin = "<!-- verdicts: make bench-table INTO=docs/benchmarks.md -->"
	verdictsEnd   = "<!-- verdicts end -->"
)

// writeInto replaces the verdicts of a document.
func writeInto(path string, lines []Line) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), verdictsBegin+"\n")
	_, after, closed := strings.Cut(rest, verdictsEnd)
	if !ok || !closed {
		return fmt.Errorf("--into %s: it has no lines %q and %q", path, verdictsBegin, verdictsEnd)
	}
	var table strings.Builder
	for i, cells := range goalCells(lines) {
		for k, cell := range cells {
			cells[k] = strings.ReplaceAll(cell, "|", "\\|")
		}
		fmt.Fprintf(&table, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintf(&table, "|%s\n", strings.Repeat("---|", len(cells)))
		}
	}
	return os.WriteFile(path, []byte(before+verdictsBegin+"\n"+table.String()+"\n"+hostsOf(lines)+verdictsEnd+after), 0o644)
}

func (h Header) revision() string {
	if h.Dirty {
		return h.Commit + "+"
	}
	return h.Commit
}

// readResults returns, of each scenario, the rows of its newest run, of the commits and times that are wanted, in the order in
// which scenarios first came.
func readResults(dir, commit string, since time.Time) (lines []Line, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		return nil, err
	}
	var order []string
	newest := map[string][]Line{}
	for _, path := range paths { // by day
		of, err := readLines(path)
		if err != nil {
			return nil, err
		}
		for _, l := range of {
			began, err := time.Parse(time.RFC3339, l.Time)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if !strings.HasPrefix(l.Commit, commit) || began.Before(since) {
				continue
			}
			known := newest[l.Scenario]
			switch {
			case known == nil:
				order = append(order, l.Scenario)
			case l.Time < known[0].Time: // rows of a run are written when a scenario ends, so a longer run may come later
				continue
			case l.Time > known[0].Time:
				known = nil
			}
			newest[l.Scenario] = append(known, l)
		}
	}
	for _, scenario := range order {
		lines = append(lines, newest[scenario]...)
	}
	return lines, nil
}

func readLines(path string) (lines []Line, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text := bufio.NewScanner(file)
	text.Buffer(nil, 1<<20)
	for number := 1; text.Scan(); number++ {
		var l Line
		if err := json.Unmarshal(text.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		lines = append(lines, l)
	}
	return lines, text.Err()
}

// Command is `kaas bench table`: it puts the pieces of a run together.
func Command() *cobra.Command {
	var dir, commit, since, into string
	var all bool
	command := &cobra.Command{
		Use:   "table",
		Short: "Show the newest row of each target, whichever run it comes from",
		Long: `Show the newest row of each target, whichever run it comes from.

A run of all scenarios may be done in pieces (--rows of bench and of compare):
each adds its rows to the results, and this puts them together. A row says of
which commit it is (+: with changes beside it), the load average when its run
began, and when that was.`,
		Example: `  # The targets, each with its newest row
  kaas bench table

  # Only what was measured of one commit, every row
  kaas bench table --commit 190826d --all`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			var from time.Time
			if since != "" {
				var err error
				if from, err = time.Parse(time.RFC3339, since); err != nil {
					return fmt.Errorf("--since: %w; allowed is a time as in 2026-11-30T19:00:00Z", err)
				}
			}
			lines, err := readResults(dir, commit, from)
			if err != nil {
				return err
			}
			writeTable(command.OutOrStdout(), lines, all)
			if into != "" {
				return writeInto(into, lines)
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&dir, "results", filepath.Join("bench", "results"), "where the rows are")
	flags.StringVar(&commit, "commit", "", "only rows of a commit, by the begin of its name")
	flags.StringVar(&since, "since", "", "only rows of runs that began then or later, RFC 3339")
	flags.StringVar(&into, "into", "", "a document whose verdicts are replaced as well, between two lines of comment")
	flags.BoolVar(&all, "all", false, "every row, not only those with a target")
	return command
}

func writeTable(out io.Writer, lines []Line, all bool) {
	cells := goalCells(lines)
	fmt.Fprint(out, Aligned(cells, 2, 5)+hostsOf(lines))
	var figures []Figure
	for _, l := range lines {
		figures = append(figures, l.Figure)
	}
	if all {
		slices.SortStableFunc(figures, func(a, b Figure) int { return strings.Compare(a.Scenario, b.Scenario) })
		fmt.Fprintf(out, "\n%s", TableOf(figures))
	}
	fmt.Fprint(out, counted(cells))
}
