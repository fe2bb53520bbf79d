package rig

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Traced counts the system calls of all threads of a child while work runs; dir is for scratch.
func (p *Process) Traced(dir string, work func() error) (map[string]int64, error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return nil, errors.New("strace is not installed, and system calls are counted with it; install it with: apt-get install strace")
	}
	summary := filepath.Join(dir, "strace")
	tracer, err := StartProcess("strace", "-c", "-f", "-o", summary, "-p", strconv.Itoa(p.Command.Process.Pid))
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
	case <-time.After(Patience):
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

// ReadCachegrind sums a cachegrind.out file by function. Its lines: fl=FILE,
// fn=FUNCTION, then LINE COUNT for each line of the source.
func ReadCachegrind(path string) (map[string]int64, error) {
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
