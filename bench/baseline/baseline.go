package baseline

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Row is one line of a baseline file, and one measured row.
type Row struct {
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

	Typical float64 `json:"-"` // what a new baseline holds, where it is not Value; 0: Value
}

// limit is the largest value that passes against a baseline.
func (r Row) limit(baseline float64) float64 { return baseline + r.Relative*baseline + r.Absolute }

// Verdict is the comparison of one row.
type Verdict struct {
	now, base Row
	known     bool // there is a baseline
	worse     bool
	slack     bool // better by more than may be worse: the baseline guards less than it could
	why       string
}

// Worse tells whether the row fails.
func (v Verdict) Worse() bool { return v.worse }

// Why says in words what is wrong with it.
func (v Verdict) Why() string { return v.now.Row + ": " + v.why }

// Judge compares measured rows with a baseline. A row without a baseline fails
// as well: it would not guard anything.
func Judge(rows, base []Row) []Verdict {
	var verdicts []Verdict
	for _, now := range rows {
		v := Verdict{now: now}
		if at := slices.IndexFunc(base, func(b Row) bool { return b.Row == now.Row }); at >= 0 {
			v.base, v.known = base[at], true
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
			v.slack = max(now.Value, now.Typical) < v.base.Value-(now.limit(v.base.Value)-v.base.Value)
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

// Table writes one line a row and tells whether all of them pass.
func Table(out io.Writer, verdicts []Verdict) (worse []string) {
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

// Read reads a file of baselines.
func Read(path string) (rows []Row, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		rows = append(rows, r)
	}
	return rows, lines.Err()
}

// Write replaces the rows that were measured and keeps the others.
func Write(path string, rows []Row) error {
	old, err := Read(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, r := range rows {
		if at := slices.IndexFunc(old, func(o Row) bool { return o.Row == r.Row }); at >= 0 {
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
