package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child under measurement. Everything is read from outside, so
// that measuring costs it nothing; its fields belong to the run's goroutine.
type process struct {
	command *exec.Cmd
	started time.Time
	output  *lockedBuffer
	exited  chan struct{}
}

// lockedBuffer collects a child's words for the error that may need them.
type lockedBuffer struct {
	mu   sync.Mutex
	kept bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.Len() > 64<<10 {
		b.kept.Reset()
	}
	return b.kept.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}

// startProcess starts a child that dies with this process.
func startProcess(name string, arguments ...string) (*process, error) {
	p := &process{command: exec.Command(name, arguments...), output: &lockedBuffer{}, exited: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = p.output, p.output
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.command.WaitDelay = 5 * time.Second // a grandchild may keep the pipes open
	p.started = time.Now()
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait() // how it ended is in ProcessState
		close(p.exited)
	}()
	return p, nil
}

// watch makes p a process that another has started; it is only looked at.
func (p *process) watch(other *os.Process) { p.command = &exec.Cmd{Process: other} }

// stop ends the child, by force if it does not go within ten seconds.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.command.Process.Kill()
		<-p.exited
	}
}

// awaitListening waits until the child accepts connections.
func (p *process) awaitListening(address string) error {
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended at its start: %s", p.command.Path, p.output)
		case <-time.After(200 * time.Microsecond):
		}
		if time.Since(p.started) > stalled {
			return fmt.Errorf("%s does not listen on %s: %w\n%s", p.command.Path, address, err, p.output)
		}
	}
}

// cpu is processor time of a child, all its threads together. total is exact;
// the kernel splits it into user and system in ticks of 10 ms.
type cpu struct{ total, user, system time.Duration }

func (c cpu) since(before cpu) cpu {
	return cpu{c.total - before.total, c.user - before.user, c.system - before.system}
}

func (p *process) cpu() (c cpu, err error) {
	pid := p.command.Process.Pid
	// The processor clock of another process: its id inverted, in nanoseconds
	// of the scheduler (CPUCLOCK_SCHED, clock_getcpuclockid(3)).
	const schedulerClock = 2
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedulerClock), &now); err != nil {
		return c, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	c.total = time.Duration(now.Nano())
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return c, err
	}
	// The name in parentheses may hold spaces; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return c, errors.New("/proc/PID/stat is short")
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	c.user, c.system = time.Duration(user)*10*time.Millisecond, time.Duration(system)*10*time.Millisecond
	return c, errors.Join(err1, err2)
}

// memory returns the resident memory in bytes: all of it, and the part that
// is not a view of a file (mapped segments count in the first only).
func (p *process) memory() (resident, anonymous int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, parseErr := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			resident, err = kib<<10, errors.Join(err, parseErr)
		case "RssAnon:":
			anonymous, err = kib<<10, errors.Join(err, parseErr)
		}
	}
	return resident, anonymous, err
}

// mallocs reads how many objects the broker has allocated since its start.
func mallocs(httpAddress string) (int64, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	response, err := client.Get("http://" + httpAddress + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "go_memstats_mallocs_total "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n), err
		}
	}
	return 0, errors.New("/metrics has no go_memstats_mallocs_total")
}

// warmMemory touches so much memory and gives it back, at once before a run.
// In a virtual machine, free pages may belong to the host: the first write to
// each costs the writer several times what it costs on pages that the guest
// holds, and a run would measure the host.
func warmMemory(size int64) error {
	const chunk = 256 << 20
	var chunks [][]byte
	defer func() {
		for _, c := range chunks {
			_ = unix.Munmap(c) // private and anonymous: nothing can be lost
		}
	}()
	for done := int64(0); done < size; done += chunk {
		c, err := unix.Mmap(-1, 0, chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return fmt.Errorf("touch %d bytes: %w", size, err)
		}
		chunks = append(chunks, c)
		for i := 0; i < len(c); i += 4096 {
			c[i] = 1
		}
	}
	return nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
