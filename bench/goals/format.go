package goals

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Header is what all rows of a run share; it stands in each line, so that a
// line says by itself where it comes from.
type Header struct {
	Time     string            `json:"time"` // RFC 3339, UTC; of the begin
	Commit   string            `json:"commit"`
	Dirty    bool              `json:"dirty"` // the tree had changes that no commit holds
	Host     Host              `json:"host"`
	Settings map[string]string `json:"settings"`
}

// Host is the machine of a run.
type Host struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	Kernel     string  `json:"kernel"`
	MemoryGiB  int     `json:"memoryGiB"`
	Load1      float64 `json:"load1"` // others' work, in processes that run, at the begin
	FileSystem string  `json:"fileSystem"`
	Go         string  `json:"go"`
}

// Figure is one measured quantity, the median of its values, which stand in
// the order in which they were measured: the spread is theirs.
type Figure struct {
	Scenario string    `json:"scenario"`
	Side     string    `json:"side"` // what was measured: kaas, raw-sendfile, raw-mmap, …
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Median   float64   `json:"median"`
	Low      float64   `json:"min"`
	High     float64   `json:"max"`
	Values   []float64 `json:"values"`
	Target   string    `json:"target,omitempty"`  // what the median should be
	Verdict  string    `json:"verdict,omitempty"` // met, missed, or failed: not measured
	Note     string    `json:"note,omitempty"`
}

// Line is one row of a results file.
type Line struct {
	Header
	Figure
}

// The verdicts of a figure that has a target.
const (
	Met    = "met"
	Missed = "missed"
	Failed = "failed"
)

// TableOf writes figures for a reader, each column as wide as it must be.
func TableOf(figures []Figure) string {
	lines := [][]string{{"scenario", "side", "figure", "median", "min", "max", "unit", "target", ""}}
	for _, f := range figures {
		if f.Verdict == Failed {
			lines = append(lines, []string{f.Scenario, f.Side, f.Name, "", "", "", "", "", "FAILED: " + FirstLine(f.Note)})
			continue
		}
		lines = append(lines, []string{f.Scenario, f.Side, f.Name, Short(f.Median), Short(f.Low), Short(f.High), f.Unit, f.Target, f.Verdict})
	}
	const firstNumber, lastNumber = 3, 5
	return Aligned(lines, firstNumber, lastNumber)
}

// Aligned makes each column as wide as it must be, those of numbers aligned to the right.
func Aligned(lines [][]string, firstNumber, lastNumber int) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i >= firstNumber && i <= lastNumber:
				out.WriteString(padding + cell + "  ")
			case i == len(line)-1:
				out.WriteString(cell + "\n")
			default:
				out.WriteString(cell + padding + "  ")
			}
		}
	}
	return out.String()
}

// FirstLine cuts a text at its first end of line.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Short is a number as tables have it.
func Short(v float64) string { return fmt.Sprintf("%.4g", v) }

// Verdicts counts what has a target.
func Verdicts(figures []Figure) string {
	count := map[string]int{}
	for _, f := range figures {
		count[f.Verdict]++
	}
	return fmt.Sprintf("%d targets met, %d missed, %d scenarios failed", count[Met], count[Missed], count[Failed])
}
