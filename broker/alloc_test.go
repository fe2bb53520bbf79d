package broker

import (
	"io"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/invariants"
)

// TestDispatchAllocatesNothing is the budget from the socket to the socket: frames
// of an inline API whose reply is encoded by hand. Everything else in the process
// is quiet, so what is counted is dispatch (and netio below it). Not parallel.
func TestDispatchAllocatesNothing(t *testing.T) {
	skipUnderRace(t)
	if invariants.Enabled {
		t.Skip("checks of this build allocate")
	}
	c := dialRaw(t, serve(t, newImageBroker(t), nil))
	request := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1)
	c.write(request)
	first, err := c.frame()
	if err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 4+len(first))
	round := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, reply); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		round()
	}
	const rounds = 5000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	// Not 0: a garbage collection empties sync.Pool.
	if perRequest := float64(after.Mallocs-before.Mallocs) / rounds; perRequest > 0.5 {
		t.Errorf("%.3f allocations per request", perRequest)
	} else {
		t.Logf("%.4f allocations per request", perRequest)
	}
}
