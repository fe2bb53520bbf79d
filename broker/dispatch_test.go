package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/netio"
)

// listen puts a broker on a free port.
func listen(t testing.TB, b *Broker, logger *slog.Logger) *netio.Server {
	t.Helper()
	server, err := netio.Start(netio.Config{
		Listeners: []netio.Listener{{Name: "PLAINTEXT", Network: "tcp", Address: "127.0.0.1:0"}},
		Handler:   b, Logger: logger, NumNetworkThreads: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// serve is listen until the test ends.
func serve(t testing.TB, b *Broker, logger *slog.Logger) string {
	t.Helper()
	server := listen(t, b, logger)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return server.Addrs()["PLAINTEXT"].String()
}

// rawConn is a client that speaks frames.
type rawConn struct {
	net.Conn
	t testing.TB
}

func dialRaw(t testing.TB, address string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	raw := &rawConn{c, t}
	raw.bePatient()
	return raw
}

// bePatient ends what the client waits for when nothing moves for a long time.
func (c *rawConn) bePatient() {
	c.t.Helper()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawConn) send(request kmsg.Request, correlationID int32) {
	c.t.Helper()
	c.write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, correlationID))
}

func (c *rawConn) write(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads the next reply, which must be that of request.
func (c *rawConn) receive(request kmsg.Request, correlationID int32) kmsg.Response {
	c.t.Helper()
	c.bePatient()
	frame, err := c.frame()
	if err != nil {
		c.t.Fatalf("%s v%d: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	return parseReply[kmsg.Response](c.t, request, frame, correlationID)
}

func (c *rawConn) frame() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(c, frame)
	return frame, err
}

func apiVersions(version int16) *kmsg.ApiVersionsRequest {
	request := kmsg.NewPtrApiVersionsRequest()
	request.Version, request.ClientSoftwareName, request.ClientSoftwareVersion = version, "test", "1"
	return request
}

// logLines is a logger's output.
type logLines struct {
	mu    sync.Mutex
	lines bytes.Buffer // mu
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// TestMalformedClosesOnlyItsConnection: whatever a peer sends that is no request
// ends its connection with one log line, after the replies before it, and touches
// nobody else.
func TestMalformedClosesOnlyItsConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ frame, log string }{
		"http":                     {"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", ""},
		"negative length":          {"\xff\xff\xff\xff", ""},
		"unknown key":              {"\x00\x00\x00\x0c\x30\x39\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00", "API key 12345"},
		"version that is too new":  {"\x00\x00\x00\x0c\x00\x03\x03\xe7\x00\x00\x00\x01\x00\x00\x00\x00", "Metadata version 999"},
		"negative version":         {"\x00\x00\x00\x0c\x00\x03\xff\xff\x00\x00\x00\x01\x00\x00\x00\x00", "malformed"},
		"header cut off":           {"\x00\x00\x00\x02\x00\x03", "too few"},
		"client id beyond the end": {"\x00\x00\x00\x0c\x00\x03\x00\x01\x00\x00\x00\x01\x7f\xff\x00\x00", "client id"},
		"array of 2^31-1 topics":   {"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff", "Metadata v1"},
		"body cut off":             {"\x00\x00\x00\x0a\x00\x0a\x00\x00\x00\x00\x00\x01\x00\x00", "FindCoordinator v0"},
		"empty frame":              {"\x00\x00\x00\x00", "too few"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &logLines{}
			b := newImageBroker(t, topicOf("t", 1, 1))
			b.Logger = slog.New(slog.NewTextHandler(log, nil))
			address := serve(t, b, b.Logger)
			bystander, c1 := dialRaw(t, address), dialRaw(t, address)
			c1.send(apiVersions(3), 1)
			c1.receive(apiVersions(3), 1)
			c1.write([]byte(c.frame))
			if _, err := c1.frame(); !errors.Is(err, io.EOF) && !isReset(err) {
				t.Fatalf("the connection is not closed: %v", err)
			}
			bystander.send(metadataRequest(9, "t"), 7)
			if got := metadataSummary(bystander.receive(metadataRequest(9), 7).(*kmsg.MetadataResponse)); !slices.Equal(got, []string{"t 0 1"}) {
				t.Errorf("bystander: %q", got)
			}
			await(t, "the log line", func() bool { return strings.Count(log.String(), "\n") >= 1 })
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.log) {
				t.Errorf("log: %s", got)
			}
			await(t, "all reservations to be given back", func() bool { return b.dispatch.reservedBytes.Load() == 0 && b.dispatch.inFlight.Load() == 0 })
		})
	}
}

func isReset(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && strings.Contains(err.Error(), "reset")
}

// await polls for a condition that another goroutine brings about. Polls count, too: a
// machine that stood still has not waited.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for polls := 0; !condition(); polls++ {
		if polls > 2000 && time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// blockingCreator makes a topic when it is told to.
