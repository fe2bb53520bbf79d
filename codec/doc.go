// Package codec is the grammar between a frame and a handler: request and
// response headers, the registry of API keys, and the pooled [Request] that
// carries one request through the broker. For Produce and Fetch it has views
// that walk the body where it lies, without allocating.
//
// It is not a transport (netio moves frames, codec never sees a socket), it
// decides nothing about topics, groups or permissions, and it looks into no
// record batch (codec/batch does).
//
// Message bodies are kmsg's. What codec adds is what a peer must not be able to
// do: a header that is cut off, an array longer than the frame that carries it, or
// a decoder panic is an error of that one connection.
//
// Goroutines: none is started here. A [Request] has exactly one owner at a
// time: the event loop that parsed it, then its handler, until the handler
// calls one of Respond, Finish and Fail. A [Registry] is immutable once built
// and read without a lock.
//
// Locks: none.
package codec
