// Package netio moves bytes between sockets and handlers: listeners, framing, the ordered reply queue of a connection,
// the zero-copy send. It knows no Kafka API key: a frame is a 4-byte length and that many bytes.
//
// It is not a protocol and not a thread pool: Handler.OnFrame runs on the event loop of its connection and must not
// block; a reply may be completed later by any goroutine and leaves in the order of the requests.
package netio
