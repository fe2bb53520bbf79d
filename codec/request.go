package codec

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/bufpool"
)

// Sink is the place of one reply in its connection's order. netio's *Slot is one.
type Sink interface {
	// Bytes appends and takes ownership of the buffer. The first four bytes of the
	// first buffer are overwritten with the reply's length by Done.
	Bytes(*bufpool.Buf)
	Done()
	// Drop: this request has no reply.
	Drop()
	// CloseConn closes the connection once everything before this reply has left.
	CloseConn(error)
}

// Observer is told once about each request that has ended. Dispatch implements
// it to give back what it reserved and to count.
type Observer interface {
	// RequestEnded runs on whichever goroutine ended the request, before frame and
	// request go back to their pools. replyBytes is -1 when there was no reply
	// through Respond or Replied.
	RequestEnded(request *Request, replyBytes int)
}

// Throttler says for how long the client of a request is throttled.
type Throttler interface {
	// ThrottleMs is asked once, by Respond, right before the reply is encoded; the
	// reply tells the client. It runs on whichever goroutine answers.
	// taken is for how long the handler has had a thread; 0 for a two-phase request,
	// whose time dispatch charges when the handler has returned.
	ThrottleMs(taken time.Duration) int32
}

// Request is one request on its way through the broker.
//
// Ownership: a handler owns the *Request that it is given, with Header, Body and
// everything decoded unsafely from it, until it calls exactly one of Respond,
// Finish and Fail; after that it must not touch any of them. Requests are
// pooled.
type Request struct {
	Header
	Session *Session
	API     *API
	Body    []byte
	// ReceivedAt is the same for all requests that came at once.
	ReceivedAt time.Time
	Sink       Sink
	// StartedAt is when the handler was called. Set by dispatch when Throttler is.
	StartedAt time.Time
	// Throttler nil: nothing is throttled.
	Throttler Throttler

	// ReservedBytes is what dispatch reserved for this request. Owned by it.
	ReservedBytes int64

	observer   Observer
	frame      *bufpool.Buf
	replyBytes int
}

var requestPool = sync.Pool{New: func() any { return new(Request) }}

// NewRequest takes a request from the pool. It takes over the caller's
// reference of frame; header and body are views into it.
func NewRequest(api *API, header Header, body []byte, frame *bufpool.Buf, session *Session, sink Sink, receivedAt time.Time, observer Observer) *Request {
	r := requestPool.Get().(*Request)
	*r = Request{Header: header, Session: session, API: api, Body: body, ReceivedAt: receivedAt, Sink: sink, observer: observer, frame: frame, replyBytes: -1}
	return r
}

// Replied says how large a reply was that the handler encoded by hand, for the
// Observer. Before Finish.
func (r *Request) Replied(bytes int) { r.replyBytes = bytes }

// Frame is the buffer that Body lies in. Whoever keeps a view beyond the end of
// the request retains it.
func (r *Request) Frame() *bufpool.Buf { return r.frame }

// Decode reads the body into the given message, whose version it sets. Strings
// in it are copies. A body that is cut off or that the decoder fails on is an
// ErrMalformed, which the handler passes to Fail. Bytes after the body are
// ignored, as Kafka 4.4 does.
func (r *Request) Decode(into kmsg.Request) error {
	if into.Key() != r.Key {
		panic(fmt.Sprintf("BUG: request of API key %d is decoded as %d", r.Key, into.Key()))
	}
	into.SetVersion(r.Version)
	return DecodeBody(into, r.Body)
}

// DecodeBody is Decode for a message whose version is set already. kmsg refuses an
// array before it allocates when the rest of the body can't hold that many of the
// smallest elements, so what is allocated is bounded by decodeFactor and the body.
func DecodeBody(into kmsg.Request, body []byte) (err error) {
	defer func() {
		// The bytes are the peer's. Whatever a decoder does with them is the fault of
		// this request, and must not take the process with it.
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s v%d: the decoder failed: %v", ErrMalformed, kmsg.NameForKey(into.Key()), into.GetVersion(), p)
		}
	}()
	if err := into.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %s v%d: %w", ErrMalformed, kmsg.NameForKey(into.Key()), into.GetVersion(), err)
	}
	return nil
}

