package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"kaas/bench/baseline"
)

// The regression guard compares what it measures with a committed baseline.
// Its rows are counts that other work on the machine does not change, and one
// ratio of times, which comes with an interval and is judged by the end of it
// that speaks for the broker. It fails when a row is worse than its baseline
// by more than the row's tolerance, and never when a row is better.

// guardRow is one measured row, and one line of the baselines.
type guardRow = baseline.Row

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
	base, err := baseline.Read(o.Baseline)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	r, err := newRow(o.DataParent)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "now: "+r.about())
	if worse := baseline.Table(out, baseline.Judge(rows, base)); len(worse) > 0 {
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
		if rows[i].Typical != 0 {
			rows[i].Value = rows[i].Typical
		}
	}
	old, err := baseline.Read(o.Baseline)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	baseline.Table(out, baseline.Judge(rows, old))
	if err := baseline.Write(o.Baseline, rows); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d rows were written to %s: commit it, with the reason\n", len(rows), o.Baseline)
	return nil
}
