package bench

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"kaas/bench/baseline"
)

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
	for i, v := range baseline.Judge(rows, base) {
		if v.Worse() != (i == 0) { // a call for one in four requests
			t.Errorf("%s", v.Why())
		}
	}
	if rows := volumeRows("follow", map[string]int64{"read": 10, "futex": 4}, 0.5); len(rows) != 2 || rows[0].Value != 20 || rows[1].Value != 8 {
		t.Errorf("%+v", rows)
	}
}

// A new baseline says why.
func TestBaselineWithoutAReason(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := saveBaseline(guardOptions{}, &out); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("without a reason: %v", err)
	}
}
