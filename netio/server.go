package netio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"kaas/internal/limits"
)

// Server serves all listeners.
type Server struct {
	config    Config
	listeners map[string]*net.TCPListener // by name; immutable
	addrs     map[string]net.Addr         // immutable
	loops     []*loop                     // immutable
	engine    *engine
	writable  *writePoller
	quota     *quota
	arrivals  arrivals

	lastID   atomic.Uint64
	nowMs    atomic.Int64 // coarse clock of the janitor, for idleness only
	ending   atomic.Bool  // Close was called: connections end
	draining atomic.Bool  // no further request is read

	accepted    atomic.Int64 // connections that were opened
	refusedByIP atomic.Int64 // closed at once: max.connections.per.ip
	awaitedRoom atomic.Int64 // had to wait for max.connections

	malformed    logLimiter
	acceptFaults logLimiter
	quotaFaults  logLimiter

	acceptors  sync.WaitGroup
	stopAccept sync.Once
	stopping   chan struct{} // closed by StopAccepting

	closeOnce   sync.Once
	closed      chan struct{} // closed when everything has ended
	closeErr    error         // of the engine; read after closed
	stopJanitor chan struct{}
	janitorDone chan struct{}
}

const (
	defaultMaxRequestBytes = 100 << 20 // socket.request.max.bytes
	defaultMaxIdleMs       = 600_000   // connections.max.idle.ms
)

// LimitConnections replaces max.connections and max.connections.per.ip; 0 is
// unlimited. Connections above a lower bound stay. Any goroutine.
func (s *Server) LimitConnections(total, perIP int) { s.quota.limit(total, perIP) }

// Start listens on every listener, then serves. An error leaves nothing behind.
func Start(config Config) (*Server, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		config:      config,
		listeners:   map[string]*net.TCPListener{},
		addrs:       map[string]net.Addr{},
		quota:       newQuota(config.MaxConnections, config.MaxConnectionsPerIP),
		arrivals:    arrivals{limit: limits.NetArrivingBytes},
		stopping:    make(chan struct{}),
		closed:      make(chan struct{}),
		stopJanitor: make(chan struct{}),
		janitorDone: make(chan struct{}),
	}
	for _, limiter := range []*logLimiter{&s.malformed, &s.acceptFaults, &s.quotaFaults} {
		limiter.logger = config.Logger
	}
	s.nowMs.Store(time.Now().UnixMilli())
	if err := s.listenAll(); err != nil {
		return nil, errors.Join(err, s.closeListeners())
	}
	if err := s.startLoops(); err != nil {
		return nil, errors.Join(err, s.closeListeners())
	}
	go s.janitor()
	for name, l := range s.listeners {
		s.acceptors.Add(1)
		go s.accept(name, l)
	}
	return s, nil
}

