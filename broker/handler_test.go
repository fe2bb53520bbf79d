package broker

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/internal/limits"
	"kaas/meta"
	"kaas/meta/config"
)

// Handlers without a network and without a log store: a request is encoded by
// kmsg, dispatched to its handler, and the reply is decoded by kmsg, which must
// leave no byte over.

// goPool runs functions on goroutines of their own.
type goPool struct{}

func (goPool) Submit(f func()) bool { go f(); return true }
func (goPool) Park(wait func())     { wait() }

// fullPool refuses everything.
type fullPool struct{}

func (fullPool) Submit(func()) bool { return false }
func (fullPool) Park(wait func())   { wait() }

// deny allows all but what is listed.
type deny map[string]bool // "operation resource name"

// AuthorizeByResourceType denies where one resource of the type is denied.
func (d deny) AuthorizeByResourceType(_, _ string, op auth.Operation, resource auth.ResourceType) bool {
	for key := range d {
		if strings.HasPrefix(key, op.String()+" "+resource.String()+" ") {
			return false
		}
	}
	return true
}

func (d deny) Authorize(_, _ string, op auth.Operation, resource auth.ResourceType, name string) bool {
	return !d[op.String()+" "+resource.String()+" "+name]
}

func topicOf(name string, id byte, partitions int) *meta.Topic {
	topic := &meta.Topic{Name: name, ID: meta.UUID{id}, Internal: meta.IsInternalTopicName(name)}
	for range partitions {
		topic.Partitions = append(topic.Partitions, meta.PartitionInfo{Leader: 1, LeaderEpoch: 0})
	}
	return topic
}

// newImageBroker is a broker that only has an image: node 1, listener PLAINTEXT.
func newImageBroker(t testing.TB, topics ...*meta.Topic) *Broker {
	t.Helper()
	cfg := *config.DefaultBroker()
	cfg.NodeID = 1
	self := meta.BrokerInfo{ID: 1, Endpoints: map[string]meta.Endpoint{"PLAINTEXT": {}, "OUTSIDE": {Host: "broker.example", Port: 30092}}}
	b := &Broker{Images: &meta.Images{}, Config: &cfg, Authorizer: auth.AllowAll{}, Pool: goPool{}, Logger: slog.New(slog.DiscardHandler), Clock: time.Now}
	b.dispatch.memoryBytes = limits.RequestMemoryBytes
	b.firstUse.Config, b.firstUse.Clock, b.firstUse.Logger = b.Config, b.Clock, b.Logger
	b.view.Store(emptyView)
	b.startCoordinators()
	t.Cleanup(b.coordinators.Close)
	b.Images.Store(meta.NewImage("cluster-0", 1, 1, []meta.BrokerInfo{self}, topics))
	registry, err := codec.NewRegistry(b.APIs()...)
	if err != nil {
		t.Fatal(err)
	}
	b.SetRegistry(registry)
	return b
}

// replySink collects one reply.
type replySink struct {
	mu     sync.Mutex
	reply  []byte // mu
	closed error  // mu
	ended  chan struct{}
}

func newReplySink() *replySink { return &replySink{ended: make(chan struct{})} }

func (s *replySink) Bytes(b *bufpool.Buf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = append(s.reply, b.B...)
	b.Release()
}
func (s *replySink) Done() { close(s.ended) }
func (s *replySink) Drop() { close(s.ended) }
func (s *replySink) CloseConn(err error) {
	s.mu.Lock()
	s.closed = err
	s.mu.Unlock()
	close(s.ended)
}

func testSession() *codec.Session {
	return &codec.Session{Listener: "PLAINTEXT", LocalHost: "192.0.2.1", LocalPort: 9092, RemoteHost: "192.0.2.7", Principal: codec.AnonymousPrincipal}
}

// exchange hands a frame to the handler of its key and returns the raw reply
// without its length, or the error that closed the connection.
func exchange(t testing.TB, b *Broker, session *codec.Session, wire []byte) ([]byte, error) {
	t.Helper()
	frame := bufpool.Get(len(wire))
	copy(frame.B, wire)
	header, body, err := codec.ParseHeader(frame.B)
	if err != nil {
		t.Fatal(err)
	}
	sink := newReplySink()
	api := b.registry.Load().Lookup(header.Key)
	api.Handle(codec.NewRequest(api, header, body, frame, session, sink, time.Time{}, b))
	select {
	case <-sink.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("no reply")
	}
	if sink.closed != nil || sink.reply == nil {
		return nil, sink.closed
	}
	return sink.reply[4:], nil
}

// call is exchange with kmsg on both sides. The reply must have no byte left over
// and no tagged field at its default: kmsg's encoding of what it read is the same.
func call[T kmsg.Response](t testing.TB, b *Broker, session *codec.Session, request kmsg.Request) T {
	t.Helper()
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, request, 1234)[4:]
	raw, err := exchange(t, b, session, wire)
	if err != nil {
		t.Fatalf("%s v%d: %v", kmsg.NameForKey(request.Key()), request.GetVersion(), err)
	}
	return parseReply[T](t, request, raw, 1234)
}

func parseReply[T kmsg.Response](t testing.TB, request kmsg.Request, raw []byte, correlationID int32) T {
	t.Helper()
	name, version := kmsg.NameForKey(request.Key()), request.GetVersion()
	if got := int32(binary.BigEndian.Uint32(raw)); got != correlationID {
		t.Fatalf("%s v%d: correlation id %d", name, version, got)
	}
	raw = raw[4:]
	if request.IsFlexible() && request.Key() != apiVersionsKey {
		if raw[0] != 0 {
			t.Fatalf("%s v%d: %d tagged fields in the response header", name, version, raw[0])
		}
		raw = raw[1:]
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(raw); err != nil {
		t.Fatalf("%s v%d: %v in %x", name, version, err, raw)
	}
	if again := response.AppendTo(nil); !bytes.Equal(again, raw) {
		t.Fatalf("%s v%d: the reply\n%x\nis read and encoded again as\n%x", name, version, raw, again)
	}
	return response.(T)
}

// releasingSink gives buffers back, as netio does after sending.
type releasingSink struct{}

func (releasingSink) Bytes(b *bufpool.Buf) { b.Release() }
func (releasingSink) Done()                {}
func (releasingSink) Drop()                {}
func (releasingSink) CloseConn(error)      {}

// inlineOnce is one request through its handler, for allocation budgets.
func inlineOnce(t testing.TB, b *Broker, api *codec.API, session *codec.Session, wire []byte) {
	frame := bufpool.Get(len(wire))
	copy(frame.B, wire)
	header, body, err := codec.ParseHeader(frame.B)
	if err != nil {
		t.Fatal(err)
	}
	api.Handle(codec.NewRequest(api, header, body, frame, session, releasingSink{}, time.Time{}, b))
}
