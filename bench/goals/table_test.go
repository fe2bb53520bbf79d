package goals

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// echo is a row of one of the targets.
func echo(value float64) Figure {
	f := Figure{Scenario: "storm", Side: "kaas", Name: "requests per CPU second, ratio to a bare gnet echo", Unit: "1", Median: value, Low: value, High: value, Values: []float64{value}, Target: "≥ 0.5", Verdict: Met}
	if value < 0.5 {
		f.Verdict = Missed
	}
	return f
}

// TestPieces: what was measured in pieces is one table, of each scenario its newest run, and a target without a row says so.
func TestPieces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(commit, at string, figures ...Figure) {
		t.Helper()
		file, err := os.OpenFile(filepath.Join(dir, at[:10]+".ndjson"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range figures {
			if err := json.NewEncoder(file).Encode(Line{Header{Time: at, Commit: commit, Host: Host{Load1: 0.3}}, f}); err != nil {
				t.Fatal(err)
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	failure := func(scenario, why string) Figure {
		return Figure{Scenario: scenario, Side: "kaas", Name: "not measured", Verdict: Failed, Note: why}
	}
	run("aaaa", "2026-01-01T10:00:00Z", echo(0.4), Figure{Scenario: "storm", Side: "kaas", Name: "a row that is measured no more", Values: []float64{1}})
	run("bbbb", "2026-01-01T12:00:00Z", echo(0.6))
	run("bbbb", "2026-01-01T11:00:00Z", echo(0.5)) // began before and ended after the one that counts
	run("bbbb", "2026-01-02T09:00:00Z", failure("drain", "the disk is gone\nand more"))
	run("bbbb", "2026-01-02T09:30:00Z", failure("bytes", "no space"))
	for _, c := range []struct {
		commit string
		since  time.Time
		want   []string
		not    string
	}{
		{"", time.Time{}, []string{"0.6", "met", "bbbb", "drain: the disk is gone", "bytes: no space", "not measured", "1 rows of targets met, 0 missed, 5 failed, "}, "no more"},
		{"aa", time.Time{}, []string{"0.4", "missed", "no more"}, "drain: "},
		{"", time.Date(2026, 1, 1, 11, 30, 0, 0, time.UTC), []string{"0.6"}, "0.4"},
	} {
		lines, err := readResults(dir, c.commit, c.since)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		writeTable(&out, lines, true)
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%+v: no %q in\n%s", c, want, &out)
			}
		}
		if strings.Contains(out.String(), c.not) {
			t.Errorf("%+v: %q in\n%s", c, c.not, &out)
		}
	}
}

// TestVerdictsOfADocument: the table replaces the one that stands there, and nothing else.
func TestVerdictsOfADocument(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "doc.md")
	lines := []Line{{Header{Commit: "c0ffee", Host: Host{CPU: "a processor", Cores: 2}}, echo(0.6)}}
	for _, old := range []string{"", "| old |\n"} {
		if err := os.WriteFile(path, []byte("before\n"+verdictsBegin+"\n"+old+verdictsEnd+"\nafter\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := writeInto(path, lines); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), "before\n") || !strings.HasSuffix(string(text), "\nafter\n") || strings.Contains(string(text), "old") ||
			!strings.Contains(string(text), "| 0.6 | 0.6 | 0.6 | 1 | 1 | met | c0ffee |") || !strings.Contains(string(text), "a processor, 2 cores") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeInto(path, lines); err == nil || !strings.Contains(err.Error(), "--into") {
		t.Error(err)
	}
}