// complete checks the configuration and fills in defaults.
func (c *Config) complete() error {
	if c.Handler == nil {
		return errors.New("netio: no handler")
	}
	if len(c.Listeners) == 0 {
		return errors.New("no listener is configured")
	}
	c.Listeners = append([]Listener(nil), c.Listeners...)
	for i := range c.Listeners {
		if c.Listeners[i].Network == "" {
			c.Listeners[i].Network = "tcp"
		}
	}
	if c.NumNetworkThreads <= 0 {
		c.NumNetworkThreads = runtime.GOMAXPROCS(0)
	}
	if c.MaxRequestBytes <= 0 {
		c.MaxRequestBytes = defaultMaxRequestBytes
	}
	if c.MaxInFlightPerConnection <= 0 {
		c.MaxInFlightPerConnection = limits.NetInFlightPerConnection
	}
	if c.ConnectionsMaxIdleMs == 0 {
		c.ConnectionsMaxIdleMs = defaultMaxIdleMs
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func (s *Server) listenAll() error {
	for _, l := range s.config.Listeners {
		if _, twice := s.listeners[l.Name]; twice {
			return fmt.Errorf("listener %s is configured twice", l.Name)
		}
		listener, err := listen(l, &s.config)
		if err != nil {
			return err
		}
		s.listeners[l.Name] = listener
		s.addrs[l.Name] = listener.Addr()
	}
	return nil
}

func (s *Server) startLoops() error {
	for range s.config.NumNetworkThreads {
		l, err := newLoop(s)
		if err != nil {
			return fmt.Errorf("event loop: %w", err)
		}
		s.loops = append(s.loops, l)
	}
	writable, err := startWritePoller()
	if err != nil {
		return err
	}
	s.writable = writable
	s.engine, err = startEngine(s.config.NumNetworkThreads, s.config.Logger, s.loops)
	if err != nil {
		writable.stop()
		return err
	}
	return nil
}

func (s *Server) loopOf(eventLoop gnet.EventLoop) *loop {
	for _, l := range s.loops {
		if l.engine.eventLoop == eventLoop {
			return l
		}
	}
	panic("netio: an event of a loop that was not bound")
}

// Addrs returns the bound address of each listener by its name.
func (s *Server) Addrs() map[string]net.Addr {
	addrs := make(map[string]net.Addr, len(s.addrs))
	for name, a := range s.addrs {
		addrs[name] = a
	}
	return addrs
}

// StopAccepting closes the listeners and returns when no connection can come any more. Those that exist go on.
func (s *Server) StopAccepting() {
	s.stopAccept.Do(func() {
		close(s.stopping)
		s.quota.end()
		if err := s.closeListeners(); err != nil {
			s.config.Logger.Warn("close the listeners", "error", err)
		}
	})
	s.acceptors.Wait()
}

func (s *Server) closeListeners() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Drain reads no further requests, on any connection, and waits until every reply that is owed has been handed to the
// system. Requests that are half read are forgotten.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	const pause = 2 * time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		owed := int64(0)
		for _, l := range s.loops {
			owed += l.openSlots.Load()
		}
		if owed == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d replies are still owed: %w", owed, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Close closes every connection and stops everything that the server has started. It may be called again, to wait
// longer.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		go func() {
			s.StopAccepting()
			close(s.stopJanitor)
			<-s.janitorDone
			s.endConnections()
			s.closeErr = s.engine.stop()
			for _, l := range s.loops {
				l.closeDetached()
				s.closeErr = errors.Join(s.closeErr, l.rest.end())
			}
			s.writable.stop()
			close(s.closed)
		}()
	})
	select {
	case <-s.closed:
		return s.closeErr
	case <-ctx.Done():
		return fmt.Errorf("the event loops have not stopped: %w", ctx.Err())
	}
}

// endConnections ends every connection and waits, as long as one may linger, until replies on their way have arrived.
func (s *Server) endConnections() {
	s.ending.Store(true)
	for _, l := range s.loops {
		l.tick.Store(true)
		l.wake()
	}
	const pause = time.Millisecond
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for deadline := time.Now().Add(limits.NetLingerMs * time.Millisecond); s.quota.count() > 0 && time.Now().Before(deadline); {
		<-ticker.C
	}
}

// janitor keeps the coarse clock and asks the loops to look for idle connections.
func (s *Server) janitor() {
	defer close(s.janitorDone)
	const shortest, longest = 10, 5_000 // milliseconds
	every := int64(longest)
	if idle := s.config.ConnectionsMaxIdleMs; idle > 0 {
		every = min(max(idle/10, shortest), longest)
	}
	ticker := time.NewTicker(time.Duration(every) * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopJanitor:
			return
		case <-ticker.C:
			s.nowMs.Store(time.Now().UnixMilli())
			if s.config.alwaysRest || s.config.neverRest {
				continue
			}
			for _, l := range s.loops {
				l.tick.Store(true)
				l.wake()
			}
		}
	}
}

// Stats are counters since the start, and what is open now.
type Stats struct {
	Connections   int
	Accepted      int64 // connections that were opened
	RefusedByIP   int64 // connections closed at once for max.connections.per.ip
	AwaitedRoom   int64 // connections that had to wait for others to close, for max.connections
	OpenSlots     int64 // requests that were read and whose reply has not left
	ReceivedBytes int64
	SentBytes     int64
	OutboundBytes int64 // of replies that are ready and have not left
	Wakes         int64 // of event loops by other goroutines
}

// Stats sums up the loops. Any goroutine.
func (s *Server) Stats() Stats {
	stats := Stats{Connections: s.quota.count(), Accepted: s.accepted.Load(), RefusedByIP: s.refusedByIP.Load(), AwaitedRoom: s.awaitedRoom.Load()}
	for _, l := range s.loops {
		stats.OpenSlots += l.openSlots.Load()
		stats.ReceivedBytes += l.receivedBytes.Load()
		stats.SentBytes += l.sentBytes.Load()
		stats.OutboundBytes += l.outboundBytes.Load()
		stats.Wakes += l.wakes.Load()
	}
	return stats
}
