package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program that was started.
type Process struct {
	Said  *Tail // both of its outputs
	run   *exec.Cmd
	ended chan struct{}
}

// Start starts a program in a directory ("": this one). It ends with [Process.Kill], or with this process.
func Start(dir, program string, arguments ...string) (*Process, error) {
	p := &Process{Said: &Tail{}, run: exec.Command(program, arguments...), ended: make(chan struct{})}
	p.run.Dir, p.run.Stdout, p.run.Stderr = dir, p.Said, p.Said
	p.run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.run.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.run.Wait() // it is killed
		close(p.ended)
	}()
	return p, nil
}

// Kill ends the program and waits until it is gone.
func (p *Process) Kill() {
	_ = p.run.Process.Kill() // it may have ended
	<-p.ended
}

// Loopback is the host of all programs that this process starts, and nobody else's: a port of 127.0.0.1 would be free for a moment
// only, since clients get theirs from the same range.
var Loopback = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))

// given are the addresses that FreeAddress returned, which it does once.
var given sync.Map

// FreeAddress is an address of [Loopback], host:port, that a program can listen on later.
func FreeAddress() (string, error) {
	for {
		listener, err := net.Listen("tcp", Loopback+":0")
		if err != nil {
			return "", err
		}
		address := listener.Addr().String()
		if err := listener.Close(); err != nil {
			return "", err
		}
		if _, twice := given.LoadOrStore(address, true); !twice {
			return address, nil
		}
	}
}

// Tail keeps the last 64 KiB that were written to it.
type Tail struct {
	mu   sync.Mutex
	kept []byte // guarded by mu
}

const tailBytes = 64 << 10

func (w *Tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, p...)
	if excess := len(w.kept) - tailBytes; excess > 0 {
		w.kept = append(w.kept[:0], w.kept[excess:]...)
	}
	return len(p), nil
}

func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.kept)
}

// Must fails the test for an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits for what another process does; it fails after a long time only.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for !condition() {
		if time.Now().After(end) {
			t.Fatalf("not after a minute: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