type blockingCreator struct {
	begun   chan string
	proceed chan struct{}
}

func (c *blockingCreator) EnsureTopic(ctx context.Context, name string, _ int32, _ map[string]string) error {
	c.begun <- name
	select {
	case <-c.proceed:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// TestRepliesKeepTheirOrder: a cheap request behind one that waits is handled at
// once and answered in turn.
func TestRepliesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	creator := &blockingCreator{begun: make(chan string), proceed: make(chan struct{})}
	b.TopicCreator = creator
	c := dialRaw(t, serve(t, b, nil))
	slow := metadataRequest(9, "new")
	slow.AllowAutoTopicCreation = true
	c.send(slow, 1)
	c.send(apiVersions(0), 2)
	c.send(metadataRequest(1), 3)
	if name := <-creator.begun; name != "new" {
		t.Errorf("creates %q", name)
	}
	await(t, "the requests behind to be done", func() bool { return b.dispatch.inFlight.Load() == 1 })
	close(creator.proceed)
	c.receive(slow, 1)
	c.receive(apiVersions(0), 2)
	c.receive(metadataRequest(1), 3)
}

// TestSessionKnowsItsAddresses: without advertised.listeners a client is told the
// address that it connected to.
func TestSessionKnowsItsAddresses(t *testing.T) {
	t.Parallel()
	address := serve(t, newImageBroker(t), nil)
	c := dialRaw(t, address)
	c.send(metadataRequest(4), 1)
	brokers := c.receive(metadataRequest(4), 1).(*kmsg.MetadataResponse).Brokers
	if len(brokers) != 1 || brokers[0].Host != "127.0.0.1" || net.JoinHostPort(brokers[0].Host, portText(brokers[0].Port)) != address {
		t.Errorf("%+v, want %s", brokers, address)
	}
}

func portText(port int32) string { return (&net.TCPAddr{Port: int(port)}).String()[1:] }

// TestEveryVersionOverTheNetwork sends the plainest request of each key in each
// version that is advertised: the reply is read by kmsg, nothing is left over, no
// tagged field stands there at its default, and the connection stays.
func TestEveryVersionOverTheNetwork(t *testing.T) {
	t.Parallel()
	tb := startBroker(t, nil)
	tb.createTopic("t", 1, nil)
	tb.createTopic(meta.ConsumerOffsetsTopic, 1, map[string]string{"cleanup.policy": "compact"})
	c := tb.dial()
	id := int32(0)
	registry := tb.registry.Load()
	for _, api := range registry.All() {
		for version := api.MinHandled(); version <= api.MaxVersion; version++ {
			request := kmsg.RequestForKey(api.Key)
			request.(interface{ Default() }).Default()
			request.SetVersion(version)
			switch m := request.(type) {
			case *kmsg.ApiVersionsRequest:
				m.ClientSoftwareName, m.ClientSoftwareVersion = "test", "1"
			case *kmsg.ProduceRequest:
				m.Acks = -1
			case *kmsg.MetadataRequest:
				m.Topics = metadataRequest(version, "t").Topics
			}
			id++
			c.send(request, id)
			c.receive(request, id)
		}
	}
	if id < 60 {
		t.Errorf("only %d versions are served", id)
	}
	await(t, "all reservations to be given back", func() bool { return tb.dispatch.reservedBytes.Load() == 0 && tb.dispatch.inFlight.Load() == 0 })
}

// TestPoolIsFull: with Refuse the client hears a retriable error and how long to
// wait; without it the connection is closed.
func TestPoolIsFull(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	b.Pool = fullPool{}
	address := serve(t, b, nil)
	c := dialRaw(t, address)
	request := kmsg.NewPtrInitProducerIDRequest()
	request.Version = 4
	c.send(request, 1)
	response := c.receive(request, 1).(*kmsg.InitProducerIDResponse)
	if response.ErrorCode != kerr.CoordinatorLoadInProgress.Code || response.ThrottleMillis != limits.RefusedThrottleMs {
		t.Errorf("%+v", response)
	}

	sink := newReplySink()
	api := &codec.API{Key: 3, Name: "Metadata"}
	b.refuse(codec.NewRequest(api, codec.Header{Key: 3}, nil, bufpool.Get(1), testSession(), sink, time.Time{}, nil), "worker pool")
	if sink.closed == nil || !strings.Contains(sink.closed.Error(), "worker pool") {
		t.Errorf("closed with %v", sink.closed)
	}
}

// TestMemoryOfRequestsIsBounded: what would go above the bound is refused before
// it is decoded, and gives back what it reserved.
func TestMemoryOfRequestsIsBounded(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t, topicOf("t", 1, 1))
	c := dialRaw(t, serve(t, b, nil))
	b.dispatch.reservedBytes.Store(limits.RequestMemoryBytes - 10)
	c.send(metadataRequest(9, "t"), 1)
	if _, err := c.frame(); !errors.Is(err, io.EOF) {
		t.Fatalf("not refused: %v", err)
	}
	await(t, "the reservation to be given back", func() bool { return b.dispatch.reservedBytes.Load() == limits.RequestMemoryBytes-10 })
	// Above half of it connections are paused, and go on afterwards.
	b.dispatch.reservedBytes.Store(limits.RequestMemoryBytes / 2)
	c = dialRaw(t, c.RemoteAddr().String())
	for id := range int32(5) {
		c.send(metadataRequest(9, "t"), id)
		c.receive(metadataRequest(9), id)
	}
}

