package bench

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
)

// The regression guard compares what it measures with a committed baseline.
// Its rows are counts that other work on the machine does not change, and one
// ratio of times, which comes with an interval and is judged by the end of it
// that speaks for the broker. It fails when a row is worse than its baseline
// by more than the row's tolerance, and never when a row is better.

// guardRow is one line of a baseline file, and one measured row.
type guardRow struct {
	Row  string `json:"row"`
	Unit string `json:"unit"`
	// Value is what counts; for a ratio of times, the low end of its interval
	// when it is measured, and its median in a baseline.
	Value float64 `json:"value"`
	// A row may be worse than its baseline b by Relative × b + Absolute. Those that count are the measured row's, so that
	// they can be changed without a new baseline.
	Relative float64 `json:"relativeTolerance"`
	Absolute float64 `json:"absoluteTolerance"`
	// Most is a bound that no baseline can move; 0 is none.
	Most   float64            `json:"most,omitempty"`
	Detail map[string]float64 `json:"detail,omitempty"` // what Value is made of
	Note   string             `json:"note,omitempty"`
	// Where the baseline comes from.
	Commit string `json:"commit,omitempty"`
	Time   string `json:"time,omitempty"`
	Go     string `json:"go,omitempty"`
	Reason string `json:"reason,omitempty"`

	baseline float64 // what a new baseline holds, where it is not Value
}

// limit is the largest value that passes against a baseline.
func (r guardRow) limit(baseline float64) float64 { return baseline + r.Relative*baseline + r.Absolute }

// verdict is the comparison of one row.
type verdict struct {
	now, base guardRow
	known     bool // there is a baseline
	worse     bool
	slack     bool // better by more than may be worse: the baseline guards less than it could
	why       string
}

