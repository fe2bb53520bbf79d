package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kaas/bench/rig"
)

// traced counts the system calls of all threads of a subject while work runs.
func traced(s *subject, work func() error) (map[string]int64, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, errors.New("strace is not installed, and system calls are counted with it; install it with: apt-get install strace")
	}
	summary := filepath.Join(s.dir, "strace")
	tracer, err := rig.StartProcess("strace", "-c", "-f", "-o", summary, "-p", strconv.Itoa(s.Command.Process.Pid))
	if err != nil {
		return nil, err
	}
	for !strings.Contains(tracer.Output.String(), "attached") {
		select {
		case <-tracer.Exited:
			return nil, fmt.Errorf("strace may not attach to the broker, so system calls cannot be counted: %s(ptrace must be allowed: root or CAP_SYS_PTRACE, /proc/sys/kernel/yama/ptrace_scope, the container's seccomp profile)", tracer.Output)
		case <-time.After(time.Millisecond):
		}
	}
	err = work()
	_ = tracer.Command.Process.Signal(syscall.SIGINT) // it detaches, and writes its summary
	select {
	case <-tracer.Exited:
	case <-time.After(rig.Patience):
		tracer.Stop()
		err = errors.Join(err, errors.New("strace does not detach"))
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(summary)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	calls := map[string]int64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// % time, seconds, usecs/call, calls, errors (may be empty), name
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || fields[len(fields)-1] == "total" {
			continue
		}
		if n, err := strconv.ParseInt(fields[3], 10, 64); err == nil {
			calls[fields[len(fields)-1]] = n
		}
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("strace has counted nothing: %s", tracer.Output)
	}
	return calls, nil
}

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
	return readCachegrind(out)
}

// readCachegrind sums a cachegrind.out file by function. Its lines: fl=FILE,
// fn=FUNCTION, then LINE COUNT for each line of the source.
func readCachegrind(path string) (map[string]int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("valgrind has left no counts: %w", err)
	}
	defer file.Close()
	counts, function := map[string]int64{}, ""
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "fn="); ok {
			function = name
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 || line[0] < '0' || line[0] > '9' {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		counts[function] += n
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("%s holds no counts", path)
	}
	return counts, lines.Err()
}
