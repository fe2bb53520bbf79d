package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/bufpool"
)

// recordingSink keeps what a request ended with.
type recordingSink struct {
	reply   []byte
	done    int
	dropped int
	closed  error
}

func (s *recordingSink) Bytes(b *bufpool.Buf) {
	s.reply = append(s.reply, b.B...)
	b.Release()
}

func (s *recordingSink) Done() {
	binary.BigEndian.PutUint32(s.reply, uint32(len(s.reply)-4))
	s.done++
}
func (s *recordingSink) Drop()               { s.dropped++ }
func (s *recordingSink) CloseConn(err error) { s.closed = err }

type recordingObserver struct{ ended, replyBytes int }

func (o *recordingObserver) RequestEnded(_ *Request, replyBytes int) {
	o.ended, o.replyBytes = o.ended+1, replyBytes
}

// newTestRequest makes a request out of the bytes that a client sends.
func newTestRequest(t testing.TB, message kmsg.Request, sink Sink, observer Observer) *Request {
	t.Helper()
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, message, 77)[4:]
	frame := bufpool.Get(len(wire))
	copy(frame.B, wire)
	header, body, err := ParseHeader(frame.B)
	if err != nil {
		t.Fatal(err)
	}
	return NewRequest(nil, header, body, frame, &Session{}, sink, time.Time{}, observer)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		key, version int16
		body         string
	}{
		{"array of 2^31-1 topics", 3, 1, "7fffffff"},
		{"compact array of 2^32-1 topics", 3, 9, "ffffffff0f"},
		{"array longer than the body", 3, 1, "00000010" + "000161"},
		{"string cut off", 3, 1, "00000001" + "000561"},
		{"tagged field cut off", 3, 9, "0000000001" + "03"},
		{"empty body", 10, 0, ""},
	} {
		message := kmsg.RequestForKey(c.key)
		message.SetVersion(c.version)
		if err := DecodeBody(message, unhex(t, c.body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want ErrMalformed", c.name, err)
		}
	}
}

type panickingRequest struct{ *kmsg.MetadataRequest }

func (panickingRequest) ReadFrom([]byte) error { panic("index out of range") }

func TestDecoderPanicIsThePeersFault(t *testing.T) {
	t.Parallel()
	err := DecodeBody(panickingRequest{kmsg.NewPtrMetadataRequest()}, []byte{1})
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("error %v", err)
	}
}

func TestDecodeOfAnotherKeyIsABug(t *testing.T) {
	t.Parallel()
	r := newTestRequest(t, kmsg.NewPtrMetadataRequest(), &recordingSink{}, nil)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = r.Decode(kmsg.NewPtrProduceRequest())
}

func TestFinishTwiceIsABug(t *testing.T) {
	t.Parallel()
	r := newTestRequest(t, kmsg.NewPtrMetadataRequest(), &recordingSink{}, nil)
	r.Finish()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	(&Request{}).Finish() // what r is now
}

func TestRespondLayout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version int16
		header  string // after the length
	}{{0, "0000004d"}, {8, "0000004d"}, {9, "0000004d00"}, {13, "0000004d00"}} {
		request := kmsg.NewPtrMetadataRequest()
		request.Version = c.version
		sink, observer := &recordingSink{}, &recordingObserver{}
		r := newTestRequest(t, request, sink, observer)
		response := kmsg.NewPtrMetadataResponse()
		response.ControllerID = 3
		r.Respond(response)
		response.Version = c.version
		want := append(unhex(t, c.header), response.AppendTo(nil)...)
		if !bytes.Equal(sink.reply[4:], want) {
			t.Errorf("v%d: reply %x, want %x", c.version, sink.reply[4:], want)
		}
		if int(binary.BigEndian.Uint32(sink.reply)) != len(want) || sink.done != 1 || observer.ended != 1 || observer.replyBytes != len(want)+4 {
			t.Errorf("v%d: sink %+v observer %+v", c.version, sink, observer)
		}
	}
}

// TestRespondLarge: a reply that outgrows its first buffer arrives whole.
func TestRespondLarge(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 200, 3000, 70_000, 3 << 20} {
		sink := &recordingSink{}
		request := kmsg.NewPtrMetadataRequest()
		request.Version = 9
		r := newTestRequest(t, request, sink, nil)
		response := kmsg.NewPtrMetadataResponse()
		cluster := strings.Repeat("x", size)
		response.ClusterID = &cluster
		r.Respond(response)
		var got kmsg.MetadataResponse
		got.Version = 9
		if err := got.ReadFrom(sink.reply[9:]); err != nil || got.ClusterID == nil || *got.ClusterID != cluster {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestFailClosesInOrder(t *testing.T) {
	t.Parallel()
	sink, observer := &recordingSink{}, &recordingObserver{}
	r := newTestRequest(t, kmsg.NewPtrMetadataRequest(), sink, observer)
	r.Fail(ErrMalformed)
	if !errors.Is(sink.closed, ErrMalformed) || sink.done != 0 || sink.reply != nil || observer.ended != 1 || observer.replyBytes != -1 {
		t.Errorf("sink %+v observer %+v", sink, observer)
	}
}

// staticSink releases what it gets, as netio does after sending.
type staticSink struct{}

func (staticSink) Bytes(b *bufpool.Buf) { b.Release() }
func (staticSink) Done()                {}
func (staticSink) Drop()                {}
func (staticSink) CloseConn(error)      {}

// TestHandEncodedReplyAllocatesNothing is the budget of dispatch: from the frame
// to the reply of a handler that encodes by hand.
func TestHandEncodedReplyAllocatesNothing(t *testing.T) {
	wire := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client")).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 77)[4:]
	session, body := &Session{}, make([]byte, 300)
	if n := testing.AllocsPerRun(1000, func() {
		frame := bufpool.Get(len(wire))
		copy(frame.B, wire)
		header, rest, err := ParseHeader(frame.B)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRequest(nil, header, rest, frame, session, staticSink{}, time.Time{}, nil)
		reply := r.NewReply(len(body))
		reply.B = append(reply.B, body...)
		r.Sink.Bytes(reply)
		r.Sink.Done()
		r.Finish()
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}