// judge compares measured rows with a baseline. A row without a baseline fails
// as well: it would not guard anything.
func judge(rows, baseline []guardRow) []verdict {
	var verdicts []verdict
	for _, now := range rows {
		v := verdict{now: now}
		if at := slices.IndexFunc(baseline, func(b guardRow) bool { return b.Row == now.Row }); at >= 0 {
			v.base, v.known = baseline[at], true
		}
		switch {
		case now.Most > 0 && now.Value > now.Most:
			v.worse, v.why = true, fmt.Sprintf("%.4g %s, and more than %.4g is a failure whatever the baseline", now.Value, now.Unit, now.Most)
		case !v.known:
			v.worse, v.why = true, "there is no baseline: make bench-baseline REASON=… makes one"
		case now.Value > now.limit(v.base.Value):
			v.worse = true
			v.why = fmt.Sprintf("%.4g %s against %.4g at commit %s (%+.1f %%), tolerated up to %.4g%s",
				now.Value, now.Unit, v.base.Value, v.base.Commit, 100*(now.Value/v.base.Value-1), now.limit(v.base.Value), moved(now.Detail, v.base.Detail))
		default:
			v.slack = max(now.Value, now.baseline) < v.base.Value-(now.limit(v.base.Value)-v.base.Value)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// moved names the parts that grew most.
func moved(now, base map[string]float64) string {
	type part struct {
		name   string
		growth float64
	}
	var parts []part
	for name, value := range now {
		if growth := value - base[name]; growth > 0.005*max(1, base[name]) {
			parts = append(parts, part{name, growth})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		if a.growth != b.growth {
			if a.growth > b.growth {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	var words []string
	for _, p := range parts[:min(len(parts), 5)] {
		words = append(words, fmt.Sprintf("%s %.4g → %.4g", p.name, base[p.name], now[p.name]))
	}
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, ", ")
}

// verdictTable writes one line a row and tells whether all of them pass.
func verdictTable(out io.Writer, verdicts []verdict) (worse []string) {
	fmt.Fprintf(out, "%-52s %12s %12s %12s  %-20s %s\n", "row", "now", "baseline", "at most", "unit", "baseline's commit")
	for _, v := range verdicts {
		mark, base, most := "", "none", "none"
		if v.known {
			base, most = fmt.Sprintf("%.5g", v.base.Value), fmt.Sprintf("%.5g", v.now.limit(v.base.Value))
		}
		if v.worse {
			if mark = "  WORSE"; !v.known {
				mark = "NEW"
			}
			worse = append(worse, v.now.Row+": "+v.why)
		}
		if v.slack {
			mark = "  better: a new baseline would guard it"
		}
		fmt.Fprintf(out, "%-52s %12.5g %12s %12s  %-20s %s%s\n", v.now.Row, v.now.Value, base, most, v.now.Unit, v.base.Commit, mark)
		if v.now.Note != "" {
			fmt.Fprintf(out, "    %s\n", v.now.Note)
		}
	}
	return worse
}

func readBaseline(path string) (rows []guardRow, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var r guardRow
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

// writeBaseline replaces the rows that were measured and keeps the others.
func writeBaseline(path string, rows []guardRow) error {
	old, err := readBaseline(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, r := range rows {
		if at := slices.IndexFunc(old, func(o guardRow) bool { return o.Row == r.Row }); at >= 0 {
			old[at] = r
		} else {
			old = append(old, r)
		}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, r := range old {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// guardOptions are what a run of the guard can be told.
type guardOptions struct {
	options
	Instrumented string // the broker built with -tags valgrind and symbols
	Baseline     string
	Only         string // a regular expression over the names of gates
	Reason       string // of a new baseline
	Rounds       int    // of A B B A, for the ratio of times
}

// gate measures some rows.
type gate struct {
	name    string
	measure func(guardOptions) ([]guardRow, error)
}

var gates = []gate{
	{"size", sizeGate},
	{"memory", memoryGate},
	{"allocations", allocationGate},
	{"syscalls", syscallGate},
	{"instructions", instructionGate},
	{"time", timeGate},
}

func measureGates(o guardOptions, out io.Writer) (rows []guardRow, err error) {
	only, err := regexp.Compile(o.Only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	var failures []error
	for _, g := range gates {
		if !only.MatchString(g.name) {
			continue
		}
		begin := time.Now()
		measured, err := g.measure(o)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", g.name, err))
		}
		rows = append(rows, measured...)
		fmt.Fprintf(out, "measured %s in %.1f s\n", g.name, time.Since(begin).Seconds())
	}
	return rows, errors.Join(failures...)
}

// checkAll measures, compares and fails when a row is worse.
func checkAll(o guardOptions, out io.Writer) error {
	rows, err := measureGates(o, out)
	if err != nil {
		return err
	}
	baseline, err := readBaseline(o.Baseline)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "now: "+r.about())
	if worse := verdictTable(out, judge(rows, baseline)); len(worse) > 0 {
		return fmt.Errorf("%d rows are worse at %s than their baseline:\n  %s\nif that is meant: make bench-baseline REASON='…'", len(worse), r.Commit, strings.Join(worse, "\n  "))
	}
	fmt.Fprintln(out, "no row is worse than its baseline")
	return nil
}

// saveBaseline measures and writes the baseline.
func saveBaseline(o guardOptions, out io.Writer) error {
	if strings.TrimSpace(o.Reason) == "" {
		return errors.New("a new baseline needs a reason: why may the rows move?")
	}
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	rows, err := measureGates(o, out)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Commit, rows[i].Time, rows[i].Go, rows[i].Reason = r.Commit, r.Time, r.Host.Go, o.Reason
		if r.Dirty {
			rows[i].Commit += "+"
		}
		if rows[i].baseline != 0 {
			rows[i].Value = rows[i].baseline
		}
	}
	old, err := readBaseline(o.Baseline)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	verdictTable(out, judge(rows, old))
	if err := writeBaseline(o.Baseline, rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d rows were written to %s: commit it, with the reason\n", len(rows), o.Baseline)
	return nil
}
