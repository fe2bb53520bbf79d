package rig

import (
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// wire is a connection of blocking system calls on one thread. The runtime's
// poller rounds a wait up to a millisecond, which would be most of what a
// latency row shows.
type wire struct {
	fd  int
	buf []byte // of the frame that was read last
	in  int    // bytes of buf that have come
	use int    // bytes of buf that have been handed out
}

func dialWire(address string) (*wire, error) {
	resolved, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return nil, err
	}
	to := resolved.AddrPort()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	timeout := unix.NsecToTimeval(Patience.Nanoseconds())
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err == nil {
			err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &timeout)
		}
	}
	if err != nil {
		_ = unix.Close(fd) // the first error is the one to tell
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &wire{fd: fd, buf: make([]byte, 64<<10)}, nil
}

func (w *wire) close() error { return unix.Close(w.fd) }

// hangUp wakes a reader that waits.
func (w *wire) hangUp() { _ = unix.Shutdown(w.fd, unix.SHUT_RDWR) }

func (w *wire) write(frame []byte) error {
	for len(frame) > 0 {
		n, err := unix.Write(w.fd, frame)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		frame = frame[n:]
	}
	return nil
}

// next returns the next answer without its length, until the next call.
func (w *wire) next() ([]byte, error) {
	w.in = copy(w.buf, w.buf[w.use:w.in])
	w.use = 0
	for {
		if w.in >= 4 {
			whole := 4 + int(binary.BigEndian.Uint32(w.buf))
			if w.in >= whole {
				w.use = whole
				return w.buf[4:whole], nil
			}
			if whole > len(w.buf) {
				larger := make([]byte, whole+whole/4)
				copy(larger, w.buf[:w.in])
				w.buf = larger
			}
		}
		n, err := unix.Read(w.fd, w.buf[w.in:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return nil, fmt.Errorf("no answer within %v", Patience)
		case err != nil:
			return nil, err
		case n == 0:
			return nil, fmt.Errorf("the connection was closed")
		}
		w.in += n
	}
}

// Encode makes the frame of a request.
func Encode(request kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, request, 0)
}

// Caller asks one question at a time.
type Caller struct {
	conn   net.Conn
	answer []byte
}

// Dial connects a caller.
func Dial(address string) (*Caller, error) {
	conn, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		return nil, err
	}
	return &Caller{conn: conn, answer: make([]byte, 4096)}, nil
}

// Close ends the connection.
func (c *Caller) Close() error { return c.conn.Close() }

// Ask sends a request, its version set, and decodes the answer; at most
// Patience and what the request itself may take.
func (c *Caller) Ask(request kmsg.Request, more time.Duration) (kmsg.Response, error) {
	name := kmsg.NameForKey(request.Key())
	if err := c.conn.SetDeadline(time.Now().Add(Patience + more)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(Encode(request)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var err error
	if c.answer, err = ReadAnswer(c.conn, c.answer); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	response := request.ResponseKind()
	response.SetVersion(request.GetVersion())
	body := c.answer[8:] // length, correlation id
	if response.IsFlexible() && request.Key() != 18 {
		body = body[1:] // no tagged fields in the header
	}
	if err := response.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return response, nil
}