// Reply layout: length i32 (netio fills it in) | correlationId i32 | tagged
// fields, always none, when the response header is v1 | body.
const (
	replyLengthBytes = 4
	maxReplyHeader   = replyLengthBytes + 4 + 1
)

// ReplyHeaderBytes is how many bytes NewReply writes for this request, the
// length included.
func (r *Request) ReplyHeaderBytes() int {
	if ResponseHeaderFlexible(r.Key, r.Version) {
		return maxReplyHeader
	}
	return maxReplyHeader - 1
}

func (r *Request) appendReplyHeader(b []byte) []byte {
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(r.CorrelationID))
	if ResponseHeaderFlexible(r.Key, r.Version) {
		b = append(b, 0)
	}
	return b
}

// NewReply returns a buffer of one reference for a reply that is encoded by
// hand: length placeholder and response header are written, B ends after them,
// and size more bytes fit without growing.
func (r *Request) NewReply(size int) *bufpool.Buf {
	b := bufpool.Get(maxReplyHeader + size)
	b.B = r.appendReplyHeader(b.B[:0])
	return b
}

// maxReplyHint bounds what one large reply makes of all later ones of its key.
const maxReplyHint = 16 << 10

// replySizeHint[key] remembers how large replies of a key were, so that most
// replies are encoded straight into a buffer that fits. Only a hint: lost
// updates do no harm.
var replySizeHint [kmsg.MaxKey + 1]atomic.Int32

// Respond encodes the response in the request's version, sends it and ends the
// request.
func (r *Request) Respond(response kmsg.Response) {
	if response.Key() != r.Key {
		panic(fmt.Sprintf("BUG: request of API key %d is answered with %d", r.Key, response.Key()))
	}
	r.RespondVersion(response, r.Version)
}

// RespondVersion is Respond with a body of another version than the request's.
// Only ApiVersions needs it: it answers a version that it does not know in v0.
func (r *Request) RespondVersion(response kmsg.Response, version int16) {
	response.SetVersion(version)
	if r.Throttler != nil {
		r.throttle(response)
	}
	hint := int(replySizeHint[r.Key].Load())
	buf := bufpool.Get(max(hint, 128))
	// When the encoding outgrows the pooled memory, B becomes a heap slice; the pool
	// takes back its own memory all the same (bufpool.Buf).
	encoded := response.AppendTo(r.appendReplyHeader(buf.B[:0]))
	buf.B = encoded
	if len(encoded) > hint {
		replySizeHint[r.Key].Store(int32(min(len(encoded), maxReplyHint)))
	}
	r.replyBytes = len(encoded)
	r.Sink.Bytes(buf)
	r.Sink.Done()
	r.Finish()
}

// throttle puts the throttle time into a response that can tell it.
func (r *Request) throttle(response kmsg.Response) {
	taken := time.Duration(0)
	if r.API.Class != TwoPhase {
		taken = time.Since(r.StartedAt)
	}
	ms := r.Throttler.ThrottleMs(taken)
	set, ok := response.(kmsg.SetThrottleResponse)
	if !ok || ms == 0 {
		return
	}
	if told, ok := response.(kmsg.ThrottleResponse); ok {
		if already, _ := told.Throttle(); already >= ms {
			return
		}
	}
	set.SetThrottle(ms)
}

// Finish ends the request after the handler itself has called Done, Drop or
// CloseConn on the Sink: frame and request go back to their pools.
func (r *Request) Finish() {
	frame := r.frame
	if frame == nil {
		panic("BUG: request is finished twice")
	}
	if r.observer != nil {
		r.observer.RequestEnded(r, r.replyBytes)
	}
	*r = Request{}
	requestPool.Put(r)
	frame.Release()
}

// FailedError is the reason that a connection closes with when one of its
// requests failed, as opposed to the peer's going away.
type FailedError struct{ Cause error }

func (e *FailedError) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Cause }

// Fail ends a request that cannot be answered: the connection is closed, after
// the replies before this one, with err in one log line.
func (r *Request) Fail(err error) {
	r.Sink.CloseConn(&FailedError{err})
	r.Finish()
}
