package netio

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"reflect"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"github.com/panjf2000/gnet/v2/pkg/pool/goroutine"
	"golang.org/x/sys/unix"

	"kaas/internal/limits"
)

// engine runs plaintext connections on gnet's event loops.
//
// gnet runs without listeners (its "client"): its acceptor ends the whole engine when a process is out of descriptors,
// cannot stop accepting alone, and does not say which port it got for port 0. Sockets are accepted in accept.go and
// enrolled into the loop with the fewest connections.
//
// What netio takes from inside gnet, all found once per loop in bind and pinned by engine_test.go: the loop's poller
// (to stop and resume reading, which gnet cannot) and the slice that the loop reads into (so that frames need not be
// copied out of it). In gnet's default build (not poll_opt) the data of an epoll event is
// the descriptor itself, so a registration may be changed without gnet knowing.
type engine struct {
	gnet.BuiltinEventEngine
	client *gnet.Client
}

// engineLoop is gnet's side of a loop.
type engineLoop struct {
	eventLoop gnet.EventLoop
	epollFD   int     // of gnet's poller; gnet closes it
	taskFD    int     // eventfd by which gnet's poller is woken for tasks; gnet closes it
	wakeFD    int     // loop.wakeFD under the number by which gnet knows it
	buffer    *[]byte // that gnet reads into
	bindError error
}

// gnetSocket is the socket of a plaintext connection.
type gnetSocket struct {
	conn       *Conn
	raw        gnet.Conn
	fd         int
	closeAfter bool // close was called inside this connection's own event
	detached   bool // fd is netio's own, gnet does not know it
}

// startEngine starts the event loops; none has a connection yet.
func startEngine(threads int, logger *slog.Logger, loops []*loop) (*engine, error) {
	e := &engine{}
	// The pool in which gnet dials, which nobody here asks for: as long as it is open it ticks twice a second, for which an
	// idle broker woke more often than for everything else.
	goroutine.DefaultWorkerPool.Release()
	client, err := gnet.NewClient(e,
		gnet.WithNumEventLoop(threads),
		gnet.WithReadBufferCap(limits.NetReadBufferLeastBytes),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // set on accept; this only avoids a second system call
		gnet.WithLogger(gnetLogger{logger}))
	if err != nil {
		return nil, fmt.Errorf("event engine: %w", err)
	}
	e.client = client
	if err := client.Start(); err != nil {
		return nil, fmt.Errorf("event engine: %w", err)
	}
	for _, l := range loops {
		// gnet gives an enrolled connection to the loop with the fewest: one wake connection lands on each.
		if err := e.enrollWake(l); err != nil {
			return nil, errors.Join(err, client.Stop())
		}
	}
	return e, nil
}

// enrollWake makes the loop's eventfd a connection of a gnet loop. gnet's own ways to wake a loop allocate for each
// call; an eventfd that is read like a connection does not.
func (e *engine) enrollWake(l *loop) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("event engine: socketpair: %w", err)
	}
	defer unix.Close(pair[1])
	placeholder, err := fdConn(pair[0])
	if err != nil {
		return fmt.Errorf("event engine: %w", err)
	}
	if _, err := e.client.EnrollContext(placeholder, l); err != nil {
		return fmt.Errorf("event engine: %w", err)
	}
	return l.engine.bindError
}

// enroll gives an accepted socket to an event loop. It returns when the connection is open. The socket is gnet's
// afterwards, whatever the result.
func (e *engine) enroll(accepted *net.TCPConn, c *Conn) error {
	// gnet recycles the bytes of an address's IPv6 zone, which belong to package net here.
	for _, a := range []net.Addr{accepted.LocalAddr(), accepted.RemoteAddr()} {
		if tcp, ok := a.(*net.TCPAddr); ok {
			tcp.Zone = ""
		}
	}
	if _, err := e.client.EnrollContext(accepted, c); err != nil {
		return fmt.Errorf("enroll a connection: %w", err)
	}
	return nil
}

func (e *engine) stop() error { return e.client.Stop() }

