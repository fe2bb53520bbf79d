package netio

import (
	"log/slog"

	"kaas/internal/bufpool"
)

// Pin keeps the bytes of a FileRange alive. Release is called exactly once: when the range has left, or when the
// connection or the slot has died. It may be called on an event loop and must not block.
type Pin interface{ Release() }

// FileRange is a part of a file that is sent without copying it through the heap.
type FileRange struct {
	FD     int
	Offset int64
	Len    int    // bytes; 0 is allowed, its Pin is released in turn
	Mem    []byte // memory-mapped view of the same bytes: they leave from it, so touching it must not fault on slow storage. nil: sendfile
	Pin    Pin    // nil: nothing to release
}

// Listener is an address to serve under one of Kafka's listener names.
type Listener struct {
	Name    string // Kafka listener name, PLAINTEXT
	Network string // tcp, tcp4, tcp6
	Address string // host:port; an empty host is every address, port 0 is any free port
}

// Config of a Server. Zero values mean the default that stands beside them.
type Config struct {
	Listeners                []Listener
	NumNetworkThreads        int          // event loops; default GOMAXPROCS
	MaxRequestBytes          int32        // socket.request.max.bytes; default 104857600
	MaxConnections           int          // max.connections; default unlimited
	MaxConnectionsPerIP      int          // max.connections.per.ip; default unlimited
	MaxInFlightPerConnection int          // requests read and not answered; default limits.NetInFlightPerConnection
	ConnectionsMaxIdleMs     int64        // connections.max.idle.ms; default 600000, negative: never
	SocketSendBufferBytes    int          // socket.send.buffer.bytes; 0 and -1: the system's
	SocketReceiveBufferBytes int          // socket.receive.buffer.bytes; 0 and -1: the system's
	Logger                   *slog.Logger // default: discards
	Handler                  Handler
	Storage                  Storage // nil: file ranges are sent however long they have waited

	alwaysRest, neverRest bool // of tests: loops wait as quiet ones of many connections do, or never so; the janitor wakes nobody
}

// Storage looks after file ranges that have waited here before they are sent: replies of a peer that reads slowly, or behind a
// reply that takes long. Their bytes were in memory when they were appended to the reply, and may have been evicted since; sending
// them would let the event loop wait for a disk.
type Storage interface {
	// Resident says whether the bytes are in memory, on the event loop and without blocking.
	Resident(r FileRange) bool
	// Populate reads them into memory on another goroutine, then calls ready, whatever came of it. It does not block. It has a share
	// of the range's Pin until ready is called.
	Populate(r FileRange, ready func())
}

// Handler is what the server calls; one per server. All calls for one connection come from its event loop.
type Handler interface {
	// OnOpen may set c.Context.
	OnOpen(c *Conn)
	// OnFrame gets one request; frame.B is it without its 4-byte length. The callee owns the reference. An error
	// closes this connection with one rate-limited log line.
	OnFrame(c *Conn, frame *bufpool.Buf) error
	// OnFramesEnd is called when all frames that came at once have been handed over, before replies to them leave: what
	// need not be done for each of them is done here.
	OnFramesEnd(c *Conn)
	// OnClose is called once for each OnOpen. Slots that are still open stay usable: what they get is released.
	OnClose(c *Conn, err error)
}
