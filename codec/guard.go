package codec

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
)

// guardedSink knows whether its request has been answered.
type guardedSink struct {
	Sink
	ended atomic.Bool
}

func (s *guardedSink) Done() {
	s.ended.Store(true)
	s.Sink.Done()
}

func (s *guardedSink) Drop() {
	s.ended.Store(true)
	s.Sink.Drop()
}

func (s *guardedSink) CloseConn(err error) {
	s.ended.Store(true)
	s.Sink.CloseConn(err)
}

// Guarded runs a handler off the event loop. A panic there is a bug of that handler
// and must not take the data plane with it: it is logged, and unless the request was
// answered before, its connection is closed, so that the client does not wait for
// ever for this reply and for all behind it.
func Guarded(r *Request, logger *slog.Logger, handle func(*Request)) func() {
	return func() {
		sink, api := &guardedSink{Sink: r.Sink}, r.API.Name
		r.Sink = sink
		defer func() {
			fault := recover()
			if fault == nil {
				return
			}
			logger.Error("BUG: a request panicked", "api", api, "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
			// Not answered: the request is still the handler's, and so ours. Once it is
			// answered it may already be another request.
			if !sink.ended.Load() {
				r.Fail(fmt.Errorf("%s: the handler panicked: %v", api, fault))
			}
		}()
		handle(r)
	}
}
