//go:build pyroscope

package pyroscope

import (
	"net"
	"os"
	"testing"

	"kaas/e2e/process"
)

var must, eventually = process.Must, process.Eventually

// program is what a variable names that make sets.
func program(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s must name a program; run the tests with `make pyroscope`", variable)
	}
	return path
}

// spawn starts a process in dir that ends with the test.
func spawn(t *testing.T, dir, program string, arguments ...string) *process.Tail {
	t.Helper()
	p, err := process.Start(dir, program, arguments...)
	must(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("last words of %s:\n%s", program, p.Said)
		}
	})
	return p.Said
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := process.FreeAddress()
	must(t, err)
	return address
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	must(t, err)
	return port
}
