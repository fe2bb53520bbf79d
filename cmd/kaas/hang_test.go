package main

import (
	"context"
	"encoding/binary"
	"flag"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
	"kaas/obs"
)

// hangingResources is a store whose disk has stopped answering: reads come from
// memory, as always; writes wait until it answers again.
type hangingResources struct {
	meta.ResourceStore
	mu       sync.Mutex
	hangs    chan struct{} // closed when the disk answers; nil: it does
	arrivals chan struct{} // one for each write that hangs
}

func (h *hangingResources) wait(ctx context.Context) error {
	h.mu.Lock()
	hangs := h.hangs
	h.mu.Unlock()
	if hangs == nil {
		return nil
	}
	h.arrivals <- struct{}{}
	select {
	case <-hangs:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hangingResources) hang(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if on {
		h.hangs = make(chan struct{})
		return
	}
	if h.hangs != nil {
		close(h.hangs)
		h.hangs = nil
	}
}

func (h *hangingResources) Create(ctx context.Context, object meta.Object) (meta.Object, error) {
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.ResourceStore.Create(ctx, object)
}

// wireConn is a connection without a client library: it sees the order of replies.
type wireConn struct {
	net.Conn
	t *testing.T
}

func dialWire(t *testing.T, address string) *wireConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &wireConn{c, t}
}

func (c *wireConn) send(request kmsg.Request, version int16, correlation int32) {
	c.t.Helper()
	request.SetVersion(version)
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("hang")).AppendRequest(nil, request, correlation)); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the correlation id of the next reply and its body (header v0).
func (c *wireConn) receive() (int32, []byte) {
	c.t.Helper()
	var length [4]byte
	if err := c.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, length[:]); err != nil {
		c.t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		c.t.Fatal(err)
	}
	return int32(binary.BigEndian.Uint32(frame)), frame[4:]
}

func creationOf(name string) *kmsg.CreateTopicsRequest {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	request.Topics = append(request.Topics, topic)
	return request
}

func createdIn(t *testing.T, body []byte) *kmsg.CreateTopicsResponse {
	t.Helper()
	response := kmsg.NewPtrCreateTopicsResponse()
	response.SetVersion(4)
	if err := response.ReadFrom(body); err != nil || len(response.Topics) != 1 {
		t.Fatal(err, response)
	}
	return response
}

// roundTrips produces and fetches a record n times and returns how long each took.
func roundTrips(t *testing.T, client *kgo.Client, n int) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var took []time.Duration
	for range n {
		start := time.Now()
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "data", Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for got := 0; got == 0; {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err0(); err != nil {
				t.Fatal(err)
			}
			got = fetches.NumRecords()
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took
}

// hangFor makes TestStoreThatHangs measure under load, for that long with the store
// hanging, and for that long before and after it (make nightly).
var hangFor = flag.Duration("hang.for", 0, "how long the resource store hangs under load")

// produceFor is a load of four producers with acks=all, of one record each at least; it
// returns how long each record took, sorted.
func produceFor(t *testing.T, address string, length time.Duration) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	for range 4 {
		client, err := kgo.NewClient(kgo.SeedBrokers(address))
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer client.Close()
			var took []time.Duration
			for len(took) == 0 || ctx.Err() == nil {
				start := time.Now()
				if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "data", Value: make([]byte, 100)}).FirstErr(); err != nil {
					t.Error(err)
					break
				}
				took = append(took, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
		})
	}
	group.Wait()
	slices.Sort(all)
	return all
}

