package baseline

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJudgeFailsOnlyWhatIsWorse(t *testing.T) {
	t.Parallel()
	baseline := []Row{
		{Row: "a", Value: 100, Commit: "c0ffee", Detail: map[string]float64{"read": 1}},
		{Row: "zero", Value: 0},
	}
	for _, c := range []struct {
		row   Row
		worse bool
		words string
	}{
		{Row{Row: "a", Value: 103}, false, ""},
		{Row{Row: "a", Value: 103.1, Detail: map[string]float64{"read": 2, "getppid": 1.5}}, true, "c0ffee (+3.1 %), tolerated up to 103: getppid 0 → 1.5, read 1 → 2"},
		{Row{Row: "a", Value: 1}, false, ""}, // an improvement never fails, but is said
		{Row{Row: "zero", Value: 0.1}, false, ""},
		{Row{Row: "zero", Value: 0.11}, true, "tolerated"},
		{Row{Row: "a", Value: 50, Most: 40}, true, "whatever the baseline"},
		{Row{Row: "unknown", Value: 1}, true, "no baseline"},
	} {
		if c.row.Relative, c.row.Absolute = 0.02, 1; c.row.Row == "zero" {
			c.row.Relative, c.row.Absolute = 0, 0.1
		}
		v := Judge([]Row{c.row}, baseline)[0]
		if v.worse != c.worse || !strings.Contains(v.why, c.words) {
			t.Errorf("%+v: worse %v, %q", c.row, v.worse, v.why)
		}
	}
}

// A row that has become better is guarded by its new value only with a new baseline: the table says where.
func TestJudgeSaysWhereABaselineIsSlack(t *testing.T) {
	t.Parallel()
	baseline := []Row{{Row: "a", Value: 100, Relative: 9}} // tolerances are those of what is measured
	for _, c := range []struct {
		row   Row
		slack bool
	}{
		{Row{Row: "a", Value: 97, Relative: 0.02, Absolute: 1}, false},
		{Row{Row: "a", Value: 96.9, Relative: 0.02, Absolute: 1}, true},
		{Row{Row: "a", Value: 90, Typical: 99, Relative: 0.02, Absolute: 1}, false}, // only the low end of an interval lies below
	} {
		var out bytes.Buffer
		worse := Table(&out, Judge([]Row{c.row}, baseline))
		if len(worse) > 0 || strings.Contains(out.String(), "better:") != c.slack {
			t.Errorf("%+v: %q %s", c.row, worse, &out)
		}
	}
}

func TestBaselineKeepsRowsThatWereNotMeasured(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "guard.ndjson")
	for _, rows := range [][]Row{{{Row: "a", Value: 1}, {Row: "b", Value: 2}}, {{Row: "b", Value: 3}, {Row: "c", Value: 4}}} {
		if err := Write(path, rows); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := Read(path)
	if err != nil || len(rows) != 3 || rows[0].Value != 1 || rows[1].Value != 3 || rows[2].Value != 4 {
		t.Errorf("%v %v", rows, err)
	}
	if err := os.WriteFile(path, []byte("{}\nno\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "guard.ndjson:2") {
		t.Errorf("a broken line: %v", err)
	}
}