// TestUnstableAPIs are served and advertised only when they are switched on.
func TestUnstableAPIs(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		b := newImageBroker(t)
		b.registry.Store(nil)
		b.Config.UnstableAPIVersionsEnable = enabled
		registry, err := codec.NewRegistry(b.apiVersionsAPI(), codec.API{Key: 47, Name: "OffsetDelete", Handle: func(*codec.Request) {}, Unstable: true})
		if err != nil {
			t.Fatal(err)
		}
		b.SetRegistry(registry)
		if got := b.registry.Load().Lookup(47) != nil; got != enabled {
			t.Errorf("enabled %v: served %v", enabled, got)
		}
		response := call[*kmsg.ApiVersionsResponse](t, b, testSession(), apiVersions(0))
		if got := len(response.ApiKeys) == 2; got != enabled {
			t.Errorf("enabled %v: %+v", enabled, response.ApiKeys)
		}
	}
}

// countingPool counts what it is given.
type countingPool struct{ submitted atomic.Int32 }

func (p *countingPool) Park(wait func()) { wait() }
func (p *countingPool) Submit(f func()) bool {
	p.submitted.Add(1)
	go f()
	return true
}

// TestLargeRequestsLeaveTheLoop, and are answered there when the pool is full.
func TestLargeRequestsLeaveTheLoop(t *testing.T) {
	t.Parallel()
	names := make([]string, 2*limits.InlineBodyBytes/8)
	for i := range names {
		names[i] = fmt.Sprintf("%08d", i)
	}
	for _, c := range []struct {
		names []string
		pool  Pool
		want  int32
	}{{names, &countingPool{}, 1}, {names[:10], &countingPool{}, 0}, {names, fullPool{}, 0}} {
		b := newImageBroker(t)
		b.Pool, b.Config.AutoCreateTopicsEnable = c.pool, false
		response := call[*kmsg.MetadataResponse](t, b, testSession(), metadataRequest(12, c.names...))
		if len(response.Topics) != len(c.names) {
			t.Errorf("%d topics, want %d", len(response.Topics), len(c.names))
		}
		if p, counting := c.pool.(*countingPool); counting && p.submitted.Load() != c.want {
			t.Errorf("%d names: %d on the pool, want %d", len(c.names), p.submitted.Load(), c.want)
		}
	}
}

// TestCeilings: every key of this room reaches the highest version of Kafka 4.4.
func TestCeilings(t *testing.T) {
	t.Parallel()
	for _, api := range newImageBroker(t).registry.Load().All() {
		if kafka := codec.KafkaVersions[api.Key]; api.MaxVersion != kafka.Max || api.MinVersion > kafka.Min {
			t.Errorf("%s: %d to %d, Kafka has %d to %d", api.Name, api.MinVersion, api.MaxVersion, kafka.Min, kafka.Max)
		}
	}
}

// parkingPool has one turn, as admin's pool with one worker.
type parkingPool struct{ turns chan struct{} }

func (p parkingPool) Submit(f func()) bool {
	go func() {
		p.turns <- struct{}{}
		defer func() { <-p.turns }()
		f()
	}()
	return true
}

func (p parkingPool) Park(wait func()) {
	<-p.turns
	defer func() { p.turns <- struct{}{} }()
	wait()
}

// TestAutoCreationHoldsNoWorker: who waits for a topic on first use leaves the
// workers to others.
func TestAutoCreationHoldsNoWorker(t *testing.T) {
	t.Parallel()
	b := newImageBroker(t)
	creator := &blockingCreator{begun: make(chan string), proceed: make(chan struct{})}
	b.TopicCreator, b.Pool = creator, parkingPool{make(chan struct{}, 1)}
	address := serve(t, b, nil)
	var waiting []*rawConn
	for _, name := range []string{"first", "second"} {
		c := dialRaw(t, address)
		slow := metadataRequest(9, name)
		slow.AllowAutoTopicCreation = true
		c.send(slow, 1)
		if got := <-creator.begun; got != name {
			t.Errorf("creates %q", got)
		}
		waiting = append(waiting, c)
	}
	done := make(chan struct{})
	b.Pool.Submit(func() { close(done) })
	<-done // the only worker is free
	close(creator.proceed)
	for _, c := range waiting {
		c.receive(metadataRequest(9), 1)
	}
}
