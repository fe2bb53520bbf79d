package netio

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const descriptorsChild = "KAAS_NETIO_DESCRIPTORS_CHILD"

// A server that runs out of descriptors goes on serving those inside, and takes others when there is room again. It
// runs in a process of its own, whose limit it lowers.
func TestOutOfDescriptors(t *testing.T) {
	if os.Getenv(descriptorsChild) != "" {
		serveWithFewDescriptors(t)
		return
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run", "^TestOutOfDescriptors$", "-test.v")
	child.Env = append(os.Environ(), descriptorsChild+"=1")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close() // the child ends
		if err := child.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
	}()
	addr := ""
	lines := bufio.NewScanner(stdout)
	for addr == "" && lines.Scan() {
		fmt.Sscanf(lines.Text(), "serving on %s", &addr)
	}
	go io.Copy(io.Discard, stdout)
	inside := dial(t, addr)
	ask := func(c net.Conn) bool {
		c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		if _, err := c.Write(frameOf([]byte("?"))); err != nil {
			return false
		}
		_, err := io.ReadFull(c, make([]byte, 5))
		return err == nil
	}
	await(t, "the first is served", func() bool { return ask(inside) })
	var crowd []net.Conn
	outside := 0
	for range 40 {
		c := dial(t, addr)
		crowd = append(crowd, c)
		if outside < 3 && !ask(c) {
			outside++
		}
	}
	if outside == 0 {
		t.Error("all connections were served: the limit was not reached, the test shows nothing")
	}
	await(t, "the first is still served", func() bool { return ask(inside) })
	for _, c := range crowd {
		c.Close()
	}
	await(t, "new ones are served again", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		return ask(c)
	})
}

func serveWithFewDescriptors(t *testing.T) {
	_, addr := startServer(t, &testHandler{frame: echo}, nil)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: uint64(len(open) + 12), Max: uint64(len(open) + 12)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nserving on %s\n", addr)
	io.Copy(io.Discard, os.Stdin)
}
