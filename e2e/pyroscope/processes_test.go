//go:build pyroscope

package pyroscope

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is what a variable names that make sets.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s must name a program; run the tests with `make pyroscope`", variable)
	}
	return path
}

// spawn starts a process in dir that ends with the test, or with this process.
func spawn(t *testing.T, dir, program string, arguments ...string) *tail {
	t.Helper()
	log := &tail{}
	command := exec.Command(program, arguments...)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // killed below
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("last words of %s:\n%s", program, log)
		}
	})
	return log
}

// freeAddresses are n addresses of this machine that nobody listens at.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer listener.Close()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	return port
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another process does; it fails after a long time only.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for !condition() {
		if time.Now().After(end) {
			t.Fatalf("not after a minute: %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tail keeps the last 64 KiB of a process' output.
type tail struct {
	mu   sync.Mutex
	kept bytes.Buffer // guarded by mu
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.kept.Write(p)
	if excess := w.kept.Len() - 64<<10; excess > 0 {
		w.kept.Next(excess)
	}
	return n, err
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept.String()
}