// OnOpen runs on the loop that gnet chose.
func (e *engine) OnOpen(raw gnet.Conn) ([]byte, gnet.Action) {
	switch context := raw.Context().(type) {
	case *loop:
		context.engine.bindError = context.bind(raw)
	case *Conn:
		c := context
		c.loop = c.server.loopOf(raw.EventLoop())
		c.gnet = gnetSocket{conn: c, raw: raw, fd: raw.Fd()}
		c.socket = &c.gnet
		c.loop.know(c)
		own := c.loop.beginEvent(c)
		c.opened.Store(true)
		c.open()
		c.loop.endEvent(c, own)
		return nil, c.gnet.action()
	}
	return nil, gnet.None
}

// OnTraffic runs when gnet has read bytes.
func (e *engine) OnTraffic(raw gnet.Conn) gnet.Action {
	data, _ := raw.Next(-1) // all that gnet has; never an error, and nothing is ever left in gnet's own buffer
	switch context := raw.Context().(type) {
	case *Conn:
		c := context
		l := c.loop
		own := l.beginEvent(c)
		c.received(len(data), len(data) == len(*l.engine.buffer))
		l.endEvent(c, own)
		l.chunk.settle()
		*l.engine.buffer = l.engineBuffer()
		if action := c.gnet.action(); action != gnet.None {
			return action
		}
		return l.onward(c)
	case *loop:
		context.wakes.Add(1)
		context.serve()
		return context.onward(nil)
	}
	return gnet.None
}

// OnClose runs once for every connection that was opened, whoever closed it.
func (e *engine) OnClose(raw gnet.Conn, err error) gnet.Action {
	c, ok := raw.Context().(*Conn)
	if !ok {
		return gnet.None
	}
	c.loop.byFD[c.gnet.fd] = nil
	if !(isEnd(err) && c.halfClose()) {
		c.server.writable.forget(c)
		c.closed(err)
	}
	return gnet.None
}

// isEnd says whether gnet has read the end of what the peer sends. A bare io.EOF is what it makes of a connection that is
// broken both ways.
func isEnd(err error) bool {
	var read *os.SyscallError
	return errors.As(err, &read) && read.Err == io.EOF
}

// bind finds the inside of the gnet loop that got the wake connection, and makes that connection the loop's eventfd.
func (l *loop) bind(raw gnet.Conn) error {
	poller, err := insideOf[*netpoll.Poller](raw, "loop", "poller")
	if err != nil {
		return err
	}
	if l.engine.buffer, err = insideOf[[]byte](raw, "loop", "buffer"); err != nil {
		return err
	}
	*l.engine.buffer = l.engineBuffer()
	l.engine.eventLoop = raw.EventLoop()
	fd := raw.Fd()
	// The placeholder leaves the poller before its descriptor number becomes the eventfd: a registration belongs to a
	// file and a number, and the file is still open elsewhere.
	if err := (*poller).Delete(fd); err != nil {
		return fmt.Errorf("gnet's poller does not have its own connection: %w", err)
	}
	if err := unix.Dup3(l.wakeFD, fd, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("dup3: %w", err)
	}
	if err := (*poller).AddRead(&netpoll.PollAttachment{FD: fd}, false); err != nil {
		return err
	}
	// The descriptor of the epoll instance, proved by changing the registration just made to what it is.
	for name, into := range map[string]*int{"fd": &l.engine.epollFD, "efd": &l.engine.taskFD} {
		field := reflect.ValueOf(*poller).Elem().FieldByName(name)
		if !field.IsValid() || field.Kind() != reflect.Int {
			return fmt.Errorf("gnet has changed inside: netpoll.Poller has no int field %s", name)
		}
		*into = int(field.Int())
	}
	l.engine.wakeFD = fd
	same := unix.EpollEvent{Fd: int32(fd), Events: netpoll.ReadEvents}
	if err := unix.EpollCtl(l.engine.epollFD, unix.EPOLL_CTL_MOD, fd, &same); err != nil {
		return fmt.Errorf("gnet has changed inside: descriptor %d is not its epoll instance: %w", l.engine.epollFD, err)
	}
	tasks, err := insideOf[int32](raw, "loop", "poller", "wakeupCall")
	if err != nil {
		return err
	}
	return l.rest.begin(l.engine.epollFD, tasks, l.server.nowMs.Load())
}

