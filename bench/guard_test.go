package bench

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJudgeFailsOnlyWhatIsWorse(t *testing.T) {
	t.Parallel()
	baseline := []guardRow{
		{Row: "a", Value: 100, Commit: "c0ffee", Detail: map[string]float64{"read": 1}},
		{Row: "zero", Value: 0},
	}
	for _, c := range []struct {
		row   guardRow
		worse bool
		words string
	}{
		{guardRow{Row: "a", Value: 103}, false, ""},
		{guardRow{Row: "a", Value: 103.1, Detail: map[string]float64{"read": 2, "getppid": 1.5}}, true, "c0ffee (+3.1 %), tolerated up to 103: getppid 0 → 1.5, read 1 → 2"},
		{guardRow{Row: "a", Value: 1}, false, ""}, // an improvement never fails, but is said
		{guardRow{Row: "zero", Value: 0.1}, false, ""},
		{guardRow{Row: "zero", Value: 0.11}, true, "tolerated"},
		{guardRow{Row: "a", Value: 50, Most: 40}, true, "whatever the baseline"},
		{guardRow{Row: "unknown", Value: 1}, true, "no baseline"},
	} {
		if c.row.Relative, c.row.Absolute = 0.02, 1; c.row.Row == "zero" {
			c.row.Relative, c.row.Absolute = 0, 0.1
		}
		v := judge([]guardRow{c.row}, baseline)[0]
		if v.worse != c.worse || !strings.Contains(v.why, c.words) {
			t.Errorf("%+v: worse %v, %q", c.row, v.worse, v.why)
		}
	}
}

// A row that has become better is guarded by its new value only with a new baseline: the table says where.
func TestJudgeSaysWhereABaselineIsSlack(t *testing.T) {
	t.Parallel()
	baseline := []guardRow{{Row: "a", Value: 100, Relative: 9}} // tolerances are those of what is measured
	for _, c := range []struct {
		row   guardRow
		slack bool
	}{
		{guardRow{Row: "a", Value: 97, Relative: 0.02, Absolute: 1}, false},
		{guardRow{Row: "a", Value: 96.9, Relative: 0.02, Absolute: 1}, true},
		{guardRow{Row: "a", Value: 90, baseline: 99, Relative: 0.02, Absolute: 1}, false}, // only the low end of an interval lies below
	} {
		var out bytes.Buffer
		worse := verdictTable(&out, judge([]guardRow{c.row}, baseline))
		if len(worse) > 0 || strings.Contains(out.String(), "better:") != c.slack {
			t.Errorf("%+v: %q %s", c.row, worse, &out)
		}
	}
}

func TestBaselineKeepsRowsThatWereNotMeasured(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "guard.ndjson")
	for _, rows := range [][]guardRow{{{Row: "a", Value: 1}, {Row: "b", Value: 2}}, {{Row: "b", Value: 3}, {Row: "c", Value: 4}}} {
		if err := writeBaseline(path, rows); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := readBaseline(path)
	if err != nil || len(rows) != 3 || rows[0].Value != 1 || rows[1].Value != 3 || rows[2].Value != 4 {
		t.Errorf("%v %v", rows, err)
	}
	if err := os.WriteFile(path, []byte("{}\nno\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readBaseline(path); err == nil || !strings.Contains(err.Error(), "guard.ndjson:2") {
		t.Errorf("a broken line: %v", err)
	}
	var out bytes.Buffer
	if err := saveBaseline(guardOptions{}, &out); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("without a reason: %v", err)
	}
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	if low, high := bootstrap([]float64{2, 2, 2}, 0.95); low != 2 || high != 2 {
		t.Errorf("%v %v", low, high)
	}
	if low, high := bootstrap([]float64{1, 2, 3, 4, 5, 6, 7, 8}, 0.95); low < 1 || low > 3.5 || high < 5.5 || high > 8 {
		t.Errorf("%v %v", low, high)
	}
}

// What waits is no work of a request.
func TestIdle(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"runtime.mcall": true, "runtime.futexsleep": true, "runtime.memmove": false, "runtime.mallocgc": false, "kaas/netio.x": false} {
		if idle(name) != want {
			t.Errorf("%s", name)
		}
	}
}

// A call that comes with each request is counted exactly, what timers do is not, and neither are waits.
func TestRowsOfRequests(t *testing.T) {
	t.Parallel()
	rows := requestRows("produce", map[string]int64{"read": 1002, "pwrite64": 1000, "getppid": 250, "fcntl": 30, "openat": 14, "futex": 4000}, 1000)
	if len(rows) != 3 || math.Abs(rows[0].Value-2.252) > 1e-9 || rows[0].Detail["getppid"] != 0.25 || math.Abs(rows[1].Value-0.044) > 1e-9 || rows[2].Value != 4 {
		t.Errorf("%+v", rows)
	}
	base := []guardRow{{Row: rows[0].Row, Value: 2.002}, {Row: rows[1].Row}, {Row: rows[2].Row, Value: 1}}
	for i, v := range judge(rows, base) {
		if v.worse != (i == 0) { // a call for one in four requests
			t.Errorf("%s: %v", v.now.Row, v.why)
		}
	}
	if rows := volumeRows("follow", map[string]int64{"read": 10, "futex": 4}, 0.5); len(rows) != 2 || rows[0].Value != 20 || rows[1].Value != 8 {
		t.Errorf("%+v", rows)
	}
}
