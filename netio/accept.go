package netio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listen opens a listener's socket. What accepted sockets inherit on Linux (buffers, keep-alive) is set here once.
func listen(l Listener, config *Config) (*net.TCPListener, error) {
	listenConfig := net.ListenConfig{
		KeepAlive: -1, // Go's own 15 s probing off: SO_KEEPALIVE with the system's times, as Kafka
		Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			controlErr := raw.Control(func(fd uintptr) { err = setSocketOptions(int(fd), config) })
			return errors.Join(controlErr, err)
		},
	}
	listener, err := listenConfig.Listen(context.Background(), l.Network, l.Address)
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", l.Name, err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listener %s: network %q is not served, only tcp, tcp4 and tcp6", l.Name, l.Network), listener.Close())
	}
	return tcp, nil
}

func setSocketOptions(fd int, config *Config) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1); err != nil {
		return fmt.Errorf("SO_KEEPALIVE: %w", err)
	}
	if config.SocketSendBufferBytes > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, config.SocketSendBufferBytes); err != nil {
			return fmt.Errorf("socket.send.buffer.bytes=%d: %w", config.SocketSendBufferBytes, err)
		}
	}
	if config.SocketReceiveBufferBytes > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, config.SocketReceiveBufferBytes); err != nil {
			return fmt.Errorf("socket.receive.buffer.bytes=%d: %w", config.SocketReceiveBufferBytes, err)
		}
	}
	return nil
}

// accept runs one listener until it is closed. Being out of descriptors or memory is waited for, never fatal.
func (s *Server) accept(name string, listener *net.TCPListener) {
	defer s.acceptors.Done()
	const firstWait, longestWait = 5 * time.Millisecond, time.Second
	wait := firstWait
	for {
		socket, err := listener.AcceptTCP() // sets TCP_NODELAY
		switch {
		case err == nil:
			wait = firstWait
			s.admit(name, socket)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.acceptFaults.warn("cannot accept a connection; waiting and trying again", "listener", name, "error", err)
			select {
			case <-s.stopping:
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, longestWait)
		}
	}
}

// admit counts the connection and gives it to an event loop, or closes it.
func (s *Server) admit(name string, socket *net.TCPConn) {
	local, remote := addrPort(socket.LocalAddr()), addrPort(socket.RemoteAddr())
	full := func() {
		s.awaitedRoom.Add(1)
		s.quotaFaults.warn("max.connections is reached; new connections wait until one closes", "listener", name)
	}
	switch s.quota.enter(remote.Addr(), full) {
	case tooManyFromIP:
		s.refusedByIP.Add(1)
		s.quotaFaults.warn("closed a new connection: max.connections.per.ip is reached", "listener", name, "peer", remote.String())
		s.discard(socket)
		return
	case notServingMore:
		s.discard(socket)
		return
	}
	c := &Conn{id: s.lastID.Add(1), server: s, listener: name, local: local, remote: remote}
	err := s.engine.enroll(socket, c)
	if c.opened.Load() {
		s.accepted.Add(1)
		return // its end is Conn.closed
	}
	s.quota.leave(remote.Addr())
	s.acceptFaults.warn("cannot serve a new connection", "listener", name, "peer", remote.String(), "error", err)
}

func (s *Server) discard(socket *net.TCPConn) {
	if err := socket.Close(); err != nil {
		s.config.Logger.Debug("close a refused connection", "error", err)
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
