package broker

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/codec"
	"kaas/internal/bufpool"
	"kaas/meta"
)

// FuzzFrame hands any frame to the keys that need no log store: it is refused, its
// connection is closed, or it is answered with a whole reply; the request ends
// exactly once and gives back what it reserved.
func FuzzFrame(f *testing.F) {
	keys := []int16{3, 10, apiVersionsKey, 60, 75}
	for _, key := range keys {
		request := kmsg.RequestForKey(key)
		for _, version := range []int16{0, request.MaxVersion()} {
			request.SetVersion(version)
			f.Add(encode(request))
		}
	}
	f.Add(encode(metadataRequest(12, "t", "new", "in valid")))
	f.Add(encode(findCoordinator(4, 0, "a", "b")))
	f.Add([]byte("\x00\x03\x00\x01\x00\x00\x00\x01\x00\x00\x7f\xff\xff\xff"))
	f.Add([]byte("\x00\x12\x00\x63\x00\x00\x12\x67\x00\x01\x78\x00\x05"))
	b := newImageBroker(f, topicOf("t", 1, 2), topicOf(meta.ConsumerOffsetsTopic, 2, 50))
	b.TopicCreator = noCreator{}
	f.Fuzz(func(t *testing.T, wire []byte) {
		header, _, err := codec.ParseHeader(wire)
		if err != nil || !slices.Contains(keys, header.Key) {
			return
		}
		api := b.registry.Load().Lookup(header.Key)
		if !api.Serves(header.Version) && header.Key != apiVersionsKey {
			return
		}
		frame := bufpool.Get(len(wire))
		copy(frame.B, wire)
		header, body, err := codec.ParseHeader(frame.B)
		if err != nil {
			t.Fatal(err)
		}
		sink := newReplySink()
		request := codec.NewRequest(api, header, body, frame, testSession(), sink, time.Time{}, b)
		b.dispatch.reserve(request, api.Estimate(header, len(body)))
		api.Handle(request)
		select {
		case <-sink.ended:
		case <-time.After(20 * time.Second): // as in waitFor
			t.Fatalf("no end of %x", wire)
		}
		if sink.closed != nil {
			return
		}
		if got := int32(binary.BigEndian.Uint32(sink.reply[4:])); got != header.CorrelationID {
			t.Fatalf("correlation id %d, want %d", got, header.CorrelationID)
		}
		message := kmsg.RequestForKey(header.Key)
		if message.SetVersion(header.Version); !api.Serves(header.Version) {
			message.SetVersion(0) // an unknown version of ApiVersions
		}
		parseReply[kmsg.Response](t, message, sink.reply[4:], header.CorrelationID)
	})
}
