package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kaas/bench/goals"
)

// row is a run of the tool: each of its figures is a line of a results file.
type row struct {
	header
	Figures []figure
}

// header is what all rows of a run share.
type header struct{ goals.Header }

// figure is one measured quantity.
type figure struct{ goals.Figure }

// The verdicts of a figure that has a target.
const (
	met    = goals.Met
	missed = goals.Missed
	failed = goals.Failed
)

func newFigure(scenario, side, name, unit, note string, values []float64) figure {
	f := figure{goals.Figure{Scenario: scenario, Side: side, Name: name, Unit: unit, Median: median(values), Values: values, Note: note}}
	if len(values) > 0 {
		f.Low, f.High = slices.Min(values), slices.Max(values)
	}
	return f
}

// atMost judges the median by an upper bound.
func (f figure) atMost(bound float64) figure {
	return f.judged(fmt.Sprintf("≤ %.4g", bound), f.Median <= bound)
}

// atLeast judges the median by a lower bound.
func (f figure) atLeast(bound float64) figure {
	return f.judged(fmt.Sprintf("≥ %.4g", bound), f.Median >= bound)
}

func (f figure) judged(target string, ok bool) figure {
	f.Target, f.Verdict = target, missed
	if len(f.Values) > 0 && ok {
		f.Verdict = met
	}
	return f
}

// noting adds to the note.
func (f figure) noting(note string) figure {
	f.Note = strings.TrimPrefix(f.Note+"; "+note, "; ")
	return f
}

// failure is the row of a scenario that has not come to its end.
func failure(scenario string, err error) figure {
	return figure{goals.Figure{Scenario: scenario, Side: "kaas", Name: "not measured", Verdict: failed, Note: err.Error()}}
}

// ratios divides two sides' values, turn by turn: both saw the same machine.
func ratios(ours, theirs []float64) (values []float64) {
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] != 0 {
			values = append(values, ours[i]/theirs[i])
		}
	}
	return values
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func newRow(dataDir string) (row, error) {
	h, err := describeHost(dataDir)
	if err != nil {
		return row{}, err
	}
	r := row{header: header{goals.Header{Time: time.Now().UTC().Format(time.RFC3339), Host: h, Settings: map[string]string{}}}}
	// Without git the row says so instead of guessing.
	r.Commit, r.Dirty = "unknown", true
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		r.Commit = strings.TrimSpace(string(out))
		// The results themselves are no part of what was measured.
		out, err = exec.Command("git", "status", "--porcelain", "--", ".", ":(exclude)bench/results", ":(exclude)bench/baselines").Output()
		r.Dirty = err != nil || len(strings.TrimSpace(string(out))) > 0
	}
	return r, nil
}

func describeHost(dataDir string) (goals.Host, error) {
	h := goals.Host{Cores: runtime.NumCPU(), Go: runtime.Version()}
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return h, err
	}
	for line := range strings.Lines(string(cpuinfo)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			h.CPU = strings.TrimSpace(value)
			break
		}
	}
	var name unix.Utsname
	var info unix.Sysinfo_t
	var fs unix.Statfs_t
	if err := errors.Join(unix.Uname(&name), unix.Sysinfo(&info), unix.Statfs(dataDir, &fs)); err != nil {
		return h, err
	}
	h.Kernel = unix.ByteSliceToString(name.Release[:])
	h.MemoryGiB = int(info.Totalram * uint64(info.Unit) >> 30)
	h.Load1 = float64(info.Loads[0]) / 65536
	known := map[int64]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x01021994: "tmpfs", 0x794c7630: "overlay"}
	if h.FileSystem = known[int64(fs.Type)]; h.FileSystem == "" {
		h.FileSystem = fmt.Sprintf("%#x", fs.Type)
	}
	return h, nil
}

// save appends one line a figure to the file of the run's day. Without a
// directory it does nothing.
func (h header) save(dir string, figures []figure) (path string, err error) {
	if dir == "" {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(dir, h.Time[:len("2006-01-02")]+".ndjson")
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, f := range figures {
		if err := encoder.Encode(goals.Line{Header: h.Header, Figure: f.Figure}); err != nil {
			return "", err
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	_, err = file.Write(text.Bytes())
	return path, errors.Join(err, file.Close())
}

// about says of what and where the figures are.
func (r row) about() string {
	dirty := ""
	if r.Dirty {
		dirty = " (with uncommitted changes)"
	}
	return fmt.Sprintf("commit %s%s, %s, %d cores, Linux %s, %s, load %.1f", r.Commit, dirty, r.Host.CPU, r.Host.Cores, r.Host.Kernel, r.Host.FileSystem, r.Host.Load1)
}

// plain are figures as tables take them.
func plain(figures []figure) (all []goals.Figure) {
	for _, f := range figures {
		all = append(all, f.Figure)
	}
	return all
}

func tableOf(figures []figure) string  { return goals.TableOf(plain(figures)) }
func verdicts(figures []figure) string { return goals.Verdicts(plain(figures)) }

// notesOf writes each note once, below the scenario that it belongs to.
func notesOf(figures []figure) string {
	var out strings.Builder
	said := map[[2]string]bool{}
	for _, f := range figures {
		if key := [2]string{f.Scenario, f.Note}; f.Note != "" && !said[key] {
			said[key] = true
			fmt.Fprintf(&out, "%s: %s\n", f.Scenario, f.Note)
		}
	}
	return out.String()
}
