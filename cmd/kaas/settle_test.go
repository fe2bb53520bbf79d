package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// statusKiB is one number of /proc/PID/status.
func statusKiB(t *testing.T, pid int, name string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib
		}
	}
	t.Skipf("this kernel does not say %s", name)
	return 0
}

// TestSettles: a moment after the start, what only the start has needed of the
// program's file is not resident any more.
func TestSettles(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts()...)
	p.awaitReady()
	image, err := os.Stat(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	// At the line ready it is about half of a binary with its debugging information.
	await(t, "the pages of the start to be given back", func() bool {
		return statusKiB(t, p.cmd.Process.Pid, "RssFile") < int(image.Size()>>10)/4
	})
}
