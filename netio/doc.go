// Package netio moves bytes between sockets and handlers: listeners, framing, the ordered reply queue of a connection,
// the zero-copy send. It knows no Kafka API key: a frame is a 4-byte length and that many bytes.
//
// It is not a protocol and not a thread pool: Handler.OnFrame runs on the event loop of its connection and must not
// block; a reply may be completed later by any goroutine and leaves in the order of the requests. The design, and what
// was measured for it, stands in docs/design/netio.md.
//
// Goroutines. One event loop per network thread, gnet's; it owns its connections: a field of Conn, loop or an ended Slot
// without another word is touched there only. One acceptor per listener. One write poller, which schedules connections
// whose sockets take bytes again. One janitor, which keeps a coarse clock. Server.Close ends them all.
//
// Locks. quota.mu, writePoller.mu and logLimiter.mu are leaves: no two are held at once, and nothing but memory is
// touched under one. What loops and other goroutines share besides is atomic, with its proof in loop.go and slot.go.
package netio
