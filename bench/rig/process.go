package rig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a child under measurement. Everything is read from outside, so
// that measuring costs it nothing; its fields belong to the run's goroutine.
type Process struct {
	Command *exec.Cmd
	Started time.Time
	Output  *LockedBuffer
	Exited  chan struct{}
}

// LockedBuffer collects a child's words for the error that may need them.
type LockedBuffer struct {
	mu   sync.Mutex
	kept bytes.Buffer // guarded by mu
}

func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.kept.Len() > 64<<10 {
		b.kept.Reset()
	}
	return b.kept.Write(p)
}

func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}

// starter is a thread that lives as long as this process. A child's death
// signal is sent when the thread that started it ends, and a thread ends with
// its goroutine when that has locked it, as the senders of paced loads do.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range work {
			start()
		}
	}()
	return work
})

// StartProcess starts a child that dies with this process.
func StartProcess(name string, arguments ...string) (*Process, error) {
	p := &Process{Command: exec.Command(name, arguments...), Output: &LockedBuffer{}, Exited: make(chan struct{})}
	p.Command.Stdout, p.Command.Stderr = p.Output, p.Output
	p.Command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Command.WaitDelay = 5 * time.Second // a grandchild may keep the pipes open
	started := make(chan error, 1)
	starter() <- func() {
		p.Started = time.Now()
		started <- p.Command.Start()
	}
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		_ = p.Command.Wait() // how it ended is in ProcessState
		close(p.Exited)
	}()
	return p, nil
}

// Watch makes p a process that another has started; it is only looked at.
func (p *Process) Watch(other *os.Process) { p.Command = &exec.Cmd{Process: other} }

// Stop ends the child, by force if it does not go within ten seconds.
func (p *Process) Stop() {
	_ = p.Command.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-p.Exited:
	case <-time.After(10 * time.Second):
		_ = p.Command.Process.Kill()
		<-p.Exited
	}
}

// AwaitListening waits until the child accepts connections.
func (p *Process) AwaitListening(address string) error {
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.Exited:
			return fmt.Errorf("%s ended at its start: %s", p.Command.Path, p.Output)
		case <-time.After(200 * time.Microsecond):
		}
		if time.Since(p.Started) > Patience {
			return fmt.Errorf("%s does not listen on %s: %w\n%s", p.Command.Path, address, err, p.Output)
		}
	}
}

// CPU is processor time of a child, all its threads together. total is exact;
// the kernel splits it into user and system in ticks of 10 ms.
type CPU struct{ Total, User, System time.Duration }

func (c CPU) Since(before CPU) CPU {
	return CPU{c.Total - before.Total, c.User - before.User, c.System - before.System}
}

func (p *Process) CPU() (c CPU, err error) {
	pid := p.Command.Process.Pid
	// The processor clock of another process: its id inverted, in nanoseconds
	// of the scheduler (CPUCLOCK_SCHED, clock_getcpuclockid(3)).
	const schedulerClock = 2
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedulerClock), &now); err != nil {
		return c, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	c.Total = time.Duration(now.Nano())
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
	c.User, c.System = time.Duration(user)*10*time.Millisecond, time.Duration(system)*10*time.Millisecond
	return c, errors.Join(err1, err2)
}

// Memory returns the resident memory in bytes: all of it, and the part that
// is not a view of a file (mapped segments count in the first only).
func (p *Process) Memory() (resident, anonymous int64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Command.Process.Pid))
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

// Mallocs reads how many objects the broker has allocated since its start.
func Mallocs(httpAddress string) (int64, error) {
	return Metric(httpAddress, "go_memstats_mallocs_total")
}

// Metric is the value of a metric without labels.
func Metric(httpAddress, name string) (int64, error) {
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
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n), err
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}

// WarmMemory touches so much memory and gives it back, at once before a run.
// In a virtual machine, free pages may belong to the host: the first write to
// each costs the writer several times what it costs on pages that the guest
// holds, and a run would measure the host.
func WarmMemory(size int64) error {
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

// FreeAddress is an address that a child can listen on later. Its host is nobody else's:
// the port would be free at this moment only, since clients of 127.0.0.1 get theirs from
// the same range.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// Written is how many bytes the child has made dirty or sent to disks.
func (p *Process) Written() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.Command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("/proc/PID/io has no write_bytes")
}

// Kill ends the child as a crash does.
func (p *Process) Kill() {
	_ = p.Command.Process.Kill() // it may be gone already
	<-p.Exited
}

// Evict drops a directory's files from the page cache. Pages that a process
// has mapped stay, so whoever has them open should be gone.
func Evict(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		fd := int(file.Fd())
		return errors.Join(unix.Fdatasync(fd), unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED), file.Close())
	})
}
