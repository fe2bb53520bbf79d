package netio

import (
	"context"
	"net"
	"net/netip"
	"time"

	"kaas/internal/bufpool"
)

// Server serves all listeners.
type Server struct{}

// Start listens on every listener, then serves. An error leaves nothing behind.
func Start(Config) (*Server, error) { panic("not built yet") }

// Addrs returns the bound address of each listener by its name.
func (s *Server) Addrs() map[string]net.Addr { panic("not built yet") }

// StopAccepting closes the listeners; connections stay.
func (s *Server) StopAccepting() {}

// Drain waits until no reply is owed or pending on any connection.
func (s *Server) Drain(context.Context) error { panic("not built yet") }

// Close closes every connection and stops the loops.
func (s *Server) Close(context.Context) error { panic("not built yet") }

// Conn is one connection. Context belongs to the handler, on the loop.
type Conn struct{ Context any }

func (c *Conn) ID() uint64                 { panic("not built yet") }
func (c *Conn) Listener() string           { panic("not built yet") }
func (c *Conn) LocalAddr() netip.AddrPort  { panic("not built yet") }
func (c *Conn) RemoteAddr() netip.AddrPort { panic("not built yet") }
func (c *Conn) Close(err error)            {}
func (c *Conn) Reserve() *Slot             { panic("not built yet") }

// MuteUntil stops reading from the connection until then. Any goroutine.
func (c *Conn) MuteUntil(until time.Time) {}

// Slot is the place of one reply in the order of its connection.
type Slot struct{}

func (s *Slot) Bytes(b *bufpool.Buf) {}
func (s *Slot) File(r FileRange)     {}
func (s *Slot) Done()                {}
func (s *Slot) Drop()                {}
func (s *Slot) CloseConn(err error)  {}
