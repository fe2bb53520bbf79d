package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kaas/bench/rig"
)

// instructionGate counts the instructions of a request: cachegrind counts
// those of two runs that differ in nothing but the number of requests. It is
// cachegrind without its cache model and not callgrind, because callgrind
// follows calls by the stack pointer, and a goroutine switch is none. Waiting
// (the scheduler's spinning, the collector's idle work) is left out by
// function, since it depends on time.
func instructionGate(o guardOptions) (rows []guardRow, err error) {
	if _, err := exec.LookPath("valgrind"); err != nil {
		return nil, errors.New("valgrind is not installed, and instructions are counted with it; install it with: apt-get install valgrind")
	}
	const times = 1000
	base, err := instructions(o, -1, 0)
	if err != nil {
		return nil, err
	}
	for number, p := range pacedLoads[:2] { // the third waits for the disk
		counts, err := instructions(o, number, times)
		if err != nil {
			return nil, err
		}
		row := guardRow{Row: "instructions, produce and fetch, " + p.name, Unit: "instructions/request pair", Relative: 0.03, Detail: map[string]float64{}}
		for function, n := range counts {
			if idle(function) {
				continue
			}
			each := float64(n-base[function]) / times
			row.Value += each
			if each >= 20 {
				row.Detail[function] = float64(int64(each))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// idle tells whether a function's instructions depend on how long a thread
// had nothing to do.
func idle(function string) bool {
	if !strings.HasPrefix(function, "runtime.") && !strings.HasPrefix(function, "internal/runtime/") {
		return false
	}
	// What a request does to memory is the request's own.
	return !slices.ContainsFunc([]string{"runtime.mallocgc", "runtime.mem", "runtime.growslice", "runtime.makeslice", "runtime.newobject", "runtime.typedmem", "runtime.convT", "runtime.slicebytetostring",
		"runtime.duff", "runtime.nextFree", "runtime.map", "internal/runtime/maps", "runtime.concat", "runtime.rawstring"}, func(prefix string) bool {
		return strings.HasPrefix(function, prefix)
	})
}

// instructions runs a broker under cachegrind and returns the instructions of
// each function after some produce-fetch pairs of one paced load.
func instructions(o guardOptions, which, times int) (counts map[string]int64, err error) {
	dir, err := os.MkdirTemp(o.DataParent, "kaas-bench-instructions-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out := filepath.Join(dir, "cachegrind")
	o.Broker = o.Instrumented
	// One processor and no preemption by signals: fewer paths that depend on time.
	o.Prefix = []string{"env", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOGC=off", "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=" + out}
	s, err := startBroker(o.options, rig.CostOfAByte(1))
	if err != nil {
		return nil, err
	}
	run := func() error {
		for number, p := range pacedLoads[:2] {
			c, err := p.connect(s, number)
			if err != nil {
				return err
			}
			more := 0
			if number == which {
				more = times
			}
			if err := errors.Join(c.Both(50+more), c.Close()); err != nil {
				return err
			}
		}
		return nil
	}
	if err = run(); err != nil {
		err = fmt.Errorf("%w\n%s", err, s.Output)
	}
	if err := errors.Join(err, s.close()); err != nil {
		return nil, err
	}
	return rig.ReadCachegrind(out)
}
