package broker

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"kaas/logstore"
	"kaas/netio"
)

// What netio asks of ranges that have waited: the same question as a fetch asks, and a cold worker that reads.
func TestRangesThatHaveWaited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var asked atomic.Pointer[logstore.Slice]
	tb := newStoppedBroker(t, nil)
	tb.prepare = func(b *Broker) {
		b.data.resident = func(s *logstore.Slice) bool {
			asked.Store(s)
			return (*logstore.Slice).Resident(s)
		}
	}
	tb.start()
	r := netio.FileRange{FD: int(file.Fd()), Offset: 5_000, Len: 50_000}
	if !tb.Resident(r) {
		t.Error("bytes that were written just now are not in memory")
	}
	if s := asked.Load(); s == nil || s.FD != r.FD || s.Offset != r.Offset || s.Len != r.Len {
		t.Errorf("asked for %+v", s)
	}
	ready := make(chan struct{})
	tb.Populate(r, func() { close(ready) })
	<-ready
}
