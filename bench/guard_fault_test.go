//go:build guardtest

package bench

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuardCatches builds the broker with the tag guardtest, takes its rows as
// the baseline, and makes its hot path worse by one copy, one allocation and
// one system call a request. Each must move a row of its own, and without a
// fault nothing may. Not parallel: the fault goes by the environment.
func TestGuardCatches(t *testing.T) {
	dir := t.TempDir()
	build := func(name, tags, flags string) string {
		path := filepath.Join(dir, name)
		command := exec.Command("go", "build", "-trimpath", "-tags", tags, "-ldflags", flags, "-o", path, "../cmd/kaas")
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return path
	}
	o := guardOptions{Baseline: filepath.Join(dir, "guard.ndjson"), Reason: "the test's own",
		Instrumented: build("instrumented", "guardtest,valgrind", ""),
		options:      options{Broker: build("kaas", "guardtest", "-s -w"), DataParent: dir}}
	o.Only = "allocations|syscalls|instructions"
	if err := saveBaseline(o, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := checkAll(o, io.Discard); err != nil {
		t.Errorf("without a fault: %v", err)
	}
	for fault, want := range map[string]struct{ gate, words string }{
		"copy":       {"instructions", "instructions, produce and fetch, 64 KB"},
		"allocation": {"allocations", "allocations, produce, small: "},
		"syscall":    {"syscalls", "getppid"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Setenv("KAAS_GUARD_FAULT", fault)
			o := o
			o.Only = want.gate
			err := checkAll(o, io.Discard)
			if err == nil || !strings.Contains(err.Error(), want.words) {
				t.Errorf("the guard says: %v", err)
			} else {
				t.Log(err)
			}
		})
	}
}
