//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestColdReadsStallNoLoop: while one client reads a backlog that is larger than the broker's memory, the kernel is asked for
// every sleep for a disk (uninterruptible, sched_switch) and every major fault of the broker, each with its stack. The cold
// workers have thousands of them; a network loop has none in what it does for a fetch, whatever the noise of the machine.
func TestColdReadsStallNoLoop(t *testing.T) {
	if *coldBacklog == 0 {
		t.Skip("a trace of the kernel: -cold.backlog=1000000000, as root, with perf")
	}
	b := startBroker(t)
	b.createTopic(t, "tail", 1, nil)
	b.createTopic(t, "cold", 1, map[string]*string{"segment.bytes": ptr("67108864")})
	fillBacklog(t, b, "cold", *coldBacklog)
	b.stop()
	forget(t, filepath.Join(b.logDir, "cold-0"))
	b.start()
	limitMemory(t, b.command.Process.Pid, *coldMemory)
	tail := &tailLatency{t: t, b: b}
	tail.start()
	for _, rate := range []int64{*coldRate, 1 << 40} {
		*coldRate = rate
		before := readFromDisks(t, b.command.Process.Pid)
		stop := readBacklog(t, b, "cold")
		stalls := stallsOf(t, b.command.Process.Pid, *coldFor)
		read := stop()
		disk := readFromDisks(t, b.command.Process.Pid) - before
		t.Logf("%d MB read, %d MB from the disk", read/1e6, disk/1e6)
		for _, what := range slices.Sorted(mapsKeys(stalls)) {
			t.Logf("%6d %s", stalls[what].n, what)
		}
		if disk < read/2 {
			t.Fatal("most of the backlog was in memory: nothing was tested")
		}
		if stalls["cold worker"].n < 20 { // one wait brings what the system reads ahead, megabytes
			t.Errorf("the cold workers waited %d times: the trace does not see them", stalls["cold worker"].n)
		}
		for what, s := range stalls {
			// Two of six phases met one and two waits, presumably a page evicted between a cold worker's look and the loop's sendmsg, so the
			// bar is not zero. It was 27 to 91 before the workers took all reads of a cold segment.
			if strings.HasPrefix(what, "LOOP") && s.n > 3 {
				t.Errorf("a network loop waited %d times for a disk in a fetch; one stack:\n%s", s.n, s.stack)
			}
		}
	}
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// forget has the system forget what it has in memory of files.
func forget(t *testing.T, directory string) {
	t.Helper()
	for _, name := range files(t, directory, "*") {
		f, err := os.Open(name)
		must(t, err)
		must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		must(t, f.Close())
	}
}

// stalls are sleeps and faults of one kind, with one of their stacks.
type stalls struct {
	n     int
	stack string
}

// stallsOf traces a process and sorts what it saw by who waited.
func stallsOf(t *testing.T, pid int, d time.Duration) map[string]stalls {
	t.Helper()
	data := filepath.Join(t.TempDir(), "perf.data")
	record := exec.Command("perf", "record", "-q", "-o", data, "-p", strconv.Itoa(pid), "-g", "-d", "-m", "1024",
		"-e", "sched:sched_switch", "--filter", "prev_state & 2", "-e", "major-faults", "-c", "1", "--", "sleep", strconv.Itoa(int(d.Seconds())))
	if out, err := record.CombinedOutput(); err != nil {
		t.Fatalf("perf record (Debian: apt-get install linux-perf; as root): %v\n%s", err, out)
	}
	out, err := exec.Command("perf", "script", "-i", data, "-F", "event,addr,ip").Output()
	must(t, err)
	functions, loaded := functionsOf(t, fmt.Sprintf("/proc/%d/exe", pid))
	found := map[string]stalls{}
	for _, sample := range bytes.Split(out, []byte("\n\n")) {
		lines := bufio.NewScanner(bytes.NewReader(sample))
		var event string
		var stack []string
		for lines.Scan() {
			line := strings.TrimSpace(lines.Text())
			if address, err := strconv.ParseUint(line, 16, 64); err == nil && event != "" {
				if f := functions.PCToFunc(address + loaded); f != nil {
					stack = append(stack, f.Name)
				}
			} else if line != "" {
				event = line
			}
		}
		if event == "" {
			continue
		}
		who := whoWaits(strings.Join(stack, "\n"))
		s := found[who]
		found[who] = stalls{s.n + 1, event + "\n" + strings.Join(stack, "\n")}
	}
	return found
}

func whoWaits(stack string) string {
	has := func(part string) bool { return strings.Contains(stack, part) }
	switch {
	case has("gnet/v2.(*eventloop)") && (has("etchOperation") || has("(*outbound)") || has("sendmsg") || has("sendfile") || has("endFile")):
		return "LOOP, fetch"
	case has("gnet/v2.(*eventloop)"):
		return "loop, else"
	case has("runCold"):
		return "cold worker"
	case has("groupcommit") || has("commitJournal") || has("Datasync") || has("SyncDir"):
		return "commit, write-back"
	case stack == "":
		return "runtime"
	}
	return "other: " + strings.SplitN(stack, "\n", 2)[0]
}

// functionsOf reads the table of functions that every Go program has, stripped or not. loaded is what an address has more than
// its place in the file, which is what perf prints.
func functionsOf(t *testing.T, executable string) (functions *gosym.Table, loaded uint64) {
	t.Helper()
	f, err := elf.Open(executable)
	must(t, err)
	defer f.Close()
	table, err := f.Section(".gopclntab").Data()
	must(t, err)
	text := f.Section(".text").Addr
	symbols, _ := f.Symbols() // none when it is stripped; then nothing of C stands before Go's text
	for _, s := range symbols {
		if s.Name == "runtime.text" {
			text = s.Value
		}
	}
	functions, err = gosym.NewTable(nil, gosym.NewLineTable(table, text))
	must(t, err)
	if functions.LookupFunc("main.main") == nil {
		t.Fatalf("%s has no table of functions", executable)
	}
	section := f.Section(".text")
	return functions, section.Addr - section.Offset
}
