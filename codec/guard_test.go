package codec

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/internal/bufpool"
)

// A handler that panics costs its connection only; one that had answered, nothing.
func TestGuarded(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	api := &API{Key: 60, Name: "DescribeCluster"}
	for _, test := range []struct {
		handle          func(*Request)
		replies, closed int
	}{
		{func(*Request) { panic("before") }, 0, 1},
		{func(r *Request) { r.Respond(kmsg.NewPtrDescribeClusterResponse()); panic("after") }, 1, 0},
		{func(r *Request) { r.Respond(kmsg.NewPtrDescribeClusterResponse()) }, 1, 0},
	} {
		sink := &recordingSink{}
		frame := bufpool.Get(16)
		r := NewRequest(api, Header{Key: 60}, frame.B, frame, &Session{}, sink, time.Now(), nil)
		Guarded(r, logger, test.handle)()
		closed := 0
		if sink.closed != nil {
			if closed = 1; !strings.Contains(sink.closed.Error(), "panicked: before") {
				t.Error(sink.closed)
			}
		}
		if sink.done != test.replies || closed != test.closed {
			t.Errorf("%+v", sink)
		}
	}
}