// insideOf finds a field of a gnet connection's inside by its path. The fields are not exported: a gnet that renames
// them is an error at start, and of TestGnetInside.
func insideOf[T any](raw gnet.Conn, path ...string) (*T, error) {
	v := reflect.ValueOf(raw)
	for _, name := range path {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return nil, fmt.Errorf("gnet has changed inside: %s is looked for in a %s", name, v.Type())
		}
		field := v.FieldByName(name)
		if !field.IsValid() {
			return nil, fmt.Errorf("gnet has changed inside: no field %s in %s", name, v.Type())
		}
		v = field
	}
	if v.Type() != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("gnet has changed inside: %s is a %s", path[len(path)-1], v.Type())
	}
	return (*T)(v.Addr().UnsafePointer()), nil
}

func (s *gnetSocket) receive(first, second []byte) int {
	n, err := s.conn.loop.buffers.readv(s.fd, first, second)
	if err != nil {
		return 0
	}
	return n
}

func (s *gnetSocket) send(vectors [][]byte, more bool) (int, error) {
	return s.conn.loop.buffers.sendmsg(s.fd, vectors, more)
}

func (s *gnetSocket) sendFile(file int, offset int64, count int) (int, error) {
	return sendfile(s.fd, file, offset, count)
}

func (s *gnetSocket) awaitWritable() error { return s.conn.server.writable.await(s.conn, s.fd) }

func (s *gnetSocket) unsent() bool {
	n, err := unix.IoctlGetInt(s.fd, unix.SIOCOUTQ)
	return err == nil && n > 0
}

func (s *gnetSocket) shutdownSend() error { return unix.Shutdown(s.fd, unix.SHUT_WR) }

// setReading changes the events that the loop's epoll waits for. Without EPOLLIN a reset of the peer is still noticed
// (EPOLLERR and EPOLLHUP are always reported, and gnet closes); an orderly end is noticed when reading is resumed.
func (s *gnetSocket) setReading(on bool) error {
	event := unix.EpollEvent{Fd: int32(s.fd)}
	if on {
		event.Events = netpoll.ReadEvents // as gnet's own registration
	}
	if err := unix.EpollCtl(s.conn.loop.engine.epollFD, unix.EPOLL_CTL_MOD, s.fd, &event); err != nil {
		return fmt.Errorf("pause or resume reading: epoll_ctl: %w", err)
	}
	return nil
}

// detach is called while gnet closes, before it closes the descriptor: with a second one the socket stays open. What the
// write poller waits for goes on, it belongs to the socket.
func (s *gnetSocket) detach() error {
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("dup: %w", err)
	}
	s.fd, s.raw, s.detached = fd, nil, true
	return nil
}

// close closes through gnet. Inside the connection's own event it is still in use, so the end of the event does it.
func (s *gnetSocket) close() {
	if s.detached {
		s.conn.server.writable.forget(s.conn)
		reason := s.conn.closing.Load().err
		if err := unix.Close(s.fd); err != nil {
			s.conn.server.config.Logger.Debug("close a connection", "peer", s.conn.remote.String(), "error", err)
		}
		s.conn.closed(reason)
		return
	}
	if s.conn.loop.current == s.conn || s.conn.loop.outer == s.conn {
		s.closeAfter = true
		return
	}
	s.closeNow()
}

func (s *gnetSocket) closeNow() {
	if err := s.conn.loop.engine.eventLoop.Close(s.raw); err != nil {
		s.conn.server.config.Logger.Debug("close a connection", "peer", s.conn.remote.String(), "error", err)
	}
}

func (s *gnetSocket) action() gnet.Action {
	if s.closeAfter {
		return gnet.Close
	}
	return gnet.None
}

// gnetLogger sends gnet's lines to the server's logger. Its warnings are about events of connections that were closed
// in the same round, which is normal here.
type gnetLogger struct{ logger *slog.Logger }

func (g gnetLogger) Debugf(string, ...any) {}
func (g gnetLogger) Infof(string, ...any)  {}
func (g gnetLogger) Warnf(format string, args ...any) {
	g.logger.Debug("event engine: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Errorf(format string, args ...any) {
	g.logger.Error("event engine: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Fatalf(format string, args ...any) {
	panic("event engine: " + fmt.Sprintf(format, args...))
}

// fdConn makes a net.Conn of a descriptor and takes it over.
func fdConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "placeholder")
	defer f.Close() // FileConn has its own descriptor
	return net.FileConn(f)
}
