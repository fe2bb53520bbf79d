package bench

import (
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
)

// row is one line of a results file: one run of the whole tool. Figures are
// medians over the rounds of the run; each stands with all its values, so the
// spread is there.
type row struct {
	Time     string            `json:"time"` // RFC 3339, UTC
	Commit   string            `json:"commit"`
	Dirty    bool              `json:"dirty"` // the tree had changes that no commit holds
	Host     host              `json:"host"`
	Settings map[string]string `json:"settings"`
	Figures  []figure          `json:"figures"`
}

type host struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	Kernel     string  `json:"kernel"`
	MemoryGiB  int     `json:"memoryGiB"`
	Load1      float64 `json:"load1"` // others' work, in processes that run, at the begin
	FileSystem string  `json:"fileSystem"`
	Go         string  `json:"go"`
}

// figure is one measured quantity.
type figure struct {
	Scenario string    `json:"scenario"`
	Side     string    `json:"side"` // what was measured: kaas, raw-sendfile, raw-mmap
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Median   float64   `json:"median"`
	Values   []float64 `json:"values"`
	Note     string    `json:"note,omitempty"`
}

func newFigure(scenario, side, name, unit, note string, values []float64) figure {
	return figure{Scenario: scenario, Side: side, Name: name, Unit: unit, Median: median(values), Values: values, Note: note}
}

func (f figure) min() float64 { return slices.Min(f.Values) }
func (f figure) max() float64 { return slices.Max(f.Values) }

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
	r := row{Time: time.Now().UTC().Format(time.RFC3339), Host: h, Settings: map[string]string{}}
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

func describeHost(dataDir string) (host, error) {
	h := host{Cores: runtime.NumCPU(), Go: runtime.Version()}
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

// save appends the row to the file of its day.
func (r row) save(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path = filepath.Join(dir, r.Time[:len("2006-01-02")]+".ndjson")
	line, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	_, err = file.Write(append(line, '\n'))
	return path, errors.Join(err, file.Close())
}

// table writes the figures for a reader.
func (r row) table() string {
	var out strings.Builder
	dirty := ""
	if r.Dirty {
		dirty = " (with uncommitted changes)"
	}
	fmt.Fprintf(&out, "commit %s%s, %s, %d cores, Linux %s, %s, load %.1f\n", r.Commit, dirty, r.Host.CPU, r.Host.Cores, r.Host.Kernel, r.Host.FileSystem, r.Host.Load1)
	fmt.Fprintf(&out, "%-16s %-14s %-36s %12s %10s %10s  %s\n", "scenario", "side", "figure", "median", "min", "max", "unit")
	for _, f := range r.Figures {
		fmt.Fprintf(&out, "%-16s %-14s %-36s %12.4g %10.4g %10.4g  %s\n", f.Scenario, f.Side, f.Name, f.Median, f.min(), f.max(), f.Unit)
	}
	return out.String()
}
