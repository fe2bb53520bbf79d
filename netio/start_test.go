package netio

import (
	"context"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestStartErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free := Listener{Name: "FREE", Address: "127.0.0.1:0"}
	for what, test := range map[string]struct {
		config Config
		says   string
	}{
		"no handler":     {Config{Listeners: []Listener{free}}, "no handler"},
		"no listener":    {Config{Handler: &testHandler{}}, "no listener"},
		"port taken":     {Config{Handler: &testHandler{}, Listeners: []Listener{free, {Name: "TAKEN", Address: taken.Addr().String()}}}, "listener TAKEN: listen tcp " + taken.Addr().String()},
		"name twice":     {Config{Handler: &testHandler{}, Listeners: []Listener{free, free}}, "listener FREE is configured twice"},
		"no such net":    {Config{Handler: &testHandler{}, Listeners: []Listener{{Name: "UDP", Network: "udp", Address: "127.0.0.1:0"}}}, "listener UDP"},
		"unix":           {Config{Handler: &testHandler{}, Listeners: []Listener{{Name: "UNIX", Network: "unix", Address: t.TempDir() + "/socket"}}}, "only tcp, tcp4 and tcp6"},
		"no such host":   {Config{Handler: &testHandler{}, Listeners: []Listener{{Name: "HOST", Address: "256.1.1.1:0"}}}, "listener HOST"},
		"port too large": {Config{Handler: &testHandler{}, Listeners: []Listener{{Name: "PORT", Address: "127.0.0.1:99999"}}}, "listener PORT"},
	} {
		s, err := Start(test.config)
		if err == nil {
			s.Close(context.Background())
			t.Errorf("%s: started", what)
		} else if !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: the error is %q, want one that says %q", what, err, test.says)
		}
	}
}

// A server that closes gives everything back. Not parallel: it counts the descriptors of the process.
func TestCloseLeavesNoDescriptors(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	cycle := func() {
		s, err := Start(Config{Handler: &testHandler{frame: echo}, Listeners: []Listener{{Name: "A", Address: "127.0.0.1:0"}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", s.Addrs()["A"].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		send(t, c, frameOf([]byte("x")))
		receiveFrame(t, c)
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	before := open()
	for range 5 {
		cycle()
	}
	// A loop's eventfd is closed when the collector has found the loop: late replies may still want to wake it.
	await(t, "the descriptors are closed", func() bool { runtime.GC(); return open() <= before })
}