// A resource store that hangs leaves produce and fetch untouched; what is asked of
// it waits in order, what is too much is refused at once, and all goes on when it
// answers again.
func TestStoreThatHangs(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.LoadBroker(nil, nil, []string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=" + t.TempDir(), "http.address=", "admin.workers=2", "admin.queue.size=2"})
	if err != nil {
		t.Fatal(err)
	}
	store := &hangingResources{arrivals: make(chan struct{}, 64)}
	s, err := startWith(t.Context(), cfg, obs.Discard(), new(slog.LevelVar), func(inner meta.ResourceStore) meta.ResourceStore {
		store.ResourceStore = inner
		return store
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.stop(ctx); err != nil {
			t.Error(err)
		}
	})
	address := s.network.Addrs()["PLAINTEXT"].String()
	first := dialWire(t, address)
	first.send(creationOf("data"), 4, 1)
	if _, body := first.receive(); createdIn(t, body).Topics[0].ErrorCode != 0 {
		t.Fatal("the topic was not made")
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics("data"), kgo.FetchMaxWait(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const n = 100
	before := roundTrips(t, client, n)
	var free []time.Duration
	if *hangFor > 0 {
		free = produceFor(t, address, *hangFor)
	}

	store.hang(true)
	// Two workers hang in the store, two requests wait for a worker.
	var waiting []*wireConn
	for i := range 4 {
		c := dialWire(t, address)
		c.send(creationOf("hangs-"+string(rune('a'+i))), 4, 1)
		c.send(kmsg.NewPtrApiVersionsRequest(), 0, 2) // behind it, and done long before
		waiting = append(waiting, c)
		if i < 2 {
			<-store.arrivals
		}
	}
	awaitPool(t, s, 4)
	refused := dialWire(t, address)
	refused.send(creationOf("too-much"), 4, 7)
	correlation, body := refused.receive()
	response := createdIn(t, body)
	if correlation != 7 || response.Topics[0].ErrorCode != 89 || response.ThrottleMillis != limits.RefusedThrottleMs {
		t.Errorf("%d: %+v", correlation, response)
	}
	during := roundTrips(t, client, n)
	t.Logf("a record there and back: median %v before, %v while the store hangs; p99 %v and %v", before[n/2], during[n/2], before[n*99/100], during[n*99/100])
	// The machine may be busy; a round trip that waited for the store would not end.
	if during[n/2] > 10*before[n/2]+50*time.Millisecond {
		t.Errorf("median %v before, %v while the store hangs", before[n/2], during[n/2])
	}
	// A producer that is new asks for its id.
	if got := produceFor(t, address, 100*time.Millisecond); len(got) < 4 {
		t.Errorf("%d records of new producers", len(got))
	}
	if *hangFor > 0 {
		loaded := produceFor(t, address, *hangFor)
		store.hang(false)
		eventually(t, func() bool { return s.images.Load().Topic("hangs-d") != nil })
		again := produceFor(t, address, *hangFor)
		p99 := func(took []time.Duration) time.Duration { return took[len(took)*99/100] }
		t.Logf("p99 of %d produces in %v: %v; of %d while the store hung: %v; of %d afterwards: %v",
			len(free), *hangFor, p99(free), len(loaded), p99(loaded), len(again), p99(again))
		if worse := max(p99(free), p99(again)); p99(loaded) > worse*5/4 {
			t.Errorf("p99 is %v while the store hangs, %v when it does not", p99(loaded), worse)
		}
	} else if got := s.admin.Pool().Waiting(); got != 4 {
		t.Errorf("%d admin requests wait", got)
	}

	store.hang(false)
	for _, c := range waiting {
		if correlation, body := c.receive(); correlation != 1 || createdIn(t, body).Topics[0].ErrorCode != 0 {
			t.Errorf("%d %v", correlation, createdIn(t, body).Topics[0])
		}
		if correlation, _ := c.receive(); correlation != 2 {
			t.Error(correlation)
		}
	}
	refused.send(creationOf("too-much"), 4, 8)
	if _, body := refused.receive(); createdIn(t, body).Topics[0].ErrorCode != 0 {
		t.Error("the refused one can't be made afterwards")
	}
}

// awaitPool waits until so many admin requests are accepted.
func awaitPool(t *testing.T, s *server, want int) {
	t.Helper()
	eventually(t, func() bool { return s.admin.Pool().Waiting() == want })
}

// eventually polls for what other goroutines do.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	await(t, "what was waited for", condition)
}
